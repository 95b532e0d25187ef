// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A plan of the loop as a document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::desired::{Desired, Mode};
use super::effect::{ClassEffect, MemberCounts, Part, PinEffect, ShardShare};
use super::known::Known;
use super::observed::Observed;
use super::plan::{MoveReason, Plan, PlannedStep, Step};
use super::problem::Problem;
use crate::egress::document::{Error, Parts, PlanDocument};
use crate::egress::{Egress, Limits};
use crate::egress_spec::RouteTarget;
use crate::group::{self, Class, Context, Duplicate, GroupPlan, Snapshot};
use crate::route::{Prefix, Route, TableId};
use crate::srv6::{Argument, BaseSid};

/// What a sweep of the loop would do: a plan as every plan of the egress datapath is told, and what
/// the loop has beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ControlDocument {
    /// Groups, routes and memory. It comes of no specification.
    #[serde(flatten)]
    pub plan: PlanDocument,
    /// What the loop knows, does and foresees.
    pub control: ControlPlan,
}

/// What the loop knows, does and foresees.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ControlPlan {
    /// How packets are to find their shard.
    pub mode: Mode,
    /// What is known of the shards that there are.
    pub shards: Knowledge,
    /// What would be done, in this order.
    pub steps: Vec<StepDocument>,
    /// What no step mends.
    pub problems: Vec<ProblemDocument>,
    /// Routes that are repaired, by what was wrong with them.
    pub repairs: BTreeMap<&'static str, u64>,
    /// What becomes of each configured class, and of those whose groups go away.
    pub classes: Vec<ClassDocument>,
    /// Tenants of which a route leads to another shard or group than before, or to none.
    pub tenants_moved: u64,
    /// Memory of the kernel in bytes that snapshots take beside those that they replace, until these
    /// are free.
    pub publishing_bytes: u64,
}

/// What is known of the shards that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Knowledge {
    /// Nobody has listed them yet.
    Unknown,
    /// They are listed.
    Known,
    /// They were listed, and nothing was heard since.
    Stale,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StepDocument {
    /// The name of its kind.
    pub step: &'static str,
    /// Why it is done.
    pub why: String,
    /// The class that it is for; null if it is for several, or none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<Class>,
    /// Why routes are moved; null if none are.
    pub reason: Option<MoveReason>,
    /// Indices of the groups that it publishes or retires.
    pub groups: Vec<u8>,
    /// Routes that it writes or moves.
    pub routes: u64,
    /// The steps without which it is left out, by their places from 0.
    pub after: Vec<usize>,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProblemDocument {
    /// The name of its kind.
    pub kind: &'static str,
    /// In words.
    pub message: String,
}

/// What becomes of a class.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ClassDocument {
    /// The class.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// Whether it is configured; if not, its group goes away.
    pub configured: bool,
    /// Index of its group; null if it has none.
    pub group: Option<u8>,
    /// Whether its packets get to a shard afterwards.
    pub served: bool,
    /// Its shards, as its group has them afterwards.
    pub members: MemberCounts,
    /// Shards that could be members, but do not translate this class.
    pub ineligible: Vec<IneligibleShard>,
    /// Each shard's part, before and afterwards.
    pub shares: Vec<ShareDocument>,
    /// Routes that lead elsewhere afterwards.
    pub routes_moved: u64,
    /// Of all addresses behind these routes without a pin, the part that gets to another shard.
    pub addresses_moved: Part,
    /// What becomes of its pins; null if they were not counted.
    pub pins: Option<PinEffect>,
}

/// A shard that cannot be a member of a class's group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct IneligibleShard {
    /// Namespace and name of its object.
    pub name: String,
    /// Its SID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sid: BaseSid,
}

/// A shard's part of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ShareDocument {
    /// The shard.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sid: BaseSid,
    /// Its part.
    #[serde(flatten)]
    pub share: ShardShare,
}

/// Tells `plan`, which [`reconcile`](super::reconcile()) made of `observed` and `desired`. Nothing is
/// changed; of the instance, if there is one, pins and limits are read.
///
/// # Errors
/// The instance or the number of CPUs cannot be read.
pub fn document(
    plan: &Plan,
    observed: &Observed,
    desired: &Desired,
    egress: Option<&Egress>,
) -> Result<ControlDocument, Error> {
    let limits = match egress {
        Some(egress) => egress.limits(),
        None => Limits::default().with_groups(observed.limits),
    };
    let parts = Parts {
        egress,
        limits,
        changes: !plan.is_empty(),
        encap: plan.steps.iter().find_map(|planned| match planned.step {
            Step::PublishConfig(encap) => Some((observed.encap, encap)),
            _ => None,
        }),
        groups: observed.groups.clone(),
        plans: plans(plan, observed, desired),
        retired: plan
            .steps
            .iter()
            .filter_map(|planned| match planned.step {
                Step::Retire { group, .. } => Some(group),
                _ => None,
            })
            .collect(),
        duplicates: plan.problems.iter().filter_map(duplicate).collect(),
        routes: routes(plan, observed),
    };
    Ok(ControlDocument {
        plan: PlanDocument::of_parts(parts)?,
        control: ControlPlan {
            mode: desired.mode,
            shards: match desired.shards {
                Known::Unknown => Knowledge::Unknown,
                Known::Known(_) => Knowledge::Known,
                Known::Stale { .. } => Knowledge::Stale,
            },
            steps: plan.steps.iter().map(StepDocument::of).collect(),
            problems: plan
                .problems
                .iter()
                .map(|problem| ProblemDocument {
                    kind: problem.kind(),
                    message: problem.to_string(),
                })
                .collect(),
            repairs: plan
                .repairs
                .iter()
                .map(|(repair, routes)| (repair.name(), *routes))
                .collect(),
            classes: plan.effect.classes.iter().map(ClassDocument::of).collect(),
            tenants_moved: plan.effect.tenants_moved,
            publishing_bytes: plan.effect.publishing_bytes,
        },
    })
}

fn duplicate(problem: &Problem) -> Option<Duplicate> {
    match problem {
        Problem::DuplicateClass {
            class,
            kept,
            others,
        } => Some(Duplicate::new(*class, *kept, others.clone())),
        _ => None,
    }
}

/// What becomes of the group of each configured class, also where nothing does.
fn plans(plan: &Plan, observed: &Observed, desired: &Desired) -> Vec<GroupPlan> {
    let planned = plan.steps.iter().filter_map(|planned| match &planned.step {
        Step::PublishGroups(plans) | Step::PublishLiveness(plans) | Step::CloseGroups(plans) => {
            Some(plans)
        }
        _ => None,
    });
    let planned: Vec<&GroupPlan> = planned.flatten().collect();
    let mut all = Vec::new();
    for entry in desired.classes.iter() {
        let of_class = planned.iter().filter(|plan| plan.class() == entry.class);
        let before = all.len();
        all.extend(of_class.map(|plan| (*plan).clone()));
        if all.len() == before {
            let live = observed.groups.iter();
            let live = live.filter(|live| live.forwards() && live.class == entry.class);
            all.extend(live.filter_map(|live| unchanged(live, observed)));
        }
    }
    all
}

/// The plan of a group that stays what it is.
fn unchanged(live: &Snapshot, observed: &Observed) -> Option<GroupPlan> {
    let context = Context {
        limits: observed.limits,
        now_ns: observed.now_ns,
        ..Context::default()
    };
    let next_hop = |sid| live.member_by_sid(sid)?.next_hop;
    let plan = group::track(live, next_hop, &context).ok()?;
    (!plan.is_changed()).then_some(plan)
}

type TenantRoutes =
    BTreeMap<TableId, (Argument, Vec<(Prefix, Option<Route>, Option<RouteTarget>)>)>;

/// Routes that are written and moved, by tenant.
fn routes(plan: &Plan, observed: &Observed) -> TenantRoutes {
    let mut tenants = TenantRoutes::new();
    for planned in &plan.steps {
        match &planned.step {
            Step::WriteRoutes { tenant, routes } => {
                let entry = tenants.entry(tenant.table);
                let (_, all) = entry.or_insert_with(|| (tenant.argument, Vec::new()));
                all.extend(routes.iter().map(|(prefix, to)| (*prefix, None, Some(*to))));
            }
            Step::MoveRoutes { moves, .. } => {
                for moved in moves {
                    let table = moved.key.table;
                    let rows = observed.tenants.values();
                    let mut rows = rows.filter(|row| row.table == table);
                    let argument = rows.next().map(|row| row.argument);
                    let Some(argument) = argument.or(moved.before.argument()) else {
                        continue;
                    };
                    let entry = tenants.entry(table);
                    let (_, all) = entry.or_insert_with(|| (argument, Vec::new()));
                    all.push((moved.key.prefix, Some(moved.before), moved.to));
                }
            }
            _ => {}
        }
    }
    for (_, routes) in tenants.values_mut() {
        routes.sort_by_key(|(prefix, ..)| *prefix);
    }
    tenants
}

impl StepDocument {
    fn of(planned: &PlannedStep) -> Self {
        let groups = |plans: &[GroupPlan]| plans.iter().map(|plan| plan.group().get()).collect();
        let (groups, routes) = match &planned.step {
            Step::PublishLiveness(plans)
            | Step::PublishGroups(plans)
            | Step::CloseGroups(plans) => (groups(plans), 0),
            Step::WriteRoutes { routes, .. } => (Vec::new(), routes.len()),
            Step::MoveRoutes { moves, .. } => (Vec::new(), moves.len()),
            Step::Retire { group, .. } => (vec![group.get()], 0),
            Step::PublishConfig(_) => (Vec::new(), 0),
        };
        let reason = match planned.step {
            Step::MoveRoutes { reason, .. } => Some(reason),
            _ => None,
        };
        Self {
            step: planned.step.name(),
            why: planned.why.clone(),
            class: planned.step.class(),
            reason,
            groups,
            routes: routes as u64,
            after: planned.after.clone(),
        }
    }
}

impl ClassDocument {
    fn of(effect: &ClassEffect) -> Self {
        let ineligible = effect.ineligible.iter();
        let shares = effect.shares.iter();
        Self {
            class: effect.class,
            configured: effect.configured,
            group: effect.group.map(|group| group.get()),
            served: effect.served,
            members: effect.members,
            ineligible: ineligible
                .map(|(name, sid)| IneligibleShard {
                    name: name.clone(),
                    sid: *sid,
                })
                .collect(),
            shares: shares
                .map(|(sid, share)| ShareDocument {
                    sid: *sid,
                    share: *share,
                })
                .collect(),
            routes_moved: effect.routes_moved,
            addresses_moved: effect.addresses_moved,
            pins: effect.pins,
        }
    }
}
