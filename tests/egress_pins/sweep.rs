// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What removes pins, and which.

use std::net::Ipv4Addr;

use guideway::abi;
use guideway::egress::pins::{Fate, Held, Holder, Removed, Report, Scope, Standings, Table};
use guideway::group::{Generation, Slot};
use guideway::kernel::map::Update;
use guideway::route::TableId;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

const DEAD: u64 = 1 << 24;

fn found(report: &Report) -> [u64; 5] {
    let Standings {
        live,
        idle,
        stale,
        dead,
        unjudged,
    } = report.found;
    [live, idle, stale, dead, unjudged]
}

/// Pins of these numbers, each last used so many ticks before the sweep.
fn aged(machine: &Machine, ages: &[u32]) -> guideway::egress::pins::Tick {
    let now = now();
    for (number, age) in (0..).zip(ages) {
        assert_eq!(counted(machine, number), NEW);
        let made = pin(machine, number).expect("a pin");
        let old = abi::Pin {
            last_seen_tick: now.get().wrapping_sub(*age),
            ..made
        };
        set_pin(machine, number, &old);
    }
    now
}

/// A pin goes an interval after packets stop following it, not a tick earlier.
#[test]
fn idle_pins_go_at_the_boundary() {
    isolated("egress_pins::sweep::idle", || {
        let machine = Machine::new();
        pinned(&machine);
        let last = IDLE + 2 * REFRESH;
        let future = 0_u32.wrapping_sub(5);
        let ages = [
            0,
            IDLE,
            IDLE + REFRESH + 1,
            last,
            last + 1,
            last + 9,
            future,
        ];
        let now = aged(&machine, &ages);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.count(Scope::All, now).expect("a pass");
        assert_eq!(found(&report), [5, 2, 0, 0, 0]);
        assert_eq!(report.removed, Removed::default());
        assert_balance(&machine);
        // These are of addresses, and the other table has none.
        let report = sweeper.expire_in(Table::Flows, now).expect("half a pass");
        assert_eq!(found(&report), [0; 5]);
        let report = sweeper.expire_in(Table::Sources, now).expect("half a pass");
        assert_eq!(found(&report), [5, 2, 0, 0, 0]);
        assert_eq!((report.removed.idle, report.removed.total()), (2, 2));
        assert!(report.is_complete());
        for (number, age) in (0..).zip(ages) {
            let gone = [last + 1, last + 9].contains(&age);
            assert_eq!(pin(&machine, number).is_none(), gone, "{age} ticks ago");
        }
        assert_eq!(used(&machine, TABLE), (5, 0));
        assert_balance(&machine);
        // Whoever comes back is a newcomer.
        assert_eq!(counted(&machine, 4), NEW);
    });
}

/// Whose tenure is over loses its pins; one that nothing reaches at the moment, or that drains, does not.
#[test]
fn pins_of_former_tenures_go() {
    isolated("egress_pins::sweep::stale", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        for number in 0..60 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let slots: Vec<_> = (0..60)
            .map(|number| slot_and_generation(pin(&machine, number).expect("a pin")).0)
            .collect();
        let of = |slot: u64| slots.iter().filter(|of| **of == slot).count() as u64;
        // Slot 0 is another's now, 1 is out of reach, 2 drains.
        group.members[0].generation = 10;
        group.members[1].flags = 0;
        group.members[2].flags |= abi::MemberFlag::GW_MEMBER_DRAINING.0;
        machine.publish(0, &group);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.expire(now()).expect("a pass");
        assert_eq!(found(&report), [of(1) + of(2), 0, of(0), 0, 0]);
        assert_eq!(
            (report.removed.stale, report.removed.total()),
            (of(0), of(0))
        );
        assert!(of(0) > 5);
        for (number, slot) in (0..).zip(&slots) {
            assert_eq!(pin(&machine, number).is_none(), *slot == 0);
        }
        assert_balance(&machine);
        // A group that shrinks: nobody has slots 1 and 2 any more, below or above the mark.
        group.members.truncate(1);
        group.header.slots_used = 1;
        group.fill_table(1021);
        machine.publish(0, &group);
        let report = sweeper.expire(now()).expect("a pass");
        assert_eq!(found(&report), [0, 0, of(1) + of(2), 0, 0]);
        assert_eq!(used(&machine, TABLE), (0, 0));
        assert_balance(&machine);
    });
}

/// Without pins nobody looks at those that are there; when they are wanted again they begin anew.
#[test]
fn where_pins_are_off_there_are_none_to_keep() {
    isolated("egress_pins::sweep::off", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        assert_eq!(counted(&machine, 7), NEW);
        group.header.pin_idle_ticks = 0;
        group.header.pin_refresh_ticks = 0;
        machine.publish(0, &group);
        let report = sweeper(&machine).expire(now()).expect("a pass");
        assert_eq!((found(&report), report.removed.idle), ([0, 1, 0, 0, 0], 1));
    });
}

/// Nothing says how such a pin stands.
#[test]
fn pins_of_a_group_that_is_not_published_stay() {
    isolated("egress_pins::sweep::unpublished", || {
        let machine = Machine::new();
        pinned(&machine);
        let now = aged(&machine, &[500, 500]);
        let made = pin(&machine, 0).expect("a pin");
        let foreign = abi::PinKey {
            group_id: 5,
            ..key(0)
        };
        let updated = machine.pins.update(&foreign, &made, Update::Insert);
        updated.expect("room");
        let report = sweeper(&machine).expire(now).expect("a pass");
        assert_eq!((found(&report), report.removed.idle), ([0, 2, 0, 0, 1], 2));
        assert!(machine.pins.get(&foreign).expect("read").is_some());
    });
}

/// Whoever was killed between the claim of a pin and its end left it dead: packets leave it alone, and the
/// next pass that removes anything removes it, too.
#[test]
fn a_pin_that_was_left_dead_is_finished() {
    isolated("egress_pins::sweep::killed", || {
        let machine = Machine::new();
        pinned(&machine);
        for number in 0..4 {
            assert_eq!(counted(&machine, number), NEW);
        }
        for number in 0..2 {
            let made = pin(&machine, number).expect("a pin");
            let dead = abi::Pin {
                bind: made.bind | DEAD,
                ..made
            };
            set_pin(&machine, number, &dead);
        }
        assert_eq!(counted(&machine, 0), BY_TABLE);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.count(Scope::All, now()).expect("a pass");
        assert_eq!(found(&report), [2, 0, 0, 2, 0]);
        assert!(pin(&machine, 0).is_some(), "counting removes none");
        let report = sweeper.expire(now()).expect("a pass");
        assert_eq!(found(&report), [2, 0, 0, 2, 0]);
        assert_eq!(report.removed.total(), 2);
        assert_balance(&machine);
        assert_eq!(counted(&machine, 0), NEW);
    });
}

/// The tag is another key's: whoever wrote that, it is no reason to delete anything.
#[test]
fn a_pin_whose_tag_is_anothers_stays() {
    isolated("egress_pins::sweep::torn", || {
        let machine = Machine::new();
        pinned(&machine);
        let now = aged(&machine, &[500]);
        let made = pin(&machine, 0).expect("a pin");
        let torn = abi::Pin {
            tag: made.tag ^ 1,
            ..made
        };
        set_pin(&machine, 0, &torn);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.expire(now).expect("a pass");
        assert_eq!((report.removed.total(), report.torn), (0, 1));
        assert_eq!(pin(&machine, 0).map(words), Some(words(torn)));
        let report = sweeper.remove(Scope::All, now).expect("passes");
        assert_eq!((report.removed.total(), report.torn), (0, 1));
        assert_eq!(pin(&machine, 0).map(words), Some(words(torn)));
    });
}

/// Programs and sweeps mix the same tags out of keys of both families and kinds.
#[test]
fn every_kind_of_pin_can_be_removed() {
    isolated("egress_pins::sweep::kinds", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let v4 = |number: u32, port| {
            let near = Ipv4Addr::from(0x0a00_0000 + number * 65_537);
            ipv4(
                near,
                Ipv4Addr::new(198, 51, 100, 7),
                TCP,
                0,
                &ports(port, 443, 20),
            )
        };
        let far = "2001:db8:2::1".parse().expect("an address");
        let v6 = |number, port| ipv6(source(number * 65_537), far, UDP, &ports(port, 53, 12));
        for number in 0..100 {
            assert_eq!(machine.run(&v6(number, 1)).1, NEW);
            assert_eq!(machine.run(&v4(number, 1)).1, NEW);
        }
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        for number in 0..100 {
            assert_eq!(machine.run(&v6(number, 7 * number as u16)).1, NEW);
            assert_eq!(machine.run(&v4(number, 7 * number as u16)).1, NEW);
        }
        assert_eq!(used(&machine, TABLE), (400, 0));
        assert_balance(&machine);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.remove(Scope::All, now()).expect("passes");
        assert_eq!(found(&report), [400, 0, 0, 0, 0]);
        assert_eq!((report.removed.called, report.removed.total()), (400, 400));
        assert_eq!((report.torn, report.uncounted), (0, 0));
        assert_eq!(used(&machine, TABLE), (0, 0));
        assert_balance(&machine);
    });
}

/// One tenant goes, and whoever gets its number finds nothing of it.
#[test]
fn a_table_id_that_is_used_again_inherits_nothing() {
    isolated("egress_pins::sweep::tenant", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let other = neighbour(&machine);
        for number in 0..50 {
            assert_eq!(counted(&machine, number), NEW);
            assert_eq!(machine.run_from(machine.uplink, &frame(number)).1, NEW);
        }
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        for number in 0..50 {
            assert_eq!(counted(&machine, number), NEW);
        }
        group.header.flags ^= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        let mut sweeper = sweeper(&machine);
        let gone = TableId::new(TABLE);
        let report = sweeper.remove_tenant(gone, now()).expect("passes");
        assert_eq!(found(&report), [100, 0, 0, 0, 0]);
        assert_eq!((report.removed.tenant, report.removed.total()), (100, 100));
        assert!(report.is_complete());
        assert_eq!((used(&machine, TABLE).0, used(&machine, other).0), (0, 50));
        assert_balance(&machine);
        for number in 0..50 {
            assert_eq!(counted(&machine, number), NEW, "the number's next tenant");
            assert_eq!(machine.run_from(machine.uplink, &frame(number)).1, HIT);
        }
    });
}

/// Before slot generations begin a new round: what names a present member stays, dead or alive, and other
/// groups are not concerned.
#[test]
fn a_purge_keeps_what_is_of_present_members() {
    isolated("egress_pins::sweep::purge", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        let mut second = group.clone();
        second.members[0].generation = 99;
        machine.publish(1, &second);
        for number in 0..60 {
            assert_eq!(counted(&machine, number), NEW);
        }
        // Pins of the second group that are no less stale.
        let mut foreign = 0;
        for number in 0..60 {
            let made = pin(&machine, number).expect("a pin");
            if slot_and_generation(made).0 == 0 {
                let key = abi::PinKey {
                    group_id: 1,
                    ..key(number)
                };
                let updated = machine.pins.update(&key, &made, Update::Insert);
                updated.expect("room");
                foreign += 1;
            }
        }
        group.members[0].generation = 10;
        group.members[1].flags = 0;
        machine.publish(0, &group);
        let now = now();
        // Idle for ever, and of a present member.
        let number = (0..60)
            .find(|number| slot_and_generation(pin(&machine, *number).expect("a pin")) == (2, 9));
        let number = number.expect("one of them");
        let idle = abi::Pin {
            last_seen_tick: now.get().wrapping_sub(10 * IDLE),
            ..pin(&machine, number).expect("a pin")
        };
        set_pin(&machine, number, &idle);
        let mut sweeper = sweeper(&machine);
        let report = sweeper.purge(group_id(0), now).expect("passes");
        let [live, idle, stale, dead, unjudged] = found(&report);
        assert_eq!((live + idle + stale, idle, dead, unjudged), (60, 1, 0, 0));
        assert_eq!(
            (stale, report.removed.stale, report.removed.total()),
            (foreign, foreign, foreign)
        );
        assert!(foreign > 5);
        for number in 0..60 {
            if let Some(pin) = pin(&machine, number) {
                assert_ne!(slot_and_generation(pin).0, 0);
            }
            let key = abi::PinKey {
                group_id: 1,
                ..key(number)
            };
            foreign -= u64::from(machine.pins.get(&key).expect("read").is_some());
        }
        assert_eq!(foreign, 0, "the other group's stay");
    });
}

#[test]
fn what_is_called_goes_and_nothing_else() {
    isolated("egress_pins::sweep::called", || {
        let machine = Machine::new();
        pinned(&machine);
        for number in 0..60 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let held = |slot: u32, generation| Held {
            slot: Slot::new(slot).expect("a slot"),
            generation: Generation::new(generation).expect("a generation"),
        };
        let mut sweeper = sweeper(&machine);
        let nobody = Scope::Member(group_id(0), held(1, 7));
        let report = sweeper.remove(nobody, now()).expect("passes");
        assert_eq!(found(&report), [0; 5]);
        let member = Scope::Member(group_id(0), held(1, 8));
        let report = sweeper.remove(member, now()).expect("passes");
        let gone = report.removed.called;
        assert!(gone > 5 && gone == report.found.live);
        for number in 0..60 {
            if let Some(pin) = pin(&machine, number) {
                assert_ne!(slot_and_generation(pin).0, 1);
            }
        }
        let report = sweeper
            .remove(Scope::Group(group_id(1)), now())
            .expect("passes");
        assert_eq!(found(&report), [0; 5]);
        let report = sweeper
            .remove(Scope::Group(group_id(0)), now())
            .expect("passes");
        assert_eq!(report.removed.called, 60 - gone);
        assert_balance(&machine);
    });
}

/// One pin, and only as it was read.
#[test]
fn one_pin_goes_if_it_is_unchanged() {
    isolated("egress_pins::sweep::one", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        for number in 0..3 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let (pins, mut sweeper) = (pins(&machine), sweeper(&machine));
        let holder = |number: u32| Holder {
            table: TableId::new(TABLE),
            group: group_id(0),
            source: source(number).into(),
            flow: None,
        };
        let find = |number| {
            let found = pins.find(&holder(number)).expect("readable");
            found.expect("a pin")
        };
        let (first, second) = (find(0), find(1));
        // Being used is no change, being bound anew is, to the same shard as well.
        assert_eq!(counted(&machine, 0), HIT);
        let made = pin(&machine, 1).expect("a pin");
        let old = abi::Pin {
            last_seen_tick: tick().wrapping_sub(10 * IDLE),
            ..made
        };
        set_pin(&machine, 1, &old);
        let renewed = counted(&machine, 1);
        assert!(
            renewed.contains(&(C::GW_EGRESS_PIN_REPLACED, 1)),
            "{renewed:?}"
        );
        assert_eq!(find(1).held, second.held);
        assert_eq!(sweeper.remove_pin(&second).expect("a call"), Fate::Changed);
        assert_eq!(sweeper.remove_pin(&first).expect("a call"), Fate::Removed);
        assert_eq!(sweeper.remove_pin(&first).expect("a call"), Fate::Gone);
        assert_eq!(sweeper.remove_pin(&find(1)).expect("a call"), Fate::Removed);
        assert_eq!(used(&machine, TABLE), (1, 0));
        group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        machine.publish(0, &group);
        assert_eq!(counted(&machine, 5), NEW);
        let mut flow = None;
        let read = pins.for_each(|pin| {
            flow = pin.ok().filter(|pin| pin.holder.flow.is_some()).or(flow);
            std::ops::ControlFlow::Continue(())
        });
        read.expect("readable");
        let flow = flow.expect("a flow's pin");
        assert_eq!(pins.find(&flow.holder).expect("read"), Some(flow));
        assert_eq!(sweeper.remove_pin(&flow).expect("a call"), Fate::Removed);
        assert_balance(&machine);
    });
}
