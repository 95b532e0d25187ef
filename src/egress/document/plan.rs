// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a specification would change.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::class::ClassPlan;
use super::interfaces::{InterfaceAdvice, InterfaceName, Interfaces};
use super::risk::Forecast;
use super::routes::RoutePlan;
use super::Error;
use crate::document::field::Written;
use crate::egress::apply::{Changes, TenantChanges};
use crate::egress::{resolve, Egress, InstanceError, Limits};
use crate::egress_spec::{Memory, Resolved, RouteTarget, Spec, SpecDigest, Warning};
use crate::encap::Encap;
use crate::group::{Class, Duplicate, GroupId, GroupPlan, Snapshot};
use crate::kernel::probe;
use crate::kernel::statedir::StateDir;
use crate::route::{Prefix, Route, TableId};
use crate::srv6::Argument;

/// What applying a specification would change, made against what is there at this moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlanDocument {
    /// Names this form.
    pub schema: PlanSchema,
    /// Digest of the specification's canonical form; null where a plan comes of none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub digest: Option<SpecDigest>,
    /// What it comes to.
    pub result: PlanResult,
    /// Members of the configuration that change.
    pub configuration: Vec<SettingChange>,
    /// What becomes of each configured class, in the order of the specification; also where nothing
    /// does.
    pub classes: Vec<ClassPlan>,
    /// Groups of classes that are not configured any more.
    pub retired: Vec<RetiredGroup>,
    /// Classes that several groups claim.
    pub duplicates: Vec<DuplicateClass>,
    /// Tenants that change.
    pub tenants: Vec<TenantPlan>,
    /// Tenants that go, with their routes and pins.
    pub tenants_removed: Vec<TenantRemoval>,
    /// Interfaces whose packets are looked at no more.
    pub interfaces_removed: Vec<InterfaceName>,
    /// Interfaces that the program is to be attached to.
    pub attached: Vec<InterfaceName>,
    /// Interfaces that it is to be taken off.
    pub detached: Vec<InterfaceName>,
    /// Memory of the kernel that maps with the specification's limits take when they are full.
    pub memory_bytes: Memory,
    /// All of it together.
    pub memory_total_bytes: u64,
    /// What is to be known of tenants' interfaces.
    pub interface_warnings: Vec<InterfaceAdvice>,
    /// What works but may not be what was meant.
    pub warnings: Vec<Warning>,
}

/// Names the form of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PlanSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.plan/v1")]
    V1,
}

/// What a plan comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlanResult {
    /// There is no instance yet: it is made.
    Create,
    /// Something changes.
    Change,
    /// Everything is as the specification says.
    Unchanged,
}

/// A member of the configuration that changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SettingChange {
    /// Its name in the specification: `node_sid`, or a member of `encap`.
    pub member: String,
    /// Its value now; null if it has none.
    pub from: Value,
    /// Its value afterwards; null if it will have none.
    pub to: Value,
}

/// A group that is closed and disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RetiredGroup {
    /// Index of the group.
    pub group: u8,
    /// Whose it is.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// Pins in use that go with it.
    pub pins: u64,
}

/// A class that several groups claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DuplicateClass {
    /// The class.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// Index of the group that has it.
    pub kept: u8,
    /// Indices of those that are retired.
    pub others: Vec<u8>,
}

/// What changes of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TenantPlan {
    /// Its number.
    pub table: u32,
    /// The number that SIDs carry for it.
    pub argument: u16,
    /// Interfaces that it gets, or that get other values.
    pub interfaces: Vec<InterfacePlan>,
    /// Routes that change.
    pub routes: Vec<RoutePlan>,
}

/// An interface that a tenant gets, or that gets other values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfacePlan {
    /// The interface.
    pub interface: InterfaceName,
    /// What happens to it.
    pub change: InterfaceChange,
    /// The tenant that it is taken from.
    pub taken_from: Option<u32>,
}

/// What happens to an interface of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InterfaceChange {
    /// It becomes the tenant's.
    Added,
    /// It is the tenant's already, and its row changes.
    Changed,
}

/// A tenant that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TenantRemoval {
    /// Its number.
    pub table: u32,
    /// Its pins, in use or not.
    pub pins: u64,
}

/// What applying `spec` to the instance of `dir` would change, on the interfaces of the calling
/// thread's network namespace. Takes no lock and changes nothing. Where there is no instance,
/// everything is new.
///
/// # Errors
/// Faults of the specification on this machine, and an instance that cannot be read or was made
/// with other limits.
pub fn plan(dir: &StateDir, spec: &Spec) -> Result<PlanDocument, Error> {
    let interfaces = Interfaces::read()?;
    let wanted = resolve(spec)?;
    let limits = Limits::try_from(spec.limits())?;
    let cpus = u32::try_from(probe::possible_cpus()?).unwrap_or(u32::MAX);
    let memory = spec.limits().memory(cpus);
    let (present, changes) = if dir.exists().map_err(InstanceError::from)? {
        let egress = Egress::open(dir)?;
        egress.limits().require(&limits)?;
        let changes = egress.compare(&wanted)?;
        (Present::read(&egress, &changes, &wanted)?, changes)
    } else {
        let changes = Changes::from_nothing(&wanted, limits.groups())?;
        (Present::default(), changes)
    };
    let tenants = wanted.tenants.iter();
    let tenants = tenants.flat_map(|tenant| tenant.interfaces.keys());
    Ok(PlanDocument {
        schema: PlanSchema::V1,
        digest: Some(spec.digest()),
        result: match &present.exists {
            false => PlanResult::Create,
            true if changes.is_empty() => PlanResult::Unchanged,
            true => PlanResult::Change,
        },
        configuration: changes
            .encap
            .map_or_else(Vec::new, |after| settings(present.encap.as_ref(), &after)),
        classes: present.class_plans(&changes.groups),
        retired: present.retired_all(&changes.retired),
        duplicates: changes.duplicates.iter().map(DuplicateClass::of).collect(),
        tenants: changes
            .tenants
            .iter()
            .map(|tenant| present.tenant(tenant, &interfaces))
            .collect(),
        tenants_removed: changes
            .tenants_removed
            .iter()
            .map(|table| TenantRemoval {
                table: table.get(),
                pins: present.forecast.tenants.get(table).copied().unwrap_or(0),
            })
            .collect(),
        interfaces_removed: interfaces.names(&changes.interfaces_removed),
        attached: interfaces.names(&changes.attached),
        detached: interfaces.names(&changes.detached),
        interface_warnings: interfaces.advice(tenants),
        memory_total_bytes: memory.total(),
        memory_bytes: memory,
        warnings: spec.warnings(),
    })
}

/// A plan that comes of no specification: of groups and of the routes of tenants that there are.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    /// The instance, if there is one.
    pub(crate) egress: Option<&'a Egress>,
    /// Sizes of the maps.
    pub(crate) limits: Limits,
    /// Whether anything is to be done.
    pub(crate) changes: bool,
    /// The configuration now and afterwards, if it is another one.
    pub(crate) encap: Option<(Option<Encap>, Encap)>,
    /// The groups that there are.
    pub(crate) groups: Vec<Snapshot>,
    /// What becomes of the groups of configured classes.
    pub(crate) plans: Vec<GroupPlan>,
    pub(crate) retired: Vec<GroupId>,
    pub(crate) duplicates: Vec<Duplicate>,
    /// Routes of tenants as they are, and where they are to lead.
    pub(crate) routes: BTreeMap<TableId, (Argument, Vec<RouteStep>)>,
}

/// A route as it is, and where it is to lead; none: it goes away.
pub(crate) type RouteStep = (Prefix, Option<Route>, Option<RouteTarget>);

impl PlanDocument {
    /// A plan of parts.
    pub(crate) fn of_parts(parts: Parts<'_>) -> Result<Self, Error> {
        let forecast = match parts.egress {
            Some(egress) => {
                let (removed, tenants) = (BTreeSet::new(), std::iter::empty());
                Forecast::of_plans(egress, parts.plans.iter(), &removed, tenants)?
            }
            None => Forecast::default(),
        };
        let interface_warnings = match parts.egress {
            Some(egress) => Interfaces::read()?.advice(egress.tenants()?.keys()),
            None => Vec::new(),
        };
        let cpus = u32::try_from(probe::possible_cpus()?).unwrap_or(u32::MAX);
        let memory = parts.limits.memory(cpus);
        let present = Present {
            exists: parts.egress.is_some(),
            encap: parts.encap.as_ref().and_then(|(before, _)| *before),
            groups: parts.groups,
            owners: BTreeMap::new(),
            routes: BTreeMap::new(),
            forecast,
        };
        let classes = present.classes();
        let tenant = |(table, (argument, routes)): (&TableId, &(Argument, Vec<RouteStep>))| {
            let routes = routes.iter().map(|(prefix, before, to)| {
                RoutePlan::of(*prefix, before.as_ref(), to.as_ref(), &classes)
            });
            TenantPlan {
                table: table.get(),
                argument: argument.get(),
                interfaces: Vec::new(),
                routes: routes.collect(),
            }
        };
        let encap = parts.encap.as_ref();
        Ok(Self {
            schema: PlanSchema::V1,
            digest: None,
            result: match (present.exists, parts.changes) {
                (false, _) => PlanResult::Create,
                (true, true) => PlanResult::Change,
                (true, false) => PlanResult::Unchanged,
            },
            configuration: encap
                .map_or_else(Vec::new, |(before, after)| settings(before.as_ref(), after)),
            classes: present.class_plans(&parts.plans),
            retired: present.retired_all(&parts.retired),
            duplicates: parts.duplicates.iter().map(DuplicateClass::of).collect(),
            tenants: parts.routes.iter().map(tenant).collect(),
            tenants_removed: Vec::new(),
            interfaces_removed: Vec::new(),
            attached: Vec::new(),
            detached: Vec::new(),
            interface_warnings,
            memory_total_bytes: memory.total(),
            memory_bytes: memory,
            warnings: Vec::new(),
        })
    }
}

impl DuplicateClass {
    fn of(duplicate: &Duplicate) -> Self {
        Self {
            class: duplicate.class,
            kept: duplicate.kept.get(),
            others: duplicate.others.iter().map(|group| group.get()).collect(),
        }
    }
}

/// What there is, as far as a plan tells of it.
#[derive(Default)]
struct Present {
    exists: bool,
    encap: Option<Encap>,
    groups: Vec<Snapshot>,
    /// Whose each interface is.
    owners: BTreeMap<u32, TableId>,
    /// Routes of tenants that lose some.
    routes: BTreeMap<TableId, BTreeMap<Prefix, Route>>,
    forecast: Forecast,
}

impl Present {
    fn read(egress: &Egress, changes: &Changes, wanted: &Resolved) -> Result<Self, InstanceError> {
        let owners = egress.tenants()?.into_iter();
        let losing = changes
            .tenants
            .iter()
            .filter(|tenant| !tenant.removed.is_empty());
        let routes = losing.map(|tenant| {
            let table = tenant.tenant.table;
            let routes = egress.routes(table)?.into_iter();
            Ok((
                table,
                routes.map(|(key, route)| (key.prefix, route)).collect(),
            ))
        });
        Ok(Self {
            exists: true,
            encap: egress.encap().ok().flatten(),
            groups: egress.groups()?,
            owners: owners
                .map(|(ifindex, tenant)| (ifindex, tenant.table))
                .collect(),
            routes: routes.collect::<Result<_, InstanceError>>()?,
            forecast: Forecast::of(egress, changes, wanted)?,
        })
    }

    fn group(&self, id: GroupId) -> Option<&Snapshot> {
        self.groups.iter().find(|snapshot| snapshot.group == id)
    }

    fn class_plans(&self, plans: &[GroupPlan]) -> Vec<ClassPlan> {
        let plans = plans.iter();
        plans
            .map(|plan| ClassPlan::of(plan, self.group(plan.group()), &self.forecast))
            .collect()
    }

    /// Whose each group is that forwards.
    fn classes(&self) -> BTreeMap<GroupId, Class> {
        let classes = self.groups.iter().filter(|snapshot| snapshot.forwards());
        classes
            .map(|snapshot| (snapshot.group, snapshot.class))
            .collect()
    }

    fn retired_all(&self, groups: &[GroupId]) -> Vec<RetiredGroup> {
        let groups = groups.iter();
        groups.filter_map(|id| self.retired(*id)).collect()
    }

    fn retired(&self, id: GroupId) -> Option<RetiredGroup> {
        let snapshot = self.group(id)?;
        let pins = self.forecast.groups.get(&id);
        Some(RetiredGroup {
            group: id.get(),
            class: snapshot.class,
            pins: pins.map_or(0, |pins| pins.live),
        })
    }

    fn tenant(&self, changes: &TenantChanges, interfaces: &Interfaces) -> TenantPlan {
        let table = changes.tenant.table;
        let rows = changes.interfaces.keys().map(|ifindex| InterfacePlan {
            interface: interfaces.name(*ifindex),
            change: match changes.present.contains(ifindex) {
                true => InterfaceChange::Changed,
                false => InterfaceChange::Added,
            },
            taken_from: self
                .owners
                .get(ifindex)
                .filter(|owner| **owner != table)
                .map(|owner| owner.get()),
        });
        let classes = self.classes();
        let none = BTreeMap::new();
        let before = self.routes.get(&table).unwrap_or(&none);
        TenantPlan {
            table: table.get(),
            argument: changes.tenant.argument.get(),
            interfaces: rows.collect(),
            routes: RoutePlan::all(changes, &classes, before),
        }
    }
}

/// What differs between two configurations, by the names that specifications have for it.
fn settings(before: Option<&Encap>, after: &Encap) -> Vec<SettingChange> {
    let (mut before, mut after) = (before.map(members).unwrap_or_default(), members(after));
    let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let changes = names.into_iter().map(|member| SettingChange {
        from: before.remove(&member).unwrap_or_default(),
        to: after.remove(&member).unwrap_or_default(),
        member,
    });
    changes.filter(|change| change.from != change.to).collect()
}

/// The members of a configuration by the names that specifications have for them.
pub(super) fn members(encap: &Encap) -> serde_json::Map<String, Value> {
    // Plain data with text keys always serialises, here as an object.
    let written = serde_json::to_value(encap.written()).unwrap_or_default();
    let mut members = match written {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    members.insert("node_sid".to_owned(), encap.node_sid.to_string().into());
    members
}
