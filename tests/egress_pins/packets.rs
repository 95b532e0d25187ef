// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins on the packet path: made, followed, renewed, refused.

use guideway::abi;
use guideway::kernel::map::Update;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

#[test]
fn the_first_packet_makes_a_pin_and_the_next_follow_it() {
    isolated("egress_pins::packets::first", || {
        let machine = Machine::new();
        pinned(&machine);
        assert_eq!(counted(&machine, 7), NEW);
        let made = pin(&machine, 7).expect("a pin");
        assert_eq!(slot_and_generation(made), (0, 7));
        assert!(tick() - made.last_seen_tick <= 1);
        assert_eq!(counted(&machine, 7), HIT);
        assert_eq!(pin(&machine, 7).map(words), Some(words(made)));
        assert_eq!(used(&machine, TABLE), (1, 0));
    });
}

/// Members come and drain, and nobody moves; one that is lost loses its own, once.
#[test]
fn pins_hold_until_their_member_is_lost() {
    isolated("egress_pins::packets::hold", || {
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
    isolated("egress_pins::packets::reuse", || {
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
    isolated("egress_pins::packets::idle", || {
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
    isolated("egress_pins::packets::torn", || {
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
        let mut with_torn = BY_TABLE.to_vec();
        with_torn.push((C::GW_EGRESS_PIN_TORN, 1));
        for (value, expected) in [(torn, with_torn), (dead, BY_TABLE.to_vec())] {
            let updated = machine.pins.update(&key(7), &value, Update::Any);
            updated.expect("updated");
            assert_eq!(counted(&machine, 7), expected);
            assert_eq!(pin(&machine, 7).map(words), Some(words(value)));
        }
    });
}

/// Neither read nor written: what is there says another shard, and stays as it is.
#[test]
fn without_an_idle_time_there_are_no_pins() {
    isolated("egress_pins::packets::off", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let placed = machine.shard_of(&frame(7));
        let made = pin(&machine, 7).expect("a pin");
        let (slot, generation) = slot_and_generation(made);
        let other = (slot + 1) % 3;
        let elsewhere = abi::Pin {
            bind: made.bind - slot + other + ((7 + other) << 32) - (generation << 32),
            last_seen_tick: tick() - REFRESH,
            ..made
        };
        set_pin(&machine, 7, &elsewhere);
        assert_ne!(machine.shard_of(&frame(7)), placed, "the pin is good");
        set_pin(&machine, 7, &elsewhere);
        group.header.pin_idle_ticks = 0;
        machine.publish(0, &group);
        assert_eq!(counted(&machine, 7), BY_TABLE);
        assert_eq!(machine.shard_of(&frame(7)), placed);
        assert_eq!(pin(&machine, 7).map(words), Some(words(elsewhere)));
        assert_eq!(counted(&machine, 8), BY_TABLE);
        assert!(pin(&machine, 8).is_none());
    });
}

/// Who comes too late is served without one, and nobody is evicted.
#[test]
fn a_full_map_refuses_and_forwards() {
    isolated("egress_pins::packets::full", || {
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
        assert_eq!(used(&machine, TABLE), (32, 0));
        assert_balance(&machine);
    });
}

/// The same address in two tables: pins of one never serve the other, nor does its quota.
#[test]
fn tenants_do_not_meet() {
    isolated("egress_pins::packets::tenants", || {
        let machine = Machine::new();
        pinned(&machine);
        let other = neighbour(&machine);
        set_quota(&machine, machine.tenant, 3);
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
        assert_eq!(
            (used(&machine, TABLE), used(&machine, other)),
            ((3, 3), (6, 0))
        );
        // Without a row of its own a tenant has no quota left.
        assert!(machine.pin_use.remove(&TABLE).expect("removed"));
        assert_eq!(counted(&machine, 9), refused);
    });
}

#[test]
fn flows_have_pins_of_their_own() {
    isolated("egress_pins::packets::flow", || {
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
