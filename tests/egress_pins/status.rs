// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins as user space sees them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;

use bytemuck::{bytes_of, Zeroable};
use guideway::abi;
use guideway::egress::pins::{
    copy, Flow, Held, Holder, MemberPins, Pin, Pins, Rules, Scope, Standings, Tick,
};
use guideway::error::ErrorKind;
use guideway::group::{
    allocate, plan, Candidate, Class, Classes, Context, GroupSpec, Limits, Snapshot,
};
use guideway::kernel::map::{Map, MapShape, Update};
use guideway::route::TableId;
use guideway::srv6::{Mtu, NextHop};

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

/// Group 0 as the library plans it: shards 0x10 and 0x11 in slots 0 and 1, generations 1 and 2.
fn planned(machine: &Machine) -> Snapshot {
    let mac = |text: &str| text.parse().expect("an address");
    let (source, destination) = (mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"));
    let hop = NextHop::new(machine.uplink, source, destination, Mtu::UNCHECKED);
    let hop = hop.expect("complete");
    let sid = |number| shard(number).to_string().parse().expect("a SID");
    let spec = GroupSpec {
        candidates: [0x10, 0x11]
            .map(|number| Candidate::new(sid(number), hop))
            .to_vec(),
        ..GroupSpec::default()
    };
    let classes = Classes::new([], Limits::default()).expect("classes");
    let places = allocate(&classes, &[], |_| 0, Limits::default());
    let place = places.of(Class::Nat66).expect("a place");
    let planned = plan(None, &place, &spec, &Context::default()).expect("a plan");
    let snapshot = planned.snapshot().clone();
    let bytes = snapshot.to_bytes(Limits::default()).expect("bytes");
    machine.publish_bytes(snapshot.group.get().into(), &bytes);
    let route = machine.to_group(snapshot.group.get().into(), snapshot.incarnation.get());
    machine.default_routes(&route);
    snapshot
}

fn all(pins: &Pins) -> Vec<Pin> {
    let mut all = Vec::new();
    let read = pins.for_each(|pin| {
        all.push(pin.expect("readable"));
        ControlFlow::Continue(())
    });
    read.expect("read");
    all
}

/// What a packet was is what its pin says.
#[test]
fn pins_are_listed_as_packets_made_them() {
    isolated("egress_pins::status::list", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let v4 = Ipv4Addr::new(10, 1, 2, 3);
        let far4 = Ipv4Addr::new(198, 51, 100, 7);
        let far6 = "2001:db8:2::1".parse().expect("an address");
        let holder = |source: IpAddr, flow| Holder {
            table: TableId::new(TABLE),
            group: group_id(0),
            source,
            flow,
        };
        let mut expected = BTreeSet::new();
        machine.run(&ipv4(v4, far4, TCP, 0, &ports(1, 2, 20)));
        machine.run(&ipv6(source(7), far6, UDP, &ports(1, 2, 20)));
        expected.insert(holder(v4.into(), None));
        expected.insert(holder(source(7).into(), None));
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        machine.run(&ipv4(v4, far4, TCP, 0, &ports(1234, 443, 20)));
        machine.run(&ipv6(source(7), far6, UDP, &ports(4321, 53, 20)));
        let flow = |protocol, source_port, destination: IpAddr, destination_port| {
            Some(Flow {
                protocol,
                source_port,
                destination,
                destination_port,
            })
        };
        expected.insert(holder(v4.into(), flow(TCP, 1234, far4.into(), 443)));
        expected.insert(holder(source(7).into(), flow(UDP, 4321, far6.into(), 53)));
        let pins = pins(&machine);
        let listed = all(&pins);
        assert_eq!(listed.len(), 4);
        let holders: BTreeSet<_> = listed.iter().map(|pin| pin.holder).collect();
        assert_eq!(holders, expected);
        for pin in listed {
            assert_eq!(pins.find(&pin.holder).expect("read"), Some(pin));
            let Held { slot, generation } = pin.held;
            assert_eq!(generation.get(), 7 + u32::from(slot.get()));
            assert!(now().since(pin.last_seen) <= 1 && !pin.dead);
            let other = Holder {
                table: TableId::new(TABLE + 1),
                ..pin.holder
            };
            assert_eq!(pins.find(&other).expect("read"), None);
        }
        // Broken off after the first.
        let mut seen = 0;
        let read = pins.for_each(|_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((read.expect("read"), seen), ((), 1));
    });
}

/// More than a batch.
#[test]
fn many_pins_are_each_listed_once() {
    isolated("egress_pins::status::many", || {
        let machine = Machine::with(&[("gw_pins", 20_000), ("gw_flow_pins", 1)]);
        pinned(&machine);
        for number in 0..15_000 {
            machine.classify(&frame(number));
        }
        let sources: Vec<_> = all(&pins(&machine))
            .iter()
            .map(|pin| pin.holder.source)
            .collect();
        let expected: BTreeSet<_> = (0..15_000).map(|number| source(number).into()).collect();
        assert_eq!(sources.len(), 15_000);
        assert_eq!(sources.into_iter().collect::<BTreeSet<IpAddr>>(), expected);
    });
}

/// Counted by hand, by the library and by the kernel.
#[test]
fn everything_is_counted() {
    isolated("egress_pins::status::counts", || {
        let machine = Machine::new();
        let snapshot = planned(&machine);
        let rules = Rules::new([&snapshot]);
        let idle = snapshot.settings.pin_idle;
        let mut in_slot = [0; 2];
        for number in 0..40 {
            let (_, counted) = machine.run(&frame(number));
            assert_eq!(counted, NEW);
            in_slot[slot_and_generation(pin(&machine, number).expect("a pin")).0 as usize] += 1;
        }
        let now = now();
        let change = |number: u32, bind: &dyn Fn(u64) -> u64, age: u32| {
            let made = pin(&machine, number).expect("a pin");
            let changed = abi::Pin {
                bind: bind(made.bind),
                last_seen_tick: now.get().wrapping_sub(age),
                ..made
            };
            set_pin(&machine, number, &changed);
            made.bind & 0xffff
        };
        let last = idle.ticks() + 2 * idle.refresh_ticks();
        // At the boundary, beyond it, of a former tenure, beyond the last member, dead.
        change(0, &|bind| bind, last);
        change(1, &|bind| bind, last + 1);
        let former = change(2, &|bind| bind & 0xffff_ffff | 77 << 32, 0);
        let beyond = change(3, &|bind| bind & !0xffff | 200, 0);
        let dead = change(4, &|bind| bind | 1 << 24, 0);
        in_slot[former as usize] -= 1;
        in_slot[beyond as usize] -= 1;
        in_slot[dead as usize] -= 1;
        let insert = |key: &abi::PinKey| {
            let made = pin(&machine, 5).expect("a pin");
            let inserted = machine.pins.update(key, &made, Update::Insert);
            inserted.expect("room");
        };
        // Of a group that is not published, of a tenant without a count, of nobody's making.
        insert(&abi::PinKey {
            group_id: 3,
            ..key(5)
        });
        insert(&abi::PinKey {
            table_id: 99,
            ..key(5)
        });
        in_slot[slot_and_generation(pin(&machine, 5).expect("a pin")).0 as usize] += 1;
        insert(&abi::PinKey { zero: 1, ..key(5) });
        let pins = pins(&machine);
        let status = pins.status(&rules, now).expect("readable");
        let expected = Standings {
            live: 37,
            idle: 1,
            stale: 2,
            dead: 1,
            unjudged: 1,
        };
        assert_eq!(status.pins, expected);
        assert_eq!(status.pins.total(), 42);
        assert_eq!((status.by_source, status.by_flow), (42, 0));
        assert_eq!((status.source_capacity, status.flow_capacity), (4096, 4096));
        assert_eq!(status.unreadable, 1);
        assert_eq!(status.groups[&snapshot.group].total(), 41);
        assert_eq!(status.groups[&group_id(3)].unjudged, 1);
        for (slot, current) in (0..).zip(in_slot) {
            let slot = guideway::group::Slot::new(slot).expect("a slot");
            let pins = status.members[&(snapshot.group, slot)];
            let former = u64::from(u64::from(slot.get()) == former);
            assert_eq!(pins, MemberPins { current, former });
        }
        assert_eq!(status.members.len(), 3);
        let tenant = &status.tenants[&TableId::new(TABLE)];
        assert_eq!((tenant.pins.total(), tenant.counted), (41, Some(40)));
        let drifts: Vec<_> = status.drifts().collect();
        assert_eq!(drifts, [(TableId::new(TABLE), -1), (TableId::new(99), -1)]);
        // The kernel's rules are the same; it does not look at what is zero.
        let report = sweeper(&machine).count(Scope::All, now).expect("a pass");
        let by_kernel = Standings {
            live: 38,
            ..expected
        };
        assert_eq!(report.found, by_kernel);
    });
}

#[test]
fn ticks_are_those_of_the_kernel() {
    assert_eq!(Tick::at_ns((1 << 30) - 1).get(), 0);
    assert_eq!(Tick::at_ns(5 << 30).get(), 5);
    let (early, late) = (Tick::new(u32::MAX - 1), Tick::new(3));
    assert_eq!((late.since(early), early.since(late)), (5, -5));
    assert_eq!(late.elapsed_since(early).as_nanos(), 5 << 30);
    assert!(early.elapsed_since(late).is_zero());
    let before = tick();
    let now = Tick::now();
    assert!((before..=tick()).contains(&now.get()));
}

/// Room for `entries` pins of each kind.
fn tables(machine: &Machine, entries: u32) -> Pins {
    let maps = machine.pin_maps();
    let [sources, flows] = [&maps.sources, &maps.flows].map(|map| {
        let shape = MapShape {
            max_entries: entries,
            ..map.shape().clone()
        };
        Map::create(&shape, None).expect("a map")
    });
    Pins::new(sources, flows, maps.usage).expect("their shapes")
}

/// Larger tables take all, smaller ones what they have room for.
#[test]
fn pins_move_to_tables_of_another_size() {
    isolated("egress_pins::status::copy", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        for number in 0..50 {
            assert_eq!(counted(&machine, number), NEW);
        }
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        for number in 0..50 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let made = pin(&machine, 0).expect("a pin");
        let dead = abi::Pin {
            bind: made.bind | 1 << 24,
            ..made
        };
        set_pin(&machine, 0, &dead);
        let from = pins(&machine);
        let mut expected = all(&from);
        let order = |pin: &Pin| pin.holder;
        expected.retain(|pin| !pin.dead);
        expected.sort_by_key(order);
        let larger = tables(&machine, 8192);
        let copied = copy(&from, &larger).expect("a copy");
        assert_eq!((copied.copied, copied.dead), (99, 1));
        assert_eq!((copied.refused, copied.present), (0, 0));
        let mut found = all(&larger);
        found.sort_by_key(order);
        assert_eq!(found, expected);
        let again = copy(&from, &larger).expect("a copy");
        assert_eq!((again.copied, again.present, again.dead), (0, 99, 1));
        let smaller = tables(&machine, 20);
        let copied = copy(&from, &smaller).expect("a copy");
        assert_eq!((copied.copied, copied.refused, copied.dead), (40, 59, 1));
        assert_eq!(copied.left[&TableId::new(TABLE)], 60);
        assert_eq!(all(&smaller).len(), 40);
        assert_eq!(all(&from).len(), 100);
    });
}

/// A pin that no program writes is an error of its own, which says where and what.
#[test]
fn rows_that_make_no_sense_are_named() {
    isolated("egress_pins::status::rows", || {
        let machine = Machine::new();
        let live = abi::Pin {
            bind: 7 << 32,
            ..Zeroable::zeroed()
        };
        let mut v4 = key(1);
        v4.family = 1;
        let rows = [
            (abi::PinKey { zero: 2, ..key(1) }, live, "zero 2"),
            (
                abi::PinKey {
                    family: 9,
                    ..key(2)
                },
                live,
                "of family 9",
            ),
            (v4, live, "of family 1"),
            (
                abi::PinKey {
                    group_id: 64,
                    ..key(3)
                },
                live,
                "group_id 64",
            ),
            (key(4), abi::Pin { bind: 5, ..live }, "generation 0"),
            (
                key(5),
                abi::Pin {
                    bind: 7 << 32 | 256,
                    ..live
                },
                "slot 256",
            ),
        ];
        let pins = pins(&machine);
        for (key, pin, said) in rows {
            let updated = machine
                .pins
                .map()
                .update(bytes_of(&key), bytes_of(&pin), Update::Insert);
            updated.expect("room");
            let mut found = Vec::new();
            let read = pins.for_each(|pin| {
                found.push(pin.expect_err("makes no sense").to_string());
                ControlFlow::Continue(())
            });
            read.expect("read");
            assert_eq!(found.len(), 1);
            assert!(
                found[0].contains(said) && found[0].contains("42"),
                "{found:?}"
            );
            if key.source == self::key(4).source {
                let holder = Holder {
                    table: TableId::new(TABLE),
                    group: group_id(0),
                    source: source(4).into(),
                    flow: None,
                };
                let error = pins.find(&holder).expect_err("makes no sense");
                assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
            }
            assert!(machine.pins.remove(&key).expect("removed"));
        }
    });
}
