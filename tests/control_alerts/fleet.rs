// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Nodes over time: what they export, scraped twice a minute.

use std::sync::LazyLock;
use std::time::Duration;

use guideway::control::machine::Trigger;
use guideway::control::metrics::{
    render, Format, GroupReading, LoopCounters, Reading, Side, Stage,
};
use guideway::control::Mode;
use guideway::group::Class;
use guideway::reason::egress::{End, Selection};

use crate::evaluate::{Labels, Store};
use crate::groups::{active, counters, opened};
use crate::strict::parse;
use crate::support::nat64;

/// Seconds between two scrapes, and two evaluations of rules.
pub(crate) const STEP: f64 = 30.0;
/// Long enough for every alert.
pub(crate) const MINUTES: u32 = 30;
/// When a fault begins, in minutes.
pub(crate) const FAULT: f64 = 6.0;
/// When all begins, since 1970.
const START: f64 = 1_790_000_000.0;

pub(crate) fn times() -> impl Iterator<Item = f64> {
    (0..MINUTES * 2).map(|step| START + f64::from(step) * STEP)
}

/// Minutes since the beginning.
pub(crate) fn minutes(time: f64) -> f64 {
    (time - START) / 60.0
}

/// A node at a moment.
pub(crate) struct Node {
    pub(crate) counters: LoopCounters,
    pub(crate) reading: Reading,
    /// Whether it is scraped with success.
    pub(crate) up: bool,
}

/// Three shards of each class. Made once: it takes longer than all else.
static GROUPS: LazyLock<Vec<GroupReading>> = LazyLock::new(|| {
    let classes = [Class::Nat66, nat64()].into_iter();
    let groups = classes.map(|class| {
        let snapshot = opened(class, active([0x10, 0x11, 0x12]), 0);
        crate::groups::group(snapshot, &[(9, 900); 3])
    });
    groups.collect()
});

/// What a node has that is well all the time, at each time.
static WELL: LazyLock<Vec<Vec<(Labels, f64)>>> = LazyLock::new(|| {
    let all = times().map(|time| healthy(minutes(time)).series("good"));
    all.collect()
});

/// A node in hashed mode, where all is well, after so many minutes.
pub(crate) fn healthy(minutes: f64) -> Node {
    let mut counters = counters(Mode::Hashed);
    counters.pool_min_active = 2;
    counters.shard_watch_synced = true;
    let sweeps = (minutes * 2.0) as u32;
    for sweep in 0..=sweeps {
        let wall = START + f64::from(sweep) * STEP;
        let took = Duration::from_millis(3);
        counters.swept(Trigger::Timer, took, &[], Duration::from_secs_f64(wall));
    }
    let mut reading = Reading::none();
    for group in &*GROUPS {
        let class = group.snapshot.class;
        counters.scanned(class, 12);
        counters.published(class, Duration::from_millis(16), (0, 1021));
        reading.groups.push(group.clone());
    }
    counters.waited(Side::Exclusive, Duration::from_millis(4));
    let packets = (minutes * 60_000.0) as u64;
    reading.stats.ends.insert(End::Group, packets);
    reading.stats.ends.insert(End::Blocked, packets / 100);
    reading.stats.selection.insert(Selection::PinHit, packets);
    reading.pins.by_source = 40_000;
    reading.pins.source_capacity = 65_536;
    reading.pins.flow_capacity = 1;
    let up = true;
    Node {
        counters,
        reading,
        up,
    }
}

impl Node {
    /// Fails at a stage in every sweep since the fault began.
    pub(crate) fn fails(&mut self, minutes: f64, stage: Stage) {
        let sweeps = ((minutes - FAULT) * 2.0).max(0.0) as u64;
        self.counters.sweep_errors.add(stage, sweeps);
    }
}

/// Scrapes two nodes over all the time, to one of which something happens from [`FAULT`] on.
pub(crate) fn scraped(mut happens: impl FnMut(&mut Node, f64)) -> Store {
    let mut store = Store::default();
    for (time, well) in times().zip(&*WELL) {
        let minutes = minutes(time);
        let bad = if minutes < FAULT {
            let mut bad = well.clone();
            for (labels, _) in &mut bad {
                labels.insert("instance".to_owned(), "bad".to_owned());
            }
            bad
        } else {
            let mut node = healthy(minutes);
            happens(&mut node, minutes);
            node.series("bad")
        };
        store.scraped("good", time, well.clone());
        store.scraped("bad", time, bad);
    }
    store
}

/// Scrapes one node over all the time.
pub(crate) fn scraped_alone(node: impl Fn(f64) -> Node) -> Store {
    let mut store = Store::default();
    for time in times() {
        store.scraped("bad", time, node(minutes(time)).series("bad"));
    }
    store
}

impl Node {
    /// What a scrape gets of it.
    fn series(&self, instance: &str) -> Vec<(Labels, f64)> {
        let series = |name: &str, labels: Vec<(String, String)>| {
            let own = [
                ("__name__", name),
                ("instance", instance),
                ("job", "guideway-egress"),
            ];
            let own = own.map(|(label, value)| (label.to_owned(), value.to_owned()));
            own.into_iter().chain(labels).collect::<Labels>()
        };
        let mut all = vec![(series("up", Vec::new()), f64::from(u8::from(self.up)))];
        if self.up {
            let text = render(&self.counters, &self.reading, Format::OpenMetrics);
            let samples = parse(&text).into_values().flat_map(|of| of.samples);
            all.extend(samples.map(|(name, labels, value)| (series(&name, labels), value)));
        }
        all
    }
}
