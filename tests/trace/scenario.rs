// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Machines that have some of a specification's interfaces, or none.

use std::collections::BTreeSet;

use guideway::capture::Frame;
use guideway::id::InterfaceName;
use guideway::plan::{plan, Device, Options, World};
use guideway::quiclb::trace::{run, Reset, Scenario};
use guideway::quiclb::{Loader, QuicLb, StateRoot};
use serde_json::json;

use crate::build::*;
use crate::netns::isolated;
use crate::{example, parse};

fn device(name: &str, index: u32, last: u8) -> Device {
    let name = name.parse::<InterfaceName>().expect("a name");
    Device::new(name, index, Some([2, 0, 0, 0, 9, last].into()), 1500)
}

#[test]
fn stand_ins_take_the_place_of_what_is_missing() {
    let spec = parse(&example());
    let world = World::new(
        vec![device("lo", 1, 1), device("vm-edge-a", 3, 2)],
        vec![],
        0,
    );
    let scenario = Scenario::new(None, &spec, &world, Options::default()).expect("a plan");
    let names: Vec<_> = scenario
        .stand_ins()
        .iter()
        .map(InterfaceName::as_str)
        .collect();
    assert_eq!(names, ["edge0", "vm-edge-b"]);
    let rows = &scenario.plan().generation().services[0].rows;
    let indices: Vec<_> = rows
        .iter()
        .flatten()
        .map(|backend| backend.ifindex)
        .collect();
    assert_eq!(indices[0], 3, "the interface that exists");
    assert!(![0, 1, 3].contains(&indices[1]), "{indices:?}");
    assert_eq!(scenario.plan().document().ifindex, Some(2));
}

#[test]
fn every_interface_has_its_own_index_whatever_the_others_are() {
    let mut spec = example();
    let backends: Vec<_> = (1..=256_u32)
        .map(|id| {
            json!({"id": id, "interface": format!("vm{id}"),
                   "mac": format!("02:00:00:00:{:02x}:{:02x}", id >> 8, id & 0xff)})
        })
        .collect();
    spec["services"][0]["backends"] = json!(backends);
    spec["services"][0]["maglev_table_size"] = json!(65_537);
    spec["source_mac"] = json!("interface");
    let world = World::new(
        vec![device("vm7", 5, 7), device("vm8", u32::MAX, 8)],
        vec![],
        0,
    );
    let scenario = Scenario::new(None, &parse(&spec), &world, Options::default()).expect("a plan");
    assert_eq!(scenario.stand_ins().len(), 255); // with edge0, without two
    let rows = &scenario.plan().generation().services[0].rows;
    let indices: BTreeSet<_> = rows
        .iter()
        .flatten()
        .map(|backend| backend.ifindex)
        .collect();
    assert_eq!(indices.len(), 256);
    let own: BTreeSet<_> = rows
        .iter()
        .flatten()
        .map(|backend| backend.source_mac)
        .collect();
    assert_eq!(own.len(), 256);
}

#[test]
fn a_plan_that_cannot_be_made_names_its_faults() {
    let mut spec = example();
    spec["mode"] = json!("offload");
    let world = World::offline();
    let faults = Scenario::new(None, &parse(&spec), &world, Options::default());
    let faults = faults.expect_err("a card has no events");
    let pointers: Vec<_> = faults.into_iter().map(|fault| fault.pointer).collect();
    assert_eq!(pointers[0], "/events_per_second");
}

/// The addresses of an interface that exists are written, and nothing was made up.
#[test]
fn a_machine_with_all_interfaces_needs_no_stand_ins() {
    isolated("trace::scenario", || {
        let mut spec = example();
        spec["source_mac"] = json!("interface");
        let devices = vec![
            device("edge0", 2, 1),
            device("vm-edge-a", 3, 2),
            device("vm-edge-b", 4, 3),
        ];
        let world = World::new(devices, vec![], 0);
        let plan = plan(None, &parse(&spec), &world, Options::default()).expect("a plan");
        let frame = ipv4(UDP, &udp(50000, 443, &[0x40; 20]));
        let document = run(&plan.into(), [Frame::new(0, frame)], Reset::Never).expect("a trace");
        assert_eq!(document.notes, Vec::<String>::new());
        let document = serde_json::to_value(&document).expect("JSON");
        // Backend 2, by the published hash of this flow. Before: 02:00:00:00:00:01 and ...:02.
        assert_eq!(
            document["packets"][0]["output"]["changed"],
            json!([{"offset": 4, "from": "0001", "to": "0102"},
                   {"offset": 10, "from": "0002", "to": "0903"}])
        );
    });
}

/// A plan made offline names no interface: frames go to where there is none.
#[test]
fn a_plan_made_offline_can_be_traced() {
    isolated("trace::offline", || {
        let spec = parse(&example());
        let plan = plan(None, &spec, &World::offline(), Options::default()).expect("a plan");
        let frame = ipv4(UDP, &udp(50000, 443, &[0x40; 20]));
        let document = run(&plan.into(), [Frame::new(0, frame)], Reset::Never).expect("a trace");
        let packet = serde_json::to_value(&document.packets[0]).expect("JSON");
        assert_eq!(
            (&packet["verdict"], &packet["backend"]["id"]),
            (&json!("redirect"), &json!(2))
        );
        assert_eq!(
            document.notes,
            ["the plan was made offline: no source addresses are written"]
        );
    });
}

/// Nothing is pinned, and the interfaces of this machine stay as they are.
#[test]
fn a_trace_leaves_nothing_behind() {
    isolated("trace::traces", || {
        let (edge, _) = crate::netns::veth("edge0", "edge1");
        let around = || {
            let pins = std::fs::read_dir(crate::netns::BPFFS).expect("a bpffs");
            let mut pins: Vec<_> = pins.map(|pin| pin.expect("an entry").path()).collect();
            pins.sort();
            let links = crate::netns::ip(&["-json", "-details", "link", "show"]);
            let links: Vec<serde_json::Value> = serde_json::from_str(&links).expect("JSON");
            // Not the carrier, which comes up some time after the interface.
            let members = ["ifindex", "ifname", "address", "mtu", "xdp", "master"];
            let links = links
                .iter()
                .map(|link| members.map(|name| link[name].clone()));
            (links.collect::<Vec<_>>(), pins)
        };
        let before = around();
        let world = guideway::quiclb::observe().expect("a world");
        let spec = parse(&example());
        let scenario = Scenario::new(None, &spec, &world, Options::default()).expect("a plan");
        assert_eq!(scenario.plan().document().ifindex, Some(edge));
        let frame = ipv4(UDP, &udp(50000, 443, &[0x40; 20]));
        let document = run(&scenario, [Frame::new(0, frame)], Reset::Never).expect("a trace");
        assert_eq!(document.summary.redirect, 1);
        assert_eq!(around(), before);
    });
}

/// Rows are those of the live generation, not those of a first one.
#[test]
fn the_generation_of_a_live_instance_is_traced() {
    isolated("trace::live", || {
        let names = ["edge0", "vm-edge-a", "vm-edge-b"];
        let devices = names
            .iter()
            .zip(20..)
            .map(|(name, index)| device(name, index, 1));
        let world = World::new(devices.collect(), vec![], 1);
        let spec = |ids: [u32; 2]| {
            let mut spec = example();
            for (place, id) in ids.into_iter().enumerate() {
                spec["services"][0]["backends"][place]["id"] = json!(id);
                spec["services"][0]["backends"][place]["interface"] = json!("edge0");
            }
            parse(&spec)
        };
        let dir = StateRoot::new(crate::netns::BPFFS).quiclb(spec([1, 2]).instance_id());
        let mut writer = Loader::new(&dir, spec([1, 2]).limits())
            .load()
            .expect("an instance");
        for ids in [[1, 2], [2, 3]] {
            let live = writer.live_record().expect("readable");
            let plan = plan(live.as_ref(), &spec(ids), &world, Options::default());
            writer.publish(&plan.expect("a plan")).expect("published");
        }
        drop(writer);
        let live = QuicLb::open(&dir)
            .expect("an instance")
            .live_record()
            .expect("readable");
        let live = live.expect("a generation");
        let options = Options::default();
        let scenario = Scenario::new(Some(&live), live.spec(), &world, options).expect("a plan");

        // Many clients, so that both backends get some.
        let frames =
            (0..64).map(|i| Frame::new(i, ipv4(UDP, &udp(5_000 + i as u16, 443, &[0x40; 20]))));
        let document = run(&scenario, frames, Reset::Never).expect("a trace");
        let backends = document
            .packets
            .iter()
            .filter_map(|packet| packet.backend.as_ref());
        let rows: BTreeSet<_> = backends.map(|backend| (backend.id, backend.row)).collect();
        // 2 stays in the second row; the first one's backend is gone, and 3 takes one that was
        // never used before.
        assert_eq!(rows, BTreeSet::from([(2, 1), (3, 2)]));
    });
}
