// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From numbers to text.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Display;

use super::counters::LoopCounters;
use super::counts::Counts;
use super::label::{Label, Optional};
use super::reading::{GroupReading, Reading};
use super::registry as m;
use super::registry::Metric;
use super::text::{Exposition, Float, Format};
use crate::control::Mode;
use crate::group::{Class, MemberState, Snapshot, State};
use crate::kernel::keys::COMPILER;
use crate::kernel::statedir::AbiVersion;
use crate::reason::egress::{End, EndKind, Reported, Selection};

/// The text of a scrape: what the loop counts of itself, and what the kernel's maps say.
///
/// Each series is there once. One whose labels have a fixed set of values is always there, with 0
/// before anything happens; of a group that was never published, or is disabled and has no members,
/// there is none but `class_configured` and `class_served`.
#[must_use]
pub fn render(counters: &LoopCounters, reading: &Reading, format: Format) -> String {
    let mut text = Writer {
        text: Exposition::new(format),
        groups: by_class(&reading.groups),
        counters,
        reading,
    };
    text.shards();
    text.pools();
    text.sweeps();
    text.classes();
    text.packets();
    text.pins();
    text.publications();
    text.rest();
    text.text.finish()
}

/// The group of each class. Two of one class are at odds with each other: the one that takes routes
/// counts, then the one that forwards, then the first.
fn by_class(groups: &[GroupReading]) -> BTreeMap<Class, &GroupReading> {
    let rank = |group: &GroupReading| match group.snapshot.state {
        State::Open => 0,
        State::Closing => 1,
        State::Disabled => 2,
    };
    let mut by_class: BTreeMap<Class, &GroupReading> = BTreeMap::new();
    for group in groups {
        let held = by_class.entry(group.snapshot.class).or_insert(group);
        let place = |group: &GroupReading| (rank(group), group.snapshot.group);
        if place(group) < place(held) {
            *held = group;
        }
    }
    by_class
}

/// Whether anything is told of a group's members.
fn is_pool(group: &Snapshot) -> bool {
    group.forwards() || !group.members.is_empty()
}

struct Writer<'a> {
    text: Exposition,
    groups: BTreeMap<Class, &'a GroupReading>,
    counters: &'a LoopCounters,
    reading: &'a Reading,
}

impl<'a> Writer<'a> {
    fn shards(&mut self) {
        type Of = fn(&crate::group::Counters) -> u64;
        let metrics: [(&Metric, Of); 2] = [
            (&m::SHARD_PACKETS, |counters| counters.packets),
            (&m::SHARD_BYTES, |counters| counters.bytes),
        ];
        for (metric, of) in metrics {
            let mut family = self.text.metric(metric);
            for (class, group) in &self.groups {
                for member in &group.snapshot.members {
                    let slot = usize::from(member.slot.get());
                    let counted = group.counters.get(slot).map_or(0, of);
                    let labels: [super::text::Pair<'_>; 2] =
                        [("shard_sid", &member.sid), ("class", class)];
                    family.sample(&labels, counted.wrapping_sub(of(&member.base)));
                }
            }
        }
        let end = |ends: &[End]| -> u64 { ends.iter().map(|end| self.end(*end)).sum() };
        let results = [
            ("pin_hit", self.selection(Selection::PinHit)),
            ("maglev", self.selection(Selection::Maglev)),
            ("pin_stale", self.selection(Selection::PinStale)),
            (
                "group_empty",
                end(&[End::GroupAbsent, End::GroupDisabled, End::GroupEmpty]),
            ),
            ("shard_dead", end(&[End::MemberDead])),
            ("parse_failed", end(&[End::Parse])),
        ];
        self.labelled(&m::SHARD_SELECTIONS, "result", results);
    }

    fn pools(&mut self) {
        let mut family = self.text.metric(&m::POOL_MEMBERS);
        for (class, group) in &self.groups {
            let group = &group.snapshot;
            if !is_pool(group) {
                continue;
            }
            let states = [
                ("active", group.count(MemberState::Active)),
                ("draining", group.count(MemberState::Draining)),
                ("unreachable", group.count(MemberState::Unreachable)),
                ("ineligible", group.ineligible.into()),
            ];
            for (state, count) in states {
                family.sample(&[("class", class), ("state", &state)], count);
            }
        }
        let mut family = self.text.metric(&m::POOL_MIN_ACTIVE);
        family.sample(&[], self.counters.pool_min_active);
        let mut family = self.text.metric(&m::POOL_ENABLED);
        for (class, group) in &self.groups {
            if is_pool(&group.snapshot) {
                let open = group.snapshot.state == State::Open;
                family.sample(&[("class", class)], u8::from(open));
            }
        }
        let mode = self.counters.mode;
        let modes = [("ordered", Mode::Ordered), ("hashed", Mode::Hashed)];
        let modes = modes.map(|(name, one)| (name, u64::from(one == mode)));
        self.labelled(&m::MODE, "mode", modes);
        let mut family = self.text.metric(&m::SHARD_WATCH_SYNCED);
        family.sample(&[], u8::from(self.counters.shard_watch_synced));
        let mut family = self.text.metric(&m::GROUP_ROUTES);
        for (class, routes) in self.counters.all_group_routes() {
            let group = self.groups.get(&class);
            let forwards = group.is_some_and(|group| group.snapshot.forwards());
            // Where a group forwards somebody may be writing a route, whatever was proven once.
            if routes > 0 || !forwards {
                family.sample(&[("class", &class)], routes);
            }
        }
    }

    fn sweeps(&mut self) {
        let counters = self.counters;
        self.counts(&m::SWEEP_ERRORS, "stage", &counters.sweep_errors);
        let time = counters.last_successful_sweep.unwrap_or_default();
        let mut family = self.text.metric(&m::LAST_SUCCESSFUL_SWEEP);
        family.sample(&[], Float(time.as_secs_f64()));
        let mut family = self.text.metric(&m::SWEEP_INTERVAL);
        family.sample(&[], Float(counters.sweep_interval.as_secs_f64()));
        self.counts(&m::SWEEPS, "trigger", &counters.sweeps);
        let mut family = self.text.metric(&m::SWEEP_DURATION);
        family.histogram(&[], &counters.sweep_duration);
        self.counts(&m::KICKS, "source", &counters.kicks);
    }

    fn classes(&mut self) {
        let mut family = self.text.metric(&m::CLASS_CONFIGURED);
        for (class, configured) in &self.counters.classes {
            family.sample(&[("class", class)], u8::from(*configured));
        }
        let mut family = self.text.metric(&m::CLASS_SERVED);
        for class in self.counters.classes.keys() {
            let group = self.groups.get(class).map(|group| &group.snapshot);
            let served =
                group.is_some_and(|group| group.forwards() && group.count(MemberState::Active) > 0);
            family.sample(&[("class", class)], u8::from(served));
        }
        let pools = self.pools_of();
        let mut family = self.text.metric(&m::GROUP_INFO);
        for (class, group) in pools.iter().copied() {
            let (number, incarnation) = (group.group, group.incarnation);
            let labels: [super::text::Pair<'_>; 3] = [
                ("class", &class),
                ("group", &number),
                ("incarnation", &incarnation),
            ];
            family.sample(&labels, 1);
        }
        let mut family = self.text.metric(&m::TABLE_INFO);
        for (class, group) in pools.iter().filter(|(_, group)| group.forwards()) {
            family.sample(&[("class", class), ("digest", &group.digest)], 1);
        }
        let mut family = self.text.metric(&m::TABLE_IMBALANCE);
        for (class, group) in pools {
            if let Some(ratio) = imbalance(group) {
                family.sample(&[("class", &class)], Float(ratio));
            }
        }
    }

    fn packets(&mut self) {
        let of = |kind: EndKind| {
            let ends = End::ALL.iter().filter(move |end| end.kind() == kind);
            ends.map(|end| (end.name(), self.end(*end)))
                .collect::<Vec<_>>()
        };
        let (drops, skips) = (of(EndKind::Drop), of(EndKind::Skip));
        let outcomes = [
            ("pass", self.end(End::Pass)),
            ("shard", self.end(End::Shard)),
            ("group", self.end(End::Group)),
            ("icmp", self.end(End::IcmpSent)),
            ("unreachable", self.end(End::UnreachSent)),
        ];
        self.labelled(&m::DROPS, "reason", drops);
        self.labelled(&m::SKIPS, "reason", skips);
        self.labelled(&m::PACKETS, "outcome", outcomes);
    }

    fn pins(&mut self) {
        let pins = &self.reading.pins;
        let counts = [("source", pins.by_source), ("flow", pins.by_flow)];
        self.labelled(&m::PINS, "kind", counts);
        let room = [
            ("source", pins.source_capacity.into()),
            ("flow", pins.flow_capacity.into()),
        ];
        self.labelled(&m::PINS_CAPACITY, "kind", room);
        let selections = |of: &[(&'static str, Selection)]| {
            let of = of.iter().map(|(name, one)| (*name, self.selection(*one)));
            of.collect::<Vec<_>>()
        };
        let operations = selections(&[
            ("created", Selection::PinNew),
            ("replaced", Selection::PinReplaced),
            ("removed_idle", Selection::PinRemovedIdle),
            ("removed_stale", Selection::PinRemovedStale),
            ("removed_tenant", Selection::PinRemovedTenant),
            ("removed_call", Selection::PinRemovedCall),
            ("torn", Selection::PinTorn),
        ]);
        let refused = selections(&[
            ("full", Selection::PinFull),
            ("quota", Selection::PinQuota),
            ("busy", Selection::PinBusy),
        ]);
        self.labelled(&m::PIN_OPERATIONS, "result", operations);
        self.labelled(&m::PIN_REFUSED, "cause", refused);
        let pools = self.pools_of();
        let mut family = self.text.metric(&m::PINS_AT_RISK);
        for (class, group) in pools {
            let at_risk = pins.at_risk.get(&group.group).copied().unwrap_or(0);
            family.sample(&[("class", &class)], at_risk);
        }
        let mut family = self.text.metric(&m::TENANTS_AT_QUOTA);
        family.sample(&[], pins.tenants_at_quota);
    }

    fn publications(&mut self) {
        let counters = self.counters;
        self.counts(&m::PUBLICATIONS, "result", &counters.publications);
        let mut family = self.text.metric(&m::PUBLICATION_DURATION);
        family.histogram(&[], &counters.publication_duration);
        let mut family = self.text.metric(&m::LAST_PUBLISH_MOVED);
        for (class, (moved, of)) in &counters.moved_slots {
            let ratio = f64::from(*moved) / f64::from((*of).max(1));
            family.sample(&[("class", class)], Float(ratio));
        }
    }

    fn rest(&mut self) {
        let counters = self.counters;
        let unresolved = &counters.resolution_failures;
        self.counts(&m::RESOLUTION_FAILURES, "reason", unresolved);
        let mut family = self.text.metric(&m::NETLINK_OVERRUNS);
        family.sample(&[], counters.netlink_overruns);
        let mut family = self.text.metric(&m::NETLINK_RESYNCS);
        family.sample(&[], counters.netlink_resyncs);
        let mut family = self.text.metric(&m::SOURCE_ERRORS);
        for (source, errors) in &counters.source_errors {
            for (reason, count) in errors.iter() {
                let (source, reason) = (source.name(), reason.name());
                family.sample(&[("source", &source), ("reason", &reason)], count);
            }
        }
        let mut family = self.text.metric(&m::BARRIER_WAIT);
        for (side, waits) in counters.barrier_waits() {
            family.histogram(&[("side", &side.name())], waits);
        }
        self.counts(&m::BARRIER_TIMEOUTS, "side", &counters.barrier_timeouts);
        self.counts(&m::ROUTES_REPAIRED, "kind", &counters.routes_repaired);
        let events = &self.reading.stats.events;
        let events = |one| events.get(&one).copied().unwrap_or(0);
        let (lost, suppressed) = (events(Reported::Lost), events(Reported::Suppressed));
        self.labelled(&m::EVENTS_LOST, "kind", [("all", lost)]);
        self.labelled(&m::EVENTS_SUPPRESSED, "kind", [("all", suppressed)]);
        let has = |one| !counters.lacks.contains(&one);
        let (tcx, batch) = (has(Optional::Tcx), has(Optional::Batch));
        let labels: [super::text::Pair<'_>; 5] = [
            ("version", &env!("CARGO_PKG_VERSION")),
            ("abi", &AbiVersion::EGRESS),
            ("clang", &COMPILER),
            (Optional::Tcx.name(), &tcx),
            (Optional::Batch.name(), &batch),
        ];
        self.text.metric(&m::BUILD_INFO).sample(&labels, 1);
    }

    /// Each class whose group something is told of.
    fn pools_of(&self) -> Vec<(Class, &'a Snapshot)> {
        let groups = self.groups.iter();
        let groups =
            groups.map(|(class, group)| -> (Class, &'a Snapshot) { (*class, &group.snapshot) });
        groups.filter(|(_, group)| is_pool(group)).collect()
    }

    fn labelled(
        &mut self,
        metric: &'static Metric,
        label: &'static str,
        samples: impl IntoIterator<Item = (&'static str, u64)>,
    ) {
        let mut family = self.text.metric(metric);
        for (value, count) in samples {
            let value: &dyn Display = &value;
            family.sample(&[(label, value)], count);
        }
    }

    fn counts<L: Label>(
        &mut self,
        metric: &'static Metric,
        label: &'static str,
        counts: &Counts<L>,
    ) {
        let counts = counts.iter().map(|(value, count)| (value.name(), count));
        self.labelled(metric, label, counts);
    }

    fn end(&self, end: End) -> u64 {
        self.reading.stats.ends.get(&end).copied().unwrap_or(0)
    }

    fn selection(&self, one: Selection) -> u64 {
        self.reading.stats.selection.get(&one).copied().unwrap_or(0)
    }
}

/// The largest share of a table, in relation to the share that the member's weight asks for; of equal
/// weights that is the mean share. None in an empty table.
fn imbalance(group: &Snapshot) -> Option<f64> {
    let active = || group.members.iter().filter(|member| member.is_active());
    let weights: u64 = active().map(|member| u64::from(member.weight)).sum();
    let mut slots: BTreeMap<u16, u32> = BTreeMap::new();
    for slot in &group.table {
        *slots.entry(*slot).or_default() += 1;
    }
    let ratios = active().filter(|member| member.weight > 0).map(|member| {
        let owned = slots.get(&member.slot.get()).copied().unwrap_or(0);
        // Tables have far fewer than 2^32 slots, and weights are 32 bits: exact enough.
        let due = group.table.len() as f64 * f64::from(member.weight) / weights as f64;
        f64::from(owned) / due
    });
    ratios.reduce(f64::max)
}
