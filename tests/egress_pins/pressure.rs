// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! More newcomers than there is room for.

use std::time::Duration;

use crate::machine::*;
use crate::netns::{isolated, within};
use crate::scene::*;

const ROOM: u32 = 2048;
/// Pins of each of two quiet tenants.
const QUIET: u32 = 256;

/// Quiet tenants keep all their pins while a third one sends from eight times as many addresses as there is
/// room for, and sweeps go on.
#[test]
fn pins_in_use_survive_a_flood() {
    isolated("egress_pins::pressure::flood", || {
        let machine = Machine::with(&[("gw_pins", ROOM), ("gw_flow_pins", 1)]);
        pinned(&machine);
        let second = neighbour(&machine);
        let flooder = TABLE + 2;
        machine.add_tenant(1, flooder, ARGUMENT);
        let to_group = machine.to_group(0, 1);
        machine.route(flooder, "::".parse().expect("an address"), 0, &to_group);
        for number in 0..QUIET {
            assert_eq!(machine.run(&frame(number)).1, NEW);
            assert_eq!(machine.run_from(machine.uplink, &frame(number)).1, NEW);
        }
        let before = machine.counters();
        let mut sweeper = sweeper(&machine);
        for number in 0..8 * ROOM {
            let out = machine.classify_from(1, &frame(number));
            assert_eq!(out.action, REDIRECT);
            if number % ROOM == 0 {
                let report = sweeper.expire(now()).expect("a pass");
                assert_eq!(report.removed.total(), 0);
            }
        }
        let after = machine.counters();
        let came_to = |counter: C| after[counter.0 as usize] - before[counter.0 as usize];
        let made = ROOM - 2 * QUIET;
        assert_eq!(came_to(C::GW_EGRESS_PIN_NEW), u64::from(made));
        assert_eq!(came_to(C::GW_EGRESS_PIN_FULL), u64::from(8 * ROOM - made));
        assert_eq!(came_to(C::GW_EGRESS_GROUP), u64::from(8 * ROOM));
        assert_eq!(used(&machine, flooder), (u64::from(made), 0));
        for number in 0..QUIET {
            assert_eq!(machine.run(&frame(number)).1, HIT);
            assert_eq!(machine.run_from(machine.uplink, &frame(number)).1, HIT);
        }
        assert_eq!(used(&machine, second), (u64::from(QUIET), 0));
        assert_balance(&machine);
    });
}

/// After a refusal nothing is inserted for a tick or two, and then again.
#[test]
fn a_full_table_is_left_alone_for_a_moment() {
    isolated("egress_pins::pressure::full", || {
        let machine = Machine::with(&[("gw_pins", 32), ("gw_flow_pins", 1)]);
        pinned(&machine);
        let mut full = NEW;
        full[2].0 = C::GW_EGRESS_PIN_FULL;
        for number in 0..32 {
            assert_eq!(counted(&machine, number), NEW);
        }
        let mut number = 0;
        let moment = loop {
            let moment = tick() | 1;
            assert_eq!(counted(&machine, 100 + number), full);
            assert!(machine.pins.remove(&key(number)).expect("removed"));
            let after = counted(&machine, 200 + number);
            // Otherwise the moment was over in between.
            if tick() | 1 == moment {
                assert_eq!(after, full, "there is room");
                break moment;
            }
            if after == full {
                assert_eq!(counted(&machine, 200 + number), NEW, "the moment is over");
            }
            number += 1;
        };
        let inserts = || counted(&machine, 300) == NEW;
        assert!(within(Duration::from_secs(60), inserts));
        assert_ne!(tick() | 1, moment);
    });
}
