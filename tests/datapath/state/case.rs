// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One packet on one slot with one entry, and all that must come of it.

use guideway::abi::{self, BindingState, Counter};
use guideway::affinity::Binding;
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::reason::{Reason, Rule};

use super::world::*;

const DROP: u32 = 1;
const REDIRECT: u32 = 4;

/// What the table holds of the flow afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) enum After {
    Nothing,
    /// The entry as it was put there, to the last bit.
    Same,
    /// The entry as it was put there, but for its state.
    Marked(u32),
    /// An entry for the backend in this row, with this state, used by this packet.
    Used(u16, u32),
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    name: &'static str,
    service: &'static str,
    frame: Vec<u8>,
    owner: u16,
    base: u16,
    entry: Option<Given>,
    level: u32,
    grace: bool,
    closing: u64,
    end: Option<(u16, Rule)>,
    counters: Vec<Counter>,
    after: After,
    keeps_open: bool,
}

/// An entry as a test puts it there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) row: u16,
    pub(super) state: u32,
    /// Added to the incarnation of the row's backend.
    pub(super) later: u32,
    /// Age in nanoseconds.
    pub(super) age: u64,
    /// Flipped bits of what tells the flow's entry from others.
    pub(super) tag: u16,
    pub(super) hash: u32,
}

/// An entry for the backend in this row, used ten seconds ago.
pub(super) fn given(row: u16) -> Given {
    Given {
        row,
        state: 0,
        later: 0,
        age: 10 * SECOND,
        tag: 0,
        hash: 0,
    }
}

/// A packet that finds a plain slot of the first ready backend, without an entry.
pub(super) fn case(name: &'static str, service: &'static str, frame: Vec<u8>) -> Case {
    Case {
        name,
        service,
        frame,
        owner: READY,
        base: PLAIN,
        entry: None,
        level: abi::Level::GW_LEVEL_ALL.0,
        grace: false,
        closing: 0,
        end: None,
        counters: Vec::new(),
        after: After::Nothing,
        keeps_open: false,
    }
}

impl Case {
    pub(super) fn slot(self, owner: u16, base: u16) -> Self {
        Self {
            owner,
            base,
            ..self
        }
    }

    pub(super) fn entry(self, entry: Given) -> Self {
        Self {
            entry: Some(entry),
            ..self
        }
    }

    pub(super) fn level(self, level: abi::Level) -> Self {
        Self {
            level: level.0,
            ..self
        }
    }

    /// The handshake grace lasts.
    pub(super) fn grace(self) -> Self {
        Self {
            grace: true,
            ..self
        }
    }

    /// Slots of this generation are about to close; the packet sees number 7.
    pub(super) fn closing(self, generation: u64) -> Self {
        Self {
            closing: generation,
            ..self
        }
    }

    /// Goes to the backend in this row; without this it is dropped for want of one.
    pub(super) fn goes_to(self, row: u16, rule: Rule) -> Self {
        Self {
            end: Some((row, rule)),
            ..self
        }
    }

    pub(super) fn counts(self, counters: &[Counter]) -> Self {
        Self {
            counters: counters.to_vec(),
            ..self
        }
    }

    pub(super) fn leaves(self, after: After) -> Self {
        Self { after, ..self }
    }

    /// Noted as a refusal that keeps open slots open.
    pub(super) fn keeps_open(self) -> Self {
        Self {
            keeps_open: true,
            ..self
        }
    }

    pub(super) fn check(&self, world: &mut World) {
        let Self { name, service, .. } = *self;
        let key = world.key(service);
        let now = monotonic_coarse_ns();
        for placed in &mut world.generation.services {
            placed.grace_until_ns = if self.grace { now + 60 * SECOND } else { now };
        }
        world.publish(self.owner, self.base);
        let stats = world.stats(service);
        world.machine.forget();
        world.machine.set_closing(self.closing);
        world.machine.admit(
            stats,
            abi::Admission {
                flows: self.level,
                ..Default::default()
            },
        );
        let put = self.entry.map(|given| {
            let entry = world.entry(service, given.row);
            abi::Binding {
                tag: entry.tag ^ given.tag,
                hash: entry.hash ^ given.hash,
                incarnation: entry.incarnation + given.later,
                seen_ns: now.saturating_sub(given.age),
                state: given.state,
                ..entry
            }
        });
        if let Some(put) = &put {
            world.machine.put_flow(&key, put);
        }
        let (mut counts, mut reasons) = (world.machine.service(stats), world.machine.reasons());

        let begin = monotonic_coarse_ns();
        let ran = world.machine.run(&self.frame);
        let end = monotonic_coarse_ns();

        let mut expected = self.frame.clone();
        let (action, reason) = match self.end {
            Some((row, rule)) => {
                let backend = world.service(service).1.backend(row).unwrap();
                expected[..6].copy_from_slice(&backend.mac.octets());
                counts.1[usize::from(rule.number())] += 1;
                (REDIRECT, Reason::Forwarded)
            }
            None => (DROP, Reason::NoBackend),
        };
        assert_eq!(
            (ran.action, ran.frame),
            (action, expected),
            "{name}: action and frame"
        );
        reasons[usize::from(reason.number())] += 1;
        assert_eq!(world.machine.reasons(), reasons, "{name}: reasons");
        counts.0[0] += 1;
        counts.0[1] += self.frame.len() as u64;
        for counter in &self.counters {
            counts.2[counter.0 as usize] += 1;
        }
        assert_eq!(world.machine.service(stats), counts, "{name}: counters");

        let now = begin..=end;
        let found = world.machine.flows();
        match self.after {
            After::Nothing => assert!(found.is_empty(), "{name}: {found:?}"),
            After::Same => assert_eq!(readable(&found), readable(&[(key, put.unwrap())]), "{name}"),
            After::Marked(state) => {
                let put = put.unwrap();
                let marked = [(key, abi::Binding { state, ..put })];
                assert_eq!(readable(&found), readable(&marked), "{name}");
            }
            After::Used(row, state) => {
                let [(_, entry)] = found[..] else {
                    panic!("{name}: one entry, not {found:?}");
                };
                let expected = abi::Binding {
                    seen_ns: entry.seen_ns,
                    state,
                    ..world.entry(service, row)
                };
                assert_eq!(readable(&found), readable(&[(key, expected)]), "{name}");
                assert!(now.contains(&entry.seen_ns), "{name}: used at {entry:?}");
            }
        }
        let admission = world.machine.admission(stats);
        assert_eq!(admission.flows, self.level, "{name}: level");
        let refused = admission.refused_ns;
        match self.keeps_open {
            true => assert!(now.contains(&refused), "{name}: refused at {refused}"),
            false => assert_eq!(refused, 0, "{name}: refused"),
        }
    }
}

/// Every bit of some entries, to compare and to read.
pub(super) fn readable<K: bytemuck::Pod>(
    entries: &[(K, abi::Binding)],
) -> Vec<(Vec<u8>, Binding, u32)> {
    let readable = |(key, entry): &(K, abi::Binding)| {
        let key = bytemuck::bytes_of(key).to_vec();
        (key, Binding::from_abi(entry), entry.state)
    };
    entries.iter().map(readable).collect()
}

pub(super) fn check(name: &str, cases: Vec<Case>) {
    crate::netns::isolated(name, move || {
        let mut world = World::new();
        for case in cases {
            case.check(&mut world);
        }
    });
}

pub(super) const STARTS: Counter = Counter::GW_COUNTER_STARTS;
pub(super) const LONG: Counter = Counter::GW_COUNTER_QUIC_LONG;
pub(super) const SHORT: Counter = Counter::GW_COUNTER_QUIC_SHORT;
pub(super) const NEGOTIATION: Counter = Counter::GW_COUNTER_VERSION_NEGOTIATION;
pub(super) const RETRY: Counter = Counter::GW_COUNTER_RETRY;
pub(super) const UNKNOWN_VERSION: Counter = Counter::GW_COUNTER_UNKNOWN_VERSION;
pub(super) const ICMP_ERROR: Counter = Counter::GW_COUNTER_ICMP;
pub(super) const FRAGMENTS: Counter = Counter::GW_COUNTER_FRAGMENTS;
pub(super) const PLAIN_OUTCOME: Counter = Counter::GW_COUNTER_PLAIN;
pub(super) const HIT: Counter = Counter::GW_COUNTER_HIT;
pub(super) const RESELECTED: Counter = Counter::GW_COUNTER_RESELECTED;
pub(super) const START_INSERTED: Counter = Counter::GW_COUNTER_START_INSERTED;
pub(super) const BASE_INSERTED: Counter = Counter::GW_COUNTER_BASE_INSERTED;
pub(super) const HELD_DEFAULT: Counter = Counter::GW_COUNTER_HELD_DEFAULT;
pub(super) const ALL_INSERTED: Counter = Counter::GW_COUNTER_ALL_INSERTED;
pub(super) const RACED: Counter = Counter::GW_COUNTER_RACED;
pub(super) const REFUSED_HIGH: Counter = Counter::GW_COUNTER_REFUSED_HIGH;
pub(super) const REFUSED_FULL: Counter = Counter::GW_COUNTER_REFUSED_FULL;
pub(super) const REFUSED_BUSY: Counter = Counter::GW_COUNTER_REFUSED_BUSY;
pub(super) const DEAD_USED: Counter = Counter::GW_COUNTER_DEAD_USED;
pub(super) const NO_ENTRY: Counter = Counter::GW_COUNTER_NO_ENTRY;
pub(super) const NO_BACKEND: Counter = Counter::GW_COUNTER_NO_BACKEND;
pub(super) const TAG_MISMATCH: Counter = Counter::GW_COUNTER_TAG_MISMATCH;
pub(super) const AT_RISK: Counter = Counter::GW_COUNTER_AT_RISK;

pub(super) const CID_LEARNED: Counter = Counter::GW_COUNTER_CID_LEARNED;
pub(super) const CID_CONFLICT: Counter = Counter::GW_COUNTER_CID_CONFLICT;
pub(super) const CID_LEN_MISMATCH: Counter = Counter::GW_COUNTER_CID_LEN_MISMATCH;
pub(super) const CID_REFUSED: Counter = Counter::GW_COUNTER_CID_REFUSED;
pub(super) const REBIND: Counter = Counter::GW_COUNTER_REBIND;
pub(super) const STALE: Counter = Counter::GW_COUNTER_STALE;
pub(super) const UNKNOWN_ID: Counter = Counter::GW_COUNTER_UNKNOWN_SERVER_ID;

pub(super) const EXPIRING: u32 = BindingState::GW_BINDING_EXPIRING.0;
pub(super) const DEAD: u32 = BindingState::GW_BINDING_DEAD.0;
pub(super) const TOUCHED: u32 = BindingState::GW_BINDING_TOUCHED.0;
pub(super) const FIN_SEEN: u32 = BindingState::GW_BINDING_FIN.0;
pub(super) const RST_SEEN: u32 = BindingState::GW_BINDING_RST.0;
