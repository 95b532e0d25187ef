// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a specification would change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::error::CompareError;
use crate::egress::attachment::AttachmentView;
use crate::egress::known::Known;
use crate::egress::{Egress, GroupError, InstanceError, RouteRow};
use crate::egress_spec::{Resolved, ResolvedTenant, RouteTarget};
use crate::encap::Encap;
use crate::group::{
    self, allocate, Class, Duplicate, GroupId, GroupPlan, GroupSpec, NoGroupLeft, Place, Snapshot,
    State,
};
use crate::kernel::clock;
use crate::placement::{HashTable, Scope};
use crate::route::{Block, Key, Prefix, Route, TableId, Target};
use crate::srv6::Argument;
use crate::tenant::Tenant;

/// What a specification would change in an instance.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Changes {
    /// The configuration, if it is another one.
    pub encap: Option<Encap>,
    /// What becomes of the group of each configured class, in their order, also where nothing does;
    /// but for those that wait.
    pub groups: Vec<GroupPlan>,
    /// Groups that are published for classes which are not configured any more: they are closed,
    /// their routes go, and they are disabled.
    pub retired: Vec<GroupId>,
    /// Classes that two groups claim: the others are retired.
    pub duplicates: Vec<Duplicate>,
    /// Classes for which there is a group only when others are retired. Packets to them are dropped
    /// until then.
    pub waiting: Vec<NoGroupLeft>,
    /// Routes of other writers where the specification has one: they are left alone.
    pub foreign: BTreeSet<Key>,
    /// Tenants that change.
    pub tenants: Vec<TenantChanges>,
    /// Interfaces whose packets are looked at no more, by their index.
    pub interfaces_removed: BTreeSet<u32>,
    /// Tenants that go, with their routes and pins.
    pub tenants_removed: BTreeSet<TableId>,
    /// Interfaces that the program is to be attached to.
    pub attached: BTreeSet<u32>,
    /// Interfaces that it is to be taken off.
    pub detached: BTreeSet<u32>,
}

/// What changes of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantChanges {
    /// What is the same at all of its interfaces.
    pub tenant: Tenant,
    /// Interfaces that are new, another tenant's until now, or have other values.
    pub interfaces: BTreeMap<u32, Tenant>,
    /// Of these, those that are this tenant's already: they come before its routes, the others
    /// behind them.
    pub present: BTreeSet<u32>,
    /// Routes that are new or lead elsewhere.
    pub routes: BTreeMap<Prefix, RouteChange>,
    /// Routes that go.
    pub removed: BTreeSet<Prefix>,
}

/// Where a route is to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteChange {
    /// Where it leads now; none if there is none, or it makes no sense.
    pub before: Option<Route>,
    /// Where it is to lead.
    pub to: RouteTarget,
}

impl TenantChanges {
    fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.routes.is_empty() && self.removed.is_empty()
    }
}

impl Changes {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encap.is_none()
            && self.groups.iter().all(|plan| !plan.is_changed())
            && self.retired.is_empty()
            && self.duplicates.is_empty()
            && self.waiting.is_empty()
            && self.tenants.is_empty()
            && self.interfaces_removed.is_empty()
            && self.tenants_removed.is_empty()
            && self.attached.is_empty()
            && self.detached.is_empty()
    }
}

/// The routes that there are.
#[derive(Default)]
struct Routes {
    by_key: BTreeMap<Key, Route>,
    /// Routes to each group.
    named: BTreeMap<GroupId, u64>,
}

impl Routes {
    fn read(egress: &Egress) -> Result<Self, InstanceError> {
        let mut routes = Self::default();
        let mut note = |row: RouteRow| {
            // What makes no sense is written over if it stands in the way.
            if let Ok((key, route)) = row {
                if let Some((group, _)) = route.group() {
                    *routes.named.entry(group).or_default() += 1;
                }
                routes.by_key.insert(key, route);
            }
            ControlFlow::Continue(())
        };
        egress.for_each_route(&mut note)?;
        Ok(routes)
    }

    fn of(&self, table: TableId) -> impl Iterator<Item = (Prefix, &Route)> {
        // The default route of IPv6 is the first prefix there is.
        let first = Key::new(table, Prefix::DEFAULT_IPV6);
        let routes = self.by_key.range(first..);
        let routes = routes.take_while(move |(key, _)| key.table == table);
        routes.map(|(key, route)| (key.prefix, route))
    }

    /// Those of other writers where `wanted` has a route.
    fn foreign(&self, wanted: &Resolved) -> BTreeSet<Key> {
        let mut foreign = BTreeSet::new();
        for tenant in &wanted.tenants {
            let wanted = tenant.with_classes(&wanted.classes);
            let theirs = self
                .of(tenant.tenant.table)
                .filter(|(_, route)| route.origin.is_foreign())
                .filter(|(prefix, _)| wanted.contains_key(prefix));
            foreign.extend(theirs.map(|(prefix, _)| Key::new(tenant.tenant.table, prefix)));
        }
        foreign
    }
}

/// What there is, as far as it decides what changes.
#[derive(Default)]
struct Present {
    encap: Option<Encap>,
    groups: Vec<Snapshot>,
    routes: Routes,
    tenants: BTreeMap<u32, Tenant>,
    /// Tenants whose pins are counted.
    counted: BTreeSet<TableId>,
    /// Interfaces with an attachment of this instance, and whether its program runs there.
    attachments: BTreeMap<u32, bool>,
}

impl Present {
    fn read(egress: &Egress) -> Result<Self, CompareError> {
        // An exchange that has come to some interfaces is ended by another one alone.
        let programs = egress.programs()?;
        let runs = |id| programs.with_id(id).is_some();
        let is_ours = |view: &AttachmentView| view.program_id.is_some_and(runs);
        let mut attachments = BTreeMap::new();
        for view in egress.attachments()? {
            *attachments.entry(view.ifindex).or_default() |= is_ours(&view);
        }
        Ok(Self {
            // What makes no sense is replaced.
            encap: egress.encap().ok().flatten(),
            routes: Routes::read(egress)?,
            groups: egress.groups()?,
            tenants: Known::read(egress)?.rows().clone(),
            counted: egress.pins()?.usage()?.into_keys().collect(),
            attachments,
        })
    }

    fn changes(
        &self,
        wanted: &Resolved,
        limits: group::Limits,
        plan: impl Fn(&Place, &GroupSpec) -> Result<GroupPlan, GroupError>,
    ) -> Result<Changes, CompareError> {
        let routes = &self.routes;
        let named = |group| routes.named.get(&group).copied().unwrap_or(0);
        let places = allocate(&wanted.classes, &self.groups, named, limits);
        let groups = places.classes.into_iter().zip(&wanted.groups);
        let (mut plans, mut waiting) = (Vec::new(), Vec::new());
        for (place, (_, spec)) in groups {
            match place {
                Ok(place) => plans.push(plan(&place, spec)?),
                Err(error) => waiting.push(error),
            }
        }
        let groups = plans;
        let others = places.duplicates.iter().flat_map(|claim| &claim.others);
        let mut retired: Vec<_> = places.unconfigured.iter().chain(others).copied().collect();
        retired.sort_unstable();
        if let (true, Some(error)) = (retired.is_empty(), waiting.first()) {
            return Err((*error).into());
        }

        let observed = &self.tenants;
        let states = States::of(groups.iter().map(GroupPlan::snapshot));
        let tenants = wanted.tenants.iter();
        let tenants = tenants
            .map(|tenant| {
                // Without its row of pins a tenant gets none: written again with the interfaces.
                let none = BTreeMap::new();
                let has_pins = self.counted.contains(&tenant.tenant.table);
                let observed = if has_pins { observed } else { &none };
                tenant_changes(tenant, wanted, observed, routes, &states)
            })
            .filter(|changes| !changes.is_empty());
        let tenants = tenants.collect();

        let interfaces: BTreeSet<u32> = wanted
            .tenants
            .iter()
            .flat_map(|tenant| tenant.interfaces.keys().copied())
            .collect();
        let tables: BTreeSet<_> = wanted
            .tenants
            .iter()
            .map(|tenant| tenant.tenant.table)
            .collect();
        let known = observed.values().map(|tenant| tenant.table);
        let known = known.chain(self.counted.iter().copied());
        let ours = |(_, route): &(&Key, &Route)| !route.origin.is_foreign();
        let routed = routes.by_key.iter().filter(ours).map(|(key, _)| key.table);
        Ok(Changes {
            encap: (self.encap.as_ref() != Some(&wanted.encap)).then_some(wanted.encap),
            groups,
            retired,
            duplicates: places.duplicates,
            foreign: routes.foreign(wanted),
            waiting,
            tenants,
            interfaces_removed: observed
                .keys()
                .filter(|ifindex| !interfaces.contains(ifindex))
                .copied()
                .collect(),
            tenants_removed: known
                .chain(routed)
                .filter(|table| !tables.contains(table))
                .collect(),
            detached: self
                .attachments
                .keys()
                .filter(|ifindex| !interfaces.contains(ifindex))
                .copied()
                .collect(),
            attached: interfaces
                .into_iter()
                .filter(|ifindex| self.attachments.get(ifindex) != Some(&true))
                .collect(),
        })
    }
}

impl Changes {
    /// What `wanted` would change where there is no instance yet: everything is new.
    ///
    /// # Errors
    /// The groups cannot be what they should.
    pub fn from_nothing(wanted: &Resolved, limits: group::Limits) -> Result<Self, CompareError> {
        let context = group::Context {
            limits,
            now_ns: clock::wall_ns(),
            ..group::Context::default()
        };
        let plan = |place: &Place, spec: &GroupSpec| Ok(group::plan(None, place, spec, &context)?);
        Present::default().changes(wanted, limits, plan)
    }
}

impl Egress {
    /// What `wanted` would change. Nothing is changed; what is published, written and attached when
    /// that is [applied](super::super::Writer::apply) decides.
    ///
    /// # Errors
    /// The instance cannot be read, or the groups cannot be what they should.
    pub fn compare(&self, wanted: &Resolved) -> Result<Changes, CompareError> {
        self.compare_with(wanted, |place, spec| self.plan_group(place, spec))
    }

    pub(in crate::egress) fn compare_with(
        &self,
        wanted: &Resolved,
        plan: impl Fn(&Place, &GroupSpec) -> Result<GroupPlan, GroupError>,
    ) -> Result<Changes, CompareError> {
        Present::read(self)?.changes(wanted, self.limits.groups, plan)
    }
}

/// What a route to each class's group carries.
struct States<'a>(BTreeMap<Class, &'a Snapshot>);

impl<'a> States<'a> {
    fn of(snapshots: impl Iterator<Item = &'a Snapshot>) -> Self {
        let open = snapshots.filter(|snapshot| snapshot.state == State::Open);
        Self(open.map(|snapshot| (snapshot.class, snapshot)).collect())
    }

    fn target(
        &self,
        to: RouteTarget,
        argument: Argument,
        hash_table: HashTable,
        prefix: Prefix,
    ) -> Option<Target> {
        Some(match to {
            RouteTarget::Pass => Target::Pass,
            RouteTarget::Block(block) => Target::Block(block),
            RouteTarget::Shard { sid, next_hop } => Target::Shard {
                argument,
                sid,
                next_hop,
            },
            RouteTarget::Class(class) => {
                let snapshot = self.0.get(&class)?;
                let scope = Scope {
                    table: hash_table,
                    group: snapshot.hash_group,
                };
                let (group, incarnation) = (snapshot.group, snapshot.incarnation);
                Target::group(argument, group, incarnation, scope, prefix)
            }
        })
    }
}

fn tenant_changes(
    tenant: &ResolvedTenant,
    wanted: &Resolved,
    observed: &BTreeMap<u32, Tenant>,
    routes: &Routes,
    states: &States<'_>,
) -> TenantChanges {
    let interfaces: BTreeMap<_, _> = tenant
        .interfaces
        .iter()
        .filter(|(ifindex, row)| observed.get(ifindex) != Some(row))
        .map(|(ifindex, row)| (*ifindex, *row))
        .collect();
    let is_present = |ifindex: &&u32| {
        let there = observed.get(ifindex);
        there.is_some_and(|there| there.table == tenant.tenant.table)
    };
    let present = interfaces.keys().filter(is_present).copied().collect();
    let mut before: BTreeMap<Prefix, &Route> = routes.of(tenant.tenant.table).collect();
    let mut changed = BTreeMap::new();
    for (prefix, to) in tenant.with_classes(&wanted.classes) {
        let before = before.remove(&prefix).copied();
        if before.is_some_and(|before| before.origin.is_foreign()) {
            continue;
        }
        // A class that waits for a group.
        let to = match to {
            RouteTarget::Class(class) if !states.0.contains_key(&class) => {
                RouteTarget::Block(Block::Drop)
            }
            to => to,
        };
        let hash_table = tenant.tenant.hash_table;
        let target = states.target(to, tenant.tenant.argument, hash_table, prefix);
        let right = target.map(Route::new);
        if before.is_none() || before != right {
            changed.insert(prefix, RouteChange { before, to });
        }
    }
    // Other writers' routes are theirs.
    let ours = before
        .into_iter()
        .filter(|(_, route)| !route.origin.is_foreign());
    TenantChanges {
        tenant: tenant.tenant,
        interfaces,
        present,
        routes: changed,
        removed: ours.map(|(prefix, _)| prefix).collect(),
    }
}
