// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Notes that are true, and notes that are wrong in one point each.

use super::*;
use crate::plan::World;
use crate::quiclb::trace::Scenario;
use crate::service::Spec;

const PASS: u32 = 2;
const DROP: u32 = 1;
const ABORTED: u32 = 0;
const TX: u32 = 3;
const REDIRECT: u32 = 4;

/// Two backends: 1 behind an interface of its own, 2 behind the ingress interface, whose frames
/// leave with its own address.
fn generation() -> Generation {
    let spec = br#"{ "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
        "services": [{ "name": "quic-api", "vip": "203.0.113.80", "port": 443,
          "maglev_table_size": 4093, "backends": [
            {"id": 1, "interface": "vm-a", "mac": "02:00:00:00:01:01"},
            {"id": 2, "interface": "edge0", "mac": "02:00:00:00:01:02"}]}]}"#;
    let spec = Spec::from_json(spec).unwrap();
    let scenario = Scenario::new(None, &spec, &World::offline(), Default::default()).unwrap();
    let mut generation = scenario.plan().generation().clone();
    generation.number = 7;
    generation
}

/// A run, as true as `case` makes it.
struct Case {
    input: Vec<u8>,
    output: Vec<u8>,
    action: u32,
    before: abi::TraceNote,
    note: abi::TraceNote,
}

impl Case {
    fn new(generation: &Generation, reason: Reason, action: u32) -> Self {
        let input: Vec<u8> = (100..160).collect();
        let note = abi::TraceNote {
            packets: 5,
            generation: generation.number,
            row: abi::SlotWord::GW_SLOT_NONE.0 as u16,
            base: abi::SlotWord::GW_SLOT_PLAIN.0 as u16,
            reason: reason.number(),
            rule: abi::Rule::GW_RULE_NONE.0 as u8,
            slot: abi::Index::GW_INDEX_NONE.0,
            ..bytemuck::Zeroable::zeroed()
        };
        let mut before = note;
        before.packets = 4;
        Self {
            output: input.clone(),
            input,
            action,
            before,
            note,
        }
    }

    /// Forwarded by the table to a backend of the only service.
    fn forwarded(generation: &Generation, id: u32, action: u32) -> Self {
        let mut case = Self::new(generation, Reason::Forwarded, action);
        let (service, placed) = generation.services().next().unwrap();
        let backend = placed
            .rows
            .iter()
            .flatten()
            .find(|b| b.id.get() == id)
            .unwrap();
        case.note.service_id = service.id.get();
        case.note.backend_id = id;
        case.note.row = backend.row;
        case.note.rule = Rule::Table.number();
        case.note.hash = 0x0123_4567_89ab_cdef;
        case.note.slot = 4092;
        case.note.flags =
            (abi::TraceFlag::GW_TRACE_HASHED.0 | abi::TraceFlag::GW_TRACE_START_KNOWN.0) as u8;
        case.output[..6].copy_from_slice(&backend.mac.octets());
        if let Some(source) = backend.source_mac {
            case.output[6..12].copy_from_slice(&source.octets());
        }
        case
    }

    fn read<'a>(&self, generation: &'a Generation) -> Result<Decision<'a>, Mismatch> {
        let run = Run {
            input: &self.input,
            output: &self.output,
            action: self.action,
            before: self.before,
            note: self.note,
        };
        Decision::read(generation, &run)
    }
}

#[test]
fn true_notes_are_believed() {
    let generation = generation();
    for (reason, action) in [
        (Reason::NotIp, PASS),
        (Reason::NoService, PASS),
        (Reason::FragmentDrop, DROP),
        (Reason::NoBackend, DROP),
        (Reason::Internal, ABORTED),
    ] {
        let decision = Case::new(&generation, reason, action).read(&generation);
        let decision = decision.unwrap();
        assert_eq!((decision.reason, decision.rule), (reason, None));
        assert!(decision.service.is_none() && decision.backend.is_none());
        assert_eq!((decision.flow_start, decision.hashed), (None, None));
    }
    for (id, action, name) in [(1, REDIRECT, "vm-a"), (2, TX, "edge0")] {
        let case = Case::forwarded(&generation, id, action);
        let decision = case.read(&generation).unwrap();
        assert_eq!(decision.rule, Some(Rule::Table));
        assert_eq!(decision.service.map(|s| s.name.as_str()), Some("quic-api"));
        let (placed, backend) = decision.backend.unwrap();
        assert_eq!((placed.id.get(), backend.interface.as_str()), (id, name));
        assert_eq!(decision.flow_start, Some(false));
        let hashed = Hashed {
            hash: 0x0123_4567_89ab_cdef,
            slot: 4092,
            state: SlotState::Plain,
        };
        assert_eq!(decision.hashed, Some(hashed));
    }
}

#[test]
fn the_kinds_of_slots_are_told_apart() {
    let generation = generation();
    for (base, state) in [
        (abi::SlotWord::GW_SLOT_PLAIN.0 as u16, SlotState::Plain),
        (abi::SlotWord::GW_SLOT_HELD.0 as u16, SlotState::Held),
        (0, SlotState::Open),
        (1, SlotState::Open),
    ] {
        let mut case = Case::forwarded(&generation, 1, REDIRECT);
        case.note.base = base;
        assert_eq!(case.read(&generation).unwrap().hashed.unwrap().state, state);
    }
}

#[test]
fn entries_are_made_for_flows() {
    use abi::TraceFlag as Flag;
    let generation = generation();
    let (flow, cid) = (Flag::GW_TRACE_CREATED_FLOW.0, Flag::GW_TRACE_CREATED_CID.0);
    for (flags, created) in [
        (0, vec![]),
        (flow, vec![Created::Flow]),
        (cid, vec![Created::Cid]),
        (flow | cid, vec![Created::Flow, Created::Cid]),
    ] {
        let mut case = Case::forwarded(&generation, 1, REDIRECT);
        case.note.flags |= flags as u8;
        assert_eq!(case.read(&generation).unwrap().created, created);
        case.note.flags &= !(Flag::GW_TRACE_HASHED.0 as u8);
        match created.is_empty() {
            true => assert_eq!(case.read(&generation).unwrap().created, []),
            false => assert_eq!(case.read(&generation), Err(Mismatch::Created)),
        }
    }
}

#[test]
fn a_start_counts_only_where_it_was_asked_for() {
    let generation = generation();
    let known = abi::TraceFlag::GW_TRACE_START_KNOWN.0 as u8;
    let start = abi::TraceFlag::GW_TRACE_START.0 as u8;
    for (flags, expected) in [
        (0, None),
        (start, None),
        (known, Some(false)),
        (known | start, Some(true)),
    ] {
        let mut case = Case::new(&generation, Reason::NoService, PASS);
        case.note.flags = flags;
        assert_eq!(case.read(&generation).unwrap().flow_start, expected);
    }
}

#[test]
fn a_backend_that_was_named_but_not_used_is_told() {
    let generation = generation();
    let mut case = Case::forwarded(&generation, 1, DROP);
    case.note.reason = Reason::Unhealthy.number();
    case.note.rule = abi::Rule::GW_RULE_NONE.0 as u8;
    let decision = case.read(&generation).unwrap();
    assert_eq!(decision.backend.unwrap().0.id.get(), 1);
}

/// What is wrong with a forwarded frame's run after a change.
fn mismatch(change: impl FnOnce(&mut Case)) -> String {
    let generation = generation();
    let mut case = Case::forwarded(&generation, 1, REDIRECT);
    change(&mut case);
    case.read(&generation).unwrap_err().to_string()
}

#[test]
fn wrong_notes_are_told_from_true_ones() {
    let none = abi::Rule::GW_RULE_NONE.0 as u8;
    for (found, expected) in [
        (
            mismatch(|case| case.note.packets = 4),
            "the program noted 0 decisions about one frame",
        ),
        (
            mismatch(|case| case.note.packets = 6),
            "the program noted 2 decisions about one frame",
        ),
        (
            mismatch(|case| case.note.generation = 6),
            "the program noted generation 6, published is 7",
        ),
        (
            mismatch(|case| case.note.reason = 31),
            "the program noted reason 31, which has no meaning",
        ),
        (
            mismatch(|case| case.note.rule = 8),
            "the program noted rule 8, which has no meaning",
        ),
        (
            mismatch(|case| case.note.rule = none),
            "the program noted forwarded with the rule none",
        ),
        (
            mismatch(|case| case.note.reason = Reason::NotQuic.number()),
            "the program noted not_quic with the rule table",
        ),
        (
            mismatch(|case| case.note.service_id = 1),
            "the program noted service 1, which does not exist",
        ),
        (
            mismatch(|case| case.note.service_id = 0),
            "the program noted backend 1 in row 0, where it is not",
        ),
        (
            mismatch(|case| case.note.row = 1),
            "the program noted backend 1 in row 1, where it is not",
        ),
        (
            mismatch(|case| case.note.row = u16::MAX),
            "the program noted backend 1 in row 65535, where it is not",
        ),
        (
            mismatch(|case| case.note.backend_id = 9),
            "the program noted backend 9 in row 0, where it is not",
        ),
        (
            mismatch(|case| case.note.backend_id = 0),
            "the program noted that it forwarded the frame, but not to which backend",
        ),
        (
            mismatch(|case| case.note.slot = 4093),
            "the program noted slot 4093 of a table of 4093",
        ),
        (
            mismatch(|case| case.action = PASS),
            "the program noted forwarded, and returned XDP_PASS",
        ),
        (
            mismatch(|case| case.action = DROP),
            "the program noted forwarded, and returned XDP_DROP",
        ),
        (
            mismatch(|case| case.action = TX),
            "the program noted forwarded, and returned XDP_TX",
        ),
        (
            mismatch(|case| case.action = 5),
            "the program returned 5, which is no verdict",
        ),
        (
            mismatch(|case| {
                case.note.reason = Reason::NoTarget.number();
                case.note.rule = none;
            }),
            "the program noted no_target, and returned XDP_REDIRECT",
        ),
        (
            mismatch(|case| case.output[5] ^= 1),
            "the program noted forwarded, and left other bytes than that from byte 5 on",
        ),
        (
            mismatch(|case| case.output[6] ^= 1),
            "the program noted forwarded, and left other bytes than that from byte 6 on",
        ),
        (
            mismatch(|case| case.output[59] ^= 1),
            "the program noted forwarded, and left other bytes than that from byte 59 on",
        ),
        (
            mismatch(|case| case.output.push(0)),
            "the program noted forwarded, and left other bytes than that from byte 60 on",
        ),
        (
            mismatch(|case| case.output.truncate(20)),
            "the program noted forwarded, and left other bytes than that from byte 20 on",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_frame_that_passes_must_be_untouched() {
    let generation = generation();
    let mut case = Case::new(&generation, Reason::NoService, PASS);
    case.output[0] ^= 1;
    assert_eq!(
        case.read(&generation),
        Err(Mismatch::Bytes {
            reason: Reason::NoService,
            offset: 0
        })
    );
    // What is dropped may have been prepared for sending.
    case.note.reason = Reason::NoTarget.number();
    case.action = DROP;
    assert!(case.read(&generation).is_ok());
}

#[test]
fn a_verdict_other_than_the_reasons_is_seen() {
    let generation = generation();
    for (reason, right) in [
        (Reason::NotIp, PASS),
        (Reason::UnknownServerId, DROP),
        (Reason::Internal, ABORTED),
    ] {
        for action in [ABORTED, DROP, PASS, TX, REDIRECT] {
            let read = Case::new(&generation, reason, action)
                .read(&generation)
                .is_ok();
            assert_eq!(read, action == right, "{reason} {action}");
        }
    }
}
