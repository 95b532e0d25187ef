// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Connection IDs that are learned from flows, and flows that follow their connection IDs.

use guideway::abi::{self, Counter, Level};
use guideway::affinity::{Binding, Origin, Phase};
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::reason::Rule;

use super::case::*;
use super::world::*;
use crate::build::with;
use crate::machine::Machine;
use crate::netns::isolated;

const CID: [u8; 8] = [0xa1, 2, 3, 4, 5, 6, 7, 8];

fn learned(payload: &[u8]) -> Vec<u8> {
    datagram(445, payload)
}

/// The client's packet after its address was rewritten on the way.
fn from(port: u16, frame: Vec<u8>) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    with(frame, &[(34, high), (35, low)])
}

fn world() -> World {
    let mut world = World::new();
    world.publish(READY, PLAIN);
    world
}

#[test]
fn a_connection_id_of_the_server_is_bound_to_its_flows_backend() {
    isolated("datapath::state::learned", || {
        let world = world();
        for (payload, counters) in [
            (long(2, V1, &CID), [LONG, HIT, CID_LEARNED]),
            (long(3, V2, &CID), [LONG, HIT, CID_LEARNED]),
            (short(&CID), [SHORT, HIT, CID_LEARNED]),
        ] {
            for row in [OTHER, DRAINING] {
                world.machine.forget();
                let flow = Binding {
                    learned: 3,
                    ..world.flow_entry("learned", row)
                };
                world.put_flow("learned", flow);
                let begin = monotonic_coarse_ns();
                let came = world.run("learned", &learned(&payload));
                came.went_to(row, Rule::Flow, &counters);
                let seen_ns = world.cid("learned", &CID).unwrap().seen_ns;
                assert!((begin..=monotonic_coarse_ns()).contains(&seen_ns));
                let expected = Binding {
                    seen_ns,
                    hash: flow.hash,
                    ..world.cid_entry("learned", &CID, row, Origin::Traffic)
                };
                assert_eq!(world.cid("learned", &CID), Some(expected));
                let after = Binding {
                    seen_ns,
                    learned: 4,
                    ..flow
                };
                assert_eq!(world.flow("learned"), Some(after));
                // Once.
                let came = world.run("learned", &learned(&payload));
                came.went_to(row, Rule::CidLearned, &counters[..1]);
                assert_eq!(world.flow("learned"), Some(after));
            }
        }
    });
}

/// Each for a reason of its own.
#[test]
fn what_is_never_learned() {
    isolated("datapath::state::unlearned", || {
        let world = world();
        for (name, payload, counters) in [
            ("Initial", long(0, V1, &CID), vec![LONG, STARTS, HIT]),
            ("Initial 2", long(1, V2, &CID), vec![LONG, STARTS, HIT]),
            ("0-RTT", long(1, V1, &CID), vec![LONG, STARTS, HIT]),
            ("0-RTT 2", long(2, V2, &CID), vec![LONG, STARTS, HIT]),
            ("Retry", long(3, V1, &CID), vec![LONG, RETRY, HIT]),
            ("Retry 2", long(0, V2, &CID), vec![LONG, RETRY, HIT]),
            (
                "negotiation",
                long(2, 0, &CID),
                vec![LONG, NEGOTIATION, HIT],
            ),
            (
                "unknown",
                long(2, 7, &CID),
                vec![LONG, UNKNOWN_VERSION, HIT],
            ),
            // The contract is broken in clear.
            (
                "shorter",
                long(2, V1, &CID[..7]),
                vec![LONG, CID_LEN_MISMATCH, HIT],
            ),
            (
                "longer",
                long(2, V1, &[7; 9]),
                vec![LONG, CID_LEN_MISMATCH, HIT],
            ),
            (
                "none",
                long(2, V1, &[]),
                vec![LONG, Counter::GW_COUNTER_CID_ZERO, CID_LEN_MISMATCH, HIT],
            ),
            (
                "too long",
                long(2, V1, &[7; 21]),
                vec![LONG, Counter::GW_COUNTER_CID_LONG, CID_LEN_MISMATCH, HIT],
            ),
        ] {
            world.machine.forget();
            world.put_flow("learned", world.flow_entry("learned", OTHER));
            let came = world.run("learned", &learned(&payload));
            came.went_to(OTHER, Rule::Flow, &counters);
            assert!(world.machine.cids().is_empty(), "{name}");
            assert_eq!(world.flow("learned").unwrap().learned, 0, "{name}");
        }
        // The mismatch is one whether the connection ID is bound or not, and of learned routing.
        let entry = world.cid_entry("learned", &CID[..7], OTHER, Origin::Imported);
        world.put_cid("learned", &CID[..7], entry);
        let came = world.run("learned", &learned(&long(2, V1, &CID[..7])));
        came.went_to(OTHER, Rule::CidImported, &[LONG, CID_LEN_MISMATCH]);
        let came = world.run("bound", &datagram(446, &long(2, V1, &CID[..7])));
        came.went_to(READY, Rule::Table, &[LONG, PLAIN_OUTCOME]);
        let came = world.run("bound", &datagram(446, &short(&CID)));
        came.went_to(READY, Rule::Table, &[SHORT, PLAIN_OUTCOME]);
        assert_eq!(world.machine.cids().len(), 1);
    });
}

#[test]
fn only_a_flow_that_was_there_before_teaches() {
    isolated("datapath::state::teachers", || {
        let world = world();
        let frame = learned(&short(&CID));
        // The packet's own entry is no older than the packet.
        let came = world.run("learned", &frame);
        came.went_to(READY, Rule::Table, &[SHORT, ALL_INSERTED]);
        assert!(world.machine.cids().is_empty());
        let came = world.run("learned", &frame);
        came.went_to(READY, Rule::Flow, &[SHORT, HIT, CID_LEARNED]);

        let with_flow = |flow: Binding| {
            world.machine.forget();
            world.put_flow("learned", flow);
            let came = world.run("learned", &frame);
            (came, world.machine.cids().len())
        };
        let flow = world.flow_entry("learned", OTHER);
        // About to be deleted: who knows whose flow this is.
        for phase in [Phase::Dead, Phase::Touched] {
            let (came, cids) = with_flow(Binding { phase, ..flow });
            came.went_to(OTHER, Rule::Flow, &[SHORT, DEAD_USED]);
            assert_eq!(cids, 0);
        }
        let phase = Phase::Expiring;
        let (came, cids) = with_flow(Binding { phase, ..flow });
        came.went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_LEARNED]);
        assert_eq!(cids, 1);
        // Its backend has no keys for the connection.
        let (came, cids) = with_flow(world.flow_entry("learned", UNHEALTHY));
        came.went_to(READY, Rule::Reselect, &[SHORT, RESELECTED]);
        assert_eq!(cids, 0);
        // A stranger's entry.
        let (came, cids) = with_flow(Binding {
            tag: flow.tag ^ 1,
            ..flow
        });
        let counters = [SHORT, TAG_MISMATCH, REFUSED_BUSY, AT_RISK];
        came.went_to(READY, Rule::Table, &counters);
        assert_eq!(cids, 0);
    });
}

#[test]
fn a_flow_teaches_eight_connection_ids() {
    isolated("datapath::state::eight", || {
        let world = world();
        world.put_flow("learned", world.flow_entry("learned", OTHER));
        for number in 1..=12 {
            let cid = [number; 8];
            let came = world.run("learned", &learned(&short(&cid)));
            let counters: &[_] = match number {
                1..=8 => &[SHORT, HIT, CID_LEARNED],
                _ => &[SHORT, HIT],
            };
            came.went_to(OTHER, Rule::Flow, counters);
            assert_eq!(world.flow("learned").unwrap().learned, number.min(8));
        }
        assert_eq!(world.machine.cids().len(), 8);
    });
}

#[test]
fn a_connection_id_that_is_refused_costs_no_packet() {
    isolated("datapath::state::cid_levels", || {
        let world = world();
        let stats = world.stats("learned");
        for level in [Level::GW_LEVEL_RESERVE, Level::GW_LEVEL_NONE] {
            world.machine.forget();
            let admission = abi::Admission {
                cids: level.0,
                ..Default::default()
            };
            world.machine.admit(stats, admission);
            let flow = world.flow_entry("learned", OTHER);
            world.put_flow("learned", flow);
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_REFUSED]);
            assert!(world.machine.cids().is_empty());
            assert_eq!(world.flow("learned").unwrap().learned, 0);
            // What is bound is used all the same.
            let entry = world.cid_entry("learned", &CID, OTHER, Origin::Traffic);
            world.put_cid("learned", &CID, entry);
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(OTHER, Rule::CidLearned, &[SHORT]);
        }
    });
}

#[test]
fn a_full_table_refuses_the_newcomer_and_is_not_asked_again() {
    isolated("datapath::state::cids_full", || {
        const ROOM: u8 = 16;
        let mut world = World::on(Machine::with_entries(ROOM.into()));
        world.publish(READY, PLAIN);
        let stats = world.stats("learned");
        for number in 0..ROOM {
            let cid = [0x10 + number; 8];
            let entry = world.cid_entry("bound", &cid, OTHER, Origin::Registered);
            world.put_cid("bound", &cid, entry);
        }
        world.put_flow("learned", world.flow_entry("learned", OTHER));
        let before = world.machine.cids().len();
        for _ in 0..3 {
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_REFUSED]);
            assert_eq!(world.flow("learned").unwrap().learned, 0);
            let admission = world.machine.admission(stats);
            assert_eq!(admission.cids, Level::GW_LEVEL_NONE.0);
            assert_eq!((admission.flows, admission.refused_ns), (0, 0));
        }
        assert_eq!(world.machine.cids().len(), before);
    });
}

/// NAT gives the client another port: the connection goes on, and so does learning.
#[test]
fn a_flow_follows_its_connection_id() {
    isolated("datapath::state::rebind", || {
        let world = world();
        let went = |port, cid: &[u8]| world.run("learned", &from(port, learned(&short(cid))));
        world.put_flow("learned", world.flow_entry("learned", OTHER));
        went(CLIENT_PORT, &CID).went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_LEARNED]);

        let begin = monotonic_coarse_ns();
        went(50001, &CID).went_to(OTHER, Rule::CidLearned, &[SHORT, REBIND]);
        let key = world.key_of("learned", 50001);
        let (tag, hash) = world.marks("learned", &key);
        let flow = world.flow_of("learned", 50001).unwrap();
        assert!((begin..=monotonic_coarse_ns()).contains(&flow.seen_ns));
        let expected = Binding {
            tag,
            hash,
            seen_ns: flow.seen_ns,
            ..world.flow_entry("learned", OTHER)
        };
        assert_eq!(flow, expected);
        went(50001, &CID).went_to(OTHER, Rule::CidLearned, &[SHORT]);
        // The next one that comes this way, and the next address.
        let next = [0x5a; 8];
        went(50001, &next).went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_LEARNED]);
        went(50002, &next).went_to(OTHER, Rule::CidLearned, &[SHORT, REBIND]);
        // A new one at a new address cannot be told from a stranger's.
        let unheard = [0x77; 8];
        went(50003, &unheard).went_to(READY, Rule::Table, &[SHORT, ALL_INSERTED]);
    });
}

#[test]
fn a_flow_that_gets_no_entry_does_not_keep_its_packet() {
    isolated("datapath::state::rebind_refused", || {
        let world = world();
        let stats = world.stats("learned");
        for level in [Level::GW_LEVEL_RESERVE, Level::GW_LEVEL_NONE] {
            world.machine.forget();
            let admission = abi::Admission {
                flows: level.0,
                ..Default::default()
            };
            world.machine.admit(stats, admission);
            let entry = world.cid_entry("learned", &CID, OTHER, Origin::Traffic);
            world.put_cid("learned", &CID, entry);
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(OTHER, Rule::CidLearned, &[SHORT, CID_REFUSED]);
            assert!(world.machine.flows().is_empty());
        }
        // Nor does a stranger in its place.
        world.machine.forget();
        let entry = world.cid_entry("learned", &CID, OTHER, Origin::Traffic);
        world.put_cid("learned", &CID, entry);
        let flow = world.flow_entry("learned", OTHER);
        let flow = Binding {
            hash: flow.hash ^ 1,
            ..flow
        };
        world.put_flow("learned", flow);
        let came = world.run("learned", &learned(&short(&CID)));
        came.went_to(OTHER, Rule::CidLearned, &[SHORT, TAG_MISMATCH]);
        assert_eq!(world.flow("learned"), Some(flow));
        // Where nothing is learned, flows need no entries to learn from.
        world.machine.forget();
        let entry = world.cid_entry("bound", &CID, OTHER, Origin::Traffic);
        world.put_cid("bound", &CID, entry);
        let came = world.run("bound", &datagram(446, &short(&CID)));
        came.went_to(OTHER, Rule::CidLearned, &[SHORT]);
        assert!(world.machine.flows().is_empty());
    });
}

/// Two connections may share a flow, and two servers may choose the same connection ID.
#[test]
fn what_is_bound_is_never_replaced_by_what_a_flow_says() {
    isolated("datapath::state::conflict", || {
        let world = world();
        for origin in [Origin::Registered, Origin::Imported, Origin::Traffic] {
            world.machine.forget();
            let flow = world.flow_entry("learned", OTHER);
            world.put_flow("learned", flow);
            let entry = Binding {
                seen_ns: 0,
                origin: Origin::Registered,
                ..world.cid_entry("learned", &CID, DRAINING, origin)
            };
            world.put_cid("learned", &CID, entry);
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(DRAINING, Rule::CidRegistered, &[SHORT, CID_CONFLICT]);
            assert_eq!(world.cid("learned", &CID), Some(entry));
            assert_eq!(world.flow("learned"), Some(flow));
            // Its own connection's packets keep the flow.
            let came = world.run("learned", &learned(&short(&[9; 8])));
            came.went_to(OTHER, Rule::Flow, &[SHORT, HIT, CID_LEARNED]);
        }
    });
}

/// Packets placed by their connection ID keep their flow's entry alive: the next connection ID on
/// it is learned even if no other packet has come for long.
#[test]
fn a_bound_packet_is_a_packet_of_its_flow() {
    isolated("datapath::state::kept", || {
        let world = world();
        for (phase, after) in [
            (Phase::Live, Phase::Live),
            (Phase::Expiring, Phase::Live),
            (Phase::Dead, Phase::Touched),
        ] {
            world.machine.forget();
            let flow = Binding {
                phase,
                learned: 2,
                ..world.flow_entry("learned", OTHER)
            };
            world.put_flow("learned", flow);
            let entry = world.cid_entry("learned", &CID, OTHER, Origin::Imported);
            world.put_cid("learned", &CID, entry);
            let came = world.run("learned", &learned(&short(&CID)));
            came.went_to(OTHER, Rule::CidImported, &[SHORT]);
            let found = world.flow("learned").unwrap();
            let is_renewed = found.seen_ns > flow.seen_ns;
            assert_eq!(is_renewed, after == Phase::Live);
            let expected = Binding {
                phase: after,
                seen_ns: found.seen_ns,
                ..flow
            };
            assert_eq!(found, expected);
        }
    });
}
