// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins on the packet path (E39 to E48).

use std::net::Ipv6Addr;

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::map::Update;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

const IDLE: u32 = 100;
const REFRESH: u32 = 4;
const SHARDS: [(u16, u32); 3] = [(0x10, 7), (0x11, 8), (0x12, 9)];

fn source(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, number)
}

fn frame(number: u16) -> Vec<u8> {
    let far = "2001:db8:2::1".parse().expect("an address");
    ipv6(source(number), far, UDP, &ports(1000, 53, 72))
}

fn pinned(machine: &Machine) -> Group {
    let mut group = machine.group_of(&SHARDS);
    group.header.pin_idle_ticks = IDLE;
    group.header.pin_refresh_ticks = REFRESH;
    machine.publish(0, &group);
    machine.default_routes(&machine.to_group(0, 1));
    group
}

/// The coarse monotonic clock as the program counts it.
fn tick() -> u32 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
    let now = now.expect("a clock");
    ((now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64) >> 30) as u32
}

fn key(number: u16) -> abi::PinKey {
    abi::PinKey {
        table_id: TABLE,
        source: source(number).octets(),
        ..Zeroable::zeroed()
    }
}

fn words(pin: abi::Pin) -> (u64, u32, u32) {
    (pin.bind, pin.last_seen_tick, pin.tag)
}

fn pin(machine: &Machine, number: u16) -> Option<abi::Pin> {
    machine.pins.get(&key(number)).expect("read")
}

fn slot_and_generation(pin: abi::Pin) -> (u64, u64) {
    (pin.bind & 0xffff, pin.bind >> 32)
}

fn counted(machine: &Machine, number: u16) -> Vec<(C, u64)> {
    let (ran, counted) = machine.run(&frame(number));
    assert_eq!(ran.action, REDIRECT, "{counted:?}");
    counted
}

const NEW: [(C, u64); 3] = [
    (C::GW_EGRESS_GROUP, 1),
    (C::GW_EGRESS_MAGLEV, 1),
    (C::GW_EGRESS_PIN_NEW, 1),
];
const HIT: [(C, u64); 2] = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_PIN_HIT, 1)];

#[test]
fn the_first_packet_makes_a_pin_and_the_next_follow_it() {
    isolated("egress::pins::first", || {
        let machine = Machine::new();
        pinned(&machine);
        assert_eq!(counted(&machine, 7), NEW);
        let made = pin(&machine, 7).expect("a pin");
        assert_eq!(slot_and_generation(made), (0, 7));
        assert!(tick() - made.last_seen_tick <= 1);
        assert_eq!(counted(&machine, 7), HIT);
        assert_eq!(pin(&machine, 7).map(words), Some(words(made)));
        let used = machine.pin_use.get(&TABLE).expect("read").expect("a row");
        assert_eq!((used.pins, used.refused), (1, 0));
    });
}

/// Members come and drain, and nobody moves; one that is lost loses its own, once.
#[test]
fn pins_hold_until_their_member_is_lost() {
    isolated("egress::pins::hold", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let before: Vec<_> = (0..60).map(|n| machine.shard_of(&frame(n))).collect();
        let mut more = machine.group_of(&[(0x10, 7), (0x11, 8), (0x12, 9), (0x13, 10)]);
        more.header = abi::GroupHeader {
            slots_used: 4,
            ..group.header
        };
        more.members[1].flags |= abi::MemberFlag::GW_MEMBER_DRAINING.0;
        more.fill_table(1021);
        machine.publish(0, &more);
        let after: Vec<_> = (0..60).map(|n| machine.shard_of(&frame(n))).collect();
        assert_eq!(before, after);
        // A newcomer finds no draining member.
        assert!((100..160).all(|n| machine.shard_of(&frame(n)) != shard(0x11)));
        group.members[1].flags = 0;
        group.fill_table(1021);
        machine.publish(0, &group);
        let mut moved = 0;
        for (number, shard_before) in (0..).zip(&before) {
            let counted = counted(&machine, number);
            let stale = counted.contains(&(C::GW_EGRESS_PIN_STALE, 1));
            assert_eq!(stale, *shard_before == shard(0x11));
            if stale {
                assert!(counted.contains(&(C::GW_EGRESS_PIN_REPLACED, 1)));
                moved += 1;
            }
            assert_eq!(self::counted(&machine, number), HIT);
        }
        assert!(moved > 5);
    });
}

/// The slot is another's: the pin's generation says so.
#[test]
fn a_reused_slot_inherits_nothing() {
    isolated("egress::pins::reuse", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        assert_eq!(machine.shard_of(&frame(7)), shard(0x10));
        group.members[0].generation = 11;
        group.members[0].sid = shard(0x20).octets();
        group.fill_table(1021);
        machine.publish(0, &group);
        let counted = counted(&machine, 7);
        assert!(
            counted.contains(&(C::GW_EGRESS_PIN_STALE, 1)),
            "{counted:?}"
        );
        let (slot, generation) = slot_and_generation(pin(&machine, 7).expect("a pin"));
        assert_eq!(
            generation,
            u64::from(group.members[slot as usize].generation)
        );
    });
}

/// It is honoured as long as it may be, and a time to come is no reason to forget it.
#[test]
fn a_pin_ends_when_it_was_idle_for_too_long() {
    isolated("egress::pins::idle", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        assert_eq!(machine.shard_of(&frame(7)), shard(0x10));
        let made = pin(&machine, 7).expect("a pin");
        // From now on the table would say something else.
        group.members[0].flags |= abi::MemberFlag::GW_MEMBER_DRAINING.0;
        group.fill_table(1021);
        machine.publish(0, &group);
        let seen = |ticks_ago: u32| loop {
            let now = tick();
            let old = abi::Pin {
                last_seen_tick: now.wrapping_sub(ticks_ago),
                ..made
            };
            let updated = machine.pins.update(&key(7), &old, Update::Any);
            updated.expect("updated");
            let counted = counted(&machine, 7);
            // Otherwise a tick has passed in between.
            if tick() == now {
                break (counted, pin(&machine, 7).expect("a pin"), now);
            }
        };
        for ticks in [0, 1, REFRESH - 1] {
            let (counted, pin, now) = seen(ticks);
            assert_eq!(counted, HIT);
            assert_eq!(
                pin.last_seen_tick,
                now.wrapping_sub(ticks),
                "written for nothing"
            );
        }
        for ticks in [REFRESH, IDLE, IDLE + REFRESH] {
            let (counted, pin, now) = seen(ticks);
            assert_eq!(counted, HIT, "{ticks} ticks ago");
            assert_eq!(words(pin), (made.bind, now, made.tag));
        }
        let (counted, _, _) = seen(0_u32.wrapping_sub(5));
        assert_eq!(counted, HIT, "to come");
        let (counted, replaced, now) = seen(IDLE + REFRESH + 1);
        assert!(
            counted.contains(&(C::GW_EGRESS_PIN_STALE, 1)),
            "{counted:?}"
        );
        assert_eq!(replaced.last_seen_tick, now);
        assert_ne!(slot_and_generation(replaced).0, 0);
    });
}

#[test]
fn a_pin_that_is_another_keys_or_about_to_go_is_left_alone() {
    isolated("egress::pins::torn", || {
        let machine = Machine::new();
        pinned(&machine);
        assert_eq!(counted(&machine, 7), NEW);
        let made = pin(&machine, 7).expect("a pin");
        let torn = abi::Pin {
            tag: made.tag ^ 1,
            ..made
        };
        let dead = abi::Pin {
            bind: made.bind | 1 << 24,
            ..made
        };
        let table = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_MAGLEV, 1)];
        let mut with_torn = table.to_vec();
        with_torn.push((C::GW_EGRESS_PIN_TORN, 1));
        for (value, expected) in [(torn, with_torn), (dead, table.to_vec())] {
            let updated = machine.pins.update(&key(7), &value, Update::Any);
            updated.expect("updated");
            assert_eq!(counted(&machine, 7), expected);
            assert_eq!(pin(&machine, 7).map(words), Some(words(value)));
        }
    });
}

#[test]
fn without_an_idle_time_there_are_no_pins() {
    isolated("egress::pins::off", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        group.header.pin_idle_ticks = 0;
        machine.publish(0, &group);
        let table = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_MAGLEV, 1)];
        assert_eq!(counted(&machine, 7), table);
        assert!(pin(&machine, 7).is_none());
    });
}

/// Who comes too late is served without one, and nobody is evicted.
#[test]
fn a_full_map_refuses_and_forwards() {
    isolated("egress::pins::full", || {
        let machine = Machine::with(&[("gw_pins", 32)]);
        pinned(&machine);
        for number in 0..32 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let mut expected = NEW;
        expected[2].0 = C::GW_EGRESS_PIN_FULL;
        for number in 32..64 {
            assert_eq!(counted(&machine, number), expected);
        }
        for number in 0..32 {
            assert_eq!(counted(&machine, number), HIT);
        }
        let used = machine.pin_use.get(&TABLE).expect("read").expect("a row");
        assert_eq!((used.pins, used.refused), (32, 0));
    });
}

/// The same address in two tables: pins of one never serve the other, nor does its quota.
#[test]
fn tenants_do_not_meet() {
    isolated("egress::pins::tenants", || {
        let machine = Machine::new();
        pinned(&machine);
        let other = TABLE + 1;
        machine.add_tenant(machine.uplink, other, ARGUMENT);
        let route = machine.to_group(0, 1);
        machine.route(other, "::".parse().expect("an address"), 0, &route);
        let row = machine.tenants.get(&machine.tenant).expect("read");
        let row = abi::Tenant {
            pin_quota: 3,
            ..row.expect("a row")
        };
        let updated = machine.tenants.update(&machine.tenant, &row, Update::Any);
        updated.expect("room");
        let mut refused = NEW;
        refused[2].0 = C::GW_EGRESS_PIN_QUOTA;
        for number in 0..6 {
            let expected = if number < 3 { NEW } else { refused };
            assert_eq!(counted(&machine, number), expected);
        }
        for number in 0..6 {
            let (_, counted) = machine.run_from(machine.uplink, &frame(number));
            assert_eq!(counted, NEW);
        }
        let used = |table: u32| {
            let used = machine.pin_use.get(&table).expect("read").expect("a row");
            (used.pins, used.refused)
        };
        assert_eq!((used(TABLE), used(other)), ((3, 3), (6, 0)));
        // Without a row of its own a tenant has no quota left.
        assert!(machine.pin_use.remove(&TABLE).expect("removed"));
        assert_eq!(counted(&machine, 9), refused);
    });
}

#[test]
fn flows_have_pins_of_their_own() {
    isolated("egress::pins::flow", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        let far = "2001:db8:2::1".parse().expect("an address");
        let send = |port: u16| {
            machine
                .run(&ipv6(source(7), far, UDP, &ports(port, 53, 12)))
                .1
        };
        for port in 2000..2020 {
            assert_eq!(send(port), NEW);
            assert_eq!(send(port), HIT);
        }
        let mut keys = Vec::new();
        machine
            .flow_pins
            .for_each(|key, _| {
                keys.push(u16::from_be(key.source_port));
                std::ops::ControlFlow::Continue(())
            })
            .expect("read");
        keys.sort_unstable();
        assert_eq!(keys, (2000..2020).collect::<Vec<_>>());
        assert!(pin(&machine, 7).is_none());
    });
}
