// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A flood while the table has just changed, and somebody who collects: newcomers are refused where
//! the reserve begins, flows that the change concerns are not, and every refusal is counted.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use guideway::abi;
use guideway::hash::slot;
use guideway::kernel::map::Update;
use guideway::quiclb::{Collector, Options, QuicLb, Spec, Writer};

use crate::harness::*;
use crate::netns::isolated;

/// Entries of the table of flows, and the numbers above which levels rise: 90 and 99 percent.
const ENTRIES: u16 = 4096;
const HIGH: u16 = 3686;
const FULL: u16 = 4055;
/// The number below which they fall: 85 percent, rounded up.
const LOW: u16 = 3482;

const QUIET: usize = 1500;
const LATE: usize = 600;
/// Packets of each part of the flood that is refused.
const FLOOD: usize = 2 * ENTRIES as usize;

/// Who has had the slots, and who has them.
const BASE: u8 = 1;
const OWNER: u8 = 2;

fn services(weights: &[u16]) -> Spec {
    let mut document = service("tcp", "tcp", 443, weights);
    document["flow_idle"] = "600s".into();
    spec(&[document])
}

/// Connections in slots that change from the first backend to the second.
fn in_open_slots(spec: &Spec) -> Vec<u16> {
    let writer = Writer::open(&dir()).expect("an instance");
    let plan = writer.plan(spec, Options::default()).expect("a plan");
    let placed = &plan.generation().services[0];
    let row = |id: u8| {
        let mut rows = placed.rows.iter().flatten();
        rows.find(|row| row.id.get() == u32::from(id))
            .expect("a row")
            .row
    };
    let changed = (row(OWNER), row(BASE));
    let all = 0..u16::MAX - 1024;
    let is_changed = |number: &u16| {
        let (_, value) = entry(spec, 0, *number, (0, 1), 0);
        let word = placed.slots[slot(value.hash, placed.slots.len() as u32) as usize];
        (word.owner, word.base) == changed
    };
    all.filter(is_changed).collect()
}

/// The counters of the service.
fn counters() -> BTreeMap<&'static str, u64> {
    let stats = QuicLb::open(&dir()).expect("open").stats();
    let services = &mut stats.expect("counters").services;
    std::mem::take(&mut services[0].counters)
}

/// What has grown since `before`, of entries and of refusals.
fn grown(before: &BTreeMap<&'static str, u64>) -> [u64; 4] {
    let after = counters();
    [
        "start_inserted",
        "base_inserted",
        "refused_high",
        "refused_full",
    ]
    .map(|name| after[name] - before[name])
}

/// Lets all connections but these have had a packet at this time.
fn all_but(silent: &[u16], seen_ns: u64) {
    let flows = flows();
    let mut live = Vec::new();
    flows
        .for_each(|key, value| {
            if !silent.contains(&(u16::from_be(key.client_port) - 1024)) {
                live.push((*key, abi::Binding { seen_ns, ..*value }));
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    for (key, value) in live {
        flows.update(&key, &value, Update::Replace).expect("there");
    }
}

#[test]
fn a_flood_takes_what_is_no_reserve_and_no_connection() {
    isolated("collector::flooded", || {
        interfaces();
        publish(&services(&[100, 1]));
        let client = Client::new(443);
        let changed = services(&[1, 100]);
        let numbers = in_open_slots(&changed);
        let (quiet, rest) = numbers.split_at(QUIET);
        let (late, newcomers) = rest.split_at(LATE);
        let mut newcomers = newcomers.iter().copied();
        for &number in quiet.iter().chain(late) {
            assert_eq!(client.begin(number), BASE);
        }
        publish(&changed);
        let mut collector = Collector::new(&dir(), eager());
        let mut level_behind = |now_ns: u64| {
            let stepped = collector.step(now_ns).expect("a step");
            assert_eq!(stepped.problem, None);
            // The window is over by then, but flows were refused.
            assert_eq!(stepped.followed, None);
            levels().get(0).expect("levels").flows
        };
        let go_on = |numbers: &[u16]| {
            for &number in numbers {
                assert_eq!(client.go_on(number), BASE, "connection {number}");
            }
        };
        let mut begin = |count: usize, backend: u8| {
            let mut first = Vec::new();
            for _ in 0..count {
                let number = newcomers.next().expect("enough numbers");
                assert_eq!(client.begin(number), backend, "connection {number}");
                first.push(number);
            }
            first
        };

        // Up to the reserve everybody is admitted.
        let before = counters();
        go_on(quiet);
        let room = usize::from(HIGH) - QUIET;
        let mut flood = begin(room, OWNER);
        assert_eq!(grown(&before), [room as u64, QUIET as u64, 0, 0]);
        assert_eq!(level_behind(now()), 0);
        flood.extend(begin(1, OWNER));
        assert_eq!(level_behind(now()), 1);

        // In the reserve newcomers are not; they go where their later packets will.
        let before = counters();
        begin(FLOOD, BASE);
        assert_eq!(grown(&before), [0, 0, FLOOD as u64, 0]);
        // Flows of changed slots are, up to 99 percent.
        let admitted = usize::from(FULL - HIGH);
        go_on(&late[..admitted]);
        assert_eq!(grown(&before), [0, admitted as u64, FLOOD as u64, 0]);
        assert_eq!(used(), usize::from(FULL) + 1);
        assert_eq!(level_behind(now()), 2);

        // Behind that nobody is, and nobody is where he was not.
        let before = counters();
        begin(FLOOD, BASE);
        go_on(&late[admitted..]);
        let refused = (FLOOD + LATE - admitted) as u64;
        assert_eq!(grown(&before), [0, 0, 0, refused]);
        assert_eq!(used(), usize::from(FULL) + 1);
        go_on(quiet);
        go_on(late);

        // As flows of the flood end, nothing changes down to 85 percent.
        let before = counters();
        let ended = usize::from(FULL + 1 - LOW);
        let mut forget = |ended: usize, time: u64| {
            all_but(&flood[..ended], time);
            // Marked, deleted, and counted.
            [0; 3].map(|_| level_behind(time))
        };
        assert_eq!(forget(ended, now() + 700 * SECOND), [2; 3]);
        assert_eq!(used(), usize::from(LOW));
        begin(100, BASE);
        assert_eq!(grown(&before), [0, 0, 0, 100]);
        // One less, and everybody is admitted again.
        assert_eq!(forget(ended + 1, now() + 1400 * SECOND)[2], 0);
        assert_eq!(used(), usize::from(LOW) - 1);
        begin(100, OWNER);
        go_on(late);
        let returned = (LATE - admitted) as u64;
        assert_eq!(grown(&before), [100, returned, 0, 100]);
        go_on(quiet);
        for &number in &flood[ended + 1..] {
            assert_eq!(client.go_on(number), OWNER);
        }
    });
}
