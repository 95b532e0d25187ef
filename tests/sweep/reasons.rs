// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What becomes of one entry, by hand and at random.

use guideway::abi;
use guideway::affinity::collect::{Case, Patience, Reason};
use guideway::affinity::rules::{Slot, Standing};
use guideway::affinity::{cid_tag, Binding, CidKey, Phase};
use guideway::id::ServiceId;
use guideway::kernel::map::Update;
use guideway::quic::Cid;
use guideway::service::{BackendState, Tracking};

use crate::machine::*;
use crate::netns::isolated;

const LIVE: u32 = 0;
const EXPIRING: u32 = 1;
const DEAD: u32 = 2;
const TOUCHED: u32 = 3;
const PHASE: u32 = 3;
const FIN: u32 = 1 << 2;
const RST: u32 = 1 << 3;
const REGISTERED: u32 = 1 << 4;
const IMPORTED: u32 = 2 << 4;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stays.
    Stays,
    /// The first sweep deletes it.
    AtOnce(Reason),
    /// The first sweep marks it, the second deletes it.
    Later(Reason),
}
use Fate::{AtOnce, Later, Stays};

/// Slots of the service of exceptions: their kind.
const IN_PLAIN: std::ops::Range<u32> = 0..100;
const IN_HELD: std::ops::Range<u32> = 100..200;
const IN_OPEN: std::ops::Range<u32> = 200..300;
const IN_NOBODYS: std::ops::Range<u32> = 300..400;

/// Everybody's slots are row 0's, and rows 0 to 2 have backends.
fn services() -> [Service; 3] {
    let mut slots = vec![(0, PLAIN); 100];
    slots.extend([(0, HELD); 100]);
    slots.extend([(0, 1); 100]);
    slots.extend([(NONE, HELD); 100]);
    let exceptions = Service {
        id: 0x1111,
        all: false,
        source: false,
        slots,
        rows: vec![11, 12, 13, 0],
    };
    let all = Service {
        id: 0x2222,
        all: true,
        slots: vec![(0, PLAIN); 400],
        ..exceptions.clone()
    };
    let source = Service {
        id: 0x3333,
        source: true,
        ..exceptions.clone()
    };
    [exceptions, all, source]
}

#[test]
fn each_entry_of_a_flow_meets_its_fate() {
    use Reason::{BackendGone, Closed, Idle, Redundant};
    isolated("sweep::flows", || {
        let services = services();
        let machine = Machine::new(&services, 4096);
        let (exceptions, all, source) = (0, 1, 2);
        #[rustfmt::skip]
        let table = [
            // In a changed slot an entry that names the owner is the flow's own memory.
            ("open, owner's", exceptions, IN_OPEN, 0, 11, 0, LIVE, Stays),
            ("open, base's", exceptions, IN_OPEN, 1, 12, FLOW_IDLE, LIVE, Stays),
            ("open, idle", exceptions, IN_OPEN, 1, 12, FLOW_IDLE + 1, LIVE, Later(Idle)),
            ("open, owner's, idle", exceptions, IN_OPEN, 0, 11, FLOW_IDLE + 1, LIVE, Later(Idle)),
            // The table says the same in every other slot.
            ("held, owner's", exceptions, IN_HELD, 0, 11, 0, LIVE, AtOnce(Redundant)),
            ("held, owner's, marked", exceptions, IN_HELD, 0, 11, 0, EXPIRING, AtOnce(Redundant)),
            ("plain, owner's", exceptions, IN_PLAIN, 0, 11, 0, LIVE, AtOnce(Redundant)),
            ("held, another's", exceptions, IN_HELD, 2, 13, 0, LIVE, Stays),
            ("held, another's, idle", exceptions, IN_HELD, 2, 13, FLOW_IDLE + 1, LIVE, Later(Idle)),
            // No packet looks there, and none should when the slot is open again.
            ("plain, another's", exceptions, IN_PLAIN, 2, 13, 0, LIVE, AtOnce(Redundant)),
            ("plain, about to be deleted", exceptions, IN_PLAIN, 2, 13, 0, DEAD, AtOnce(Redundant)),
            ("plain, nobody's", exceptions, IN_PLAIN, 3, 14, 0, LIVE, AtOnce(Redundant)),
            ("source, plain", source, IN_PLAIN, 2, 13, 0, LIVE, AtOnce(Redundant)),
            ("nobody's slot", exceptions, IN_NOBODYS, 0, 11, 0, LIVE, Stays),
            // Where all flows are tracked the entry counts, whatever the table says.
            ("all, owner's", all, IN_PLAIN, 0, 11, 0, LIVE, Stays),
            ("all, idle", all, IN_PLAIN, 0, 11, FLOW_IDLE + 1, LIVE, Later(Idle)),
            // A flow that looks closed is forgotten sooner, and no sooner than that.
            ("FIN, young", all, IN_PLAIN, 0, 11, CLOSED, FIN, Stays),
            ("FIN", all, IN_PLAIN, 0, 11, CLOSED + 1, FIN, Later(Closed)),
            ("RST", all, IN_PLAIN, 0, 11, CLOSED + 1, RST, Later(Closed)),
            ("FIN and RST", exceptions, IN_HELD, 2, 13, CLOSED + 1, FIN | RST, Later(Closed)),
            ("no hint", all, IN_PLAIN, 0, 11, CLOSED + 1, LIVE, Stays),
            ("FIN, idle", all, IN_PLAIN, 0, 11, FLOW_IDLE + 1, FIN, Later(Idle)),
            // A row's next tenant inherits nothing.
            ("another incarnation", all, IN_PLAIN, 1, 11, 0, LIVE, Later(BackendGone)),
            ("an empty row", exceptions, IN_OPEN, 3, 14, 0, LIVE, Later(BackendGone)),
            ("an empty row, no incarnation", exceptions, IN_OPEN, 3, 0, 0, LIVE, Later(BackendGone)),
            ("no such row", all, IN_PLAIN, 4, 11, 0, LIVE, Later(BackendGone)),
            ("the last row number", all, IN_PLAIN, 65535, 11, 0, LIVE, Later(BackendGone)),
            // By address alone: the tag is of the whole key, the slot of the address.
            ("source, owner's", source, IN_OPEN, 0, 11, 0, LIVE, Stays),
            ("source, redundant", source, IN_HELD, 0, 11, 0, LIVE, AtOnce(Redundant)),
        ];
        let mut flows = Vec::new();
        for (number, (_, service, slots, row, incarnation, silent_ns, state, _)) in
            (0..).zip(table.clone())
        {
            let flow = Flow::in_slot(&services[service], slots, 1_000_000 * number);
            let entry = flow.entry(row, incarnation, silent_ns, state);
            let inserted = machine.flows.update(&flow.key, &entry, Update::Insert);
            inserted.expect("a flow of its own");
            flows.push((flow, entry));
        }
        for sweep in 1..=3 {
            let found = machine.sweep(NOW);
            let mut kept = vec![0; services.len()];
            for ((name, service, .., fate), (flow, entry)) in table.iter().zip(&flows) {
                let value = machine.flows.get(&flow.key).expect("read");
                let expected = match fate {
                    Stays => Some(entry.state),
                    AtOnce(_) => None,
                    Later(_) if sweep == 1 => Some(entry.state & !PHASE | EXPIRING),
                    Later(_) => None,
                };
                assert_eq!(
                    value.map(|value| value.state),
                    expected,
                    "{name}, sweep {sweep}"
                );
                kept[*service] += u64::from(expected.is_some());
            }
            for (found, kept) in found.services.iter().zip(kept) {
                assert_eq!(found.flows.entries, kept, "sweep {sweep}");
            }
        }
        for (service, _) in services.iter().enumerate() {
            for reason in Reason::ALL {
                let fated = table.iter().filter(|(_, of, .., fate)| {
                    *of == service && matches!(fate, AtOnce(why) | Later(why) if *why == reason)
                });
                let counted = machine.counter(service, reason.counter());
                assert_eq!(
                    counted,
                    fated.count() as u64,
                    "{reason} of service {service}"
                );
            }
        }
    });
}

#[test]
fn slots_with_entries_that_differ_are_told() {
    isolated("sweep::differing", || {
        let services = services();
        let machine = Machine::new(&services, 4096);
        let mut number = 0;
        let mut insert = |service: usize, slot: u32, row: u16, silent_ns: u64| {
            number += 1_000_000;
            let flow = Flow::in_slot(&services[service], slot..slot + 1, number);
            let entry = flow.entry(row, services[service].rows[row as usize], silent_ns, LIVE);
            machine
                .flows
                .update(&flow.key, &entry, Update::Insert)
                .expect("room");
        };
        for (slot, row) in [
            (100, 1),
            (163, 2),
            (164, 1),
            (198, 0),
            (200, 0),
            (201, 1),
            (399, 0),
        ] {
            insert(0, slot, row, 0);
        }
        // Marked by the first sweep, deleted by the second: but a packet may put it back then.
        insert(0, 105, 1, FLOW_IDLE + 1);
        insert(1, 7, 2, 0);
        let found = machine.sweep(NOW);
        assert_eq!(found.services[0].differing, [100, 105, 163, 164, 201, 399]);
        assert_eq!(found.services[1].differing, [7]);
        assert!(found.services[2].differing.is_empty());
        // Of those, what breaks without this machine: live entries.
        assert_eq!(found.services[0].flows.differing, 5);
        assert_eq!(found.services[1].flows.differing, 1);
        let again = machine.sweep(NOW);
        assert_eq!(again.services[0].flows.deleted, [1, 0, 0, 0]);
        assert_eq!(
            again.services[0].differing, found.services[0].differing,
            "deleted by this one"
        );
        let left = &machine.sweep(NOW).services[0].differing;
        assert_eq!(*left, [100, 163, 164, 201, 399]);
    });
}

#[test]
fn each_connection_id_meets_its_fate() {
    use Reason::{BackendGone, Idle, Redundant};
    isolated("sweep::cids", || {
        let services = services();
        let machine = Machine::new(&services, 4096);
        let past = NOW - 1;
        #[rustfmt::skip]
        let table = [
            ("learned", 0, 11, NOW - CID_IDLE, LIVE, Stays),
            ("learned, idle", 0, 11, NOW - CID_IDLE - 1, LIVE, Later(Idle)),
            ("imported, idle", 0, 11, NOW - CID_IDLE - 1, IMPORTED, Later(Idle)),
            ("imported", 0, 11, NOW, IMPORTED, Stays),
            // A registered one has the end of its time to live where others have a packet's time.
            ("registered without an end", 1, 12, 0, REGISTERED, Stays),
            ("registered until now", 1, 12, NOW, REGISTERED, Stays),
            ("registered until later", 1, 12, NOW + 1, REGISTERED, Stays),
            ("registered until a moment ago", 1, 12, past, REGISTERED, AtOnce(Idle)),
            ("registered long ago", 1, 12, 1, REGISTERED, AtOnce(Idle)),
            // The end of its backend is the end of any.
            ("registered, gone", 1, 13, 0, REGISTERED, AtOnce(BackendGone)),
            ("learned, gone", 3, 14, NOW, LIVE, AtOnce(BackendGone)),
            ("imported, gone", 9, 11, NOW, IMPORTED, AtOnce(BackendGone)),
        ];
        let service = &services[0];
        let mut keys = Vec::new();
        for (number, &(_, row, incarnation, seen_ns, state, _)) in (0_u8..).zip(&table) {
            let cid = Cid::new(&[0x40, number, 1, 2, 3, 4, 5, 6]).expect("an ID");
            let key = CidKey::new(ServiceId::new(service.id), cid);
            let value = abi::Binding {
                tag: cid_tag(&key.to_abi(), CID_SEED),
                row,
                incarnation,
                seen_ns,
                state,
                hash: 0,
            };
            let inserted = machine.cids.update(&key.to_abi(), &value, Update::Insert);
            inserted.expect("room");
            keys.push(key.to_abi());
        }
        // Nothing finds an entry with another tag.
        let stray = abi::CidKey {
            service: service.id,
            length: 20,
            ..Default::default()
        };
        let value = abi::Binding {
            tag: cid_tag(&stray, CID_SEED) ^ 1,
            incarnation: 11,
            seen_ns: NOW,
            ..Default::default()
        };
        machine
            .cids
            .update(&stray, &value, Update::Insert)
            .expect("room");
        for sweep in 1..=3 {
            let found = machine.sweep(NOW).services[0].cids;
            for ((name, .., fate), key) in table.iter().zip(&keys) {
                let there = machine.cids.get(key).expect("read").is_some();
                let expected = match fate {
                    Stays => true,
                    AtOnce(_) => false,
                    Later(_) => sweep == 1,
                };
                assert_eq!(there, expected, "{name}, sweep {sweep}");
            }
            let idle = u64::from(sweep == 1);
            assert_eq!(found.entries, 5 + 2 * idle);
            assert_eq!(found.registered, 3);
            assert_eq!(found.imported, 1 + idle);
            let deleted = match sweep {
                1 => [2, 0, 3, 1],
                2 => [2, 0, 0, 0],
                _ => [0; 4],
            };
            assert_eq!(found.deleted, deleted, "sweep {sweep}");
        }
        assert!(machine.cids.get(&stray).expect("read").is_none());
        for (reason, count) in [(Idle, 4), (BackendGone, 3), (Redundant, 1)] {
            assert_eq!(machine.counter(0, reason.counter()), count, "{reason}");
        }
    });
}

#[test]
fn what_nothing_finds_goes_at_once() {
    isolated("sweep::garbage", || {
        let services = services();
        let machine = Machine::new(&services, 4096);
        let stranger = Service {
            id: 0x4444,
            ..services[1].clone()
        };
        let gone = Flow::new(&stranger, 5);
        let sound = Flow::new(&services[1], 6);
        let (tag, hash) = (Flow::new(&services[1], 7), Flow::new(&services[1], 8));
        let live = |flow: &Flow| flow.entry(0, 11, 0, LIVE);
        let entries = [
            (gone, live(&gone)),
            (sound, live(&sound)),
            // Of another hash seed.
            (
                tag,
                abi::Binding {
                    tag: tag.tag ^ 0x100,
                    ..live(&tag)
                },
            ),
            (
                hash,
                abi::Binding {
                    hash: hash.hash ^ 1,
                    ..live(&hash)
                },
            ),
        ];
        for (flow, entry) in entries {
            machine
                .flows
                .update(&flow.key, &entry, Update::Insert)
                .expect("room");
        }
        let found = machine.sweep(NOW);
        let there = |flow: &Flow| machine.flows.get(&flow.key).expect("read").is_some();
        assert_eq!(
            [gone, sound, tag, hash].map(|flow| there(&flow)),
            [false, true, false, false]
        );
        let redundant = Reason::Redundant.index();
        assert_eq!(found.strangers.deleted[redundant], 1);
        assert_eq!(found.services[1].flows.deleted[redundant], 2);
        assert_eq!(machine.counter(1, Reason::Redundant.counter()), 2);
    });
}

#[test]
fn entries_that_a_sweep_could_not_delete_are_dealt_with_by_the_next() {
    isolated("sweep::leftovers", || {
        let services = services();
        let machine = Machine::new(&services, 4096);
        let insert = |number: u32, silent_ns: u64, state: u32| {
            let flow = Flow::new(&services[1], number);
            let entry = flow.entry(0, 11, silent_ns, state);
            machine
                .flows
                .update(&flow.key, &entry, Update::Insert)
                .expect("room");
            flow
        };
        let idle = FLOW_IDLE + 1;
        let dead = insert(1, idle, DEAD | FIN);
        // A packet came to each of these.
        let revived = insert(2, 0, DEAD | FIN);
        let touched = insert(3, idle, TOUCHED | FIN);
        let refreshed = insert(4, 0, EXPIRING | FIN);
        machine.sweep(NOW);
        let state = |flow: &Flow| {
            let value = machine.flows.get(&flow.key).expect("read");
            value.map(|value| (value.state, NOW - value.seen_ns))
        };
        assert_eq!(state(&dead), None);
        for flow in [revived, touched, refreshed] {
            // Whoever was touched was seen.
            assert_eq!(state(&flow), Some((LIVE | FIN, 0)));
        }
    });
}

#[test]
fn a_pass_for_another_generation_touches_nothing() {
    isolated("sweep::generation", || {
        let services = services();
        let machine = Machine::new(&services, 64);
        let flow = Flow::new(&services[1], 1);
        let entry = flow.entry(0, 11, FLOW_IDLE + 1, EXPIRING);
        machine
            .flows
            .update(&flow.key, &entry, Update::Insert)
            .expect("room");
        machine.prepare();
        let refused = |context: &mut abi::Sweep| {
            for routine in [&machine.sweep_flows, &machine.sweep_cids] {
                let result = routine.call(context).expect("a call");
                assert_eq!(result, abi::SweepResult::GW_SWEEP_OTHER_GENERATION.0);
            }
            let left = machine.flows.get(&flow.key).expect("read").expect("there");
            assert_eq!(Binding::from_abi(&left), Binding::from_abi(&entry));
        };
        refused(&mut abi::Sweep {
            generation: GENERATION + 1,
            ..machine.context(NOW)
        });
        machine.unpublish();
        refused(&mut machine.context(NOW));
    });
}

#[test]
fn a_pass_that_misses_a_part_of_the_generation_says_so() {
    isolated("sweep::missing", || {
        let services = services();
        let machine = Machine::new(&services, 64);
        let id = services[1].id;
        let flow = Flow::new(&services[1], 1);
        let flow_entry = flow.entry(0, 11, FLOW_IDLE + 1, EXPIRING);
        let inserted = machine.flows.update(&flow.key, &flow_entry, Update::Insert);
        inserted.expect("room");
        let cid = Cid::new(&[7; 8]).expect("a length");
        let cid = CidKey::new(ServiceId::new(id), cid).to_abi();
        let cid_entry = abi::Binding {
            tag: cid_tag(&cid, CID_SEED),
            ..flow_entry
        };
        let inserted = machine.cids.update(&cid, &cid_entry, Update::Insert);
        inserted.expect("room");
        machine.prepare();
        let mut rules = machine.rules.get(&id).expect("read").expect("rules");
        rules.service_at = u32::MAX;
        machine
            .rules
            .update(&id, &rules, Update::Any)
            .expect("written");
        let mut context = machine.context(NOW);
        for routine in [&machine.sweep_flows, &machine.sweep_cids] {
            let result = routine.call(&mut context).expect("a call");
            assert_eq!(result, abi::SweepResult::GW_SWEEP_FAILED.0);
        }
        assert!(machine.flows.get(&flow.key).expect("read").is_some());
        assert!(machine.cids.get(&cid).expect("read").is_some());
    });
}

/// A small generator of numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

#[test]
fn the_program_and_the_rule_agree_on_random_entries() {
    isolated("sweep::random", || {
        let mut random = Random(1);
        let mut services = services().to_vec();
        for service in &mut services {
            // Rows 0 to 9 at random, with and without a mark.
            service.rows = (0..10)
                .map(|row| if row == 7 { 0 } else { 20 + row })
                .collect();
            let slots = (0..509).map(|_| {
                let owner = random.one_of(&[0, 1, 2, 7, NONE]);
                let base = match random.below(3) {
                    _ if service.all => PLAIN,
                    0 => PLAIN,
                    1 => HELD,
                    _ => random.below(10) as u16,
                };
                (owner, base)
            });
            service.slots = slots.collect();
        }
        let machine = Machine::new(&services, 30_000);
        let mut flows = Vec::new();
        for number in 0..20_000 {
            let service = random.below(3) as usize;
            let flow = Flow::new(&services[service], number);
            let silent_ns = match random.below(4) {
                0 => random.below(2 * FLOW_IDLE),
                1 => random.one_of(&[CLOSED - 1, CLOSED, CLOSED + 1]),
                2 => random.one_of(&[FLOW_IDLE - 1, FLOW_IDLE, FLOW_IDLE + 1]),
                _ => 0,
            };
            let row = random.below(12) as u16;
            let incarnation = 20 + u32::from(row) + u32::from(random.below(8) == 0);
            let state = random.below(3) as u32 | random.one_of(&[0, 0, FIN, RST, FIN | RST]);
            let mut entry = flow.entry(row, incarnation, silent_ns, state);
            if random.below(50) == 0 {
                entry.tag ^= 1;
            }
            machine
                .flows
                .update(&flow.key, &entry, Update::Insert)
                .expect("room");
            flows.push((service, flow, entry));
        }
        let patience = Patience {
            flow_ns: FLOW_IDLE,
            closed_ns: CLOSED,
            cid_ns: CID_IDLE,
        };
        let mut fates = [0; 5];
        let found = machine.sweep(NOW);
        let mut live_and_differing = vec![0; services.len()];
        for (at, flow, entry) in flows {
            let service = &services[at];
            let (owner, base) = service.slots[flow.slot(service) as usize];
            let standing = service.rows.get(usize::from(entry.row)).copied();
            let verdict = Case {
                entry: &Binding::from_abi(&entry),
                is_found: entry.tag == flow.tag,
                slot: Slot::from_abi(abi::Slot { owner, base }),
                standing: standing
                    .filter(|&incarnation| incarnation != 0)
                    .map(|incarnation| Standing {
                        state: BackendState::Ready,
                        incarnation,
                    }),
                tracking: match service.all {
                    true => Tracking::All,
                    false => Tracking::Exceptions,
                },
                patience,
                now_ns: NOW,
            }
            .flow();
            let phase = Binding::from_abi(&entry).phase;
            let deleted = match verdict.doomed {
                None => false,
                Some(_) => verdict.at_once || phase != Phase::Live,
            };
            let left = machine.flows.get(&flow.key).expect("read");
            assert_eq!(left.is_none(), deleted, "{entry:?} {verdict:?}");
            if let Some(left) = left {
                let phase = if verdict.doomed.is_some() {
                    EXPIRING
                } else {
                    LIVE
                };
                assert_eq!(left.state, entry.state & !PHASE | phase, "{entry:?}");
            }
            if verdict.doomed.is_none() && verdict.differs {
                live_and_differing[at] += 1;
            }
            fates[verdict.doomed.map_or(4, Reason::index)] += 1;
        }
        for (found, expected) in found.services.iter().zip(live_and_differing) {
            assert_eq!(found.flows.differing, expected);
        }
        assert!(fates.iter().all(|&count| count > 100), "{fates:?}");
    });
}
