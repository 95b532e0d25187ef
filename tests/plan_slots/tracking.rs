// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Changes of how flows are tracked, hashed and spread.

use std::collections::BTreeMap;

use guideway::affinity::{count_marks, MarkCount};
use guideway::plan::{plan, Live, Options, Plan, PlanResult};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::support::*;

fn tracked(backends: Value, tracking: &str, members: Value) -> Spec {
    let mut all = json!({"tracking": tracking});
    merge(&mut all, &members);
    instance(&[(backends, all)])
}

#[test]
fn from_all_to_exceptions_every_slot_is_held_until_a_sweep() {
    let all = |ids| tracked(ids, "all", json!({}));
    let live = published(&all(backends(1..=5)));
    let moved = plan_at(Some(&live), &all(backends(1..=6)), 100);
    assert_eq!(
        marks(&moved),
        MarkCount::default(),
        "every flow has its entry"
    );
    let wanted = spec(backends(1..=6));
    let switched = plan_at(Some(&moved.as_live(2)), &wanted, 200);
    assert_eq!(
        marks(&switched),
        MarkCount {
            open: 0,
            held: 4093
        }
    );
    let live = switched.as_live(3).with_sweep(3, BTreeMap::new());
    let plain = plan_at(Some(&live), &wanted, 201);
    assert_eq!(
        (result(&plain), marks(&plain)),
        (PlanResult::Change, MarkCount::default())
    );
}

#[test]
fn from_exceptions_to_all_only_while_no_slot_is_open() {
    let live = published(&spec(backends(1..=5)));
    let all = |ids| tracked(ids, "all", json!({}));
    // Both at once: flows without an entry would move.
    let faults = refused(&live, &all(backends(1..=6)), 100);
    let fault = &faults.as_slice()[0];
    assert_eq!(
        (fault.pointer.as_str(), fault.code.as_str()),
        ("/services/0/tracking", "disruptive")
    );
    assert!(
        fault
            .message
            .contains("change the tracking first, or 122s after it"),
        "{fault}"
    );

    let added = plan_at(Some(&live), &spec(backends(1..=6)), 100);
    let open = marks(&added).open;
    let live = added.as_live(2);
    let faults = refused(&live, &all(backends(1..=6)), 150);
    let message = &faults.as_slice()[0].message;
    assert!(
        message.starts_with(&format!("{open} slots are open for another 7"))
            && message.contains("--disruptive"),
        "{message}"
    );
    let disruptive = Options {
        disruptive: true,
        ..Options::default()
    };
    let forced = plan(
        Some(&live),
        &all(backends(1..=6)),
        &world_at(150),
        disruptive,
    );
    assert_eq!(marks(&forced.expect("confirmed")), MarkCount::default());
    // When the windows are over, held slots do not stand in the way.
    let late = plan_at(Some(&live), &all(backends(1..=6)), 100 + WINDOW + GRID);
    assert_eq!(marks(&late), MarkCount::default());
}

#[test]
fn a_table_gets_another_size_once_every_flow_is_tracked() {
    let size = |slots: u32| json!({"maglev_table_size": slots});
    let live = published(&tracked(backends(1..=5), "exceptions", size(4093)));
    let resized = tracked(backends(1..=5), "all", size(16381));
    let fault = |live: &Live, spec: &Spec, seconds| {
        let faults = refused(live, spec, seconds);
        let fault = faults.as_slice()[0].clone();
        assert_eq!(fault.pointer, "/services/0/maglev_table_size");
        assert_eq!(fault.code.as_str(), "disruptive");
        fault.message
    };
    let message = fault(&live, &resized, 100);
    assert!(
        message.contains("run with tracking \"all\" for 122s first"),
        "{message}"
    );

    let all = plan_at(
        Some(&live),
        &tracked(backends(1..=5), "all", size(4093)),
        100,
    );
    let live = all.as_live(2);
    let message = fault(&live, &resized, 150);
    assert!(
        message.contains("until tracking \"all\" has lasted 122s, in 72s"),
        "{message}"
    );
    // Another publication does not make it longer.
    let sick = with_one(5, 2, "state", json!("unhealthy"));
    let live = plan_at(Some(&live), &tracked(sick.clone(), "all", size(4093)), 160).as_live(3);
    let message = fault(&live, &tracked(sick.clone(), "all", size(16381)), 200);
    assert!(message.contains("in 22s"), "{message}");
    let done = plan_at(Some(&live), &tracked(sick.clone(), "all", size(16381)), 222);
    assert_eq!(marks(&done), MarkCount::default());
    assert_eq!(disruption(&done).flows_at_risk, Some(0));
    // Straight to exceptions: the entries are looked up.
    let done = plan_at(Some(&live), &tracked(sick, "exceptions", size(16381)), 222);
    assert_eq!(
        marks(&done),
        MarkCount {
            open: 0,
            held: 16381
        }
    );
}

#[test]
fn another_hash_moves_every_flow_and_leaves_no_mark() {
    let live = published(&spec(backends(1..=5)));
    let live = plan_at(Some(&live), &spec(backends(1..=6)), 100).as_live(2);
    let seed = json!({"hash_seed": "000102030405060708090a0b0c0d0e0f"});
    let seeded = instance_with(&[(backends(1..=6), json!({}))], seed);
    let by_source = instance(&[(backends(1..=6), json!({"hash": "source"}))]);
    for (pointer, wanted) in [("/hash_seed", seeded), ("/services/0/hash", by_source)] {
        let faults = refused(&live, &wanted, 110);
        let fault = &faults.as_slice()[0];
        assert_eq!(
            (fault.pointer.as_str(), fault.code.as_str()),
            (pointer, "disruptive")
        );
        let disruptive = Options {
            disruptive: true,
            ..Options::default()
        };
        let next = plan(Some(&live), &wanted, &world_at(110), disruptive).expect("confirmed");
        assert_eq!(marks(&next), MarkCount::default());
    }
}

/// Of the second service.
fn second(plan: &Plan) -> MarkCount {
    count_marks(&plan.generation().services[1].slots)
}

#[test]
fn a_service_that_comes_back_with_its_backends_looks_for_its_entries_until_a_sweep() {
    let first = (backends(1..=2), json!({}));
    let with = |ids: Value, members: Value| instance(&[first.clone(), (ids, members)]);
    let wanted = with(backends(1..=5), json!({}));
    let without = plan_at(
        Some(&published(&wanted)),
        &instance(std::slice::from_ref(&first)),
        100,
    )
    .as_live(2);
    let held = MarkCount {
        open: 0,
        held: 4093,
    };

    let back = plan_at(Some(&without), &wanted, 103);
    assert_eq!((second(&back), marks(&back)), (held, MarkCount::default()));
    let live = back.as_live(3);
    assert_eq!(
        result(&plan_at(Some(&live), &wanted, 104)),
        PlanResult::Unchanged
    );
    let swept = plan_at(Some(&live.with_sweep(3, BTreeMap::new())), &wanted, 105);
    assert_eq!(
        (result(&swept), second(&swept)),
        (PlanResult::Change, MarkCount::default())
    );
    // One of them is enough, and another table is no obstacle.
    let fewer = plan_at(Some(&without), &with(backends([3, 9]), json!({})), 103);
    assert_eq!(second(&fewer), held);

    // Nothing to look for: others, none at all, or the same ones after an hour, as newcomers.
    let elsewhere = |id| json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:09"});
    let others: Value = (1..=5).map(elsewhere).collect();
    for (spec, seconds) in [
        (with(others, json!({})), 103),
        (with(backends([]), json!({})), 103),
        (with(backends(6..=9), json!({})), 103),
        (wanted.clone(), 3700),
    ] {
        let plan = plan_at(Some(&without), &spec, seconds);
        assert_eq!(second(&plan), MarkCount::default(), "{seconds}");
    }
    // And where all flows are tracked every entry counts.
    let all = with(backends(1..=5), json!({"tracking": "all"}));
    assert_eq!(
        second(&plan_at(Some(&without), &all, 103)),
        MarkCount::default()
    );
}

#[test]
fn a_service_that_looks_for_exact_bindings_does_so_from_then_on() {
    let quic = |ids: Value| {
        let members = json!({"protocol": "udp", "quic": {"routing": "tuple"}});
        instance(&[(ids, members)])
    };
    let wanted = quic(backends(1..=2));
    let live = published(&wanted);
    let service = wanted.services()[0].id;
    assert!(!live.is_exact(service));
    let exact = plan_at(Some(&live.with_exact(service)), &wanted, 2);
    assert_eq!(result(&exact), PlanResult::Change);
    assert!(exact.generation().services[0].exact);
    let live = exact.as_live(2);
    assert!(live.is_exact(service));
    assert_eq!(
        result(&plan_at(
            Some(&live.clone().with_exact(service)),
            &wanted,
            3
        )),
        PlanResult::Unchanged
    );
    let next = plan_at(Some(&live), &quic(backends(1..=3)), 3);
    assert!(next.generation().services[0].exact);
    // A connection ID may be silent for ten minutes, and so may what is bound to it.
    assert_eq!(disruption(&next).window_seconds, 602);
}

#[test]
fn everything_that_stands_against_a_change_is_told_at_once() {
    let two = |first: Value, second: Value| {
        instance_with(
            &[(backends(1..=6), first), (backends(1..=6), second)],
            json!({"limits": {"memory_mib": 128}}),
        )
    };
    let wanted = two(json!({"tracking": "all"}), json!({"hash": "source"}));
    let before = [(backends(1..=5), json!({})), (backends(1..=5), json!({}))];
    let live = published(&instance(&before));
    let faults = refused(&live, &wanted, 100);
    let told: Vec<_> = faults
        .iter()
        .map(|fault| (fault.pointer.as_str(), fault.code.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("/services/1/hash", "disruptive"),
            ("/services/0/tracking", "disruptive"),
            ("/limits/memory_mib", "capacity"),
        ]
    );
}

#[test]
fn nothing_moves_before_all_flows_have_had_time_to_give_an_entry() {
    let live = published(&spec(backends(1..=5)));
    let all = |ids| tracked(ids, "all", json!({}));
    let switched = plan_at(Some(&live), &all(backends(1..=5)), 100);
    let live = switched.as_live(2);
    let faults = refused(&live, &all(backends(1..=6)), 101);
    let fault = &faults.as_slice()[0];
    assert_eq!(
        (fault.pointer.as_str(), fault.code.as_str()),
        ("/services/0/backends", "disruptive")
    );
    let open = marks(&plan_at(
        Some(&published(&spec(backends(1..=5)))),
        &spec(backends(1..=6)),
        101,
    ));
    assert!(
        fault
            .message
            .contains(&format!("{} slots would move", open.open))
            && fault.message.contains("wait 12"),
        "{fault}"
    );
    // What moves nothing goes through, and so does everything when the time is over.
    plan_at(Some(&live), &all(backends(1..=5)), 101);
    plan_at(Some(&live), &all(backends(1..=6)), 101 + WINDOW + GRID);
    // A service that never did otherwise has no flows of another time.
    let born = published(&all(backends(1..=5)));
    plan_at(Some(&born), &all(backends(1..=6)), 2);
}
