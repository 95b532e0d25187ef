// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan foretells of flows and memory. Expected numbers are computed by hand from the slots.

use std::collections::BTreeMap;

use guideway::affinity::SlotSet;
use guideway::plan::{plan, Live, Options, Plan, ServiceSweep, World};
use serde_json::json;

use crate::support::*;

/// As if `rate` flows had begun per second, and the flow map had `flows` entries.
fn known(mut live: Live, rate: f64, flows: u64) -> Live {
    let id = live.spec().services()[0].id.get();
    let state = live.flow_state_mut();
    state.flows = Some(flows);
    state.service_mut(id).mean_starts_per_second = Some(rate);
    live
}

fn up(number: f64) -> u64 {
    number.ceil() as u64
}

#[test]
fn exceptions_are_foretold_from_the_rate_of_starts() {
    let live = known(published(&spec(backends(1..=5))), 50.0, 1000);
    let wanted = spec(with_one(5, 2, "state", json!("draining")));
    let next = plan_at(Some(&live), &wanted, 100);
    let told = disruption(&next);
    let share = f64::from(marks(&next).open) / 4093.0;
    // A flow lasts for the two minutes that it may be silent: 6000 are live.
    assert_eq!(told.flows_live, None, "nothing counts them");
    assert_eq!(told.flows_moved, Some(up(6000.0 * told.moved_ratio)));
    assert_eq!(told.flows_at_risk, Some(0));
    // Those of the slots that open, and those that begin in them while they are.
    let entries = up(share * (6000.0 + 50.0 * 122.0));
    assert_eq!(told.entries_expected, entries);
    let flows = next.document().capacity.flows;
    assert_eq!(
        (flows.used, flows.predicted, flows.limit),
        (1000, 1000 + entries, 1 << 20)
    );
    assert_eq!(told.bindings_lost, Some(0));

    // What is open already needs nothing more.
    let live = known(next.as_live(2), 50.0, 1000 + entries);
    let told = disruption(&plan_at(Some(&live), &wanted, 110));
    assert!(told.slots_open > 0);
    assert_eq!((told.entries_expected, told.flows_moved), (0, Some(0)));
}

#[test]
fn a_tcp_flow_is_taken_to_last_four_minutes() {
    let long = |ids| instance(&[(ids, json!({"flow_idle": "2h4m"}))]);
    let live = known(published(&long(backends(1..=5))), 10.0, 0);
    let told = disruption(&plan_at(Some(&live), &long(backends(1..=6)), 100));
    assert_eq!(told.flows_moved, Some(up(2400.0 * told.moved_ratio)));
    let share = f64::from(told.slots_open) / 4093.0;
    assert_eq!(told.entries_expected, up(share * (2400.0 + 10.0 * 7442.0)));
}

#[test]
fn nothing_is_foretold_where_nothing_is_known() {
    let live = published(&spec(backends(1..=5)));
    let told = disruption(&plan_at(Some(&live), &spec(backends(1..=6)), 100));
    assert!(told.slots_open > 0);
    assert_eq!((told.flows_live, told.flows_moved), (None, None));
    assert_eq!((told.flows_at_risk, told.entries_expected), (None, 0));
    // Plain UDP: no packet tells that it is the first, so starts that were counted say nothing.
    let plain = |ids| {
        let members = json!({"protocol": "udp", "quic_only": false, "tracking": "exceptions"});
        instance(&[(ids, members)])
    };
    let live = known(published(&plain(backends(1..=5))), 0.0, 0);
    let told = disruption(&plan_at(Some(&live), &plain(backends(1..=6)), 100));
    assert_eq!((told.flows_moved, told.entries_expected), (None, 0));
    // A new service moves nothing.
    let told = disruption(&plan_at(None, &spec(backends(1..=5)), 1));
    assert_eq!(
        (told.flows_moved, told.flows_at_risk, told.bindings_lost),
        (Some(0), Some(0), Some(0))
    );
}

#[test]
fn what_does_not_fit_the_map_is_at_risk() {
    let small = |ids| {
        let limits = json!({"limits": {"flows": 1024, "cids": 1024}});
        instance_with(&[(ids, json!({}))], limits)
    };
    let wanted = small(with_one(5, 2, "state", json!("draining")));
    let next = |flows| {
        let live = known(published(&small(backends(1..=5))), 50.0, flows);
        plan_at(Some(&live), &wanted, 100)
    };
    let warned = |plan: &Plan| {
        let mut warnings = plan.document().warnings.iter();
        warnings.any(|warning| warning.code.as_str() == "flow-capacity")
    };
    let told = disruption(&next(1000));
    assert!(told.entries_expected > 24);
    assert_eq!(told.flows_at_risk, Some(told.entries_expected - 24));
    assert!(warned(&next(1000)));

    let little = known(published(&small(backends(1..=5))), 1.0, 0);
    let little = plan_at(Some(&little), &wanted, 100);
    assert!((1..1024).contains(&disruption(&little).entries_expected));
    assert_eq!(disruption(&little).flows_at_risk, Some(0));
    assert!(!warned(&little));
}

#[test]
fn where_every_flow_is_tracked_the_sweep_tells_how_many_there_are() {
    let all = |ids| instance(&[(ids, json!({"tracking": "all"}))]);
    let first = published(&all(backends(1..=5)));
    let sweep = |live: Live, number| {
        let id = live.spec().services()[0].id.get();
        let found = ServiceSweep::new(3000, 0, SlotSet::default());
        live.with_sweep(number, BTreeMap::from([(id, found)]))
    };
    let wanted = all(backends(1..=6));
    let told = disruption(&plan_at(Some(&sweep(first.clone(), 1)), &wanted, 100));
    assert_eq!(told.flows_live, Some(3000));
    assert_eq!(told.flows_moved, Some(up(3000.0 * told.moved_ratio)));
    // Who has an entry stays, and nobody has none.
    assert_eq!((told.flows_at_risk, told.entries_expected), (Some(0), 0));

    // Flows for which there is no room have none: 50 per second for two minutes are 6000.
    let refused = |rate| {
        let mut live = sweep(first.clone(), 1);
        let id = live.spec().services()[0].id.get();
        let known = live.flow_state_mut().service_mut(id);
        known.refuses = true;
        known.mean_starts_per_second = rate;
        live
    };
    let at_risk = |live: &Live| {
        let told = disruption(&plan_at(Some(live), &wanted, 100));
        (told.flows_at_risk, told.moved_ratio)
    };
    let (known, moved) = at_risk(&refused(Some(50.0)));
    assert_eq!(known, Some(up((6000.0 - 3000.0) * moved)));
    assert_eq!(at_risk(&refused(None)).0, None, "nothing counts them");
    // Less than the sweep has counted: the mean says nothing of now.
    assert_eq!(at_risk(&refused(Some(1.0))).0, Some(0));
}

#[test]
fn flows_of_the_time_before_all_were_tracked_are_at_risk_until_they_have_an_entry() {
    let service = |tracking: &str, ids| instance(&[(ids, json!({"tracking": tracking}))]);
    let first = published(&service("exceptions", backends(1..=5)));
    let live = plan_at(Some(&first), &service("all", backends(1..=5)), 200).as_live(2);
    let id = live.spec().services()[0].id.get();
    let found = ServiceSweep::new(1000, 0, SlotSet::default());
    let live = known(
        live.with_sweep(2, BTreeMap::from([(id, found)])),
        50.0,
        1000,
    );
    let told = |seconds| {
        let disruptive = Options {
            disruptive: true,
            ..Options::default()
        };
        let wanted = service("all", backends(1..=6));
        let plan = plan(Some(&live), &wanted, &world_at(seconds), disruptive).expect("confirmed");
        disruption(&plan)
    };
    // 6000 are live, and 1000 have sent a packet since.
    let early = told(250);
    assert_eq!(
        early.flows_at_risk,
        Some(up((6000.0 - 1000.0) * early.moved_ratio))
    );
    assert_eq!(told(200 + 122).flows_at_risk, Some(0));
}

#[test]
fn entries_of_flows_are_expected_for_as_long_as_flows_may_be_silent() {
    // Slots stay open for as long as connection IDs may be silent, which is longer.
    let quic = |ids| {
        let members = json!({"protocol": "udp", "quic": {"routing": "tuple"}, "cid_idle": "10m"});
        instance(&[(ids, members)])
    };
    let first = published(&quic(backends(1..=5)));
    let id = first.spec().services()[0].id;
    let live = known(
        plan_at(Some(&first.with_exact(id)), &quic(backends(1..=5)), 10).as_live(2),
        50.0,
        0,
    );
    let told = disruption(&plan_at(Some(&live), &quic(backends(1..=6)), 100));
    assert_eq!(told.window_seconds, 602);
    let share = f64::from(told.slots_open) / 4093.0;
    assert_eq!(told.entries_expected, up(share * (6000.0 + 50.0 * 122.0)));
}

#[test]
fn a_disruptive_change_puts_every_flow_at_risk() {
    let live = known(published(&spec(backends(1..=5))), 50.0, 0);
    let resized = instance(&[(backends(1..=5), json!({"maglev_table_size": 16381}))]);
    let seed = json!({"hash_seed": "000102030405060708090a0b0c0d0e0f"});
    let seeded = instance_with(&[(backends(1..=5), json!({}))], seed);
    let disruptive = Options {
        disruptive: true,
        ..Options::default()
    };
    for wanted in [resized, seeded] {
        let next = plan(Some(&live), &wanted, &world_at(100), disruptive).expect("confirmed");
        let told = disruption(&next);
        assert_eq!(
            (told.flows_moved, told.flows_at_risk),
            (Some(6000), Some(6000))
        );
    }
    // And so does the removal of the service.
    let other = instance(&[(backends(1..=5), json!({"name": "other"}))]);
    let next = plan_at(Some(&live), &other, 100);
    let gone = next.document().services[1].disruption;
    assert_eq!(
        (gone.flows_moved, gone.flows_at_risk),
        (Some(6000), Some(6000))
    );
}

#[test]
fn what_is_bound_to_a_backend_that_goes_is_lost() {
    let mut live = published(&spec(backends(1..=5)));
    let id = live.spec().services()[0].id.get();
    let without = spec(backends([1, 2, 4, 5]));
    let lost = |live: &Live| disruption(&plan_at(Some(live), &without, 100)).bindings_lost;
    assert_eq!(lost(&live), None, "nobody counted");
    // Rows are given in the order of ids: backend 3 has row 2.
    let rows = BTreeMap::from([(0, 5), (1, 7), (2, 11), (3, 13)]);
    live.flow_state_mut().service_mut(id).by_row = Some(rows);
    assert_eq!(lost(&live), Some(11));
    let other = instance(&[(backends(1..=5), json!({"name": "other"}))]);
    let next = plan_at(Some(&live), &other, 100);
    assert_eq!(
        next.document().services[1].disruption.bindings_lost,
        Some(36)
    );
}

#[test]
fn memory_that_the_machine_does_not_have_is_a_fault_with_what_would_fit() {
    let wanted = spec(backends(1..=2));
    let with = |mib: u64| {
        let mut world: World = world_at(1);
        world.available_memory_bytes = Some(mib << 20);
        plan(None, &wanted, &world, Options::default())
    };
    let memory = with(512).expect("a plan").document().capacity.memory_bytes;
    // 112 bytes for each of 2^20 flows, 120 for each of 2^18 connection IDs.
    assert_eq!(memory.affinity, 112 * 1_048_576 + 120 * 262_144);
    let faults = with(100).expect_err("too little");
    let fault = &faults.as_slice()[0];
    assert_eq!(
        (fault.pointer.as_str(), fault.code.as_str()),
        ("/limits/flows", "capacity")
    );
    let fit = ((100 << 20) - 120 * 262_144 - memory.generation) / 112;
    let needed = memory.generation + memory.affinity;
    assert_eq!(
        fault.message,
        format!(
            "bytes of memory: {needed} needed, the machine has 104857600; {fit} flows would fit"
        )
    );
    let fitting = json!({"limits": {"flows": fit}});
    let mut world = world_at(1);
    world.available_memory_bytes = Some(100 << 20);
    let fitting = instance_with(&[(backends(1..=2), json!({}))], fitting);
    plan(None, &fitting, &world, Options::default()).expect("it fits");

    // What is live has its memory already.
    let live = with(512).expect("a plan").as_live(1);
    world.available_memory_bytes = Some(1 << 20);
    plan(Some(&live), &wanted, &world, Options::default()).expect("a plan");

    let narrow = json!({"limits": {"memory_mib": 64}});
    let narrow = instance_with(&[(backends(1..=2), json!({}))], narrow);
    let faults = plan(None, &narrow, &world_at(1), Options::default()).expect_err("too little");
    let fault = &faults.as_slice()[0];
    assert_eq!(fault.pointer, "/limits/memory_mib");
    let fit = ((64 << 20) - 120 * 262_144 - 64 * 192 * 256) / 112;
    assert!(
        fault
            .message
            .ends_with(&format!("the limit is 67108864; {fit} flows would fit")),
        "{fault}"
    );

    // It is not always the flows that are too many.
    let message = |limits| {
        let wanted = instance_with(&[(backends(1..=2), json!({}))], json!({ "limits": limits }));
        let mut world = world_at(1);
        world.available_memory_bytes = Some(1 << 30);
        let faults = plan(None, &wanted, &world, Options::default()).expect_err("too much");
        faults.as_slice()[0].message.clone()
    };
    let narrow = message(json!({"memory_mib": 64, "flows": 4096, "cids": 16_777_216}));
    let fit = ((64 << 20) - 112 * 4096 - 64 * 192 * 256) / 120;
    assert!(
        narrow.ends_with(&format!("; {fit} cids would fit")),
        "{narrow}"
    );
    let vast = message(json!({"memory_mib": 1_048_576, "flows": 4096, "cids": 1024}));
    let generations = 1_048_576_u64 * 192 * 256;
    assert!(
        vast.ends_with(&format!(
            "; generations take {generations} of it, less with a smaller /limits/memory_mib"
        )),
        "{vast}"
    );
}
