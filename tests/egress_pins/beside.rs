// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sweeps beside packets: none takes a pin that is in use, and all numbers agree at the end.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use guideway::abi;
use guideway::egress::pins::{Removed, Report, Scope, Sweeper};
use guideway::kernel::map::Update;
use guideway::route::TableId;

use crate::cpus::stay_on;
use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

/// What can become of pins that many are after.
const ALL: [C; 8] = [
    C::GW_EGRESS_PIN_HIT,
    C::GW_EGRESS_PIN_STALE,
    C::GW_EGRESS_PIN_REPLACED,
    C::GW_EGRESS_PIN_FULL,
    C::GW_EGRESS_PIN_QUOTA,
    C::GW_EGRESS_PIN_REMOVED_STALE,
    C::GW_EGRESS_PIN_REMOVED_TENANT,
    C::GW_EGRESS_PIN_REMOVED_CALL,
];
/// Addresses of each of the two senders.
const ADDRESSES: u32 = 200;
/// Rounds after which a coincidence is given up.
const ROUNDS: u32 = 2000;

/// Tells those who go on meanwhile to stop, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Every address of two threads sends three packets, while `sweep` goes on beside them.
fn three_packets_each(machine: &Machine, mut sweep: impl FnMut() -> Report + Send) -> Removed {
    let sending = AtomicBool::new(true);
    thread::scope(|scope| {
        let sweeps = scope.spawn(|| {
            let mut removed = sweep().removed;
            while sending.load(Ordering::Acquire) {
                removed += sweep().removed;
            }
            removed
        });
        let senders = [0, 1].map(|half| {
            scope.spawn(move || {
                stay_on(half as usize);
                for number in (half * ADDRESSES..).take(ADDRESSES as usize) {
                    for _ in 0..3 {
                        machine.classify(&frame(number));
                    }
                }
            })
        });
        let stop = Stop(&sending);
        for sender in senders {
            sender.join().expect("a sender");
        }
        drop(stop);
        sweeps.join().expect("the sweeper")
    })
}

fn count(machine: &Machine, counter: C) -> u64 {
    machine.counters()[counter.0 as usize]
}

/// Makes every pin one that has to go, and lets packets and sweeps at them at once, until either has won
/// some of them. A pin that was bound anew stays: each address gets one, by one way or the other.
fn race(machine: &Machine, sweeper: &mut Sweeper, mut spoil: impl FnMut(u32)) {
    let addresses = 2 * ADDRESSES;
    for number in 0..addresses {
        machine.classify(&frame(number));
    }
    let (mut by_packets, mut by_sweeps) = (0, 0);
    for round in 0..ROUNDS {
        spoil(round);
        let counters = [C::GW_EGRESS_PIN_NEW, C::GW_EGRESS_PIN_REPLACED];
        let before = counters.map(|counter| count(machine, counter));
        let removed =
            three_packets_each(machine, || sweeper.expire(now()).expect("a pass")).total();
        let after = counters.map(|counter| count(machine, counter));
        let [made, renewed] = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(made + renewed, u64::from(addresses), "round {round}");
        assert_eq!(removed, made, "round {round}");
        assert_eq!(count(machine, C::GW_EGRESS_PIN_TORN), 0);
        assert_balance(machine);
        by_packets += renewed;
        by_sweeps += made;
        if by_packets > 500 && by_sweeps > 500 {
            break;
        }
    }
    println!("{by_packets} renewed by packets, {by_sweeps} removed by sweeps");
    assert!(by_packets > 500 && by_sweeps > 500, "never at once");
}

#[test]
fn a_pin_that_was_bound_anew_stays() {
    isolated("egress_pins::beside::stale", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        race(&machine, &mut sweeper(&machine), |round| {
            for member in &mut group.members {
                member.generation = 100 + 3 * round + u32::from(member.sid[7] & 3);
            }
            machine.publish(0, &group);
        });
    });
}

#[test]
fn a_pin_that_is_used_again_stays() {
    isolated("egress_pins::beside::idle", || {
        let machine = Machine::new();
        pinned(&machine);
        race(&machine, &mut sweeper(&machine), |_| {
            let old = tick().wrapping_sub(IDLE + 2 * REFRESH + 1);
            for number in 0..2 * ADDRESSES {
                let made = pin(&machine, number).expect("a pin");
                let old = abi::Pin {
                    last_seen_tick: old,
                    ..made
                };
                set_pin(&machine, number, &old);
            }
        });
    });
}

/// At full speed, and every pin is due to be renewed all the time; sweeps find none to remove.
#[test]
fn sweeps_take_no_pin_that_is_in_use() {
    isolated("egress_pins::beside::live", || {
        let machine = Machine::new();
        let mut group = pinned(&machine);
        group.header.pin_idle_ticks = 1;
        group.header.pin_refresh_ticks = 0;
        machine.publish(0, &group);
        let mut sweeper = sweeper(&machine);
        let addresses = u64::from(2 * ADDRESSES);
        let mut passes = 0;
        while passes < 3000 {
            let removed = three_packets_each(&machine, || {
                passes += 1;
                sweeper.expire(now()).expect("a pass")
            });
            assert_eq!(removed, Removed::default());
        }
        assert_eq!(count(&machine, C::GW_EGRESS_PIN_NEW), addresses);
        assert_balance(&machine);
    });
}

/// Three tenants by source and by flow, full tables, quotas, groups that change, and everything that
/// removes pins, all at once.
#[test]
fn all_counts_agree_in_the_end() {
    isolated("egress_pins::beside::balance", || {
        let machine = Machine::with(&[("gw_pins", 500), ("gw_flow_pins", 500)]);
        let mut group = pinned(&machine);
        let other = neighbour(&machine);
        set_quota(&machine, machine.tenant, 100);
        let going = AtomicBool::new(true);
        let far: Ipv6Addr = "2001:db8:2::1".parse().expect("an address");
        let send = |ifindex: u32, start: u32| {
            let mut number = start;
            while going.load(Ordering::Relaxed) {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let port = (number >> 8) as u16 % 64;
                let frame = ipv6(source(number >> 23), far, UDP, &ports(port, 53, 12));
                machine.classify_from(ifindex, &frame);
            }
        };
        let all_happened = || {
            let counters = machine.counters();
            ALL.iter().all(|counter| counters[counter.0 as usize] > 0)
        };
        let mut sweeper = sweeper(&machine);
        thread::scope(|scope| {
            scope.spawn(|| send(machine.tenant, 1));
            scope.spawn(|| send(machine.uplink, 2));
            let _stop = Stop(&going);
            for round in 0..ROUNDS as usize {
                if round > 60 && all_happened() {
                    break;
                }
                let member = &mut group.members[round % 3];
                member.generation += 100;
                group.header.flags ^= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
                machine.publish(0, &group);
                let tenant = TableId::new(if round % 2 == 0 { TABLE } else { other });
                let pass = match round % 5 {
                    0 => sweeper.expire(now()),
                    1 => sweeper.remove_tenant(tenant, now()),
                    2 => sweeper.remove(Scope::Group(group_id(0)), now()),
                    3 => sweeper.purge(group_id(0), now()),
                    _ => sweeper.count(Scope::All, now()),
                };
                assert_eq!(pass.expect("passes").uncounted, 0);
            }
        });
        assert!(all_happened(), "{:?}", machine.counters());
        assert_balance(&machine);
        let status = pins(&machine).status(&Default::default(), now());
        assert_eq!(status.expect("readable").drifts().count(), 0);
        // A drift is reported, and stays.
        let used = machine.pin_use.get(&other).expect("read").expect("a row");
        let wrong = abi::PinUse {
            pins: used.pins + 3,
            ..used
        };
        let updated = machine.pin_use.update(&other, &wrong, Update::Replace);
        updated.expect("a row");
        for _ in 0..2 {
            let status = pins(&machine).status(&Default::default(), now());
            let drifts: Vec<_> = status.expect("readable").drifts().collect();
            assert_eq!(drifts, [(TableId::new(other), 3)]);
            sweeper.expire(now()).expect("a pass");
        }
    });
}
