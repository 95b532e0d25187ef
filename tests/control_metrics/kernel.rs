// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is read from the maps of an instance that packets went through.

use std::collections::BTreeMap;

use guideway::abi;
use guideway::control::metrics::{GroupReading, Reading};
use guideway::control::Mode;
use guideway::egress::pins::Tick;
use guideway::egress::Egress;
use guideway::group::{Class, GroupId};
use guideway::kernel::map::{Map, Update};
use guideway::kernel::statedir::Section;
use guideway::placement::{place, HashKey, HashTable, Scope, Shard};
use guideway::tenant::PinQuota;

use crate::groups::{counters, exported};
use crate::netns::{isolated, veth};
use crate::support::*;

fn read(egress: &Egress) -> BTreeMap<String, f64> {
    let reading = Reading::of(egress, Tick::now()).expect("readable");
    exported(&counters(Mode::Hashed), &reading)
}

const SID: &str = "2001:db8:ff09:10:e000::";

#[test]
fn packets_move_the_numbers() {
    isolated("control_metrics::packets", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        let scraper = open();
        let before = read(&scraper);
        assert_eq!(before["pins_capacity{kind=\"source\"}"], 65_536.0);
        for number in 1..=30 {
            let source = format!("2001:db8::{number:x}");
            assert_eq!(
                shard_of(&writer, inside, &source, "2001:db8:1::1"),
                Some(0x10)
            );
        }
        let source = "2001:db8::1";
        assert_eq!(
            shard_of(&writer, inside, source, "2001:db8:1::1"),
            Some(0x10)
        );
        // No route of the tenant's leads there, and this one leads nowhere at all.
        let stranger = run(&writer, 1, source, "2001:db8:1::1");
        assert_eq!(stranger.action, PASSED);
        publish(&mut writer, Class::Nat66, &[]);
        assert_eq!(shard_of(&writer, inside, source, "2001:db8:1::1"), None);
        let after = read(&scraper);
        let rise = |series: &str| after[series] - before[series];
        assert_eq!(rise("packets_total{outcome=\"group\"}"), 31.0);
        assert_eq!(rise("skips_total{reason=\"no_tenant\"}"), 1.0);
        assert_eq!(rise("drops_total{reason=\"group_empty\"}"), 1.0);
        assert_eq!(rise("shard_selections_total{result=\"group_empty\"}"), 1.0);
        assert_eq!(rise("shard_selections_total{result=\"maglev\"}"), 30.0);
        assert_eq!(rise("shard_selections_total{result=\"pin_hit\"}"), 1.0);
        assert_eq!(rise("pin_operations_total{result=\"created\"}"), 30.0);
        assert_eq!(rise("pins{kind=\"source\"}"), 30.0);
        assert_eq!(rise("pool_members{class=\"nat66\",state=\"active\"}"), -1.0);
        // The shard is gone, and with it its series.
        let series = format!("shard_packets_total{{class=\"nat66\",shard_sid={SID:?}}}");
        assert_eq!(before[&series], 0.0);
        assert!(!after.contains_key(&series));
    });
}

#[test]
fn counters_go_on_over_a_restart_and_a_slot_that_is_used_again() {
    isolated("control_metrics::restart", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        let send = |egress: &Egress, first: u32, count: u32| {
            for number in first..first + count {
                let source = format!("2001:db8::{number:x}");
                assert!(shard_of(egress, inside, &source, "2001:db8:1::1").is_some());
            }
        };
        let packets = |of: &str| {
            let series = format!("shard_packets_total{{class=\"nat66\",shard_sid={of:?}}}");
            read(&open()).get(&series).copied()
        };
        send(&writer, 1, 12);
        assert_eq!(packets(SID), Some(12.0));
        drop(writer);
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        assert_eq!(packets(SID), Some(12.0));
        // Its slot goes to another shard, which has done nothing yet.
        publish(&mut writer, Class::Nat66, &[]);
        publish(&mut writer, Class::Nat66, &[0x12]);
        assert_eq!(packets(SID), None);
        assert_eq!(packets("2001:db8:ff09:12:e000::"), Some(0.0));
        send(&writer, 100, 5);
        assert_eq!(packets("2001:db8:ff09:12:e000::"), Some(5.0));
    });
}

/// Every pin of an address that the table would send elsewhere is at risk, and no other.
#[test]
fn pins_against_the_table_are_at_risk() {
    isolated("control_metrics::at_risk", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        let source = |number: u32| format!("2001:db8::{number:x}");
        for number in 1..=200 {
            assert!(shard_of(&writer, inside, &source(number), "2001:db8:1::1").is_some());
        }
        let series = "pins_at_risk{class=\"nat66\"}";
        assert_eq!(read(&open())[series], 0.0);
        publish(&mut writer, Class::Nat66, &[0x10, 0x11, 0x12]);
        // By the placement alone: who moves from two shards to three.
        let shards = [0x10, 0x11, 0x12].map(|number| Shard::new(sid(number)));
        let size = writer.limits().groups().table_size();
        let scope = Scope::of(HashTable(7));
        let moving = (1..=200).filter(|number| {
            let key = HashKey::source(scope, source(*number).parse().expect("an address"));
            let of = |shards: &[Shard]| place(size, shards, &key).expect("a shard").shard;
            of(&shards[..2]) != of(&shards)
        });
        let moving = moving.count();
        assert!(moving > 20, "{moving}");
        assert_eq!(read(&open())[series], moving as f64);
        // All of them are held, whatever the table says.
        publish(&mut writer, Class::Nat66, &[0x12]);
        let stale = read(&open());
        assert_eq!(
            stale[series], 0.0,
            "pins of members that are gone hold nobody"
        );
        assert_eq!(stale["pins{kind=\"source\"}"], 200.0);
    });
}

#[test]
fn a_tenant_with_all_of_its_pins_is_counted() {
    isolated("control_metrics::quota", || {
        let (one, _) = veth("gw-tenant", "gw-inside");
        let (two, _) = veth("gw-other", "gw-inside2");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        for (ifindex, table, quota) in [(one, 7, 4), (two, 8, 5)] {
            let mut tenant = tenant(table);
            tenant.pin_quota = PinQuota(quota);
            let guard = writer.write_routes(PATIENCE).expect("free");
            let ticket = guard.ticket(Class::Nat66).expect("open");
            let to = guideway::egress::To::Group(&ticket);
            guard
                .install(&tenant, &[(prefix("::/0"), to)])
                .expect("room");
            guard.add_interface(ifindex, &tenant).expect("room");
            guard.verify().expect("written");
        }
        let count = || {
            let numbers = read(&open());
            (
                numbers["tenants_at_quota"],
                numbers["pin_refused_total{cause=\"quota\"}"],
            )
        };
        assert_eq!(count(), (0.0, 0.0));
        for ifindex in [one, two] {
            for number in 1..=5 {
                let source = format!("2001:db8::{number:x}");
                assert!(shard_of(&writer, ifindex, &source, "2001:db8:1::1").is_some());
            }
        }
        // The first has 4 of 4 and was refused one, the second has 5 of 5.
        assert_eq!(count(), (2.0, 1.0));
    });
}

/// Rows that make no sense hide nothing else.
#[test]
fn hostile_rows_hide_nothing() {
    isolated("control_metrics::hostile", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        publish(&mut writer, nat64(), &[0x11]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        assert!(shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1").is_some());
        let map = |name| Map::open_any(&dir().pin(Section::Maps, name)).expect("a map");
        let tenant = abi::Tenant {
            ifindex: 9,
            flags: 0xffff,
            ..Default::default()
        };
        map("gw_tenants")
            .update(
                &8_u32.to_ne_bytes(),
                bytemuck::bytes_of(&tenant),
                Update::Any,
            )
            .expect("room");
        let key = abi::PinKey {
            family: 9,
            ..Default::default()
        };
        let pin = abi::Pin::default();
        map("gw_pins")
            .update(
                bytemuck::bytes_of(&key),
                bytemuck::bytes_of(&pin),
                Update::Any,
            )
            .expect("room");
        let group = GroupId::new(1).expect("a group");
        let mut bytes = writer
            .group(group)
            .expect("readable")
            .expect("there")
            .to_bytes(writer.limits().groups())
            .expect("bytes");
        bytes[..64].fill(0xff);
        force(group, &bytes);
        let reading = Reading::of(&open(), Tick::now()).expect("readable");
        let groups: Vec<_> = reading
            .groups
            .iter()
            .map(|GroupReading { snapshot, .. }| snapshot.class)
            .collect();
        assert_eq!(groups, [Class::Nat66]);
        assert_eq!((reading.pins.by_source, reading.pins.unreadable), (1, 1));
        let numbers = exported(&counters(Mode::Hashed), &reading);
        assert_eq!(numbers["class_served{class=\"nat66\"}"], 1.0);
        assert_eq!(numbers["class_served{class=\"nat64:64:ff9b::/96\"}"], 0.0);
    });
}

/// What this thread has had of a processor: other work on the machine does not count.
fn processor_time() -> std::time::Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).expect("a clock").into()
}

/// As much as there is room for by default: groups, members, tenants and pins.
#[test]
fn a_full_instance_is_read_whole() {
    isolated("control_metrics::full", || {
        const TENANTS: u32 = 16_384;
        const PINS: u32 = 65_536;
        let mut writer = load();
        configure(&mut writer);
        let prefixes = (0..7).map(|n| format!("2001:db8:64:{n:x}::/96").parse());
        let prefixes: Vec<_> = prefixes.map(|of| of.expect("a prefix")).collect();
        let classes = prefixes.into_iter().map(|of| Class::Nat64(of).into());
        let limits = writer.limits().groups();
        let classes = guideway::group::Classes::new(classes, limits).expect("eight");
        let places = writer.places(&classes, |_| 0).expect("readable");
        let numbers: Vec<u16> = (0x100..0x100 + limits.members()).collect();
        let plans = classes.iter().map(|entry| {
            let place = places.of(entry.class).expect("a place");
            writer
                .plan_group(&place, &shards(&numbers))
                .expect("a plan")
        });
        let plans: Vec<_> = plans.collect();
        for published in writer.publish(&plans).expect("possible") {
            published.expect("published");
        }
        let fill = |name: &str, keys: &[u8], values: &[u8]| {
            let map = Map::open_any(&dir().pin(Section::Maps, name)).expect("a map");
            map.update_batch(keys, values).expect("room");
        };
        let ifindexes: Vec<u32> = (100..100 + TENANTS).collect();
        let rows: Vec<_> = ifindexes.iter().map(|of| tenant(*of).to_row(*of)).collect();
        fill(
            "gw_tenants",
            bytemuck::cast_slice(&ifindexes),
            bytemuck::cast_slice(&rows),
        );
        let used = vec![
            abi::PinUse {
                pins: 4,
                refused: 0
            };
            ifindexes.len()
        ];
        fill(
            "gw_pin_use",
            bytemuck::cast_slice(&ifindexes),
            bytemuck::cast_slice(&used),
        );
        let now = Tick::now();
        // All groups have the same members.
        let group = writer.group(GroupId::new(0).expect("a group"));
        let member = group.expect("readable").expect("there").members[3];
        let rows = (0..PINS).map(|number| {
            let holder = guideway::egress::pins::Holder {
                table: guideway::route::TableId::new(100 + number % TENANTS),
                group: GroupId::new((number / TENANTS) % 8).expect("a group"),
                source: std::net::Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(number)).into(),
                flow: None,
            };
            let generation = u64::from(member.generation.get());
            let bind = generation << abi::PinBind::GW_PIN_GENERATION_SHIFT.0
                | u64::from(member.slot.get()) << abi::PinBind::GW_PIN_SLOT_SHIFT.0;
            let (tag, last_seen_tick) = (holder.tag(), now.get());
            let pin = abi::Pin {
                bind,
                last_seen_tick,
                tag,
            };
            (holder.source_key(), pin)
        });
        let (keys, pins): (Vec<_>, Vec<_>) = rows.unzip();
        fill(
            "gw_pins",
            bytemuck::cast_slice(&keys),
            bytemuck::cast_slice(&pins),
        );
        let scraper = open();
        let before = processor_time();
        let reading = Reading::of(&scraper, now).expect("readable");
        let text = guideway::control::metrics::render(
            &counters(Mode::Hashed),
            &reading,
            Default::default(),
        );
        // For whoever asks: an optimised build on an idle machine is to stay below 50 ms.
        println!("{} bytes in {:?}", text.len(), processor_time() - before);
        assert_eq!(reading.pins.by_source, u64::from(PINS));
        assert_eq!(reading.pins.unreadable, 0);
        let at_risk: u64 = reading.pins.at_risk.values().sum();
        // The table gives each of 64 members a 64th.
        assert!((63_000..65_536).contains(&at_risk), "{at_risk}");
        assert_eq!(reading.groups.len(), 8);
    });
}
