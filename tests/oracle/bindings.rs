// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bindings of connection IDs: what they override, who makes them, and who does not.

use guideway::abi::Counter as C;
use guideway::affinity::rules::{Level, SlotKind};
use guideway::affinity::state::{Admission, State};
use guideway::affinity::{cid_tag, Binding, Origin, Phase};
use guideway::oracle::Verdict;
use guideway::reason::{Reason, Rule};
use serde_json::json;

use crate::build::*;
use crate::scene::*;
use crate::world::*;

const CID: [u8; 8] = [0xa1, 2, 3, 4, 5, 6, 7, 8];
/// Of backend 2, in the services with server IDs, and of nobody there.
const OF_2: [u8; 8] = [0x00, 0xd5, 0xe7, 1, 2, 3, 4, 5];
const OF_NOBODY: [u8; 8] = [0x00, 0xff, 0xff, 1, 2, 3, 4, 5];

fn handshake(cid: &[u8]) -> Vec<u8> {
    to_vip(&long(0xe0, 1, cid))
}

fn from_port(port: u16, payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(port, 443, payload))
}

/// The example, which learns; backend 2 owns every slot, backend 1 is in this state.
fn learning(state: &str) -> Scene {
    let mut spec = example();
    spec["services"][0]["backends"][0]["state"] = json!(state);
    let mut scene = Scene::new(&spec);
    scene.mark(Some(1), SlotKind::Plain);
    scene
}

fn counts(verdict: &Verdict, counter: C) -> bool {
    verdict.counters.contains(&counter)
}

#[test]
fn a_binding_wins_over_flow_and_table() {
    for (origin, rule, seen_ns) in [
        (Origin::Registered, Rule::CidRegistered, NOW + 100 * SECOND),
        (Origin::Imported, Rule::CidImported, NOW),
        (Origin::Traffic, Rule::CidLearned, NOW),
    ] {
        for state in ["ready", "draining"] {
            let mut scene = Scene::of_slots("udp", SlotKind::Held, state);
            let entry = scene.put(scene.bind(2), Phase::Live, 0);
            let key = scene.bind_cid(&CID, scene.bind(1), origin);
            scene.state.cids.get_mut(&key).unwrap().phase = Phase::Expiring;
            let before = scene.cid(&CID).unwrap();
            for frame in [
                to_vip(&short(&CID)),
                handshake(&CID),
                to_vip(&long(0xc0, 1, &CID)),
                to_vip(&long(0xc0, 2, &CID)),
            ] {
                let verdict = scene.run(&frame);
                assert_forwarded(&verdict, rule, 1);
                assert_eq!((verdict.hash, verdict.slot_kind), (None, None));
                assert!(verdict.counters.iter().all(|c| c.0 < C::GW_COUNTER_PLAIN.0));
            }
            let after = Binding {
                phase: Phase::Live,
                seen_ns,
                ..before
            };
            assert_eq!(scene.cid(&CID), Some(after));
            // Nothing is learned here, so the flow is nobody's business.
            assert_eq!(scene.entry(), Some(entry));
        }
    }
}

#[test]
fn services_without_bindings_look_nothing_up() {
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    scene.bind_cid(&CID, scene.bind(1), Origin::Registered);
    scene.generation.services[0].exact = false;
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::Table, 2);
}

#[test]
fn a_server_id_wins_over_a_binding_and_a_binding_over_an_unknown_one() {
    for (unknown, quarantined) in [(OF_NOBODY, false), (OF_NOBODY, true)] {
        let mut scene = Scene::new(&with_server_ids());
        if quarantined {
            let gone = guideway::plan::PlacedServerId {
                config_id: 0,
                server_id: "ffff".parse().unwrap(),
                row: None,
            };
            scene.generation.services[0].server_ids.push(gone);
        }
        let frame = to_vip(&short(&unknown));
        let (reason, counter) = match quarantined {
            true => (
                Reason::QuarantinedServerId,
                C::GW_COUNTER_QUARANTINED_SERVER_ID,
            ),
            false => (Reason::UnknownServerId, C::GW_COUNTER_UNKNOWN_SERVER_ID),
        };
        let verdict = scene.run(&frame);
        assert_left(&verdict, &frame, reason);
        assert_counts(&verdict, &[C::GW_COUNTER_QUIC_SHORT, counter]);

        scene.bind_cid(&unknown, scene.bind(1), Origin::Registered);
        scene.bind_cid(&OF_2, scene.bind(1), Origin::Registered);
        let verdict = scene.run(&frame);
        assert_forwarded(&verdict, Rule::CidRegistered, 1);
        assert!(!counts(&verdict, C::GW_COUNTER_QUARANTINED_SERVER_ID));
        let verdict = scene.run(&to_vip(&short(&OF_2)));
        assert_forwarded(&verdict, Rule::ServerId, 2);
    }
}

/// The owner of the flow's slot gets the packet and the binding.
#[test]
fn a_binding_of_a_backend_that_is_gone_moves_to_the_owner() {
    for origin in [Origin::Registered, Origin::Imported, Origin::Traffic] {
        for (state, bind, stale) in [
            ("unhealthy", None, false),
            ("ready", Some((0, 0x7777)), true),
            ("ready", Some((9, 1)), true),
        ] {
            let mut scene = Scene::of_slots("udp", SlotKind::Open { base: 0 }, state);
            let bind = bind.unwrap_or(scene.bind(1));
            scene.bind_cid(&CID, bind, origin);
            let before = scene.cid(&CID).unwrap();
            let verdict = scene.run(&to_vip(&short(&CID)));
            assert_forwarded(&verdict, Rule::Reselect, 2);
            assert_eq!(verdict.slot, Some(1378));
            let mut counters = vec![C::GW_COUNTER_QUIC_SHORT, C::GW_COUNTER_RESELECTED];
            counters.extend(stale.then_some(C::GW_COUNTER_STALE));
            assert_counts(&verdict, &counters);
            let after = scene.cid(&CID).unwrap();
            assert_eq!((after.row, after.incarnation), scene.bind(2));
            assert_eq!((after.origin, after.tag), (origin, before.tag));

            scene.state.cids.remove(&scene.cid_key(&CID));
            scene.bind_cid(&CID, bind, origin);
            scene.mark(None, SlotKind::Plain);
            let frame = to_vip(&short(&CID));
            let verdict = scene.run(&frame);
            assert_left(&verdict, &frame, Reason::NoBackend);
            assert!(counts(&verdict, C::GW_COUNTER_NO_BACKEND));
            assert_eq!(scene.cid(&CID), Some(before));
        }
    }
}

/// Until the sweep comes by, its place is taken, and nothing is learned there.
#[test]
fn a_registration_that_is_over_binds_nothing() {
    for (ends_ns, is_over) in [(0, false), (NOW + 1, false), (NOW, true), (NOW - 1, true)] {
        let mut scene = learning("ready");
        scene.put(scene.bind(1), Phase::Live, NOW);
        let key = scene.bind_cid(&CID, scene.bind(1), Origin::Registered);
        scene.state.cids.get_mut(&key).unwrap().seen_ns = ends_ns;
        let before = scene.cid(&CID);
        let verdict = scene.run(&to_vip(&short(&CID)));
        let rule = if is_over {
            Rule::Flow
        } else {
            Rule::CidRegistered
        };
        assert_forwarded(&verdict, rule, 1);
        assert!(!verdict.created.cid && !counts(&verdict, C::GW_COUNTER_CID_CONFLICT));
        assert_eq!(scene.cid(&CID), before);
    }
}

#[test]
fn a_strangers_binding_is_none() {
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    let key = scene.bind_cid(&CID, scene.bind(1), Origin::Registered);
    scene.state.cids.get_mut(&key).unwrap().tag ^= 0x8000;
    let before = scene.cid(&CID);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::Table, 2);
    assert_counts(
        &verdict,
        &[
            C::GW_COUNTER_QUIC_SHORT,
            C::GW_COUNTER_PLAIN,
            C::GW_COUNTER_TAG_MISMATCH,
        ],
    );
    assert_eq!(scene.cid(&CID), before);
}

#[test]
fn a_binding_about_to_be_deleted_is_used_and_marked() {
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    let key = scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
    scene.state.cids.get_mut(&key).unwrap().phase = Phase::Dead;
    let before = scene.cid(&CID).unwrap();
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::CidLearned, 1);
    let after = Binding {
        phase: Phase::Touched,
        ..before
    };
    assert_eq!(scene.cid(&CID), Some(after));
}

/// How long the connection ID of a short header is.
#[test]
fn lengths_of_looked_up_connection_ids() {
    // As agreed.
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    scene.bind_cid(&CID[..7], scene.bind(1), Origin::Registered);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::Table, 2);
    // A long header says it.
    let verdict = scene.run(&handshake(&CID[..7]));
    assert_forwarded(&verdict, Rule::CidRegistered, 1);
    // So do connection IDs without a server ID, in services that use them: here, of eleven bytes.
    let described = [0xea, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    for (spec, rule) in [
        (by_tuple("udp", "ready"), Rule::Table),
        (with_server_ids(), Rule::CidRegistered),
    ] {
        let mut scene = Scene::new(&spec);
        scene.mark(Some(1), SlotKind::Plain);
        scene.bind_cid(&described, scene.bind(1), Origin::Registered);
        let verdict = scene.run(&to_vip(&short(&described)));
        let backend = if rule == Rule::Table { 2 } else { 1 };
        assert_forwarded(&verdict, rule, backend);
        // Unless they are cut, or longer than any.
        let cut = to_vip(&[&[0x40][..], &described[..10]].concat());
        assert_forwarded(&scene.run(&cut), Rule::Table, 2);
        let mut long = described;
        long[0] = 0xff;
        assert_forwarded(&scene.run(&to_vip(&short(&long))), Rule::Table, 2);
    }
    // No agreed length, no connection ID.
    let mut spec = by_tuple("udp", "ready");
    spec["services"][0]["short_dcid_len"] = json!(0);
    let mut scene = Scene::new(&spec);
    scene.mark(Some(1), SlotKind::Plain);
    scene.bind_cid(&CID, scene.bind(1), Origin::Registered);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::Table, 2);
}

/// A greased short header may look like a record of DTLS.
#[test]
fn what_is_bound_is_quic() {
    let mut record = vec![22, 0xfe, 0xfd];
    record.extend([0; 8]);
    record.extend([0, 0]);
    let frame = to_vip(&record);
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    assert_left(&scene.run(&frame), &frame, Reason::NotQuic);
    scene.bind_cid(&record[1..9], scene.bind(1), Origin::Imported);
    let verdict = scene.run(&frame);
    assert_forwarded(&verdict, Rule::CidImported, 1);
    let counters = [C::GW_COUNTER_QUIC_SHORT, C::GW_COUNTER_FIXED_BIT_CLEAR];
    assert_counts(&verdict, &counters);
}

#[test]
fn version_negotiation_is_not_looked_up() {
    let mut scene = Scene::of_slots("udp", SlotKind::Plain, "ready");
    scene.bind_cid(&CID, scene.bind(1), Origin::Registered);
    let verdict = scene.run(&to_vip(&long(0xc0, 0, &CID)));
    assert_forwarded(&verdict, Rule::Table, 2);
}

/// An error is about what the server sent: its own connection ID is the source.
#[test]
fn errors_follow_bindings_and_leave_no_trace() {
    let about = |scid: &[u8]| {
        let quoted = long_from(0xe0, 1, &[9; 5], scid);
        error4(&quoted4(UDP, &udp(443, 50000, &quoted)))
    };
    for (state, rule, backend) in [
        ("draining", Rule::CidLearned, 1),
        ("unhealthy", Rule::Reselect, 2),
    ] {
        let mut scene = Scene::of_slots("udp", SlotKind::Open { base: 0 }, state);
        scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
        let before = scene.state.clone();
        let verdict = scene.run(&about(&CID));
        assert_forwarded(&verdict, rule, backend);
        assert!(counts(&verdict, C::GW_COUNTER_ICMP));
        assert_eq!(scene.state, before);
    }
}

#[test]
fn a_connection_id_seen_on_a_bound_flow_is_bound() {
    for teacher in [handshake(&CID), to_vip(&short(&CID)), {
        to_vip(&long(0xf0, 0x6b33_43cf, &CID))
    }] {
        let mut scene = learning("ready");
        let entry = scene.put(scene.bind(1), Phase::Live, NOW);
        let verdict = scene.run(&teacher);
        assert_forwarded(&verdict, Rule::Flow, 1);
        assert!(counts(&verdict, C::GW_COUNTER_CID_LEARNED));
        assert!(verdict.created.cid && !verdict.created.flow);
        let key = scene.cid_key(&CID);
        let (row, incarnation) = scene.bind(1);
        let expected = Binding {
            tag: cid_tag(&key.to_abi(), CID_SEED),
            row,
            incarnation,
            seen_ns: NOW,
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin: Origin::Traffic,
            learned: 0,
            hash: HASH,
        };
        assert_eq!(scene.cid(&CID), Some(expected));
        assert_eq!(
            scene.entry(),
            Some(Binding {
                learned: 1,
                ..entry
            })
        );

        // The client's address is rewritten: another port, the same connection ID.
        let verdict = scene.run(&from_port(50001, &short(&CID)));
        assert_forwarded(&verdict, Rule::CidLearned, 1);
        assert!(counts(&verdict, C::GW_COUNTER_REBIND));
        assert!(verdict.created.flow && verdict.hash.is_some());
        assert!(verdict.counters.iter().all(|c| c.0 < C::GW_COUNTER_PLAIN.0));
        // So the next one seen there is learned as well.
        let next = [0x5a; 8];
        let verdict = scene.run(&from_port(50001, &short(&next)));
        assert_forwarded(&verdict, Rule::Flow, 1);
        assert!(verdict.created.cid);
    }
}

#[test]
fn what_teaches_nothing() {
    let seven = handshake(&CID[..7]);
    for (frame, mismatch) in [
        (to_vip(&long(0xc0, 1, &CID)), false),
        (to_vip(&long(0xd0, 1, &CID)), false),
        (to_vip(&long(0xf0, 1, &CID)), false),
        (to_vip(&long(0xc0, 0, &CID)), false),
        (to_vip(&long(0xe0, 2, &CID)), false),
        (seven, true),
        (handshake(&[]), true),
        (handshake(&[7; 21]), true),
        (to_vip(&long(0xc0, 1, &CID[..7])), false),
    ] {
        let mut scene = learning("ready");
        scene.put(scene.bind(1), Phase::Live, NOW);
        let verdict = scene.run(&frame);
        assert_forwarded(&verdict, Rule::Flow, 1);
        assert!(scene.state.cids.is_empty() && !verdict.created.cid);
        let counted = counts(&verdict, C::GW_COUNTER_CID_LEN_MISMATCH);
        assert_eq!(counted, mismatch, "{frame:02x?}");
    }
    // The flow's entry must be older than the packet, and of use.
    let mut scene = learning("unhealthy");
    let verdict = scene.run(&handshake(&CID));
    assert_forwarded(&verdict, Rule::Table, 2);
    assert!(verdict.created.flow && !verdict.created.cid);
    scene.put(scene.bind(1), Phase::Live, NOW);
    let verdict = scene.run(&handshake(&CID));
    assert_forwarded(&verdict, Rule::Reselect, 2);
    assert!(scene.state.cids.is_empty());
}

#[test]
fn a_flow_teaches_eight() {
    let mut scene = learning("ready");
    scene.put(scene.bind(1), Phase::Live, NOW);
    for i in 0..10 {
        let verdict = scene.run(&to_vip(&short(&[i; 8])));
        assert_forwarded(&verdict, Rule::Flow, 1);
        assert_eq!(verdict.created.cid, i < 8);
        let counters = [C::GW_COUNTER_CID_LEARNED, C::GW_COUNTER_CID_REFUSED];
        let counted = counters.map(|counter| counts(&verdict, counter));
        assert_eq!(counted, [i < 8, false]);
    }
    assert_eq!(scene.entry().unwrap().learned, 8);
}

#[test]
fn refused_bindings() {
    let stats = |scene: &Scene| scene.generation.services[0].stats;
    for level in [Level::Reserve, Level::None] {
        let mut scene = learning("ready");
        let entry = scene.put(scene.bind(1), Phase::Live, NOW);
        let admission = Admission {
            cids: level,
            ..Admission::default()
        };
        let stats = stats(&scene);
        scene.state.admissions.insert(stats, admission);
        let verdict = scene.run(&handshake(&CID));
        assert_forwarded(&verdict, Rule::Flow, 1);
        assert!(counts(&verdict, C::GW_COUNTER_CID_REFUSED) && !verdict.created.cid);
        assert_eq!(scene.entry(), Some(entry));
        assert_eq!(scene.state.admission(stats), admission);
    }
    // A full map says so once and raises the level; flows are another matter.
    let mut scene = learning("ready");
    scene.state = State {
        now_ns: NOW,
        cid_seed: CID_SEED,
        ..State::with_capacity(1, 0)
    };
    scene.put(scene.bind(1), Phase::Live, NOW);
    let verdict = scene.run(&handshake(&CID));
    assert!(counts(&verdict, C::GW_COUNTER_CID_REFUSED));
    let after = Admission {
        cids: Level::None,
        ..Admission::default()
    };
    assert_eq!(scene.state.admission(stats(&scene)), after);
    // Neither does a flow that gets no entry keep its packet from where it is bound.
    let mut scene = learning("ready");
    scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
    let admission = Admission {
        flows: Level::Reserve,
        ..Admission::default()
    };
    let stats = stats(&scene);
    scene.state.admissions.insert(stats, admission);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::CidLearned, 1);
    assert!(!verdict.created.flow && !counts(&verdict, C::GW_COUNTER_REBIND));
    assert!(counts(&verdict, C::GW_COUNTER_CID_REFUSED));
}

#[test]
fn a_binding_is_never_replaced_by_what_a_flow_says() {
    let mut scene = learning("ready");
    let entry = scene.put(scene.bind(2), Phase::Live, NOW);
    scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::CidLearned, 1);
    assert!(counts(&verdict, C::GW_COUNTER_CID_CONFLICT));
    assert_eq!(scene.entry(), Some(entry));
    let bound = scene.cid(&CID).unwrap();
    assert_eq!((bound.row, bound.incarnation), scene.bind(1));

    // A stranger's entry under the key is no binding, and nothing is written in its place.
    let mut scene = learning("ready");
    let entry = scene.put(scene.bind(1), Phase::Live, NOW);
    let key = scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
    scene.state.cids.get_mut(&key).unwrap().tag ^= 1;
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert_forwarded(&verdict, Rule::Flow, 1);
    assert!(counts(&verdict, C::GW_COUNTER_TAG_MISMATCH));
    assert!(!counts(&verdict, C::GW_COUNTER_CID_CONFLICT));
    assert_eq!(scene.entry(), Some(entry));
}

/// The flow of a bound packet stays alive, so that it goes on teaching.
#[test]
fn a_bound_packet_renews_its_flow() {
    let mut scene = learning("ready");
    let entry = scene.put(scene.bind(1), Phase::Expiring, 0);
    scene.bind_cid(&CID, scene.bind(1), Origin::Traffic);
    let verdict = scene.run(&to_vip(&short(&CID)));
    assert!(!counts(&verdict, C::GW_COUNTER_REBIND));
    let after = Binding {
        phase: Phase::Live,
        seen_ns: NOW,
        ..entry
    };
    assert_eq!(scene.entry(), Some(after));
}
