// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Until when a plan is applied, and what came of it.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::control::kernel::Failure;
use crate::egress::Published;
use crate::error::ErrorKind;
use crate::kernel::write_barrier::DEFAULT_PATIENCE;

/// Until when steps are begun, and how long each waits for those who write routes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Deadline<'a> {
    /// No step is begun at this time of the monotonic clock or later, and none waits for longer.
    pub at: Duration,
    /// How long one step waits for those who write routes, at most. When one has waited in vain,
    /// the later ones do not wait.
    pub patience: Duration,
    /// No step is begun while this is set.
    pub stop: Option<&'a AtomicBool>,
}

impl<'a> Deadline<'a> {
    /// At this time of the monotonic clock. Each step waits for up to five seconds.
    #[must_use]
    pub const fn at(at: Duration) -> Self {
        Self {
            at,
            patience: DEFAULT_PATIENCE,
            stop: None,
        }
    }

    /// The same with another patience.
    #[must_use]
    pub const fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same, but nothing is begun once `stop` is set.
    #[must_use]
    pub const fn unless(self, stop: &'a AtomicBool) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// How long to wait for a guard; none: nothing is begun any more.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return None;
        }
        let left = self.at.checked_sub(now).filter(|left| !left.is_zero())?;
        Some(left.min(self.patience))
    }
}

/// How many routes became what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteCounts {
    /// Written where there was none.
    pub written: u64,
    /// Led elsewhere.
    pub moved: u64,
    /// Gone.
    pub removed: u64,
    /// Left alone, as they were not what they had been.
    pub raced: u64,
    /// Left alone, as nothing is known of their tenant.
    pub orphaned: u64,
}

impl AddAssign for RouteCounts {
    fn add_assign(&mut self, other: Self) {
        self.written += other.written;
        self.moved += other.moved;
        self.removed += other.removed;
        self.raced += other.raced;
        self.orphaned += other.orphaned;
    }
}

/// What came of a step.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done; single routes that were not what they had been are counted, and left alone.
    Done,
    /// What it was planned against is not there any more: nothing was done, and the next round
    /// decides.
    Raced(Failure),
    /// A step that it depends on was not done.
    Skipped {
        /// That step's place in the plan.
        after: usize,
    },
    /// It was not begun before the deadline.
    Late,
    /// It was not done, or not wholly.
    Failed(Failure),
}

impl Outcome {
    /// Whether the step is done.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// That of a failure: a race, or a fault.
    pub(super) fn of(failure: Failure) -> Self {
        if failure.cause.is_race() {
            Self::Raced(failure)
        } else {
            Self::Failed(failure)
        }
    }
}

/// A step, and what came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// What came of it; of several groups that failed in one step, the first.
    pub outcome: Outcome,
    /// Further groups of the step that failed.
    pub further: Vec<Failure>,
    /// What became of its routes.
    pub routes: RouteCounts,
}

impl StepReport {
    pub(super) const fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            further: Vec::new(),
            routes: RouteCounts {
                written: 0,
                moved: 0,
                removed: 0,
                raced: 0,
                orphaned: 0,
            },
        }
    }
}

/// What came of a plan.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Applied {
    /// Of each step, in their order.
    pub steps: Vec<StepReport>,
    /// Whether another configuration was published.
    pub encap: bool,
    /// Groups that were published, but for those that were disabled.
    pub published: Vec<Published>,
    /// Groups that were disabled: that no route names them was proven while nobody wrote any.
    pub disabled: Vec<Published>,
    /// What became of all routes.
    pub routes: RouteCounts,
    /// How long it was waited for those who write routes, each time.
    pub waits: Vec<Duration>,
    /// How often that was in vain.
    pub timeouts: u64,
}

impl Applied {
    /// Whether every step is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|step| step.outcome.is_done())
    }

    /// Everything that failed, in the order of the steps; a race is no failure.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.steps.iter().flat_map(|step| {
            let first = match &step.outcome {
                Outcome::Failed(failure) => Some(failure),
                _ => None,
            };
            let further = step.further.iter();
            let further = further.filter(|failure| !failure.cause.is_race());
            first.into_iter().chain(further)
        })
    }

    /// What a caller can do about what failed: [`ErrorKind::Partial`] where something was changed.
    /// None if nothing failed.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        let first = self.failures().next()?;
        let changed = self.encap
            || !self.published.is_empty()
            || !self.disabled.is_empty()
            || self.routes.written + self.routes.moved + self.routes.removed > 0;
        Some(if changed {
            ErrorKind::Partial
        } else {
            first.kind()
        })
    }
}
