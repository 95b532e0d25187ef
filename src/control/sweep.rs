// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One round of the loop: look, compare, do, and look whether everything holds that must.

use std::collections::BTreeSet;
use std::time::Duration;

use super::apply::{apply, Applied, Deadline, Outcome};
use super::desired::Desired;
use super::invariants::{invariants, Invariants};
use super::kernel::{Failure, Kernel, KernelError, Look, Stage};
use super::metrics::{LoopCounters, Publication, Side};
use super::observe::{observe, observe_only};
use super::observed::{Observed, Reachability};
use super::plan::{Plan, Repair, Step};
use super::reconcile::reconcile;
use crate::group::{Class, Classes, GroupId, GroupPlan, Snapshot};
use crate::route::{Key, Prefix};
use crate::srv6::BaseSid;

/// What a round came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Swept {
    /// The shards whose ways were looked for: [watch](super::netlink::Monitor::watch) them.
    pub asked: BTreeSet<BaseSid>,
    /// What was to be done.
    pub plan: Plan,
    /// What came of it.
    pub applied: Applied,
    /// What there is afterwards, pins not counted; or why that could not be read.
    pub after: Result<Observed, Failure>,
    /// What of it must not be. Nothing is said where it could not be read.
    pub invariants: Option<Invariants>,
}

/// Finds the ways to shards, at this monotonic time.
pub type Reach<'r> =
    dyn FnMut(&BTreeSet<BaseSid>, Duration) -> Result<Reachability, KernelError> + 'r;

/// The shards whose ways a round needs: members of groups, those listed, static ones.
#[must_use]
pub fn asked(groups: &[Snapshot], desired: &Desired) -> BTreeSet<BaseSid> {
    let members = groups.iter().flat_map(|group| group.members.iter());
    let members = members.map(|member| member.sid);
    let listed = desired.shards.value().into_iter();
    let listed = listed.flat_map(|list| list.shards.iter().filter_map(|shard| shard.sid));
    let fixed = desired.static_sids.iter().copied();
    members.chain(listed).chain(fixed).collect()
}

/// Looks and compares, and changes nothing. `with_pins` counts live pins for the predicted effect,
/// which takes a look at each of them.
///
/// # Errors
/// Something cannot be read to its end: no plan is made of a part.
pub fn look(
    kernel: &dyn Kernel,
    desired: &Desired,
    with_pins: bool,
    reach: &mut Reach<'_>,
) -> Result<(Observed, Plan), Failure> {
    compare(desired, reach, |reach| observe(kernel, with_pins, reach))
}

/// The same for who publishes nothing: what a round would do. Pins are counted.
///
/// # Errors
/// As [`look`].
pub fn foresee(
    node: &dyn Look,
    desired: &Desired,
    reach: &mut Reach<'_>,
) -> Result<(Observed, Plan), Failure> {
    compare(desired, reach, |reach| observe_only(node, true, reach))
}

fn compare(
    desired: &Desired,
    reach: &mut Reach<'_>,
    observe: impl FnOnce(&mut dyn FnMut(&Observed) -> Reachability) -> Result<Observed, Failure>,
) -> Result<(Observed, Plan), Failure> {
    let mut failed = None;
    let observed = observe(&mut |observed| {
        let sids = asked(&observed.groups, desired);
        reach(&sids, observed.now).unwrap_or_else(|cause| {
            failed = Some(Failure::new(Stage::Resolve, "ways to shards", cause));
            Reachability::default()
        })
    })?;
    match failed {
        Some(failure) => Err(failure),
        None => {
            let plan = reconcile(&observed, desired);
            Ok((observed, plan))
        }
    }
}

/// Does a round: looks, compares, and does what follows until `deadline`. Steps that fail leave the
/// others alone, and the next round makes a new plan of what there is then; nothing is tried twice.
/// Blocks as long as publications and guards take.
///
/// # Errors
/// What there is cannot be read: nothing was changed.
pub fn sweep(
    kernel: &mut dyn Kernel,
    desired: &Desired,
    reach: &mut Reach<'_>,
    deadline: &Deadline<'_>,
) -> Result<Swept, Failure> {
    let (observed, plan) = look(kernel, desired, false, reach)?;
    let asked = asked(&observed.groups, desired);
    let applied = apply(&plan, kernel, deadline);
    let after = match plan.is_empty() {
        true => Ok(observed),
        // The ways are those that were found before.
        false => observe(kernel, false, |_| observed.reach.clone()),
    };
    let invariants = after.as_ref().ok();
    let invariants = invariants.map(|after| invariants_of(after, desired));
    Ok(Swept {
        asked,
        plan,
        applied,
        after,
        invariants,
    })
}

/// Whether a step is there to publish groups.
const fn publishes(step: &Step) -> bool {
    matches!(
        step,
        Step::PublishGroups(_) | Step::PublishLiveness(_) | Step::CloseGroups(_)
    )
}

/// Whether each tenant has a route of its own for a class.
fn is_everywhere(after: &Observed, class: Class) -> bool {
    let prefix = Prefix::from(class);
    let mut enabled = after.tenants.values().filter(|tenant| tenant.enabled);
    enabled.all(|tenant| {
        let key = Key::new(tenant.table, prefix);
        after.routes.contains_key(&key) || after.senseless.contains_key(&key)
    })
}

fn invariants_of(after: &Observed, desired: &Desired) -> Invariants {
    invariants(after, &desired.classes)
}

impl Swept {
    /// Everything that failed, in the order of the steps.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.applied.failures().chain(self.after.as_ref().err())
    }

    /// Why the round did not come to its end, in words and by stage: what failed, and what there is no
    /// way to do.
    pub fn errors(&self) -> impl Iterator<Item = (Stage, String)> + '_ {
        let failures = self.failures();
        let failures = failures.map(|failure| (failure.stage, failure.to_string()));
        let problems = self.plan.problems.iter();
        let problems = problems.filter(|problem| problem.is_failure());
        failures.chain(problems.map(|problem| (Stage::Apply, problem.to_string())))
    }

    /// The stages that failed, each once.
    #[must_use]
    pub fn failed_stages(&self) -> BTreeSet<Stage> {
        self.errors().map(|(stage, _)| stage).collect()
    }

    /// Whether everything that was planned is done, and everything holds that must.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let hold = self.invariants.as_ref().is_some_and(Invariants::hold);
        self.applied.is_complete() && hold
    }

    /// Counts what was done. That the round ended, and how long it took, is the caller's to count.
    /// `classes` are those that are wanted now: others than the round was told, if they changed while
    /// it ran.
    pub fn count(&self, classes: &Classes, counters: &mut LoopCounters) {
        let applied = &self.applied;
        for published in applied.published.iter().chain(&applied.disabled) {
            let moved = self.moved(published.group);
            counters.published(published.class, published.duration, moved);
        }
        let mut asked_for = false;
        for (planned, report) in self.plan.steps.iter().zip(&applied.steps) {
            asked_for |= publishes(&planned.step);
            if publishes(&planned.step) {
                let first = match &report.outcome {
                    Outcome::Failed(failure) => Some(failure),
                    _ => None,
                };
                let failed = first.into_iter().chain(&report.further);
                for _ in failed.filter(|failure| !failure.cause.is_race()) {
                    counters.publications.count(Publication::Failed);
                }
            }
        }
        if !asked_for {
            counters.publications.count(Publication::Unchanged);
        }
        for wait in &applied.waits {
            counters.waited(Side::Exclusive, *wait);
        }
        for _ in 0..applied.timeouts {
            counters.barrier_timeouts.count(Side::Exclusive);
        }
        for (planned, report) in self.plan.steps.iter().zip(&applied.steps) {
            let routes = &report.routes;
            match &planned.step {
                Step::WriteRoutes { .. } => {
                    counters
                        .routes_repaired
                        .add(Repair::Missing, routes.written);
                }
                Step::MoveRoutes { reason, .. } => {
                    if let Some(repair) = reason.repair() {
                        let mended = routes.moved + routes.removed;
                        counters.routes_repaired.add(repair, mended);
                    }
                }
                _ => {}
            }
        }
        for disabled in &applied.disabled {
            counters.proven(disabled.class);
        }
        if let (Ok(after), Some(invariants)) = (&self.after, &self.invariants) {
            for entry in classes.iter() {
                let counts = counters.classes.entry(entry.class).or_insert(false);
                *counts |= is_everywhere(after, entry.class);
            }
            // One that is on its way out counts until nothing forwards for it.
            let forwards = |class: &Class| {
                let mut groups = after.groups.iter();
                groups.any(|group| group.class == *class && group.forwards())
            };
            counters
                .classes
                .retain(|class, _| classes.contains(*class) || forwards(class));
            let classes: Vec<_> = counters.classes.keys().copied().collect();
            counters
                .moved_slots
                .retain(|class, _| classes.contains(class));
            for class in classes {
                match invariants.group_routes.get(&class) {
                    // Told of groups alone that were disabled with a proof, by whatever process.
                    Some(0) => counters.proven(class),
                    routes => counters.scanned(class, routes.copied().unwrap_or(0)),
                }
            }
        }
    }

    /// Slots of a group's table that its publication moved, and how many there are.
    fn moved(&self, group: GroupId) -> (u32, u32) {
        let plans = self
            .plan
            .steps
            .iter()
            .flat_map(|planned| match &planned.step {
                Step::PublishGroups(plans)
                | Step::PublishLiveness(plans)
                | Step::CloseGroups(plans) => plans.as_slice(),
                _ => &[],
            });
        let mut plans = plans.filter(|plan: &&GroupPlan| plan.snapshot().group == group);
        plans.next().map_or((0, 0), |plan| {
            (plan.disruption().moved, plan.disruption().table_size)
        })
    }
}
