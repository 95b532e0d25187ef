// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Loops and published groups to export, made without a kernel.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway::control::metrics::{render, Format, GroupReading, LoopCounters, Reading, SourceKind};
use guideway::control::Mode;
use guideway::group::{
    allocate, close, disable, plan, Candidate, Class, Classes, Context, Counters, GroupSpec,
    Limits, Snapshot,
};

use crate::strict::numbers;
use crate::support::{hop, nat64, sid};

pub(crate) const PREFIX: &str = "guideway_egress_";

pub(crate) fn classes() -> Classes {
    Classes::new([nat64().into()], Limits::default()).expect("classes")
}

/// A loop for NAT66 and a NAT64 that has done nothing yet.
pub(crate) fn counters(mode: Mode) -> LoopCounters {
    let interval = Duration::from_secs(30);
    LoopCounters::new(mode, &classes(), SourceKind::Dir, interval)
}

/// What is exported, without the prefix.
pub(crate) fn exported(counters: &LoopCounters, reading: &Reading) -> BTreeMap<String, f64> {
    let all = numbers(&render(counters, reading, Format::OpenMetrics));
    let all = all.into_iter().map(|(series, value)| {
        let series = series.strip_prefix(PREFIX).expect("the prefix");
        (series.to_owned(), value)
    });
    all.collect()
}

/// Shards that take new addresses.
pub(crate) fn active(numbers: impl IntoIterator<Item = u16>) -> Vec<Candidate> {
    let numbers = numbers.into_iter();
    numbers
        .map(|number| Candidate::new(sid(number), hop(1)))
        .collect()
}

/// The group of a class with these candidates, opened.
pub(crate) fn opened(class: Class, candidates: Vec<Candidate>, ineligible: u32) -> Snapshot {
    let places = allocate(&classes(), &[], |_| 0, Limits::default());
    let place = places.of(class).expect("a place");
    let spec = GroupSpec {
        candidates,
        ineligible,
        ..GroupSpec::default()
    };
    let plan = plan(None, &place, &spec, &Context::default()).expect("a plan");
    plan.snapshot().clone()
}

pub(crate) fn closing(open: &Snapshot) -> Snapshot {
    let plan = close(open, &Context::default()).expect("a plan");
    plan.snapshot().clone()
}

pub(crate) fn disabled(closing: &Snapshot) -> Snapshot {
    let plan = disable(closing, &Context::default()).expect("a plan");
    plan.snapshot().clone()
}

/// A group whose slots have counted this.
pub(crate) fn group(snapshot: Snapshot, packets_and_bytes: &[(u64, u64)]) -> GroupReading {
    let counters = packets_and_bytes.iter();
    GroupReading {
        snapshot,
        counters: counters
            .map(|&(packets, bytes)| Counters { packets, bytes })
            .collect(),
    }
}

pub(crate) fn reading(groups: impl IntoIterator<Item = Snapshot>) -> Reading {
    let mut reading = Reading::none();
    reading.groups = groups.into_iter().map(|of| group(of, &[])).collect();
    reading
}

/// Insists that two exports differ in exactly these series, which are these numbers afterwards. Sums and
/// buckets of histograms, whose numbers are times, are left aside.
#[track_caller]
pub(crate) fn assert_changed(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    expected: &[(&str, f64)],
) {
    let differences = changed(before, after).into_iter();
    let differences: Vec<_> = differences
        .filter(|(series, ..)| !series.contains("_bucket") && !series.contains("_sum"))
        .map(|(series, _, after)| (series, after))
        .collect();
    let expected = expected.iter();
    let expected: Vec<_> = expected
        .map(|(series, value)| ((*series).to_owned(), Some(*value)))
        .collect();
    assert_eq!(differences, expected);
}

/// The series that two exports differ in, with their values in both.
pub(crate) fn changed(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
) -> Vec<(String, Option<f64>, Option<f64>)> {
    let mut all: Vec<_> = before.keys().chain(after.keys()).collect();
    all.sort();
    all.dedup();
    let values = all.into_iter().map(|series| {
        let (before, after) = (before.get(series), after.get(series));
        (series.clone(), before.copied(), after.copied())
    });
    values
        .filter(|(_, before, after)| before != after)
        .collect()
}
