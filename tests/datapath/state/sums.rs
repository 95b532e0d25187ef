// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The books: every packet is in exactly one place of each account.

use guideway::abi::{self, Level};
use guideway::reason::{Reason, Rule};

use super::case::*;
use super::world::*;
use crate::build::*;
use crate::machine::Machine;
use crate::netns::isolated;

const OUTCOMES: [abi::Counter; 14] = [
    PLAIN_OUTCOME,
    HIT,
    RESELECTED,
    START_INSERTED,
    BASE_INSERTED,
    HELD_DEFAULT,
    ALL_INSERTED,
    RACED,
    REFUSED_HIGH,
    REFUSED_FULL,
    REFUSED_BUSY,
    DEAD_USED,
    NO_ENTRY,
    NO_BACKEND,
];

/// A xorshift generator: the packets are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

fn packet(random: &mut Random) -> Vec<u8> {
    let port = 50000 + random.below(40) as u16;
    let tcp_flags = [SYN, ACK, ACK | FIN, RST, SYN | ACK, 0];
    let frame = match random.below(10) {
        0..=2 => segment(random.of(&[8080, 8081]), random.of(&tcp_flags), b"x"),
        3..=4 => {
            let version = random.of(&[V1, V2, 0, 0x0a0a_0a0a]);
            let kind = random.below(4) as u8;
            let cid = vec![random.of(&[0, 7, 0xe7]); random.below(23) as usize];
            datagram(
                random.of(&[443, 444, 445, 446, 447]),
                &long(kind, version, &cid),
            )
        }
        5 => datagram(
            random.of(&[443, 444, 445, 446, 447]),
            &short(&[random.below(4) as u8; 8]),
        ),
        6 => datagram(random.of(&[53, 54, 55]), b"hello"),
        7 => to_vip(random.of(&[ROUTED_VIP, TRACKED_VIP]), b"hello"),
        8 => {
            let about = [(TCP, 8080), (TCP, 8081), (UDP, 443), (UDP, 53)];
            let (protocol, port) = random.of(&about);
            return error_about(protocol, port);
        }
        _ => {
            return as_fragment(to_vip(random.of(&[ROUTED_VIP, TRACKED_VIP]), b"hello"));
        }
    };
    let [high, low] = port.to_be_bytes();
    with(frame, &[(34, high), (35, low)])
}

#[test]
fn the_books_balance() {
    isolated("datapath::state::sums", || {
        // Fewer entries than flows, so that some are refused.
        let mut world = World::on(Machine::with_entries(128));
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut packets = 0;
        for _ in 0..60 {
            let rows = [READY, OTHER, DRAINING, UNHEALTHY, EMPTY];
            let owner = random.of(&[READY, OTHER, NONE]);
            let marked = random.of(&rows);
            let base = random.of(&[PLAIN, HELD, marked]);
            world.publish(owner, base);
            for index in 0..SERVICES {
                let levels = [
                    Level::GW_LEVEL_ALL,
                    Level::GW_LEVEL_ALL,
                    Level::GW_LEVEL_RESERVE,
                    Level::GW_LEVEL_NONE,
                ];
                let flows = random.of(&levels).0;
                let admission = world.machine.admission(index);
                world
                    .machine
                    .admit(index, abi::Admission { flows, ..admission });
            }
            for (key, entry) in world.machine.flows() {
                // A part of the entries becomes useless, dead, or somebody else's.
                let changed = match random.below(8) {
                    0 => abi::Binding {
                        row: random.of(&rows),
                        ..entry
                    },
                    1 => abi::Binding {
                        state: entry.state | random.below(4) as u32,
                        ..entry
                    },
                    2 => abi::Binding {
                        tag: entry.tag ^ 1,
                        ..entry
                    },
                    _ => continue,
                };
                let update = guideway::kernel::map::Update::Replace;
                world.machine.flows.update(&key, &changed, update).unwrap();
            }
            for _ in 0..100 {
                world.machine.run(&packet(&mut random));
                packets += 1;
            }
        }

        let reasons = world.machine.reasons();
        assert_eq!(reasons.iter().sum::<u64>(), packets);
        assert_eq!(reasons[usize::from(Reason::Internal.number())], 0);
        let mut seen = [0; OUTCOMES.len()];
        let (mut forwarded, mut unplaced) = (0, 0);
        for index in 0..SERVICES {
            let (_, rules, counters) = world.machine.service(index);
            let outcomes = OUTCOMES.map(|outcome| counters[outcome.0 as usize]);
            let no_backend = counters[NO_BACKEND.0 as usize];
            let by_flow: u64 = [Rule::Flow, Rule::Previous, Rule::Table, Rule::Reselect]
                .map(|rule| rules[usize::from(rule.number())])
                .iter()
                .sum();
            assert_eq!(
                outcomes.iter().sum::<u64>(),
                by_flow + no_backend,
                "service {index}"
            );
            let rule = |rule: Rule| rules[usize::from(rule.number())];
            let of = |outcome: abi::Counter| counters[outcome.0 as usize];
            assert_eq!(rule(Rule::Flow), of(HIT) + of(RACED) + of(DEAD_USED));
            assert_eq!(rule(Rule::Reselect), of(RESELECTED));
            forwarded += rules.iter().sum::<u64>();
            unplaced += no_backend;
            for (seen, outcome) in seen.iter_mut().zip(outcomes) {
                *seen += outcome;
            }
        }
        assert_eq!(reasons[usize::from(Reason::Forwarded.number())], forwarded);
        assert_eq!(reasons[usize::from(Reason::NoBackend.number())], unplaced);
        for (outcome, seen) in OUTCOMES.iter().zip(seen) {
            println!("{seen:>6} {outcome:?}");
            // A race takes two CPUs.
            assert!(seen > 0 || *outcome == RACED, "{outcome:?} never happened");
        }
    });
}

/// What is in the table is what was inserted and not deleted.
#[test]
fn entries_are_what_was_inserted() {
    isolated("datapath::state::inserts", || {
        let mut world = World::new();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..20 {
            let owner = random.of(&[READY, OTHER]);
            let base = random.of(&[PLAIN, HELD, READY, OTHER, DRAINING]);
            world.publish(owner, base);
            for _ in 0..100 {
                world.machine.run(&packet(&mut random));
            }
        }
        let inserted = |index| {
            let (_, _, counters) = world.machine.service(index);
            let of = |counter: &abi::Counter| counters[counter.0 as usize];
            let flows = [START_INSERTED, BASE_INSERTED, ALL_INSERTED, REBIND];
            (flows.iter().map(of).sum::<u64>(), of(&CID_LEARNED))
        };
        let (flows, cids): (Vec<_>, Vec<_>) = (0..SERVICES).map(inserted).unzip();
        let [flows, cids] = [flows, cids].map(|inserted| inserted.iter().sum::<u64>());
        assert!(flows > 100 && cids > 0, "{flows} {cids}");
        assert_eq!(world.machine.flows().len() as u64, flows);
        assert_eq!(world.machine.cids().len() as u64, cids);
    });
}
