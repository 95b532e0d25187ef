// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flows that end: by what their packets say, and with the backend that they are at.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use guideway::hash::slot;
use guideway::quiclb::{Collector, Options, Spec, Writer};
use serde_json::{json, Value};

use crate::harness::*;
use crate::netns::isolated;

const CONNECTIONS: u16 = 400;

fn services(document: Value) -> Spec {
    spec(&[document])
}

/// Connections that begin at the first backend, with entries there: their slots have moved on.
fn moved_on(client: &Client, document: impl Fn(&[u16]) -> Value) -> Vec<u16> {
    publish(&services(document(&[100, 1, 1, 1])));
    let numbers = 0..CONNECTIONS;
    let at_first: Vec<_> = numbers
        .filter(|&number| client.begin(number) == 1)
        .collect();
    publish(&services(document(&[1, 100, 100, 100])));
    for &number in &at_first {
        assert_eq!(client.go_on(number), 1, "connection {number}");
    }
    at_first
}

/// Four minutes and two sweeps after its last packet a flow is forgotten that looks closed, while
/// others may be silent for as long as their service says.
#[test]
fn a_closed_flow_leaves_four_minutes_and_two_sweeps_later() {
    isolated("collector::closed", || {
        interfaces();
        let document = |weights: &[u16]| {
            let mut document = service("tcp", "tcp", 443, weights);
            document["flow_idle"] = json!("2h4m");
            document
        };
        publish(&services(document(&[1])));
        let client = Client::new(443);
        let numbers = moved_on(&client, document);
        let before = now();
        let (reset, finished, open) = (numbers[0], numbers[1], numbers[2]);
        client.reset(reset);
        client.finish(finished);
        // It has not ended: whoever sends data goes on.
        client.reset(open);
        client.go_on_with_data(open);
        let after = now();
        let entries = used() as u64;
        let mut collector = Collector::new(&dir(), eager());
        let mut sweep = |now_ns: u64| {
            let stepped = collector.step(now_ns).expect("a step");
            let sweep = stepped.sweep.expect("a sweep");
            (sweep.expiring, sweep.deleted.closed, sweep.live)
        };
        assert_eq!(sweep(before + 240 * SECOND), (0, 0, entries));
        let over = after + 242 * SECOND;
        let (expiring, deleted, _) = sweep(over);
        assert_eq!((expiring, deleted), (2, 0));
        let (expiring, deleted, live) = sweep(over + SECOND);
        assert_eq!((expiring, deleted, live), (0, 2, entries - 2));
        assert_eq!(counter("deleted_closed"), 2);
        let flows = flows();
        for (number, there) in [(reset, false), (finished, false), (open, true)] {
            let (key, _) = entry(&services(document(&[1])), 0, number, (0, 1), 0);
            let found = flows.get(&key).expect("readable");
            assert_eq!(found.is_some(), there, "connection {number}");
        }
    });
}

/// A backend is removed, and another gets its row: entries name who was there.
#[test]
fn flows_of_a_removed_backend_never_reach_who_gets_its_row() {
    isolated("collector::rows", || {
        interfaces();
        let with = |ids: &mut dyn Iterator<Item = (u32, u16)>| {
            let mut document = service("tcp", "tcp", 443, &[]);
            document["maglev_table_size"] = json!(4093);
            document["backends"] = ids
                .map(|(id, weight)| {
                    json!({"id": id, "interface": TARGET, "weight": weight,
                           "mac": format!("02:00:00:00:00:{:02x}", id % 256)})
                })
                .collect();
            document
        };
        let few = |weights: &[u16]| with(&mut (1..).zip(weights.iter().copied()));
        publish(&services(few(&[1])));
        let client = Client::new(443);
        let numbers = moved_on(&client, few);
        let row = placed(&services(few(&[1, 100, 100, 100])), 0)[0].0;
        let mut bound = 0;
        let count = |_: &_, entry: &guideway::abi::Binding| {
            bound += u64::from(entry.row == row);
            ControlFlow::Continue(())
        };
        flows().for_each(count).expect("readable");
        assert!(bound > 300, "{bound} entries");

        // Every row is needed, so that of the first backend is given away at once.
        let many = services(with(&mut (2..258).map(|id| (id, 1))));
        publish(&many);
        let writer = Writer::open(&dir()).expect("an instance");
        let plan = writer.plan(&many, Options::default()).expect("a plan");
        drop(writer);
        let placed = &plan.generation().services[0];
        let heir = placed
            .backend(row)
            .expect("somebody is in its row")
            .id
            .get();
        let owner = |number: u16| {
            let (_, value) = entry(&many, 0, number, (0, 1), 0);
            let word = placed.slots[slot(value.hash, placed.slots.len() as u32) as usize];
            placed.backend(word.owner).expect("an owner").id.get()
        };
        let mut went = BTreeMap::new();
        for &number in &numbers {
            let backend = u32::from(client.go_on(number));
            assert_eq!(backend, owner(number) % 256, "connection {number}");
            *went.entry(backend).or_insert(0) += 1;
        }
        // Only the table may have sent one there.
        let by_table = numbers.iter().filter(|&&number| owner(number) == heir);
        assert_eq!(
            went.get(&(heir % 256)).copied().unwrap_or(0),
            by_table.count()
        );
        assert_eq!(counter("reselected"), bound);
    });
}
