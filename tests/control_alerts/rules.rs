// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The alerts: each fires when it should, and no other does.

use std::collections::{BTreeMap, BTreeSet};

use guideway::control::metrics::{Reading, Side, Stage};
use guideway::control::Mode;
use guideway::group::Class;
use guideway::reason::egress::{End, Selection};
use serde::Deserialize;

use crate::evaluate::{firing, Labels, Store};
use crate::fleet::*;
use crate::groups::{active, closing, counters, disabled, opened};
use crate::known::Exported;
use crate::promql;

const FILE: &str = include_str!("../../examples/egressd/alerts.yaml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    hold: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// The names of the alerts, in their order.
pub(crate) fn names() -> Vec<String> {
    rules().into_iter().map(|rule| rule.alert).collect()
}

fn rules() -> Vec<Rule> {
    let file: File = serde_saphyr::from_str(FILE).expect("rules");
    let [group] = <[Group; 1]>::try_from(file.groups).ok().expect("one group");
    assert_eq!(group.name, "guideway-egress");
    group.rules
}

impl Rule {
    fn minutes(&self) -> f64 {
        let minutes = self.hold.strip_suffix('m').expect("minutes");
        minutes.parse().expect("a number")
    }
}

/// Each alert, with the minutes that it waits.
const ALERTS: [(&str, f64); 13] = [
    ("PoolEmpty", 1.0),
    ("PoolBelowMinimum", 5.0),
    ("ClassUnserved", 5.0),
    ("ShardGroupDropping", 2.0),
    ("ShardWatchNotSynced", 5.0),
    ("SweepFailing", 5.0),
    ("SweepStale", 1.0),
    ("PinsRefused", 5.0),
    ("PinTableNearlyFull", 10.0),
    ("BarrierTimeouts", 10.0),
    ("TableDisagreement", 10.0),
    ("Impossible", 0.0),
    ("MetricsDown", 5.0),
];

#[test]
fn every_alert_is_there_with_words_for_people() {
    let rules = rules();
    let found: Vec<_> = rules
        .iter()
        .map(|rule| (&*rule.alert, rule.minutes()))
        .collect();
    let expected = ALERTS.map(|(name, minutes)| (format!("GuidewayEgress{name}"), minutes));
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, of)| (name.as_str(), *of))
        .collect();
    assert_eq!(found, expected);
    for rule in &rules {
        let severity = &rule.labels["severity"];
        assert!(
            ["critical", "warning"].contains(&severity.as_str()),
            "{severity}"
        );
        let words: Vec<_> = rule.annotations.keys().map(String::as_str).collect();
        assert_eq!(words, ["description", "summary"], "{}", rule.alert);
    }
}

#[test]
fn all_that_the_alerts_name_is_exported() {
    assert_exported(&Exported::new());
}

/// Insists that the alerts name nothing that is not exported.
pub(crate) fn assert_exported(exported: &Exported) {
    for rule in rules() {
        let expr = promql::parse(&rule.expr);
        assert_eq!(exported.unknown(&expr), [""; 0], "{}", rule.alert);
        // What people read names no label that the alert does not have.
        let labels = exported.labels(&expr);
        for text in rule.annotations.values() {
            for rest in text.split("$labels.").skip(1) {
                let end = rest
                    .find(|c: char| !c.is_ascii_alphabetic())
                    .unwrap_or(rest.len());
                let label = &rest[..end];
                assert!(labels.contains(label), "{}: {label}", rule.alert);
            }
        }
    }
}

/// Which alerts fire in all the time, with the labels of each and the minute of its first fire.
fn fired(store: &Store) -> BTreeMap<String, Vec<(Labels, f64)>> {
    let mut fired = BTreeMap::new();
    for rule in rules() {
        let hold = rule.minutes() * 60.0;
        let all = firing(&rule.expr, hold, store, times()).into_iter();
        let all: Vec<_> = all.map(|(labels, time)| (labels, minutes(time))).collect();
        if !all.is_empty() {
            let name = rule
                .alert
                .strip_prefix("GuidewayEgress")
                .expect("the prefix");
            fired.insert(name.to_owned(), all);
        }
    }
    fired
}

/// The alerts that fire are these and no others; they tell of the bad node alone, and come neither
/// before they should nor long after.
fn expect(store: &Store, expected: &[&str]) -> BTreeMap<String, Vec<(Labels, f64)>> {
    let fired = fired(store);
    let names: BTreeSet<_> = fired.keys().map(String::as_str).collect();
    assert_eq!(names, expected.iter().copied().collect());
    let holds: BTreeMap<_, _> = ALERTS.into_iter().collect();
    for (name, all) in &fired {
        for (labels, minute) in all {
            let node = labels.get("instance").map(String::as_str);
            assert!(node.is_none_or(|node| node == "bad"), "{name}: {labels:?}");
            let due = FAULT + holds[name.as_str()];
            // Windows have to fill, and scrapes to come.
            let within = (due..due + 12.0).contains(minute);
            assert!(within, "{name} fires in minute {minute}, not {due}");
        }
    }
    fired
}

fn class_of(fired: &BTreeMap<String, Vec<(Labels, f64)>>, name: &str) -> Vec<String> {
    let classes = fired[name]
        .iter()
        .map(|(labels, _)| labels["class"].clone());
    classes.collect()
}

#[test]
fn all_is_silent_while_all_is_well() {
    expect(&scraped(|_, _| {}), &[]);
    // So it is in ordered mode, where no group was ever published.
    let ordered = |minutes| {
        let mut node = healthy(minutes);
        node.counters.mode = Mode::Ordered;
        node.counters.shard_watch_synced = false;
        node.counters.scanned(Class::Nat66, 0);
        node.reading.groups.clear();
        node
    };
    expect(&scraped_alone(ordered), &[]);
}

#[test]
fn a_pool_runs_empty() {
    // All shards of one class are lost, and packets come.
    let mut lost = active([0x10, 0x11, 0x12]);
    lost.iter_mut().for_each(|shard| shard.next_hop = None);
    let lost = opened(Class::Nat66, lost, 0);
    let store = scraped(|node, minutes| {
        node.reading.groups[0].snapshot = lost.clone();
        let dropped = ((minutes - FAULT) * 100.0) as u64;
        node.reading.stats.ends.insert(End::GroupEmpty, dropped);
    });
    let all = [
        "PoolEmpty",
        "PoolBelowMinimum",
        "ClassUnserved",
        "ShardGroupDropping",
        "TableDisagreement",
    ];
    let fired = expect(&store, &all);
    for name in ["PoolEmpty", "PoolBelowMinimum", "ClassUnserved"] {
        assert_eq!(class_of(&fired, name), ["nat66"]);
    }
    assert_eq!(fired["ShardGroupDropping"][0].0["reason"], "group_empty");
}

#[test]
fn an_empty_pool_without_routes_is_no_empty_pool() {
    let empty = opened(Class::Nat66, Vec::new(), 0);
    let store = scraped(|node, _| {
        node.counters.scanned(Class::Nat66, 0);
        node.reading.groups[0].snapshot = empty.clone();
    });
    expect(
        &store,
        &["PoolBelowMinimum", "ClassUnserved", "TableDisagreement"],
    );
}

#[test]
fn a_pool_falls_below_the_minimum() {
    let mut shards = active([0x10, 0x11, 0x12]);
    shards[1].draining = true;
    shards[2].next_hop = None;
    let one = opened(Class::Nat66, shards, 0);
    let store = scraped(|node, _| node.reading.groups[0].snapshot = one.clone());
    let fired = expect(&store, &["PoolBelowMinimum", "TableDisagreement"]);
    assert_eq!(class_of(&fired, "PoolBelowMinimum"), ["nat66"]);
    // What is on its way out need not have as many.
    let one = closing(&one);
    let store = scraped(|node, _| node.reading.groups[0].snapshot = one.clone());
    expect(&store, &["TableDisagreement"]);
}

#[test]
fn a_process_that_never_publishes_is_no_healthy_one() {
    // The list of shards never comes, and no sweep ends well.
    let never = |_| Node {
        counters: counters(Mode::Hashed),
        reading: Reading::none(),
        up: true,
    };
    let fired = fired(&scraped_alone(never));
    let names: Vec<_> = fired.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["ClassUnserved", "ShardWatchNotSynced", "SweepStale"]
    );
    assert_eq!(fired["ClassUnserved"].len(), 2);
}

#[test]
fn a_group_that_is_disabled_serves_nobody() {
    let disabled = disabled(&closing(&opened(Class::Nat66, active([0x10]), 0)));
    let store = scraped(|node, _| {
        node.reading.groups[0].snapshot = disabled.clone();
        node.counters.proven(Class::Nat66);
    });
    let fired = expect(&store, &["ClassUnserved"]);
    assert_eq!(class_of(&fired, "ClassUnserved"), ["nat66"]);
}

#[test]
fn drops_of_groups_are_told_by_their_reason() {
    for (end, more) in [
        (End::GroupAbsent, None),
        (End::GroupDisabled, None),
        (End::StaleRoute, None),
        (End::MemberDead, Some("Impossible")),
    ] {
        let store = scraped(|node, minutes| {
            let dropped = ((minutes - FAULT) * 10.0) as u64;
            node.reading.stats.ends.insert(end, dropped);
        });
        let expected: Vec<_> = ["ShardGroupDropping"].into_iter().chain(more).collect();
        let fired = expect(&store, &expected);
        assert_eq!(fired["ShardGroupDropping"][0].0["reason"], end.name());
    }
    // One packet that met a change is no alert, nor are drops for other reasons.
    let store = scraped(|node, minutes| {
        node.reading.stats.ends.insert(End::StaleRoute, 1);
        node.reading
            .stats
            .ends
            .insert(End::TooBig, (minutes * 100.0) as u64);
    });
    expect(&store, &[]);
}

#[test]
fn what_never_happens() {
    for end in [End::BadRoute, End::BadSnapshot] {
        // A single packet is enough.
        let store = scraped(|node, _| {
            node.reading.stats.ends.insert(end, 1);
        });
        let fired = expect(&store, &["Impossible"]);
        assert_eq!(fired["Impossible"][0].0["reason"], end.name());
    }
}

#[test]
fn the_list_of_shards_is_lost() {
    let store = scraped(|node, _| node.counters.shard_watch_synced = false);
    expect(&store, &["ShardWatchNotSynced"]);
    // For two minutes that is nothing.
    let store = scraped(|node, minutes| {
        node.counters.shard_watch_synced = minutes > FAULT + 2.0;
    });
    expect(&store, &[]);
}

#[test]
fn sweeps_fail() {
    let store = scraped(|node, minutes| node.fails(minutes, Stage::Resolve));
    let fired = expect(&store, &["SweepFailing"]);
    assert_eq!(fired["SweepFailing"][0].0["stage"], "resolve");
    // Once is no row of failures.
    let store = scraped(|node, _| node.counters.sweep_errors.count(Stage::Apply));
    expect(&store, &[]);
}

#[test]
fn sweeps_stop() {
    let store = scraped(|node, _| {
        node.counters.last_successful_sweep = healthy(FAULT).counters.last_successful_sweep;
    });
    let fired = expect(&store, &["SweepStale"]);
    // Four intervals of half a minute, and one minute.
    assert!(
        (FAULT + 3.0..FAULT + 4.0).contains(&fired["SweepStale"][0].1),
        "{fired:?}"
    );
    // A longer interval takes longer.
    let store = scraped(|node, _| {
        node.counters.last_successful_sweep = healthy(FAULT).counters.last_successful_sweep;
        node.counters.sweep_interval = std::time::Duration::from_secs(600);
    });
    expect(&store, &[]);
}

#[test]
fn pins_run_out() {
    for (selection, cause) in [
        (Selection::PinFull, "full"),
        (Selection::PinQuota, "quota"),
        (Selection::PinBusy, "busy"),
    ] {
        let store = scraped(|node, minutes| {
            let refused = ((minutes - FAULT) * 5.0) as u64;
            node.reading.stats.selection.insert(selection, refused);
        });
        let fired = expect(&store, &["PinsRefused"]);
        assert_eq!(fired["PinsRefused"][0].0["cause"], cause);
    }
    let store = scraped(|node, _| node.reading.pins.by_source = 55_706);
    let fired = expect(&store, &["PinTableNearlyFull"]);
    assert_eq!(fired["PinTableNearlyFull"][0].0["kind"], "source");
    let store = scraped(|node, _| node.reading.pins.by_source = 55_705);
    expect(&store, &[]);
}

#[test]
fn the_barrier_is_held_for_ever() {
    let store = scraped(|node, minutes| {
        let times = ((minutes - FAULT) / 2.0) as u64;
        node.counters.barrier_timeouts.add(Side::Exclusive, times);
    });
    let fired = expect(&store, &["BarrierTimeouts"]);
    assert_eq!(fired["BarrierTimeouts"][0].0["side"], "exclusive");
}

#[test]
fn nodes_disagree() {
    let other = opened(Class::Nat66, active([0x10, 0x11, 0x13]), 0);
    let store = scraped(|node, _| node.reading.groups[0].snapshot = other.clone());
    let fired = expect(&store, &["TableDisagreement"]);
    assert_eq!(class_of(&fired, "TableDisagreement"), ["nat66"]);
    // While a change goes from node to node they do, and that is nothing.
    let store = scraped(|node, minutes| {
        if minutes < FAULT + 5.0 {
            node.reading.groups[0].snapshot = other.clone();
        }
    });
    expect(&store, &[]);
}

#[test]
fn nobody_is_scraped() {
    let store = scraped(|node, _| node.up = false);
    let fired = expect(&store, &["MetricsDown"]);
    assert_eq!(fired["MetricsDown"][0].0["instance"], "bad");
    // Nor is there anybody to scrape.
    let nobody = self::fired(&Store::default());
    assert_eq!(nobody.keys().collect::<Vec<_>>(), ["MetricsDown"]);
}
