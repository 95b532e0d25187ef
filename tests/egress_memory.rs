// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the maps of the egress datapath take of the kernel's memory, and what is said before.

#[path = "common/netns.rs"]
mod netns;

use std::collections::BTreeMap;

use bytemuck::bytes_of;
use guideway::abi;
use guideway::egress_spec::{Memory, Spec};
use guideway::group::Limits;
use guideway::kernel::egress_object::{Options, Sizes};
use guideway::kernel::map::{Map, Update};
use guideway::kernel::probe;
use guideway::pin::Holder;
use guideway::route::{Key, Prefix, Route, TableId, Target};
use guideway::srv6::Argument;
use guideway::tenant::Tenant;
use netns::isolated;

const MIB: u64 = 1 << 20;

fn memory(limits: serde_json::Value, cpus: u32) -> Memory {
    let document = serde_json::json!({
        "schema": "guideway.egress.spec/v1",
        "node_sid": "2001:db8:ff01:1:e000::",
        "limits": limits,
        "classes": [],
        "tenants": [],
    });
    let spec = Spec::from_json(document.to_string().as_bytes());
    spec.expect("a specification").limits().memory(cpus)
}

/// Against what was measured and worked out once.
#[test]
fn the_prediction_is_that_of_the_design() {
    let default = memory(serde_json::json!({}), 2);
    // Preallocated hash tables: 16 for the bucket, 48 for the header, key and value.
    assert_eq!(default.pins, 65_536 * (16 + 48 + 24 + 16));
    // Its 64 pages, two pointers to each, and three pages of its own.
    assert_eq!(default.ring, 262_144 + 64 * 2 * 8 + 3 * 4096);
    // 6,272 bytes of a snapshot of 64 members and 1,021 slots, and 312 of its map.
    assert_eq!(default.groups, 312 + 8 * (8 + 6_272 + 312));
    let more = memory(
        serde_json::json!({"members": 256, "table_size": 4093, "groups": 1}),
        2,
    );
    assert_eq!(more.groups, 312 + 8 + 24_704 + 312);
    let flows = memory(serde_json::json!({"flow_pins": 65_536}), 2);
    assert_eq!(flows.flow_pins, 65_536 * (16 + 48 + 48 + 16));
    // 16 bytes of each slot on each CPU.
    let more_cpus = memory(serde_json::json!({}), 3);
    assert_eq!(more_cpus.counters - default.counters, 8 * 64 * 16 + 128 * 8);
    assert!(default.total() < 24 * MIB, "{default:?}");
}

fn fill(map: &Map, rows: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> u64 {
    for (key, value) in rows {
        map.update(&key, &value, Update::Insert).expect("room");
    }
    map.memory_bytes().expect("accounted")
}

#[test]
fn full_maps_take_what_was_said() {
    // The kernel said something else of its maps before.
    if !probe::release().at_least(6, 4) {
        return;
    }
    isolated("egress_memory::full", || {
        let mut object = Options::default()
            .load()
            .unwrap_or_else(|error| panic!("{error}"));
        let argument = Argument::new(1).expect("an Argument");
        let tenant = |number| Tenant::new(TableId::new(number), argument);
        let tenants = (1..=16_384_u32).map(|number| {
            let row = tenant(number).to_row(number);
            (number.to_ne_bytes().to_vec(), bytes_of(&row).to_vec())
        });
        let uses = (1..=16_384_u32).map(|number| {
            let row = abi::PinUse::default();
            (number.to_ne_bytes().to_vec(), bytes_of(&row).to_vec())
        });
        let routes = (0..32_768_u32).map(|number| {
            let address = std::net::Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number));
            let prefix = Prefix::new(address.into(), 128).expect("a prefix");
            let key = Key::new(TableId::new(number % 8192), prefix).to_row();
            let row = Route::new(Target::Pass).to_row();
            (bytes_of(&key).to_vec(), bytes_of(&row).to_vec())
        });
        let pins = (0..65_536_u32).map(|number| {
            let holder = Holder {
                table: TableId::new(number % 100),
                group: guideway::group::GroupId::new(0).expect("a group"),
                source: std::net::Ipv4Addr::from(number).into(),
                flow: None,
            };
            let row = abi::Pin::default();
            (
                bytes_of(&holder.source_key()).to_vec(),
                bytes_of(&row).to_vec(),
            )
        });

        let mut taken = BTreeMap::new();
        let mut measure = |name: &'static str, rows: Box<dyn Iterator<Item = _>>| {
            let map = object.take_map(name).expect("a map");
            taken.insert(name, fill(&map, rows));
        };
        measure("gw_tenants", Box::new(tenants));
        measure("gw_pin_use", Box::new(uses));
        measure("gw_routes", Box::new(routes));
        measure("gw_pins", Box::new(pins));
        for name in [
            "gw_flow_pins",
            "gw_groups",
            "gw_eg_config",
            "gw_shardstat",
            "gw_eg_stat",
            "gw_eg_events",
            "gw_eg_bucket",
            "gw_eg_scratch",
        ] {
            measure(name, Box::new(std::iter::empty()));
        }
        let snapshot = Map::create(&Sizes::default().snapshot_shape(), None).expect("create");
        let snapshots = 8 * snapshot.memory_bytes().expect("accounted");

        let cpus = probe::possible_cpus().expect("a number") as u32;
        let said = memory(serde_json::json!({}), cpus);
        let of = |names: &[&str]| names.iter().map(|name| taken[name]).sum::<u64>();
        println!("{taken:?}, {snapshots} of snapshots; {said:?}");
        for (said, taken, what) in [
            (said.tenants, of(&["gw_tenants", "gw_pin_use"]), "tenants"),
            (said.routes, of(&["gw_routes"]), "routes"),
            (said.groups, of(&["gw_groups"]) + snapshots, "groups"),
            (said.pins, of(&["gw_pins"]), "pins"),
            (said.ring, of(&["gw_eg_events"]), "ring"),
            (
                said.counters,
                of(&["gw_shardstat", "gw_eg_stat"]),
                "counters",
            ),
        ] {
            let off = said.abs_diff(taken) as f64 / taken as f64;
            assert!(off < 0.03, "{what}: {taken} bytes, not {said}");
        }
        let all = taken.values().sum::<u64>() + snapshots;
        assert!(all <= 24 * MIB, "{all}");
        // All but what an empty table has.
        assert!(
            all.abs_diff(said.total()) < all / 50,
            "{all}, not {}",
            said.total()
        );
        assert_eq!(Limits::default().snapshot_bytes(), 6272);
    });
}
