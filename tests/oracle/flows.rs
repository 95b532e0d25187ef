// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Entries of flows: who makes, follows, renews and moves them.

use guideway::abi::Counter as C;
use guideway::affinity::rules::{Level, SlotKind};
use guideway::affinity::state::{Admission, State};
use guideway::affinity::{Binding, Origin, Phase};
use guideway::oracle::Verdict;
use guideway::reason::{Reason, Rule};
use serde_json::json;

use crate::build::*;
use crate::scene::*;
use crate::world::*;

const OPEN: SlotKind = SlotKind::Open { base: 0 };
const VERSION_2: u32 = 0x6b33_43cf;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;
const RST: u8 = 0x04;

fn segment(flags: u8, data: &[u8]) -> Vec<u8> {
    let mut segment = tcp(50000, 443, flags);
    segment.extend(data);
    ipv4(TCP, &segment)
}

fn initial() -> Vec<u8> {
    to_vip(&long(0xc0, 1, &[9; 8]))
}

fn mid_flow() -> Vec<u8> {
    to_vip(&short(&[9; 8]))
}

/// Forwarded, counted with this outcome, at risk or not.
#[track_caller]
fn assert_placed(verdict: &Verdict, rule: Rule, backend: u32, outcome: C, at_risk: bool) {
    assert_forwarded(verdict, rule, backend);
    let by_flow = |counter: &&C| counter.0 >= C::GW_COUNTER_PLAIN.0;
    let found: Vec<_> = verdict.counters.iter().filter(by_flow).copied().collect();
    let mut expected = vec![outcome];
    expected.extend(at_risk.then_some(C::GW_COUNTER_AT_RISK));
    assert_eq!(found, expected);
}

#[track_caller]
fn assert_dropped(verdict: &Verdict, frame: &[u8], counters: &[C]) {
    assert_left(verdict, frame, Reason::NoBackend);
    let outcome = |counter: &&C| counter.0 >= C::GW_COUNTER_PLAIN.0;
    let found: Vec<_> = verdict.counters.iter().filter(outcome).copied().collect();
    assert_eq!(found, counters);
}

#[test]
fn an_entry_has_the_published_key_tag_and_hash() {
    for (hash, placement) in [("flow", HASH), ("source", 0x2073_3fac)] {
        let mut spec = by_tuple("udp", "ready");
        spec["services"][0]["tracking"] = json!("all");
        spec["services"][0]["hash"] = json!(hash);
        let mut scene = Scene::new(&spec);
        let verdict = scene.run(&mid_flow());
        assert!(verdict.created.flow && !verdict.created.cid);
        let (key, entry) = scene.state.flows.iter().next().unwrap();
        let text: String = key.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(text, format!("{KEY:0<48}"));
        let (row, incarnation) = scene.bind(verdict.backend.unwrap().0.get() as u16);
        let expected = Binding {
            tag: TAG,
            row,
            incarnation,
            seen_ns: NOW,
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin: Origin::Traffic,
            learned: 0,
            hash: placement,
        };
        assert_eq!(*entry, expected);
    }
}

#[test]
fn where_all_flows_are_tracked_the_second_packet_hits() {
    let mut spec = by_tuple("udp", "ready");
    spec["services"][0]["tracking"] = json!("all");
    let mut scene = Scene::new(&spec);
    let first = scene.run(&initial());
    assert_placed(&first, Rule::Table, 2, C::GW_COUNTER_ALL_INSERTED, false);
    let made = scene.entry().unwrap();

    // The table changes; what is bound stays.
    scene.mark(Some(0), SlotKind::Plain);
    scene.state.now_ns += SECOND;
    for frame in [initial(), mid_flow()] {
        let verdict = scene.run(&frame);
        assert_placed(&verdict, Rule::Flow, 2, C::GW_COUNTER_HIT, false);
        assert!(!verdict.created.flow);
        assert_eq!(scene.entry().unwrap(), made);
    }
    scene.state.now_ns += 1;
    scene.run(&mid_flow());
    let seen_ns = scene.state.now_ns;
    assert_eq!(scene.entry().unwrap(), Binding { seen_ns, ..made });
}

#[test]
fn plain_slots_need_no_entry_and_heed_none() {
    let mut scene = Scene::of_slots("tcp", SlotKind::Plain, "ready");
    let entry = scene.put(scene.bind(1), Phase::Expiring, 0);
    for flags in [SYN, ACK, FIN | ACK] {
        let verdict = scene.run(&segment(flags, b"x"));
        assert_placed(&verdict, Rule::Table, 2, C::GW_COUNTER_PLAIN, false);
        assert_eq!(verdict.slot_kind, Some(SlotKind::Plain));
    }
    assert_eq!(scene.entry(), Some(entry));
}

#[test]
fn held_slots_follow_entries_and_make_none() {
    let mut scene = Scene::of_slots("udp", SlotKind::Held, "draining");
    for frame in [initial(), mid_flow()] {
        let verdict = scene.run(&frame);
        assert_placed(&verdict, Rule::Table, 2, C::GW_COUNTER_HELD_DEFAULT, false);
        assert_eq!(scene.entry(), None);
        assert_eq!(verdict.slot_kind, Some(SlotKind::Held));
    }
    let entry = scene.put(scene.bind(1), Phase::Expiring, 5);
    // A repeated Initial must not break a handshake with a draining backend.
    let verdict = scene.run(&initial());
    assert_placed(&verdict, Rule::Flow, 1, C::GW_COUNTER_HIT, false);
    let renewed = Binding {
        phase: Phase::Live,
        seen_ns: NOW,
        ..entry
    };
    assert_eq!(scene.entry(), Some(renewed));
}

#[test]
fn in_open_slots_starts_go_to_the_owner_and_the_rest_to_the_base() {
    for (protocol, start, rest) in [
        ("tcp", segment(SYN, b""), segment(ACK, b"")),
        ("udp", initial(), mid_flow()),
        (
            "udp",
            to_vip(&long(0xd0, 1, &[9; 8])),
            to_vip(&long(0xe0, 1, &[9; 8])),
        ),
        // Version 2, and one that nobody knows.
        (
            "udp",
            to_vip(&long(0xd0, VERSION_2, &[9; 8])),
            to_vip(&long(0xc0, 2, &[9; 8])),
        ),
    ] {
        for (state, default, rule) in [
            ("ready", 1, Rule::Previous),
            ("draining", 1, Rule::Previous),
            ("unhealthy", 2, Rule::Table),
        ] {
            let mut scene = Scene::of_slots(protocol, OPEN, state);
            let verdict = scene.run(&start);
            assert_placed(
                &verdict,
                Rule::Table,
                2,
                C::GW_COUNTER_START_INSERTED,
                false,
            );
            assert!(verdict.created.flow);
            assert_eq!(verdict.slot_kind, Some(OPEN));
            let verdict = scene.run(&rest);
            assert_placed(&verdict, Rule::Flow, 2, C::GW_COUNTER_HIT, false);

            let mut scene = Scene::of_slots(protocol, OPEN, state);
            let verdict = scene.run(&rest);
            assert_placed(&verdict, rule, default, C::GW_COUNTER_BASE_INSERTED, false);
            let entry = scene.entry().unwrap();
            assert_eq!((entry.row, entry.incarnation), scene.bind(default as u16));
        }
    }
}

#[test]
fn a_base_row_of_nobody_is_no_base() {
    let mut scene = Scene::of_slots("udp", SlotKind::Open { base: 77 }, "ready");
    let verdict = scene.run(&mid_flow());
    assert_placed(&verdict, Rule::Table, 2, C::GW_COUNTER_BASE_INSERTED, false);
}

#[test]
fn nobody_to_go_to() {
    let with = |kind, state: &str| {
        let mut scene = Scene::of_slots("tcp", kind, state);
        scene.mark(None, kind);
        scene
    };
    let no_backend = [C::GW_COUNTER_NO_BACKEND];
    for (mut scene, flags) in [
        (with(SlotKind::Plain, "ready"), ACK),
        (with(SlotKind::Held, "ready"), ACK),
        (with(OPEN, "ready"), SYN),
        (with(OPEN, "unhealthy"), ACK),
    ] {
        let frame = segment(flags, b"");
        assert_dropped(&scene.run(&frame), &frame, &no_backend);
        assert_eq!(scene.entry(), None);
    }
    // The base still takes what is under way.
    let verdict = with(OPEN, "draining").run(&segment(ACK, b""));
    assert_placed(
        &verdict,
        Rule::Previous,
        1,
        C::GW_COUNTER_BASE_INSERTED,
        false,
    );
    // An entry whose backend is gone stays as it is.
    let mut scene = with(SlotKind::Held, "unhealthy");
    let entry = scene.put(scene.bind(1), Phase::Expiring, 0);
    let frame = segment(ACK, b"x");
    assert_dropped(&scene.run(&frame), &frame, &no_backend);
    assert_eq!(scene.entry(), Some(entry));
}

#[test]
fn only_a_syn_leaves_a_draining_backend() {
    for (protocol, frame, rule, backend, outcome) in [
        (
            "tcp",
            segment(SYN, b""),
            Rule::Reselect,
            2,
            C::GW_COUNTER_RESELECTED,
        ),
        ("tcp", segment(ACK, b""), Rule::Flow, 1, C::GW_COUNTER_HIT),
        (
            "tcp",
            segment(SYN | ACK, b""),
            Rule::Flow,
            1,
            C::GW_COUNTER_HIT,
        ),
        ("udp", initial(), Rule::Flow, 1, C::GW_COUNTER_HIT),
    ] {
        let mut scene = Scene::of_slots(protocol, OPEN, "draining");
        let entry = scene.put(scene.bind(1), Phase::Expiring, 0);
        let verdict = scene.run(&frame);
        assert_placed(&verdict, rule, backend, outcome, false);
        let (row, incarnation) = scene.bind(backend as u16);
        let after = Binding {
            row,
            incarnation,
            phase: Phase::Live,
            seen_ns: NOW,
            ..entry
        };
        assert_eq!(scene.entry(), Some(after));
        assert!(!verdict.created.flow);
    }
    // Not even a SYN leaves a ready one: it may be forged.
    let mut scene = Scene::of_slots("tcp", OPEN, "ready");
    scene.put(scene.bind(1), Phase::Live, NOW);
    let verdict = scene.run(&segment(SYN, b""));
    assert_placed(&verdict, Rule::Flow, 1, C::GW_COUNTER_HIT, false);
}

#[test]
fn an_entry_of_a_backend_that_is_gone_moves_to_the_owner() {
    for (state, wrong) in [
        ("unhealthy", None),
        ("ready", Some((0, 0x7777))),
        ("ready", Some((9, 1))),
    ] {
        for kind in [SlotKind::Held, OPEN] {
            let mut scene = Scene::of_slots("udp", kind, state);
            let bind = wrong.unwrap_or(scene.bind(1));
            let entry = scene.put(bind, Phase::Live, 0);
            let verdict = scene.run(&mid_flow());
            assert_placed(&verdict, Rule::Reselect, 2, C::GW_COUNTER_RESELECTED, false);
            let (row, incarnation) = scene.bind(2);
            let after = Binding {
                row,
                incarnation,
                seen_ns: NOW,
                ..entry
            };
            assert_eq!(scene.entry(), Some(after));
            let verdict = scene.run(&mid_flow());
            assert_placed(&verdict, Rule::Flow, 2, C::GW_COUNTER_HIT, false);
        }
    }
}

#[test]
fn the_handshake_grace_sends_starts_to_a_ready_base() {
    for (state, grace_ns, backend, rule, outcome) in [
        (
            "ready",
            NOW + 1,
            1,
            Rule::Previous,
            C::GW_COUNTER_BASE_INSERTED,
        ),
        ("ready", NOW, 2, Rule::Table, C::GW_COUNTER_START_INSERTED),
        ("ready", 0, 2, Rule::Table, C::GW_COUNTER_START_INSERTED),
        (
            "draining",
            NOW + 1,
            2,
            Rule::Table,
            C::GW_COUNTER_START_INSERTED,
        ),
        (
            "unhealthy",
            NOW + 1,
            2,
            Rule::Table,
            C::GW_COUNTER_START_INSERTED,
        ),
    ] {
        let mut scene = Scene::of_slots("udp", OPEN, state);
        scene.generation.services[0].grace_until_ns = grace_ns;
        let verdict = scene.run(&initial());
        assert_placed(&verdict, rule, backend, outcome, false);
        assert_eq!(verdict.flow_start, Some(true));
    }
    let mut scene = Scene::of_slots("tcp", OPEN, "ready");
    scene.generation.services[0].grace_until_ns = NOW + SECOND;
    let verdict = scene.run(&segment(SYN, b""));
    assert_placed(
        &verdict,
        Rule::Table,
        2,
        C::GW_COUNTER_START_INSERTED,
        false,
    );
}

fn with_level(mut scene: Scene, flows: Level) -> Scene {
    let stats = scene.generation.services[0].stats;
    let admission = Admission {
        flows,
        ..Admission::default()
    };
    scene.state.admissions.insert(stats, admission);
    scene
}

#[test]
fn refused_entries() {
    use Level::{None as Nothing, Reserve};
    let (syn, ack) = (segment(SYN, b""), segment(ACK, b""));
    let high = C::GW_COUNTER_REFUSED_HIGH;
    let full = C::GW_COUNTER_REFUSED_FULL;
    for (protocol, state, level, frame, backend, rule, outcome, at_risk) in [
        (
            "tcp",
            "ready",
            Reserve,
            &syn,
            1,
            Rule::Previous,
            high,
            false,
        ),
        ("tcp", "draining", Reserve, &syn, 2, Rule::Table, high, true),
        (
            "tcp",
            "unhealthy",
            Nothing,
            &syn,
            2,
            Rule::Table,
            full,
            true,
        ),
        (
            "tcp",
            "draining",
            Nothing,
            &ack,
            1,
            Rule::Previous,
            full,
            false,
        ),
        (
            "tcp",
            "unhealthy",
            Nothing,
            &ack,
            2,
            Rule::Table,
            full,
            true,
        ),
        (
            "udp",
            "ready",
            Reserve,
            &initial(),
            1,
            Rule::Previous,
            high,
            false,
        ),
        (
            "udp",
            "draining",
            Reserve,
            &initial(),
            2,
            Rule::Table,
            high,
            true,
        ),
        (
            "udp",
            "ready",
            Nothing,
            &initial(),
            1,
            Rule::Previous,
            full,
            false,
        ),
    ] {
        let mut scene = with_level(Scene::of_slots(protocol, OPEN, state), level);
        let verdict = scene.run(frame);
        assert_placed(&verdict, rule, backend, outcome, at_risk);
        assert_eq!(scene.entry(), None);
        assert!(!verdict.created.flow);
        let stats = scene.generation.services[0].stats;
        assert_eq!(scene.state.admission(stats).refused_ns, NOW);
    }
    // The reserve is for what is under way.
    let mut scene = with_level(Scene::of_slots("tcp", OPEN, "ready"), Reserve);
    let verdict = scene.run(&ack);
    assert_placed(
        &verdict,
        Rule::Previous,
        1,
        C::GW_COUNTER_BASE_INSERTED,
        false,
    );
    // Outside open slots refusals keep nothing open.
    let mut spec = by_tuple("tcp", "ready");
    spec["services"][0]["tracking"] = json!("all");
    for (level, outcome) in [(Reserve, high), (Nothing, full)] {
        let mut scene = with_level(Scene::new(&spec), level);
        scene.mark(Some(1), SlotKind::Plain);
        let verdict = scene.run(&ack);
        assert_placed(&verdict, Rule::Table, 2, outcome, true);
        let stats = scene.generation.services[0].stats;
        assert_eq!(scene.state.admission(stats).refused_ns, 0);
    }
}

#[test]
fn a_flow_that_is_refused_when_slots_close_is_at_risk() {
    let high = C::GW_COUNTER_REFUSED_HIGH;
    for (closing, at_risk) in [(Some(9), true), (Some(8), false), (None, false)] {
        let mut scene = with_level(Scene::of_slots("tcp", OPEN, "ready"), Level::Reserve);
        scene.generation.number = 9;
        scene.state.closing_generation = closing;
        let verdict = scene.run(&segment(SYN, b""));
        assert_placed(&verdict, Rule::Previous, 1, high, at_risk);
    }
}

#[test]
fn a_full_table_refuses_and_raises_the_level() {
    let mut scene = Scene::of_slots("tcp", OPEN, "ready");
    scene.state = State {
        now_ns: NOW,
        ..State::with_capacity(0, 0)
    };
    let verdict = scene.run(&segment(SYN, b""));
    let full = C::GW_COUNTER_REFUSED_FULL;
    assert_placed(&verdict, Rule::Previous, 1, full, false);
    let stats = scene.generation.services[0].stats;
    let after = Admission {
        flows: Level::None,
        cids: Level::All,
        refused_ns: NOW,
    };
    assert_eq!(scene.state.admission(stats), after);
}

#[test]
fn a_strangers_entry_is_none_and_stays() {
    for damage in [
        |entry: &mut Binding| entry.tag ^= 1,
        |entry: &mut Binding| entry.hash ^= 0x100,
    ] {
        let mut scene = Scene::of_slots("tcp", OPEN, "draining");
        scene.put(scene.bind(1), Phase::Expiring, 0);
        let key = scene.key();
        damage(scene.state.flows.get_mut(&key).unwrap());
        let stranger = scene.entry();
        let verdict = scene.run(&segment(SYN, b""));
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_counts(
            &verdict,
            &[
                C::GW_COUNTER_STARTS,
                C::GW_COUNTER_REFUSED_BUSY,
                C::GW_COUNTER_TAG_MISMATCH,
                C::GW_COUNTER_AT_RISK,
            ],
        );
        assert_eq!(scene.entry(), stranger);

        scene.mark(Some(1), SlotKind::Held);
        let verdict = scene.run(&segment(ACK, b""));
        assert_counts(
            &verdict,
            &[C::GW_COUNTER_HELD_DEFAULT, C::GW_COUNTER_TAG_MISMATCH],
        );
    }
}

#[test]
fn an_entry_about_to_be_deleted_is_used_and_marked() {
    for phase in [Phase::Dead, Phase::Touched] {
        let mut scene = Scene::of_slots("tcp", SlotKind::Held, "draining");
        let entry = scene.put(scene.bind(1), phase, 5);
        let verdict = scene.run(&segment(ACK, b""));
        assert_placed(&verdict, Rule::Flow, 1, C::GW_COUNTER_DEAD_USED, false);
        let after = Binding {
            phase: Phase::Touched,
            ..entry
        };
        assert_eq!(scene.entry(), Some(after));

        // So is one that moves to another backend.
        let mut scene = Scene::of_slots("tcp", SlotKind::Held, "unhealthy");
        scene.put(scene.bind(1), phase, 5);
        let verdict = scene.run(&segment(FIN | ACK, b""));
        assert_placed(&verdict, Rule::Reselect, 2, C::GW_COUNTER_RESELECTED, false);
        let (row, incarnation) = scene.bind(2);
        let after = Binding {
            row,
            incarnation,
            ..after
        };
        assert_eq!(scene.entry(), Some(after));
    }
}

#[test]
fn fin_and_rst_are_hints_that_data_takes_back() {
    let mut scene = Scene::of_slots("tcp", SlotKind::Held, "ready");
    scene.put(scene.bind(1), Phase::Live, NOW);
    for (flags, data, fin, rst) in [
        (ACK, &b""[..], false, false),
        (FIN | ACK, b"", true, false),
        (ACK, b"", true, false),
        (RST, b"", true, true),
        (FIN | ACK, b"last", true, true),
        (ACK, b"more", false, false),
        (RST | ACK, b"why", false, true),
        (SYN, b"early", false, false),
    ] {
        let verdict = scene.run(&segment(flags, data));
        assert_placed(&verdict, Rule::Flow, 1, C::GW_COUNTER_HIT, false);
        let entry = scene.entry().unwrap();
        assert_eq!((entry.fin, entry.rst), (fin, rst), "{flags:x} {data:?}");
    }
    // The first packet that an entry is made for may be the last of its flow.
    let mut scene = Scene::of_slots("tcp", OPEN, "ready");
    scene.run(&segment(FIN | ACK, b"last"));
    let entry = scene.entry().unwrap();
    assert!(entry.fin && !entry.rst);
}

/// Errors, and packets that no client sends, are placed like their flow and leave nothing.
#[test]
fn packets_that_leave_no_trace() {
    let error = error4(&quoted4(UDP, &udp(443, 50000, b"")));
    let negotiation = to_vip(&long(0xc0, 0, &[9; 8]));
    let retry = to_vip(&long(0xf0, 1, &[9; 8]));
    let retry_2 = to_vip(&long(0xc0, VERSION_2, &[9; 8]));
    for frame in [error, negotiation, retry, retry_2] {
        for (state, backend, rule) in [
            ("draining", 1, Rule::Previous),
            ("unhealthy", 2, Rule::Table),
        ] {
            let mut scene = Scene::of_slots("udp", OPEN, state);
            let verdict = scene.run(&frame);
            assert_placed(&verdict, rule, backend, C::GW_COUNTER_NO_ENTRY, false);
            assert_eq!(scene.entry(), None);
        }
        for (state, phase, backend, rule, outcome) in [
            ("ready", Phase::Expiring, 1, Rule::Flow, C::GW_COUNTER_HIT),
            ("ready", Phase::Dead, 1, Rule::Flow, C::GW_COUNTER_DEAD_USED),
            (
                "unhealthy",
                Phase::Live,
                2,
                Rule::Reselect,
                C::GW_COUNTER_RESELECTED,
            ),
        ] {
            let mut scene = Scene::of_slots("udp", OPEN, state);
            let entry = scene.put(scene.bind(1), phase, 0);
            let verdict = scene.run(&frame);
            assert_placed(&verdict, rule, backend, outcome, false);
            assert_eq!(scene.entry(), Some(entry));
        }
    }
}

/// Whose flow a fragment is of nobody can tell, so it goes where flows without an entry go.
#[test]
fn fragments_take_the_default() {
    let mut spec = by_tuple("tcp", "draining");
    spec["services"][0]["hash"] = json!("source");
    spec["services"][0]["fragments"] = json!("route");
    let mut scene = Scene::new(&spec);
    let mut fragment = segment(ACK, b"12345678");
    fragment[20] = 0x20;
    for (kind, backend, rule, outcome) in [
        (SlotKind::Plain, 2, Rule::Table, C::GW_COUNTER_PLAIN),
        (SlotKind::Held, 2, Rule::Table, C::GW_COUNTER_HELD_DEFAULT),
        (OPEN, 1, Rule::Previous, C::GW_COUNTER_NO_ENTRY),
    ] {
        scene.mark(Some(1), kind);
        let verdict = scene.run(&fragment);
        assert_placed(&verdict, rule, backend, outcome, false);
        assert_eq!(scene.entry(), None);
    }
    spec["services"][0]["tracking"] = json!("all");
    let mut scene = Scene::new(&spec);
    scene.mark(Some(1), SlotKind::Plain);
    let verdict = scene.run(&fragment);
    assert_placed(&verdict, Rule::Table, 2, C::GW_COUNTER_NO_ENTRY, false);
    assert_eq!(scene.entry(), None);
}

#[test]
fn what_is_not_quic_is_mid_flow() {
    let mut spec = by_tuple("udp", "ready");
    spec["services"][0]["quic_only"] = json!(false);
    spec["services"][0]["short_dcid_len"] = json!(0);
    let mut scene = Scene::new(&spec);
    scene.mark(Some(1), OPEN);
    let verdict = scene.run(&initial());
    assert_placed(
        &verdict,
        Rule::Previous,
        1,
        C::GW_COUNTER_BASE_INSERTED,
        false,
    );
    assert_eq!(verdict.flow_start, Some(false));
}
