// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Metrics of what was read from the kernel's maps.

use std::collections::BTreeMap;

use guideway::control::metrics::Reading;
use guideway::control::Mode;
use guideway::group::{Candidate, Class, Counters, Snapshot};
use guideway::reason::egress::{End, Reported, Selection};

use crate::groups::*;
use crate::support::{hop, nat64, sid};

const NAT64: &str = "nat64:64:ff9b::/96";

fn of(reading: &Reading) -> BTreeMap<String, f64> {
    exported(&counters(Mode::Hashed), reading)
}

/// Changes a reading of nothing, and expects these series to be these numbers and no other to change.
#[track_caller]
fn check<T>(change: impl FnOnce(&mut Reading) -> T, expected: &[(&str, f64)]) {
    let mut reading = Reading::none();
    let before = of(&reading);
    change(&mut reading);
    assert_changed(&before, &of(&reading), expected);
}

#[test]
fn each_end_of_a_packet() {
    for (number, end) in (1_u32..).zip(End::ALL) {
        let value = f64::from(number);
        let name = end.name();
        let (family, label, name) = match name {
            "pass" | "shard" | "group" => ("packets_total", "outcome", name),
            "icmp_sent" => ("packets_total", "outcome", "icmp"),
            "unreach_sent" => ("packets_total", "outcome", "unreachable"),
            "short" | "not_ip" | "no_tenant" | "local" | "no_source" | "no_route" => {
                ("skips_total", "reason", name)
            }
            _ => ("drops_total", "reason", name),
        };
        let own = format!("{family}{{{label}={name:?}}}");
        let selection = match name {
            "group_absent" | "group_disabled" | "group_empty" => Some("group_empty"),
            "member_dead" => Some("shard_dead"),
            "parse" => Some("parse_failed"),
            _ => None,
        };
        let selection = selection.map(|of| format!("shard_selections_total{{result={of:?}}}"));
        let all = [Some(own), selection];
        let expected: Vec<_> = all
            .iter()
            .flatten()
            .map(|of| (of.as_str(), value))
            .collect();
        check(
            |reading| reading.stats.ends.insert(*end, number.into()),
            &expected,
        );
    }
    // The three reasons for one result add up.
    check(
        |reading| {
            for (end, count) in [
                (End::GroupAbsent, 1),
                (End::GroupDisabled, 2),
                (End::GroupEmpty, 4),
            ] {
                reading.stats.ends.insert(end, count);
            }
        },
        &[
            ("drops_total{reason=\"group_absent\"}", 1.0),
            ("drops_total{reason=\"group_disabled\"}", 2.0),
            ("drops_total{reason=\"group_empty\"}", 4.0),
            ("shard_selections_total{result=\"group_empty\"}", 7.0),
        ],
    );
}

#[test]
fn each_selection_and_event() {
    let published = [
        (
            Selection::PinHit,
            "shard_selections_total{result=\"pin_hit\"}",
        ),
        (
            Selection::Maglev,
            "shard_selections_total{result=\"maglev\"}",
        ),
        (
            Selection::PinStale,
            "shard_selections_total{result=\"pin_stale\"}",
        ),
        (
            Selection::PinNew,
            "pin_operations_total{result=\"created\"}",
        ),
        (Selection::PinFull, "pin_refused_total{cause=\"full\"}"),
        (Selection::PinQuota, "pin_refused_total{cause=\"quota\"}"),
        (Selection::PinBusy, "pin_refused_total{cause=\"busy\"}"),
        (Selection::PinTorn, "pin_operations_total{result=\"torn\"}"),
        (
            Selection::PinReplaced,
            "pin_operations_total{result=\"replaced\"}",
        ),
        (
            Selection::PinRemovedIdle,
            "pin_operations_total{result=\"removed_idle\"}",
        ),
        (
            Selection::PinRemovedStale,
            "pin_operations_total{result=\"removed_stale\"}",
        ),
        (
            Selection::PinRemovedTenant,
            "pin_operations_total{result=\"removed_tenant\"}",
        ),
        (
            Selection::PinRemovedCall,
            "pin_operations_total{result=\"removed_call\"}",
        ),
    ];
    assert_eq!(published.map(|(selection, _)| selection), *Selection::ALL);
    for (selection, series) in published {
        check(
            |reading| reading.stats.selection.insert(selection, 8),
            &[(series, 8.0)],
        );
    }
    for (reported, series) in [
        (Reported::Lost, "events_lost_total{kind=\"all\"}"),
        (
            Reported::Suppressed,
            "events_suppressed_total{kind=\"all\"}",
        ),
    ] {
        check(
            |reading| reading.stats.events.insert(reported, 8),
            &[(series, 8.0)],
        );
    }
}

#[test]
fn pins() {
    check(
        |reading| {
            reading.pins.by_source = 5;
            reading.pins.source_capacity = 65_536;
            reading.pins.by_flow = 6;
            reading.pins.flow_capacity = 7;
            reading.pins.tenants_at_quota = 2;
        },
        &[
            ("pins_capacity{kind=\"flow\"}", 7.0),
            ("pins_capacity{kind=\"source\"}", 65_536.0),
            ("pins{kind=\"flow\"}", 6.0),
            ("pins{kind=\"source\"}", 5.0),
            ("tenants_at_quota", 2.0),
        ],
    );
    let mut reading = reading([opened(Class::Nat66, active([0x10]), 0)]);
    let series = "pins_at_risk{class=\"nat66\"}";
    assert_eq!(of(&reading).get(series), Some(&0.0));
    let group = reading.groups[0].snapshot.group;
    reading.pins.at_risk.insert(group, 3);
    assert_eq!(of(&reading).get(series), Some(&3.0));
}

/// One active, one draining, one that drains and is not reached, one not reached.
fn mixed() -> Vec<Candidate> {
    let candidate = |number, draining, reached: bool| Candidate {
        sid: sid(number),
        weight: 1,
        draining,
        next_hop: reached.then(|| hop(1)),
    };
    vec![
        candidate(0x10, false, true),
        candidate(0x11, true, true),
        candidate(0x12, true, false),
        candidate(0x13, false, false),
    ]
}

fn members(numbers: &BTreeMap<String, f64>, class: &str) -> [Option<f64>; 4] {
    ["active", "draining", "unreachable", "ineligible"].map(|state| {
        let series = format!("pool_members{{class={class:?},state={state:?}}}");
        numbers.get(&series).copied()
    })
}

#[test]
fn members_by_state_and_what_the_group_does() {
    let open = opened(Class::Nat66, mixed(), 5);
    let closing = closing(&open);
    let disabled = disabled(&closing);
    assert_eq!(disabled.members, []);
    let numbers = of(&reading([open.clone()]));
    assert_eq!(members(&numbers, "nat66"), [1.0, 1.0, 2.0, 5.0].map(Some));
    assert_eq!(numbers["pool_enabled{class=\"nat66\"}"], 1.0);
    assert_eq!(numbers["class_served{class=\"nat66\"}"], 1.0);
    // No other class has any.
    assert_eq!(members(&numbers, NAT64), [None; 4]);
    assert_eq!(numbers["class_served{class=\"nat64:64:ff9b::/96\"}"], 0.0);
    // A closing group forwards, and takes no routes.
    let numbers = of(&reading([closing]));
    assert_eq!(members(&numbers, "nat66"), [1.0, 1.0, 2.0, 5.0].map(Some));
    assert_eq!(numbers["pool_enabled{class=\"nat66\"}"], 0.0);
    assert_eq!(numbers["class_served{class=\"nat66\"}"], 1.0);
    // Of a disabled and empty one nothing is told, as of one that was never published.
    let (never, gone) = (of(&Reading::none()), of(&reading([disabled])));
    assert_eq!(changed(&never, &gone), []);
    assert!(!gone.contains_key("pool_enabled{class=\"nat66\"}"));
    // A pool without an active member serves nobody, and says so.
    let numbers = of(&reading([opened(Class::Nat66, mixed().split_off(1), 0)]));
    assert_eq!(numbers["class_served{class=\"nat66\"}"], 0.0);
    assert_eq!(numbers["pool_enabled{class=\"nat66\"}"], 1.0);
    let numbers = of(&reading([opened(nat64(), Vec::new(), 2)]));
    assert_eq!(members(&numbers, NAT64), [0.0, 0.0, 0.0, 2.0].map(Some));
}

#[test]
fn groups_and_tables_are_told_apart() {
    let one = opened(Class::Nat66, active([0x10, 0x11]), 0);
    let two = opened(nat64(), active([0x11, 0x10]), 0);
    let other = opened(Class::Nat66, active([0x10, 0x12]), 0);
    let digest = |snapshot: &Snapshot, class: &str| {
        let numbers = of(&reading([snapshot.clone()]));
        let begin = format!("table_info{{class={class:?},digest=\"");
        let found: Vec<_> = numbers.keys().filter(|of| of.starts_with(&begin)).collect();
        let [series] = found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(numbers[series], 1.0);
        series[begin.len()..].to_owned()
    };
    // Equal shards make equal tables, whatever their order and class.
    assert_eq!(digest(&one, "nat66"), digest(&two, NAT64));
    assert_ne!(digest(&one, "nat66"), digest(&other, "nat66"));
    let numbers = of(&reading([one, two]));
    assert_eq!(
        numbers["group_info{class=\"nat66\",group=\"0\",incarnation=\"1\"}"],
        1.0
    );
    let second = "group_info{class=\"nat64:64:ff9b::/96\",group=\"1\",incarnation=\"1\"}";
    assert_eq!(numbers[second], 1.0);
}

#[test]
fn imbalance_is_the_largest_share_by_what_is_due() {
    let of = |candidates| {
        let snapshot = opened(Class::Nat66, candidates, 0);
        let series = "table_imbalance_ratio{class=\"nat66\"}";
        let exported = of(&reading([snapshot.clone()])).get(series).copied();
        (exported, snapshot)
    };
    assert_eq!(of(Vec::new()).0, None);
    assert_eq!(of(active([0x10])).0, Some(1.0));
    let (ratio, snapshot) = of(active([0x10, 0x11, 0x12]));
    let owned = |slot: u16| snapshot.table.iter().filter(|of| **of == slot).count();
    let largest = (0..3).map(owned).max().expect("three") as f64;
    let expected = largest / (1021.0 / 3.0);
    assert!((ratio.expect("a table") - expected).abs() < 1e-9);
    assert!(expected > 1.0);
    // A weight of three has three shares, and that is balance.
    let mut weighted = active([0x10, 0x11]);
    weighted[0].weight = 3;
    let (ratio, _) = of(weighted);
    assert!((1.0..1.02).contains(&ratio.expect("a table")), "{ratio:?}");
    // Who drains has no share of the table, and counts for nothing.
    let mut draining = active([0x10, 0x11]);
    draining[1].draining = true;
    assert_eq!(of(draining).0, Some(1.0));
}

#[test]
fn shards_count_from_when_they_took_their_slot() {
    let mut snapshot = opened(Class::Nat66, active([0x10, 0x11]), 0);
    snapshot.members[1].base = Counters {
        packets: 100,
        bytes: 9000,
    };
    let second = snapshot.members[1].sid;
    assert_eq!(second, sid(0x11));
    let mut reading = Reading::none();
    reading
        .groups
        .push(group(snapshot, &[(7, 700), (130, 9990)]));
    let numbers = of(&reading);
    let of = |what: &str, sid: &str| {
        numbers[&format!("shard_{what}_total{{class=\"nat66\",shard_sid={sid:?}}}")]
    };
    let (first, second) = ("2001:db8:ff09:10:e000::", "2001:db8:ff09:11:e000::");
    assert_eq!((of("packets", first), of("bytes", first)), (7.0, 700.0));
    assert_eq!((of("packets", second), of("bytes", second)), (30.0, 990.0));
}

#[test]
fn two_groups_of_a_class_are_no_two_series() {
    let open = opened(Class::Nat66, active([0x10]), 0);
    let mut other = opened(Class::Nat66, active([0x11, 0x12]), 0);
    other.group = guideway::group::GroupId::new(5).expect("a group");
    let closing_other = closing(&other);
    for (groups, expected) in [
        // Who takes routes counts, then who forwards, then the first.
        (vec![closing_other.clone(), open.clone()], 1.0),
        (vec![disabled(&closing(&open)), closing_other], 2.0),
        (vec![other, open], 1.0),
    ] {
        let numbers = of(&reading(groups));
        assert_eq!(members(&numbers, "nat66")[0], Some(expected));
    }
}
