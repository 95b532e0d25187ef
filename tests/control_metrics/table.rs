// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Names, types and labels, and what is there before anything happens.

use std::collections::BTreeSet;

use guideway::control::metrics::{render, Format, Reading, METRICS};
use guideway::control::Mode;
use guideway::group::Class;

use crate::groups::*;
use crate::strict::{numbers, parse};

/// What dashboards and alerts of others rely on: name, type, unit and labels.
const PUBLISHED: &[(&str, &str, &str, &str)] = &[
    ("shard_packets", "counter", "", "shard_sid class"),
    ("shard_bytes", "counter", "bytes", "shard_sid class"),
    ("shard_selections", "counter", "", "result"),
    ("pool_members", "gauge", "", "class state"),
    ("pool_min_active", "gauge", "", ""),
    ("pool_enabled", "gauge", "", "class"),
    ("mode", "gauge", "", "mode"),
    ("shard_watch_synced", "gauge", "", ""),
    ("group_routes", "gauge", "", "class"),
    ("sweep_errors", "counter", "", "stage"),
    (
        "last_successful_sweep_timestamp_seconds",
        "gauge",
        "seconds",
        "",
    ),
    ("sweep_interval_seconds", "gauge", "seconds", ""),
    ("sweeps", "counter", "", "trigger"),
    ("sweep_duration_seconds", "histogram", "seconds", ""),
    ("kicks", "counter", "", "source"),
    ("class_configured", "gauge", "", "class"),
    ("class_served", "gauge", "", "class"),
    ("group_info", "gauge", "", "class group incarnation"),
    ("table_info", "gauge", "", "class digest"),
    ("table_imbalance_ratio", "gauge", "ratio", "class"),
    ("drops", "counter", "", "reason"),
    ("skips", "counter", "", "reason"),
    ("packets", "counter", "", "outcome"),
    ("pins", "gauge", "", "kind"),
    ("pins_capacity", "gauge", "", "kind"),
    ("pin_operations", "counter", "", "result"),
    ("pin_refused", "counter", "", "cause"),
    ("pins_at_risk", "gauge", "", "class"),
    ("tenants_at_quota", "gauge", "", ""),
    ("publications", "counter", "", "result"),
    ("publication_duration_seconds", "histogram", "seconds", ""),
    ("last_publish_moved_slots_ratio", "gauge", "ratio", "class"),
    ("resolution_failures", "counter", "", "reason"),
    ("netlink_overruns", "counter", "", ""),
    ("netlink_resyncs", "counter", "", ""),
    ("source_errors", "counter", "", "source reason"),
    ("barrier_wait_seconds", "histogram", "seconds", "side"),
    ("barrier_timeouts", "counter", "", "side"),
    ("routes_repaired", "counter", "", "kind"),
    ("events_lost", "counter", "", "kind"),
    ("events_suppressed", "counter", "", "kind"),
    ("build_info", "gauge", "", "version abi clang tcx batch"),
];

/// The series that are there from the beginning, but for those of histograms.
const AT_START: &[(&str, &str, &str)] = &[
    (
        "shard_selections_total",
        "result",
        "pin_hit maglev pin_stale group_empty shard_dead parse_failed",
    ),
    ("pool_min_active", "", ""),
    ("mode", "mode", "ordered hashed"),
    ("shard_watch_synced", "", ""),
    (
        "sweep_errors_total",
        "stage",
        "apply refresh watch close disable open ownership census resolve retire verify",
    ),
    ("last_successful_sweep_timestamp_seconds", "", ""),
    ("sweep_interval_seconds", "", ""),
    (
        "sweeps_total",
        "trigger",
        "source route neighbour link timer command",
    ),
    (
        "kicks_total",
        "source",
        "source route neighbour link timer command",
    ),
    ("class_configured", "class", "nat66 nat64:64:ff9b::/96"),
    ("class_served", "class", "nat66 nat64:64:ff9b::/96"),
    (
        "drops_total",
        "reason",
        "bad_route blocked group_absent group_disabled group_empty stale_route bad_snapshot \
         member_dead parse too_long too_big icmp_limited encap redirect",
    ),
    (
        "skips_total",
        "reason",
        "short not_ip no_tenant local no_source no_route",
    ),
    (
        "packets_total",
        "outcome",
        "pass shard group icmp unreachable",
    ),
    ("pins", "kind", "source flow"),
    ("pins_capacity", "kind", "source flow"),
    (
        "pin_operations_total",
        "result",
        "created replaced removed_idle removed_stale removed_tenant removed_call torn",
    ),
    ("pin_refused_total", "cause", "full quota busy"),
    ("tenants_at_quota", "", ""),
    ("publications_total", "result", "ok unchanged failed"),
    (
        "resolution_failures_total",
        "reason",
        "no_route not_uplink no_neighbour",
    ),
    ("netlink_overruns_total", "", ""),
    ("netlink_resyncs_total", "", ""),
    ("barrier_timeouts_total", "side", "shared exclusive"),
    (
        "routes_repaired_total",
        "kind",
        "wrong_class old_incarnation missing orphan",
    ),
    ("events_lost_total", "kind", "all"),
    ("events_suppressed_total", "kind", "all"),
];

#[test]
fn every_metric_is_published_as_agreed() {
    let published: Vec<_> = METRICS
        .iter()
        .map(|metric| {
            let name = metric.family().strip_prefix(PREFIX).expect("the prefix");
            let unit = metric.unit.unwrap_or("");
            (name, metric.kind.name(), unit, metric.labels.join(" "))
        })
        .collect();
    let agreed = PUBLISHED.iter();
    let agreed: Vec<_> = agreed
        .map(|(name, kind, unit, labels)| (*name, *kind, *unit, (*labels).to_owned()))
        .collect();
    assert_eq!(published, agreed);
}

/// The text of a node where everything has something to tell.
fn full() -> String {
    let mut counters = counters(Mode::Hashed);
    counters.scanned(Class::Nat66, 3);
    let moved = (17, 1021);
    counters.published(Class::Nat66, std::time::Duration::from_millis(9), moved);
    let reading = reading([opened(Class::Nat66, active([0x10, 0x11]), 1)]);
    render(&counters, &reading, Format::OpenMetrics)
}

#[test]
fn each_metric_is_exported_with_its_labels() {
    let families = parse(&full());
    let names: Vec<_> = METRICS.iter().map(|metric| metric.family()).collect();
    assert_eq!(
        families.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        names.iter().copied().collect()
    );
    for metric in METRICS {
        let family = &families[metric.family()];
        assert_eq!(family.kind, metric.kind.name());
        assert_eq!(family.unit.as_deref(), metric.unit);
        assert_eq!(family.help.as_deref(), Some(metric.help));
        assert!(
            !family.samples.is_empty(),
            "{} has no series",
            metric.name()
        );
        for (_, labels, _) in &family.samples {
            let labels = labels.iter().map(|(name, _)| name.as_str());
            let labels: Vec<_> = labels.filter(|name| *name != "le").collect();
            assert_eq!(labels, metric.labels, "{}", metric.name());
        }
    }
    assert!(full().starts_with("# TYPE guideway_egress_shard_packets counter\n"));
}

#[test]
fn plain_text_has_the_same_samples() {
    let samples = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (counters, reading) = (counters(Mode::Ordered), Reading::none());
    let open = render(&counters, &reading, Format::OpenMetrics);
    let plain = render(&counters, &reading, Format::Plain);
    assert_eq!(samples(&open), samples(&plain));
    assert!(plain.contains("\n# TYPE guideway_egress_drops_total counter\n"));
    assert!(!plain.contains("# EOF"));
}

#[test]
fn what_has_a_fixed_set_of_labels_is_there_from_the_start() {
    let text = render(
        &counters(Mode::Hashed),
        &Reading::none(),
        Format::OpenMetrics,
    );
    let mut found = numbers(&text);
    for (name, label, values) in AT_START {
        let values: Vec<_> = values.split_whitespace().collect();
        let all = match values.as_slice() {
            [] => vec![format!("{PREFIX}{name}")],
            values => {
                let series = |value: &&str| format!("{PREFIX}{name}{{{label}={value:?}}}");
                values.iter().map(series).collect()
            }
        };
        for series in all {
            let value = found.remove(&series).unwrap_or_else(|| panic!("{series}"));
            let expected = match series.strip_prefix(PREFIX).expect("the prefix") {
                "sweep_interval_seconds" => 30.0,
                "mode{mode=\"hashed\"}" => 1.0,
                series if series.starts_with("class_configured") => 1.0,
                _ => 0.0,
            };
            assert_eq!(value, expected, "{series}");
        }
    }
    for reason in [
        "parse",
        "forbidden",
        "gone",
        "closed",
        "timeout",
        "throttled",
        "unavailable",
    ] {
        let series = format!("{PREFIX}source_errors_total{{reason={reason:?},source=\"dir\"}}");
        assert_eq!(found.remove(&series), Some(0.0), "{series}");
    }
    for series in [
        "sweep_duration_seconds_count",
        "publication_duration_seconds_count",
        "barrier_wait_seconds_count{side=\"shared\"}",
        "barrier_wait_seconds_count{side=\"exclusive\"}",
    ] {
        assert_eq!(
            found.remove(&format!("{PREFIX}{series}")),
            Some(0.0),
            "{series}"
        );
    }
    let more = |series: &&String| {
        let series = &series[PREFIX.len()..];
        !["_bucket", "_sum", "source_errors_total"]
            .iter()
            .any(|part| series.contains(part))
    };
    let rest: Vec<_> = found.keys().filter(more).collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(
        rest[0].starts_with("guideway_egress_build_info{abi="),
        "{rest:?}"
    );
}

#[test]
fn the_build_is_told() {
    let families = parse(&full());
    let [(_, labels, value)] = &families["guideway_egress_build_info"].samples[..] else {
        panic!("there are several");
    };
    assert_eq!(*value, 1.0);
    let of = |name: &str| {
        let label = labels.iter().find(|(label, _)| label == name);
        label.map(|(_, value)| value.as_str()).expect("a label")
    };
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains(&format!("\nversion = \"{}\"\n", of("version"))));
    let [major, minor] = [
        guideway::abi::Abi::GW_ABI_EGRESS_MAJOR.0,
        guideway::abi::Abi::GW_ABI_EGRESS_MINOR.0,
    ];
    assert_eq!(of("abi"), format!("{major}.{minor}"));
    assert!(of("clang").contains("clang"), "{}", of("clang"));
}
