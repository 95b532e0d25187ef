// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Nodes of a fleet share a specification's services, ids, weights and seed, and nothing else.

use guideway::abi;
use guideway::affinity::state::State;
use guideway::oracle::{route, Verdict};
use guideway::plan::{plan, Device, Generation, Options, PlacedBackend, World};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::frames;
use crate::marks;
use crate::pool::Pool;
use crate::random::Random;
use crate::specs::{INGRESS, TARGETS};

const NOW_NS: u64 = 1_000_000_000_000;

fn world(first: u32, names: &[&str]) -> World {
    let indices = first..;
    let devices = names.iter().zip(indices).map(|(name, index)| {
        let mac = [2, 0xcc, 0, 0, 0, index as u8];
        Device::new(name.parse().unwrap(), index, Some(mac.into()), 1500)
    });
    World::new(devices.collect(), vec![], 1_000_000_000)
}

/// The same services with other interfaces and link-layer addresses, backends in another order.
fn elsewhere(document: &Value) -> Value {
    let mut other = document.clone();
    other["interface"] = json!("uplink");
    other["source_mac"] = json!("interface");
    for service in other["services"].as_array_mut().unwrap() {
        let backends = service["backends"].as_array_mut().unwrap();
        backends.reverse();
        for (i, backend) in backends.iter_mut().enumerate() {
            backend["interface"] = json!(["left", "uplink", "right"][i % 3]);
            backend["mac"] = json!(format!("02:00:00:00:77:{i:02x}"));
        }
    }
    other
}

/// Puts the marks of one node's slots on another's; before rows are moved both have the same.
fn mark_alike(generation: &mut Generation, marked: &Generation) {
    for (service, marked) in generation.services.iter_mut().zip(&marked.services) {
        let ids = |rows: &[Option<PlacedBackend>]| -> Vec<_> {
            let ids = rows
                .iter()
                .map(|row| row.as_ref().map(|backend| backend.id));
            ids.collect()
        };
        assert_eq!(ids(&service.rows), ids(&marked.rows));
        service.slots = marked.slots.clone();
        service.exact = marked.exact;
        service.grace_until_ns = marked.grace_until_ns;
    }
}

/// Moves every backend to another row, as after a history of additions and removals.
fn shuffle_rows(generation: &mut Generation) {
    for service in &mut generation.services {
        let rows = service.rows.len() as u16 + 3;
        // Above all rows are none, and the kinds of slots.
        let moved = |row: u16| if row < rows { rows - 1 - row } else { row };
        let mut backends = vec![None; usize::from(rows)];
        for mut backend in service.rows.drain(..).flatten() {
            backend.row = moved(backend.row);
            let row = usize::from(backend.row);
            backends[row] = Some(backend);
        }
        service.rows = backends;
        for known in &mut service.server_ids {
            known.row = known.row.map(moved);
        }
        let slots = service.slots.iter().map(|slot| abi::Slot {
            owner: moved(slot.owner),
            base: moved(slot.base),
        });
        service.slots = slots.collect();
    }
}

/// What nodes must agree about.
fn shared(verdict: Verdict) -> impl PartialEq + std::fmt::Debug {
    (
        (verdict.reason, verdict.rule, verdict.service),
        verdict.backend.map(|(id, _)| id),
        (verdict.hash, verdict.slot, verdict.flow_start),
        verdict.created,
        verdict.counters,
    )
}

#[test]
fn nodes_with_one_specification_place_alike() {
    let names: Vec<_> = [INGRESS].into_iter().chain(TARGETS).collect();
    let here = world(3, &names);
    let there = world(90, &["left", "right", "uplink"]);
    let mut random = Random::new(0x6e6f_6465_7300);
    let mut forwarded = 0;
    for _ in 0..60 {
        let (document, one) = marks::generation(&mut random, &here, NOW_NS);
        let spec = Spec::from_json(elsewhere(&document).to_string().as_bytes()).unwrap();
        let plan = plan(None, &spec, &there, Options::default()).unwrap();
        let mut other = plan.generation().clone();
        for (service, original) in other.services.iter_mut().zip(&one.services) {
            let gone = original
                .server_ids
                .iter()
                .filter(|known| known.row.is_none());
            service.server_ids.extend(gone.cloned());
        }
        mark_alike(&mut other, &one);
        shuffle_rows(&mut other);
        let pool = Pool::new(&mut random, &one);
        let mut states = [State::default(), State::default()];
        for _ in 0..200 {
            let frame = frames::frame(&mut random, &one, &pool);
            let verdict = route(&one, &mut states[0], &frame, |_| true);
            forwarded += usize::from(verdict.rule.is_some());
            let elsewhere = route(&other, &mut states[1], &frame, |_| true);
            assert_eq!(
                shared(verdict),
                shared(elsewhere),
                "{frame:02x?}\n{document}"
            );
        }
    }
    assert!(forwarded > 2_000, "only {forwarded} frames were forwarded");
}
