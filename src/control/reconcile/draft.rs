// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A plan in the making, and the order of its steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::effect::PredictedEffect;
use crate::control::plan::{MoveReason, Plan, PlannedStep, Repair, RouteEnd, RouteMove, Step};
use crate::control::problem::Problem;
use crate::egress_spec::RouteTarget;
use crate::encap::Encap;
use crate::group::{Change, Class, GroupId, GroupPlan};
use crate::route::{Block, Key, Prefix, Route};
use crate::tenant::Tenant;

/// Where packets lead that may go nowhere.
pub(super) const NOWHERE: RouteTarget = RouteTarget::Block(Block::Drop);

/// A group that is to be retired.
pub(super) struct Retirement {
    pub(super) group: GroupId,
    pub(super) class: Class,
    pub(super) own: RouteEnd,
    pub(super) others: RouteEnd,
}

/// What is to be done, in no order yet.
#[derive(Default)]
pub(super) struct Draft {
    /// Whether no group is used any more, so that they are closed before anything else.
    pub(super) ends_groups: bool,
    pub(super) config: Option<Encap>,
    pub(super) liveness: Vec<GroupPlan>,
    /// Only those that change.
    pub(super) groups: Vec<GroupPlan>,
    pub(super) writes: Vec<(Tenant, BTreeMap<Prefix, RouteTarget>)>,
    pub(super) moves: BTreeMap<(MoveReason, Class), Vec<RouteMove>>,
    pub(super) closes: Vec<GroupPlan>,
    pub(super) retirements: Vec<Retirement>,
    pub(super) problems: Vec<Problem>,
    pub(super) repairs: BTreeMap<Repair, u64>,
}

impl Draft {
    pub(super) fn lead(
        &mut self,
        reason: MoveReason,
        class: Class,
        (key, before): (&Key, &Route),
        to: Option<RouteTarget>,
    ) {
        let moved = RouteMove {
            key: *key,
            before: *before,
            to,
        };
        self.moves.entry((reason, class)).or_default().push(moved);
        if let Some(repair) = reason.repair() {
            self.repaired(repair);
        }
    }

    pub(super) fn repaired(&mut self, repair: Repair) {
        *self.repairs.entry(repair).or_default() += 1;
    }

    /// Puts the steps in order: what routes name is published before they do, and closed when they
    /// need not any more. Groups that go for good, as the mode asks for none, are closed first: from
    /// then on they get no new routes.
    pub(super) fn finish(self, effect: PredictedEffect) -> Plan {
        let mut order = Order::default();
        if let Some(encap) = self.config {
            let step = Step::PublishConfig(encap);
            order.push(step, "packets are encapsulated otherwise", []);
        }
        let closing: BTreeSet<_> = self.closes.iter().map(GroupPlan::group).collect();
        let mut closes = Some(self.closes).filter(|closes| !closes.is_empty());
        let mut place = None;
        let mut close = |order: &mut Order| {
            if let Some(plans) = closes.take() {
                let why = format!("{} are not used any more", groups(&plans));
                place = Some(order.push(Step::CloseGroups(plans), why, []));
            }
            place
        };
        let closed_first = self.ends_groups.then(|| close(&mut order)).flatten();
        if !self.liveness.is_empty() {
            let why = format!(
                "members of {} are reached otherwise",
                groups(&self.liveness)
            );
            order.push(Step::PublishLiveness(self.liveness), why, []);
        }
        let changed: BTreeSet<_> = self.groups.iter().map(GroupPlan::class).collect();
        let published = (!self.groups.is_empty()).then(|| {
            let why = changes(&self.groups);
            order.push(Step::PublishGroups(self.groups), why, [])
        });
        let published_for = |class| published.filter(|_| changed.contains(&class));
        for (tenant, routes) in self.writes {
            let why = format!("tenant {} lacks {} routes", tenant.table, routes.len());
            // Where its group could not be opened a prefix gets a block, so this waits for nobody.
            order.push(Step::WriteRoutes { tenant, routes }, why, []);
        }
        let (late, early): (Vec<_>, Vec<_>) = self
            .moves
            .into_iter()
            .partition(|((reason, _), _)| *reason == MoveReason::ClassRemoved);
        for ((reason, class), moves) in early {
            let to_group = |one: &RouteMove| matches!(one.to, Some(RouteTarget::Class(_)));
            let published = published_for(class).filter(|_| moves.iter().any(to_group));
            let closed = match reason {
                MoveReason::GroupCloses => closed_first,
                _ => None,
            };
            order.moves(reason, class, moves, published.into_iter().chain(closed));
        }
        let closed = close(&mut order);
        let mut removed = BTreeMap::new();
        for ((reason, class), moves) in late {
            removed.insert(class, order.moves(reason, class, moves, closed));
        }
        for one in self.retirements {
            let to_group = matches!(one.own, RouteEnd::To(RouteTarget::Class(_)));
            let after = closed
                .filter(|_| closing.contains(&one.group))
                .into_iter()
                .chain(removed.get(&one.class).copied())
                .chain(published_for(one.class).filter(|_| to_group));
            let why = format!("group {} of {} is not used any more", one.group, one.class);
            let step = Step::Retire {
                group: one.group,
                class: one.class,
                own: one.own,
                others: one.others,
            };
            order.push(step, why, after);
        }
        Plan {
            steps: order.0,
            problems: distinct(self.problems),
            repairs: self.repairs,
            effect,
        }
    }
}

/// Steps in their order.
#[derive(Default)]
struct Order(Vec<PlannedStep>);

impl Order {
    /// The place of the step.
    fn push(
        &mut self,
        step: Step,
        why: impl Into<String>,
        after: impl IntoIterator<Item = usize>,
    ) -> usize {
        self.0.push(PlannedStep {
            step,
            why: why.into(),
            after: after.into_iter().collect(),
        });
        self.0.len() - 1
    }

    fn moves(
        &mut self,
        reason: MoveReason,
        class: Class,
        moves: Vec<RouteMove>,
        after: impl IntoIterator<Item = usize>,
    ) -> usize {
        let why = format!("{} routes of {class}: {}", moves.len(), reason.text());
        let step = Step::MoveRoutes {
            class,
            moves,
            reason,
        };
        self.push(step, why, after)
    }
}

fn groups(plans: &[GroupPlan]) -> String {
    let names = plans.iter().map(|plan| plan.group().to_string());
    let names: Vec<_> = names.collect();
    match names.as_slice() {
        [name] => format!("group {name}"),
        names => format!("groups {}", names.join(", ")),
    }
}

/// What publications change, class by class.
fn changes(plans: &[GroupPlan]) -> String {
    let told = plans.iter().map(|plan| {
        let class = plan.class();
        match plan.change() {
            Change::Open => format!("{class} opens"),
            Change::Reopen => format!("{class} opens again"),
            _ if plan.repairs() => format!("{class} is damaged, and written anew"),
            _ => {
                let (joined, left) = (plan.joined().len(), plan.left().len());
                match (plan.changes_settings(), joined + left) {
                    (true, 0) => format!("{class} treats packets otherwise, by the same members"),
                    (true, _) => format!(
                        "{class} changes ({joined} join, {left} leave) and treats packets otherwise"
                    ),
                    (false, _) => format!("{class} changes ({joined} join, {left} leave)"),
                }
            }
        }
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Each problem once, where it is first.
fn distinct(problems: Vec<Problem>) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    let mut problems = problems;
    problems.retain(|problem| seen.insert((problem.kind(), problem.to_string())));
    problems
}
