// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the control loop knows of itself.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::counts::{Counts, Histogram};
use super::label::{Label, Optional, Publication, Side, SourceKind, Stage, Unresolved};
use crate::control::machine::Trigger;
use crate::control::source_errors::SourceErrors;
use crate::control::{Mode, Repair};
use crate::group::{Class, Classes};

const fn milliseconds<const N: usize>(bounds: [u64; N]) -> [Duration; N] {
    let mut durations = [Duration::ZERO; N];
    let mut at = 0;
    while at < N {
        durations[at] = Duration::from_millis(bounds[at]);
        at += 1;
    }
    durations
}

/// From a look that finds nothing to do to a retirement that waits for writers of routes.
static SWEEPS: [Duration; 12] =
    milliseconds([1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 10_000]);
/// The kernel waits for packets that use the old snapshot: 8 to 30 ms, seldom 250.
static PUBLICATIONS: [Duration; 10] = milliseconds([1, 5, 10, 15, 20, 30, 50, 100, 250, 1000]);
/// A route is written within a millisecond, and whoever retires waits for seconds.
static WAITS: [Duration; 9] = milliseconds([1, 2, 5, 10, 50, 100, 500, 1000, 5000]);

/// What the control loop counts of itself, and what it was told to do.
///
/// Every series whose labels have a fixed set of values begins at 0. The loop writes it between its
/// steps, [`SharedCounters`] lends it to a scrape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopCounters {
    /// What the node is configured for.
    pub mode: Mode,
    /// What the kernel lacks of what the datapath does without.
    pub lacks: BTreeSet<Optional>,
    /// Members that each pool should have active at least.
    pub pool_min_active: u32,
    /// The longest time between two sweeps.
    pub sweep_interval: Duration,
    /// Each class of the configuration, and each that is on its way out of it; whether it counts as
    /// configured: one that is added does not before every tenant has a route for it.
    pub classes: BTreeMap<Class, bool>,
    /// Whether a complete list of shards is held and its source is not failing.
    pub shard_watch_synced: bool,
    /// Sweeps by what asked for them.
    pub sweeps: Counts<Trigger>,
    /// Events that asked for a sweep; many may lead to one.
    pub kicks: Counts<Trigger>,
    /// Sweeps that failed, by where.
    pub sweep_errors: Counts<Stage>,
    /// How long sweeps took, from looking to the last step.
    pub sweep_duration: Histogram,
    /// When a sweep ended without an error, since 1970.
    pub last_successful_sweep: Option<Duration>,
    /// Groups' plans by what became of them.
    pub publications: Counts<Publication>,
    /// How long publications took, until no packet used the old snapshot.
    pub publication_duration: Histogram,
    /// How many slots of the table the last publication moved to another shard, and of how many.
    pub moved_slots: BTreeMap<Class, (u32, u32)>,
    /// Shards that could not be reached when they were asked for.
    pub resolution_failures: Counts<Unresolved>,
    /// Times that the kernel had more to tell of the network than there was room for.
    pub netlink_overruns: u64,
    /// Times that the view of the network was read anew.
    pub netlink_resyncs: u64,
    /// What went wrong with the list of shards, by where it comes from, or came from once.
    pub source_errors: BTreeMap<SourceKind, SourceErrors>,
    /// How long the barrier was waited for by who holds it beside others.
    pub shared_wait: Histogram,
    /// How long the barrier was waited for by who holds it alone.
    pub exclusive_wait: Histogram,
    /// Times that waiting for the barrier was in vain.
    pub barrier_timeouts: Counts<Side>,
    /// Routes that were put right.
    pub routes_repaired: Counts<Repair>,
    group_routes: BTreeMap<Class, u64>,
}

impl LoopCounters {
    /// A loop that was told this, and has done nothing yet. The classes count as configured.
    #[must_use]
    pub fn new(
        mode: Mode,
        classes: &Classes,
        source: SourceKind,
        sweep_interval: Duration,
    ) -> Self {
        Self {
            mode,
            lacks: BTreeSet::new(),
            pool_min_active: 0,
            sweep_interval,
            classes: classes.iter().map(|entry| (entry.class, true)).collect(),
            shard_watch_synced: false,
            sweeps: Counts::default(),
            kicks: Counts::default(),
            sweep_errors: Counts::default(),
            sweep_duration: Histogram::new(&SWEEPS),
            last_successful_sweep: None,
            publications: Counts::default(),
            publication_duration: Histogram::new(&PUBLICATIONS),
            moved_slots: BTreeMap::new(),
            resolution_failures: Counts::default(),
            netlink_overruns: 0,
            netlink_resyncs: 0,
            source_errors: BTreeMap::from([(source, SourceErrors::default())]),
            shared_wait: Histogram::new(&WAITS),
            exclusive_wait: Histogram::new(&WAITS),
            barrier_timeouts: Counts::default(),
            routes_repaired: Counts::default(),
            group_routes: BTreeMap::new(),
        }
    }

    /// Counts a sweep that has ended, and where it failed; one that did not fail is remembered as the
    /// last successful one. `wall` is the time since 1970.
    pub fn swept(&mut self, trigger: Trigger, took: Duration, failed: &[Stage], wall: Duration) {
        self.sweeps.count(trigger);
        self.sweep_duration.observe(took);
        for stage in failed {
            self.sweep_errors.count(*stage);
        }
        if failed.is_empty() {
            self.last_successful_sweep = Some(wall);
        }
    }

    /// Counts a publication; `moved` are the slots of the table that lead to another shard now, and
    /// how many there are.
    pub fn published(&mut self, class: Class, took: Duration, moved: (u32, u32)) {
        self.publications.count(Publication::Ok);
        self.publication_duration.observe(took);
        self.moved_slots.insert(class, moved);
    }

    /// Counts a wait for the barrier that ended with it.
    pub fn waited(&mut self, side: Side, time: Duration) {
        match side {
            Side::Shared => self.shared_wait.observe(time),
            Side::Exclusive => self.exclusive_wait.observe(time),
        }
    }

    /// Takes in how many routes name a class's group by a complete look at all of them. That there is
    /// none says nothing unless it was [`proven`](Self::proven) before: somebody may be writing one.
    pub fn scanned(&mut self, class: Class, routes: u64) {
        if routes > 0 {
            self.group_routes.insert(class, routes);
        } else if self.group_routes(class) != Some(0) {
            self.group_routes.remove(&class);
        }
    }

    /// Takes in that no route names a class's group, proven while nobody could write any, and that the
    /// group is disabled. It is exported as long as no group forwards for the class.
    pub fn proven(&mut self, class: Class) {
        self.group_routes.insert(class, 0);
    }

    /// Routes of a class's group as far as they are known; none: not known.
    #[must_use]
    pub fn group_routes(&self, class: Class) -> Option<u64> {
        self.group_routes.get(&class).copied()
    }

    /// All that is known of routes to groups.
    pub(super) fn all_group_routes(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        self.group_routes
            .iter()
            .map(|(class, routes)| (*class, *routes))
    }

    /// The waits for the barrier by who waited.
    pub(super) fn barrier_waits(&self) -> impl Iterator<Item = (Side, &Histogram)> {
        Side::ALL.iter().map(|side| match side {
            Side::Shared => (*side, &self.shared_wait),
            Side::Exclusive => (*side, &self.exclusive_wait),
        })
    }
}

/// The counters of a loop where a scrape finds them, too.
///
/// Each use is a few additions or one copy: nobody waits for a scrape.
#[derive(Debug, Clone)]
pub struct SharedCounters(Arc<Mutex<LoopCounters>>);

impl SharedCounters {
    /// Shares counters.
    #[must_use]
    pub fn new(counters: LoopCounters) -> Self {
        Self(Arc::new(Mutex::new(counters)))
    }

    /// Changes them. `change` must be short: a scrape may wait for it, and the loop for both.
    pub fn update<T>(&self, change: impl FnOnce(&mut LoopCounters) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Them as they are.
    #[must_use]
    pub fn copy(&self) -> LoopCounters {
        self.update(|counters| counters.clone())
    }
}
