// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop counts of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guideway::control::machine::{self, Machine};
use guideway::control::metrics::{
    Carried, LoopCounters, Optional, SharedCounters, SourceKind, Stage, Unresolved,
};
use guideway::control::netlink::Monitor;
use guideway::control::source::{Source, SourceErrors};
use guideway::control::Mode;
use guideway::group::Classes;
use guideway::kernel::clock;

use super::config::{Config, SourceChoice};
use super::worker::Done;

/// The counters, and as far as they count what others count what was seen of it.
pub(crate) struct Counting {
    counters: SharedCounters,
    kicks: machine::Counts,
    overruns: Carried<u64>,
    resyncs: Carried<u64>,
    /// Of all sources of one kind.
    source_errors: BTreeMap<SourceKind, Carried<SourceErrors>>,
    source: SourceKind,
}

impl Counting {
    /// Of a loop that is told this, on a kernel that lacks some of what is optional.
    pub(crate) fn new(config: &Config, lacks: BTreeSet<Optional>) -> Self {
        let mut counters =
            LoopCounters::new(config.mode, &config.classes, kind(config), config.sweep);
        counters.pool_min_active = config.policy.pool_min_active;
        counters.lacks = lacks;
        Self {
            counters: SharedCounters::new(counters),
            kicks: machine::Counts::default(),
            overruns: Carried::default(),
            resyncs: Carried::default(),
            source_errors: BTreeMap::new(),
            source: kind(config),
        }
    }

    pub(crate) fn shared(&self) -> SharedCounters {
        self.counters.clone()
    }

    /// Takes in another configuration. A class that is new counts as configured when every tenant has
    /// a route for it.
    pub(crate) fn configured(&mut self, config: &Config) {
        self.source = kind(config);
        self.counters.update(|counters| {
            counters.mode = config.mode;
            counters.pool_min_active = config.policy.pool_min_active;
            counters.sweep_interval = config.sweep;
            counters.source_errors.entry(self.source).or_default();
            for entry in config.classes.iter() {
                counters.classes.entry(entry.class).or_insert(false);
            }
        });
    }

    /// Another source is read from now on, which has counted nothing.
    pub(crate) fn source_replaced(&mut self) {
        self.source_errors.values_mut().for_each(Carried::replaced);
    }

    /// Another one listens to the network from now on, who has counted nothing.
    pub(crate) fn monitor_replaced(&mut self) {
        self.overruns.replaced();
        self.resyncs.replaced();
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
    pub(crate) fn source(&mut self, source: &dyn Source) {
        let current = source.latest().is_current();
        let failing = source.failure().is_some();
        let carried = self.source_errors.entry(self.source).or_default();
        let errors = carried.told(source.errors());
        self.counters.update(|counters| {
            counters.shard_watch_synced = current;
            // The sweep goes on with what was listed before. Only one mode reads the list.
            if failing && counters.mode == Mode::Hashed {
                counters.sweep_errors.count(Stage::Watch);
            }
            counters.source_errors.insert(self.source, errors);
        });
    }

    /// Takes in how often the network's changes were lost.
    pub(crate) fn network(&mut self, monitor: &Monitor) {
        let overruns = self.overruns.told(monitor.losses().total());
        let resyncs = self.resyncs.told(monitor.resyncs());
        self.counters.update(|counters| {
            counters.netlink_overruns = overruns;
            counters.netlink_resyncs = resyncs;
        });
    }

    /// Takes in a sweep that has ended; `classes` are those that are wanted now.
    pub(crate) fn swept(&self, done: &Done, classes: &Classes) {
        let failed: Vec<Stage> = match &done.result {
            Ok(swept) => swept.failed_stages().into_iter().collect(),
            Err(failure) => vec![failure.stage],
        };
        let unreached = done.unreached;
        self.counters.update(|counters| {
            let wall = Duration::from_nanos(clock::wall_ns());
            counters.swept(done.trigger, done.took, &failed, wall);
            let unresolved = &mut counters.resolution_failures;
            unresolved.set(Unresolved::NoRoute, unreached.no_route);
            unresolved.set(Unresolved::NotUplink, unreached.not_uplink);
            unresolved.set(Unresolved::NoNeighbour, unreached.no_neighbour);
            if let Ok(swept) = &done.result {
                swept.count(classes, counters);
            }
        });
    }
}

fn kind(config: &Config) -> SourceKind {
    use guideway::control::files::Place;
    match &config.source {
        SourceChoice::Files(Place::File(_)) => SourceKind::File,
        SourceChoice::Files(Place::Directory(_)) => SourceKind::Dir,
        #[cfg(feature = "kube")]
        SourceChoice::Kube(_) => SourceKind::Kube,
    }
}
