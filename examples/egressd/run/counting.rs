// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop counts of itself.

use std::time::Duration;

use guideway::control::machine::{self, Machine};
use guideway::control::metrics::{LoopCounters, SharedCounters, SourceKind, Stage, Unresolved};
use guideway::control::netlink::{Failures, Monitor};
use guideway::control::source::Source;
use guideway::control::Mode;
use guideway::kernel::clock;

use super::config::{Config, SourceChoice};
use super::worker::Done;

/// The counters, and as far as they count what others count what was seen of it.
pub(crate) struct Counting {
    counters: SharedCounters,
    kicks: machine::Counts,
    unreached: Failures,
}

impl Counting {
    pub(crate) fn new(config: &Config) -> Self {
        let mut counters =
            LoopCounters::new(config.mode, &config.classes, kind(config), config.sweep);
        counters.pool_min_active = config.policy.pool_min_active;
        Self {
            counters: SharedCounters::new(counters),
            kicks: machine::Counts::default(),
            unreached: Failures::default(),
        }
    }

    pub(crate) fn shared(&self) -> SharedCounters {
        self.counters.clone()
    }

    /// Takes in another configuration. A class that is new counts as configured when every tenant has
    /// a route for it.
    pub(crate) fn configured(&self, config: &Config) {
        self.counters.update(|counters| {
            counters.mode = config.mode;
            counters.pool_min_active = config.policy.pool_min_active;
            counters.sweep_interval = config.sweep;
            counters.source = kind(config);
            for entry in config.classes.iter() {
                counters.classes.entry(entry.class).or_insert(false);
            }
        });
    }

    /// Takes in the events that asked for sweeps.
    pub(crate) fn kicks(&mut self, machine: &Machine) {
        let now = machine.kicks();
        if now == self.kicks {
            return;
        }
        self.counters.update(|counters| {
            for trigger in machine::Trigger::ALL {
                let more = now.of(trigger).saturating_sub(self.kicks.of(trigger));
                counters.kicks.add(trigger, more);
            }
        });
        self.kicks = now;
    }

    /// Takes in what the source says of itself.
    pub(crate) fn source(&self, source: &dyn Source) {
        let current = source.latest().is_current();
        let failing = source.failure().is_some();
        self.counters.update(|counters| {
            counters.shard_watch_synced = current;
            // The sweep goes on with what was listed before. Only one mode reads the list.
            if failing && counters.mode == Mode::Hashed {
                counters.sweep_errors.count(Stage::Watch);
            }
            counters.source_errors = source.errors();
        });
    }

    /// Takes in how often the network's changes were lost.
    pub(crate) fn network(&self, monitor: &Monitor) {
        self.counters.update(|counters| {
            counters.netlink_overruns = monitor.losses().total();
            counters.netlink_resyncs = monitor.resyncs();
        });
    }

    /// Takes in a sweep that has ended.
    pub(crate) fn swept(&mut self, done: &Done) {
        let failed: Vec<Stage> = match &done.result {
            Ok(swept) => swept.failed_stages().into_iter().collect(),
            Err(failure) => vec![failure.stage],
        };
        let before = std::mem::replace(&mut self.unreached, done.unreached);
        let now = done.unreached;
        self.counters.update(|counters| {
            let wall = Duration::from_nanos(clock::wall_ns());
            counters.swept(done.trigger, done.took, &failed, wall);
            for (label, before, now) in [
                (Unresolved::NoRoute, before.no_route, now.no_route),
                (Unresolved::NotUplink, before.not_uplink, now.not_uplink),
                (
                    Unresolved::NoNeighbour,
                    before.no_neighbour,
                    now.no_neighbour,
                ),
            ] {
                // A resolver that was made anew begins at 0.
                let more = now.checked_sub(before).unwrap_or(now);
                counters.resolution_failures.add(label, more);
            }
            if let Ok(swept) = &done.result {
                swept.count(&done.desired, counters);
            }
        });
    }
}

fn kind(config: &Config) -> SourceKind {
    use guideway::control::files::Place;
    match &config.source {
        SourceChoice::Files(Place::File(_)) => SourceKind::File,
        SourceChoice::Files(Place::Directory(_)) => SourceKind::Dir,
        SourceChoice::Kube(_) => SourceKind::Kube,
    }
}
