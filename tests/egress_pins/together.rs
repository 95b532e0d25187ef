// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets of one address on two CPUs at the same moment.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guideway::abi;

use crate::cpus::stay_on;
use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

/// Rounds after which a coincidence is given up.
const ROUNDS: u32 = 300_000;
/// Rounds after which it is looked at what they came to.
const PART: u32 = 500;
/// Coincidences that are enough.
const ENOUGH: u64 = 50;

/// After which nobody comes any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where two threads wait for each other without going to sleep.
#[derive(Default)]
struct Meeting {
    arrived: AtomicU32,
}

impl Meeting {
    fn wait(&self) {
        let both = (self.arrived.fetch_add(1, Ordering::AcqRel) | 1) + 1;
        let (mut spins, started) = (0_u32, Instant::now());
        while (self.arrived.load(Ordering::Acquire).wrapping_sub(both) as i32) < 0 {
            spins += 1;
            // Somebody else may be on the other's CPU.
            if spins % 2048 == 0 {
                thread::yield_now();
                assert!(started.elapsed() < PATIENCE, "the other has failed");
            }
            std::hint::spin_loop();
        }
    }
}

/// What a packet came to: its verdict, and the shard's SID.
fn sent(machine: &Machine, number: u32) -> (i32, Vec<u8>) {
    let out = machine.classify(&frame(number));
    (
        out.action,
        out.frame.get(38..54).unwrap_or_default().to_vec(),
    )
}

/// Lets two CPUs send a packet of the same address at once, of another one in each round, which
/// `prepare` comes before. Until there were `ENOUGH` of what `coincidences` counts; how many rounds.
fn together(machine: &Machine, prepare: impl Fn(u32), coincidences: impl Fn() -> u64) -> u32 {
    let (meeting, done) = (Meeting::default(), AtomicBool::new(false));
    let send = |number| {
        meeting.wait();
        let sent = sent(machine, number);
        meeting.wait();
        sent
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            stay_on(1);
            let mut all = Vec::new();
            for number in 0.. {
                meeting.wait();
                if done.load(Ordering::Acquire) {
                    break;
                }
                all.push(send(number));
            }
            all
        });
        stay_on(0);
        let mut all = Vec::new();
        for number in 0..ROUNDS {
            if number % PART == 0 && coincidences() >= ENOUGH {
                break;
            }
            prepare(number);
            meeting.wait();
            all.push(send(number));
        }
        done.store(true, Ordering::Release);
        meeting.wait();
        let others = other.join().expect("the other");
        assert!(all.iter().all(|(action, _)| *action == REDIRECT));
        assert!(all == others, "the two went different ways");
        all.len() as u32
    })
}

fn count(machine: &Machine, counter: C) -> u64 {
    machine.counters()[counter.0 as usize]
}

/// Two tables of the same shards, one after the other, as long as `work` goes on.
fn while_tables_change<T: Send>(
    machine: &Machine,
    group: &Group,
    work: impl FnOnce() -> T + Send,
) -> T {
    let mut other = group.clone();
    other.members[0].flags |= abi::MemberFlag::GW_MEMBER_DRAINING.0;
    other.fill_table(1021);
    let going = AtomicBool::new(true);
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = work();
            going.store(false, Ordering::Relaxed);
            result
        });
        while going.load(Ordering::Relaxed) && !work.is_finished() {
            machine.publish(0, &other);
            machine.publish(0, group);
        }
        work.join().expect("the work")
    })
}

/// One pin comes of it, and the packet that came too late follows it, whatever its own table said.
#[test]
fn first_packets_on_two_cpus_make_one_pin() {
    isolated("egress_pins::together::first", || {
        let machine = Machine::with(&[("gw_pins", ROUNDS), ("gw_flow_pins", 1)]);
        let group = pinned(&machine);
        // The loser of an insert was placed by the table before.
        let lost = || count(&machine, C::GW_EGRESS_MAGLEV) - count(&machine, C::GW_EGRESS_PIN_NEW);
        let rounds = while_tables_change(&machine, &group, || together(&machine, |_| (), lost));
        println!("{rounds} rounds, {} inserts were too late", lost());
        assert!(lost() >= ENOUGH, "never at once");
        let counted = |counter| count(&machine, counter);
        assert_eq!(counted(C::GW_EGRESS_PIN_NEW), u64::from(rounds));
        assert_eq!(counted(C::GW_EGRESS_PIN_HIT), u64::from(rounds));
        assert_eq!(counted(C::GW_EGRESS_GROUP), 2 * u64::from(rounds));
        assert_balance(&machine);
        // And so do the next ones.
        for number in 0..100 {
            assert_eq!(self::counted(&machine, number), HIT);
        }
    });
}

/// A pin whose shard's tenure is over is bound anew once; the packet that came too late follows it.
#[test]
fn the_loser_of_an_exchange_follows_the_winner() {
    isolated("egress_pins::together::exchange", || {
        let machine = Machine::with(&[("gw_pins", ROUNDS), ("gw_flow_pins", 1)]);
        let group = pinned(&machine);
        let stale = |number| {
            let (action, _) = sent(&machine, number);
            assert_eq!(action, REDIRECT);
            let made = pin(&machine, number).expect("a pin");
            let former = abi::Pin {
                bind: made.bind & 0xffff_ffff | 3 << 32,
                ..made
            };
            set_pin(&machine, number, &former);
        };
        let lost =
            || count(&machine, C::GW_EGRESS_PIN_STALE) - count(&machine, C::GW_EGRESS_PIN_REPLACED);
        let rounds = while_tables_change(&machine, &group, || together(&machine, stale, lost));
        println!("{rounds} rounds, {} exchanges were too late", lost());
        assert!(lost() >= ENOUGH, "never at once");
        let counted = |counter| count(&machine, counter);
        assert_eq!(counted(C::GW_EGRESS_PIN_NEW), u64::from(rounds));
        assert_eq!(counted(C::GW_EGRESS_PIN_REPLACED), u64::from(rounds));
        assert_eq!(counted(C::GW_EGRESS_PIN_HIT), u64::from(rounds));
        assert_eq!(counted(C::GW_EGRESS_PIN_TORN), 0);
        assert_balance(&machine);
    });
}

/// Whoever finds the quota exhausted by the other packet of its own address follows that one's pin.
#[test]
fn the_last_of_a_quota_may_be_ones_own() {
    isolated("egress_pins::together::quota", || {
        let machine = Machine::with(&[("gw_pins", ROUNDS), ("gw_flow_pins", 1)]);
        pinned(&machine);
        let one_more = |number| set_quota(&machine, machine.tenant, number + 1);
        let counted = |counter| count(&machine, counter);
        let refused = || counted(C::GW_EGRESS_PIN_QUOTA);
        let found = || counted(C::GW_EGRESS_MAGLEV) - counted(C::GW_EGRESS_PIN_NEW) - refused();
        let rounds = together(&machine, one_more, found);
        println!(
            "{rounds} rounds, {} refused, {} found it",
            refused(),
            found()
        );
        assert!(found() >= ENOUGH, "never at once");
        assert_eq!(counted(C::GW_EGRESS_PIN_NEW), u64::from(rounds));
        assert_eq!(used(&machine, TABLE), (u64::from(rounds), refused()));
        assert_balance(&machine);
    });
}

/// However many newcomers there are at once, there are never more pins than the quota says.
#[test]
fn a_quota_is_never_exceeded() {
    isolated("egress_pins::together::limit", || {
        let machine = Machine::new();
        pinned(&machine);
        for quota in [0, 1, 2, 100, 1000] {
            set_quota(&machine, machine.tenant, quota);
            thread::scope(|scope| {
                for half in 0..2 {
                    let machine = &machine;
                    scope.spawn(move || {
                        for number in 0..1000 {
                            sent(machine, quota * 10_000 + 2 * number + half);
                        }
                    });
                }
            });
            assert_eq!(used(&machine, TABLE).0, u64::from(quota));
            assert_eq!(
                used(&machine, TABLE).1,
                count(&machine, C::GW_EGRESS_PIN_QUOTA)
            );
            assert_balance(&machine);
        }
    });
}
