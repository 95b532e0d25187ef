// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps of a plan, in their order.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::{Applied, Deadline, Outcome, StepReport};
use crate::control::kernel::{Exclusive, Failure, Kernel, KernelError, Stage};
use crate::control::plan::{Plan, Step};
use crate::egress::Published;
use crate::encap::Encap;
use crate::error::ErrorKind;
use crate::group::{Class, GroupPlan};

/// Does what a plan says. Before anything is written it is looked whether it still is what the plan
/// was made against; where it is not, the step is left out as [`Outcome::Raced`]. A step that fails
/// keeps only those from being done that depend on it. Nothing is tried twice: the next round is the
/// second attempt.
///
/// Blocks as publications do, and as long as the deadline lets it wait for those who write routes.
/// However it ends, packets go on: every route leads to a group that forwards, to a shard, or is
/// blocked.
pub fn apply(plan: &Plan, kernel: &mut dyn Kernel, deadline: &Deadline<'_>) -> Applied {
    let mut run = Run {
        plan,
        kernel,
        deadline: *deadline,
        applied: Applied::default(),
        classes: Vec::with_capacity(plan.steps.len()),
    };
    while run.applied.steps.len() < plan.steps.len() {
        run.next();
    }
    run.applied
}

/// One application of a plan.
pub(super) struct Run<'r> {
    pub(super) plan: &'r Plan,
    pub(super) kernel: &'r mut dyn Kernel,
    deadline: Deadline<'r>,
    pub(super) applied: Applied,
    /// Of each step that publishes: whether each class's group is as it was to be.
    classes: Vec<BTreeMap<Class, bool>>,
}

impl Run<'_> {
    /// Does the next step, or several of a kind.
    fn next(&mut self) {
        let at = self.applied.steps.len();
        let Some(planned) = self.plan.steps.get(at) else {
            return;
        };
        if let Some(outcome) = self.hindered(at) {
            return self.report(StepReport::new(outcome));
        }
        match &planned.step {
            Step::PublishConfig(encap) => self.publish_config(encap),
            Step::PublishLiveness(plans) | Step::PublishGroups(plans) => {
                self.publish(plans, Stage::Apply);
            }
            Step::CloseGroups(plans) => self.publish(plans, Stage::Close),
            Step::WriteRoutes { .. } => self.write_routes(at),
            Step::MoveRoutes { moves, .. } => self.move_routes(moves),
            Step::Retire { .. } => self.retire(at),
        }
    }

    /// Why a step is not begun, if it is not.
    fn hindered(&self, at: usize) -> Option<Outcome> {
        let planned = self.plan.steps.get(at)?;
        for &after in &planned.after {
            if !self.is_ready(after, &planned.step) {
                return Some(Outcome::Skipped { after });
            }
        }
        let left = self.deadline.left(self.kernel.now());
        left.is_none().then_some(Outcome::Late)
    }

    /// Whether a step that another one depends on is done, as far as that needs it.
    fn is_ready(&self, after: usize, step: &Step) -> bool {
        let Some(report) = self.applied.steps.get(after) else {
            // No plan has a step depend on itself or a later one.
            return false;
        };
        if report.outcome.is_done() {
            return true;
        }
        let Some(published) = self.classes.get(after).filter(|done| !done.is_empty()) else {
            return false;
        };
        let is_done = |class: &Class| published.get(class).copied().unwrap_or(true);
        match step {
            // A class without a group gets a block.
            Step::WriteRoutes { .. } => true,
            _ => step.class().is_some_and(|class| is_done(&class)),
        }
    }

    /// How many steps from this one on may be done under one guard: those of the same kind, which do
    /// not depend on each other.
    pub(super) fn alike(&self, at: usize) -> usize {
        let steps = self.plan.steps.get(at..).unwrap_or_default();
        let Some(first) = steps.first() else { return 0 };
        let kind = first.step.name();
        let alike = steps.iter().enumerate().take_while(|(number, planned)| {
            planned.step.name() == kind
                && planned.after.iter().all(|after| *after < at)
                && (*number == 0 || self.hindered(at + number).is_none())
        });
        alike.count()
    }

    pub(super) fn report(&mut self, report: StepReport) {
        self.applied.routes += report.routes;
        self.applied.steps.push(report);
        self.classes
            .resize(self.applied.steps.len(), BTreeMap::new());
    }

    fn publish_config(&mut self, encap: &Encap) {
        let outcome = match self.kernel.set_encap(encap) {
            Ok(changed) => {
                self.applied.encap |= changed;
                Outcome::Done
            }
            Err(cause) => Outcome::of(Failure::new(Stage::Apply, "configuration", cause)),
        };
        self.report(StepReport::new(outcome));
    }

    fn publish(&mut self, plans: &[GroupPlan], stage: Stage) {
        let mut classes = BTreeMap::new();
        let mut failures = Vec::new();
        match self.kernel.publish(plans) {
            Err(cause) => {
                classes.extend(plans.iter().map(|plan| (plan.class(), false)));
                failures.push(Failure::new(stage, "groups", cause));
            }
            Ok(results) => {
                for (plan, result) in plans.iter().zip(results) {
                    *classes.entry(plan.class()).or_insert(true) &= result.is_ok();
                    match result {
                        Ok(published) => self.applied.published.push(published),
                        Err(cause) => failures.push(Failure::new(stage, of(plan), cause)),
                    }
                }
            }
        }
        self.report(StepReport::of(failures));
        if let Some(last) = self.classes.last_mut() {
            *last = classes;
        }
    }

    /// Runs `work` while nobody else writes routes.
    pub(super) fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Exclusive) -> T,
    ) -> Result<T, KernelError> {
        let started = self.kernel.now();
        let Some(patience) = self.deadline.left(started) else {
            let text = "the deadline passed before routes could be written";
            return Err(KernelError::new(ErrorKind::Locked, text));
        };
        let (applied, deadline) = (&mut self.applied, &mut self.deadline);
        // The clock cannot be asked while the guard is there: what was waited is told by who waits.
        match self.kernel.exclusive(patience) {
            Ok(mut guard) => {
                applied.waits.push(guard.waited());
                Ok(work(guard.as_mut()))
            }
            Err(error) => {
                if error.kind() == ErrorKind::Locked {
                    // Those that do not wait any more wait for the same.
                    if deadline.patience > Duration::ZERO {
                        applied.timeouts += 1;
                        applied.waits.push(patience);
                    }
                    deadline.patience = Duration::ZERO;
                }
                Err(error)
            }
        }
    }

    pub(super) fn disabled(&mut self, published: Published) {
        self.applied.disabled.push(published);
    }
}

/// A group in words.
fn of(plan: &GroupPlan) -> String {
    format!("group {} ({})", plan.group(), plan.class())
}

impl StepReport {
    /// That of a step of which this failed.
    pub(super) fn of(failures: Vec<Failure>) -> Self {
        let mut failures = failures.into_iter();
        let mut report = Self::new(failures.next().map_or(Outcome::Done, Outcome::of));
        report.further = failures.collect();
        // What fails weighs more than what raced.
        let fault = |failure: &Failure| !failure.cause.is_race();
        if let (Outcome::Raced(_), Some(at)) =
            (&report.outcome, report.further.iter().position(fault))
        {
            let fault = Outcome::of(report.further.swap_remove(at));
            if let Outcome::Raced(raced) = std::mem::replace(&mut report.outcome, fault) {
                report.further.push(raced);
            }
        }
        report
    }
}
