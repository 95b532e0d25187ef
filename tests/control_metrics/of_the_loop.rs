// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Metrics that the loop counts itself.

use std::time::Duration;

use guideway::control::machine::Trigger;
use guideway::control::metrics::{
    LoopCounters, Optional, Publication, Reading, SharedCounters, Side, SourceKind, Stage,
    Unresolved,
};
use guideway::control::source::SourceErrorReason;
use guideway::control::{Mode, Repair};
use guideway::group::Class;

use crate::groups::*;
use crate::support::nat64;

/// Does something to a loop that has done nothing, and expects these series to be these numbers, and
/// no other to change, but for sums and buckets of histograms.
#[track_caller]
fn check<T>(change: impl FnOnce(&mut LoopCounters) -> T, expected: &[(&str, f64)]) {
    let mut counters = counters(Mode::Ordered);
    let before = exported(&counters, &Reading::none());
    change(&mut counters);
    assert_changed(&before, &exported(&counters, &Reading::none()), expected);
}

#[test]
fn configuration() {
    check(
        |counters| counters.mode = Mode::Hashed,
        &[
            ("mode{mode=\"hashed\"}", 1.0),
            ("mode{mode=\"ordered\"}", 0.0),
        ],
    );
    check(
        |counters| counters.pool_min_active = 3,
        &[("pool_min_active", 3.0)],
    );
    check(
        |counters| counters.sweep_interval = Duration::from_millis(7500),
        &[("sweep_interval_seconds", 7.5)],
    );
    check(
        |counters| counters.shard_watch_synced = true,
        &[("shard_watch_synced", 1.0)],
    );
    // Not every tenant has a route for it yet.
    check(
        |counters| counters.classes.insert(nat64(), false),
        &[("class_configured{class=\"nat64:64:ff9b::/96\"}", 0.0)],
    );
}

#[test]
fn what_the_kernel_lacks_is_told_with_the_build() {
    let build = |lacks: &[Optional]| {
        let mut counters = counters(Mode::Ordered);
        counters.lacks.extend(lacks);
        let numbers = exported(&counters, &Reading::none()).into_keys();
        let mut build = numbers.filter(|series| series.starts_with("build_info{"));
        build.next().expect("a series")
    };
    let has = |series: &str, tcx: bool, batch: bool| {
        let (tcx, batch) = (format!("tcx=\"{tcx}\""), format!("batch=\"{batch}\""));
        assert!(series.contains(&tcx) && series.contains(&batch), "{series}");
    };
    has(&build(&[]), true, true);
    has(&build(&[Optional::Tcx]), false, true);
    has(&build(&[Optional::Batch]), true, false);
}

#[test]
fn sweeps() {
    let took = Duration::from_millis(40);
    let wall = Duration::from_millis(1_790_000_000_250);
    check(
        |counters| counters.swept(Trigger::Neighbour, took, &[], wall),
        &[
            ("last_successful_sweep_timestamp_seconds", 1_790_000_000.25),
            ("sweep_duration_seconds_count", 1.0),
            ("sweeps_total{trigger=\"neighbour\"}", 1.0),
        ],
    );
    // One that failed is no successful one.
    check(
        |counters| counters.swept(Trigger::Timer, took, &[Stage::Census, Stage::Verify], wall),
        &[
            ("sweep_duration_seconds_count", 1.0),
            ("sweep_errors_total{stage=\"census\"}", 1.0),
            ("sweep_errors_total{stage=\"verify\"}", 1.0),
            ("sweeps_total{trigger=\"timer\"}", 1.0),
        ],
    );
    check(
        |counters| counters.kicks.add(Trigger::Route, 7),
        &[("kicks_total{source=\"route\"}", 7.0)],
    );
}

#[test]
fn a_duration_is_sorted_by_its_length() {
    let mut counters = counters(Mode::Hashed);
    for milliseconds in [3, 40, 40, 700] {
        counters.published(Class::Nat66, Duration::from_millis(milliseconds), (0, 1021));
    }
    let numbers = exported(&counters, &Reading::none());
    let of = |bound: &str| numbers[&format!("publication_duration_seconds_bucket{{le={bound:?}}}")];
    assert_eq!(
        [of("0.005"), of("0.05"), of("1.0"), of("+Inf")],
        [1.0, 3.0, 4.0, 4.0]
    );
    assert!((numbers["publication_duration_seconds_sum"] - 0.783).abs() < 1e-9);
}

#[test]
fn publications() {
    let took = Duration::from_millis(16);
    check(
        |counters| counters.published(nat64(), took, (255, 1020)),
        &[
            (
                "last_publish_moved_slots_ratio{class=\"nat64:64:ff9b::/96\"}",
                0.25,
            ),
            ("publication_duration_seconds_count", 1.0),
            ("publications_total{result=\"ok\"}", 1.0),
        ],
    );
    check(
        |counters| {
            counters.publications.count(Publication::Failed);
            counters.publications.add(Publication::Unchanged, 2);
        },
        &[
            ("publications_total{result=\"failed\"}", 1.0),
            ("publications_total{result=\"unchanged\"}", 2.0),
        ],
    );
}

#[test]
fn the_network_and_the_source() {
    check(
        |counters| {
            counters.resolution_failures.count(Unresolved::NoNeighbour);
            counters.resolution_failures.add(Unresolved::NoRoute, 2);
            counters.resolution_failures.add(Unresolved::NotUplink, 3);
        },
        &[
            ("resolution_failures_total{reason=\"no_neighbour\"}", 1.0),
            ("resolution_failures_total{reason=\"no_route\"}", 2.0),
            ("resolution_failures_total{reason=\"not_uplink\"}", 3.0),
        ],
    );
    check(
        |counters| (counters.netlink_overruns, counters.netlink_resyncs) = (2, 1),
        &[
            ("netlink_overruns_total", 2.0),
            ("netlink_resyncs_total", 1.0),
        ],
    );
    check(
        |counters| {
            let errors = counters.source_errors.entry(SourceKind::Dir);
            errors.or_default().count(SourceErrorReason::Forbidden);
        },
        &[(
            "source_errors_total{reason=\"forbidden\",source=\"dir\"}",
            1.0,
        )],
    );
}

#[test]
fn the_barrier_and_routes() {
    check(
        |counters| {
            counters.waited(Side::Shared, Duration::from_micros(30));
            counters.waited(Side::Exclusive, Duration::from_secs(3));
            counters.waited(Side::Exclusive, Duration::from_secs(4));
            counters.barrier_timeouts.count(Side::Exclusive);
        },
        &[
            ("barrier_timeouts_total{side=\"exclusive\"}", 1.0),
            ("barrier_wait_seconds_count{side=\"exclusive\"}", 2.0),
            ("barrier_wait_seconds_count{side=\"shared\"}", 1.0),
        ],
    );
    check(
        |counters| counters.routes_repaired.add(Repair::OldIncarnation, 4),
        &[("routes_repaired_total{kind=\"old_incarnation\"}", 4.0)],
    );
}

#[test]
fn no_routes_are_told_only_when_it_is_proven() {
    let series = "group_routes{class=\"nat66\"}";
    check(
        |counters| counters.scanned(Class::Nat66, 5),
        &[(series, 5.0)],
    );
    // A look that found none while somebody may have been writing one.
    check(|counters| counters.scanned(Class::Nat66, 0), &[]);
    check(
        |counters| {
            counters.scanned(Class::Nat66, 5);
            counters.scanned(Class::Nat66, 0);
        },
        &[],
    );
    check(|counters| counters.proven(Class::Nat66), &[(series, 0.0)]);
    // It was proven, and nobody gets a route to a group that is disabled.
    check(
        |counters| {
            counters.proven(Class::Nat66);
            counters.scanned(Class::Nat66, 0);
        },
        &[(series, 0.0)],
    );
    // The group was opened again: the proof is of no use any more.
    let open = opened(Class::Nat66, active([0x10]), 0);
    let mut counters = counters(Mode::Hashed);
    counters.proven(Class::Nat66);
    let closing = closing(&open);
    for forwarding in [open, closing.clone()] {
        let numbers = exported(&counters, &reading([forwarding]));
        assert!(!numbers.contains_key(series));
    }
    let numbers = exported(&counters, &reading([disabled(&closing)]));
    assert_eq!(numbers.get(series), Some(&0.0));
}

#[test]
fn counters_are_shared_by_copies() {
    let shared = SharedCounters::new(counters(Mode::Ordered));
    let other = shared.clone();
    std::thread::spawn(move || other.update(|counters| counters.kicks.count(Trigger::Link)))
        .join()
        .expect("it ends");
    let copy = shared.copy();
    shared.update(|counters| counters.kicks.count(Trigger::Link));
    assert_eq!(
        (
            copy.kicks.of(Trigger::Link),
            shared.copy().kicks.of(Trigger::Link)
        ),
        (1, 2)
    );
}
