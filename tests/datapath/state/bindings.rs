// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Bound connection IDs: which packets they place, where, and what is left of them.

use guideway::affinity::{Binding, Origin, Phase};
use guideway::kernel::clock::monotonic_coarse_ns;
use guideway::reason::{Reason, Rule};

use super::case::*;
use super::world::*;
use crate::build::*;
use crate::netns::isolated;

const CID: [u8; 8] = [0xa1, 2, 3, 4, 5, 6, 7, 8];
const ORIGINS: [(Origin, Rule); 3] = [
    (Origin::Registered, Rule::CidRegistered),
    (Origin::Imported, Rule::CidImported),
    (Origin::Traffic, Rule::CidLearned),
];
const UNKNOWN_VERSION_NUMBER: u32 = 0x0a0a_0a0a;

fn bound(payload: &[u8]) -> Vec<u8> {
    datagram(446, payload)
}

/// A binding as it is after a packet at this time.
fn used(entry: Binding, now: std::ops::RangeInclusive<u64>, after: Binding) {
    if entry.origin == Origin::Registered {
        assert_eq!(after, entry, "nobody writes a registration's end");
        return;
    }
    assert!(now.contains(&after.seen_ns), "{after:?}");
    let seen_ns = after.seen_ns;
    assert_eq!(after, Binding { seen_ns, ..entry });
}

#[test]
fn a_bound_connection_id_decides_for_every_packet_that_carries_it() {
    isolated("datapath::state::bound", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let packets: [(&str, Vec<u8>, &[_], bool); 7] = [
            ("short", short(&CID), &[SHORT], true),
            ("Initial", long(0, V1, &CID), &[LONG, STARTS], true),
            ("0-RTT", long(1, V1, &CID), &[LONG, STARTS], true),
            ("Handshake", long(2, V1, &CID), &[LONG], true),
            ("version 2", long(3, V2, &CID), &[LONG], true),
            (
                "unknown version",
                long(0, UNKNOWN_VERSION_NUMBER, &CID),
                &[LONG, UNKNOWN_VERSION],
                true,
            ),
            // A client never sends it, so it leaves no trace.
            ("Retry", long(3, V1, &CID), &[LONG, RETRY], false),
        ];
        for (origin, rule) in ORIGINS {
            for row in [OTHER, DRAINING] {
                for (name, payload, counters, writes) in &packets {
                    world.machine.forget();
                    // The flow says otherwise, and nobody asks it.
                    let flow = world.flow_entry("bound", READY);
                    world.put_flow("bound", flow);
                    let entry = world.cid_entry("bound", &CID, row, origin);
                    world.put_cid("bound", &CID, entry);
                    let begin = monotonic_coarse_ns();
                    let came = world.run("bound", &bound(payload));
                    came.went_to(row, rule, counters);
                    let now = begin..=monotonic_coarse_ns();
                    let after = world.cid("bound", &CID).unwrap();
                    match writes {
                        true => used(entry, now, after),
                        false => assert_eq!(after, entry, "{name}"),
                    }
                    assert_eq!(world.flow("bound"), Some(flow), "{name}");
                }
            }
        }
    });
}

/// One for each byte that a long header can have, read with the header or beside it.
#[test]
fn a_long_header_says_how_long_its_connection_id_is() {
    isolated("datapath::state::cid_lengths", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let longest: Vec<u8> = (0xa1..0xa1 + 20).collect();
        for length in 1..=20 {
            let cid = &longest[..length];
            world.machine.forget();
            world.put_cid(
                "bound",
                cid,
                world.cid_entry("bound", cid, OTHER, Origin::Imported),
            );
            let frame = bound(&long(2, V1, cid));
            let came = world.run("bound", &frame);
            came.went_to(OTHER, Rule::CidImported, &[LONG]);
            // Every byte counts, and so does the length.
            for byte in 0..length {
                let mut other = cid.to_vec();
                other[byte] ^= 0x80;
                let came = world.run("bound", &bound(&long(2, V1, &other)));
                came.went_to(READY, Rule::Table, &[LONG, PLAIN_OUTCOME]);
            }
            for other in [length - 1, length + 1] {
                let cid: Vec<u8> = (0xa1..).take(other).collect();
                let came = world.run("bound", &bound(&long(2, V1, &cid)));
                assert_eq!(came.end, Some((READY, Rule::Table)), "{other} bytes");
            }
            // However the driver cuts the frame into pieces.
            for linear in 14..frame.len() {
                let ran = world.machine.run_in_pieces(&frame, linear);
                let mac = world
                    .service("bound")
                    .1
                    .backend(OTHER)
                    .unwrap()
                    .mac
                    .octets();
                assert_eq!(ran.frame[..6], mac, "{length} bytes, {linear} in one piece");
            }
        }
    });
}

#[test]
fn a_short_header_has_the_agreed_length_or_says_it() {
    isolated("datapath::state::short_lengths", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let bind = |world: &World, service: &str, cid: &[u8]| {
            world.put_cid(
                service,
                cid,
                world.cid_entry(service, cid, OTHER, Origin::Imported),
            );
        };
        bind(&world, "bound", &CID);
        bind(&world, "bound", &CID[..7]);
        let came = world.run("bound", &bound(&short(&CID)));
        came.went_to(OTHER, Rule::CidImported, &[SHORT]);
        // Seven bytes and what follows them.
        let mut longer = CID;
        longer[7] ^= 1;
        let came = world.run("bound", &bound(&short(&longer)));
        came.went_to(READY, Rule::Table, &[SHORT, PLAIN_OUTCOME]);

        // Marked as carrying no server ID: the low bits are the length less one.
        for length in [1, 4, 11, 16, 17, 18, 19, 20] {
            let mut cid: Vec<u8> = (0x11..0x11 + length).collect();
            cid[0] = 0xe0 | (length - 1);
            bind(&world, "ids", &cid);
            let mut payload = short(&cid);
            payload.extend([0x77; 20]);
            let came = world.run("ids", &datagram(447, &payload));
            let reserved = guideway::abi::Counter::GW_COUNTER_UNROUTABLE_RESERVED;
            came.went_to(OTHER, Rule::CidImported, &[SHORT, reserved]);
            // Elsewhere the agreed length counts.
            bind(&world, "bound", &cid);
            let came = world.run("bound", &bound(&payload));
            let end = if length == 8 {
                (OTHER, Rule::CidImported)
            } else {
                (READY, Rule::Table)
            };
            assert_eq!(came.end, Some(end), "{length} bytes");
        }
        // No connection ID is so long.
        let reserved = [guideway::abi::Counter::GW_COUNTER_UNROUTABLE_RESERVED];
        let came = world.run("ids", &datagram(447, &short(&[0xff; 40])));
        came.went_to(
            READY,
            Rule::Table,
            &[&[SHORT, PLAIN_OUTCOME][..], &reserved].concat(),
        );
        // It ends with the datagram.
        let cut = [&[0x41][..], &[0xea, 2, 3, 4, 5, 6, 7, 8, 9, 10]].concat();
        let came = world.run("ids", &datagram(447, &cut));
        came.went_to(
            READY,
            Rule::Table,
            &[&[SHORT, PLAIN_OUTCOME][..], &reserved].concat(),
        );
    });
}

#[test]
fn a_registration_holds_until_its_end() {
    isolated("datapath::state::registered", || {
        let mut world = World::new();
        world.publish(READY, HELD);
        let now = monotonic_coarse_ns();
        for (ends_ns, holds) in [
            (0, true),
            (now + 60 * SECOND, true),
            (now - 1, false),
            (1, false),
        ] {
            for (service, port) in [("bound", 446), ("learned", 445)] {
                world.machine.forget();
                let flow = world.flow_entry(service, DRAINING);
                world.put_flow(service, flow);
                let entry = Binding {
                    seen_ns: ends_ns,
                    ..world.cid_entry(service, &CID, OTHER, Origin::Registered)
                };
                world.put_cid(service, &CID, entry);
                let came = world.run(service, &datagram(port, &short(&CID)));
                match (holds, service) {
                    (true, "bound") => came.went_to(OTHER, Rule::CidRegistered, &[SHORT]),
                    (true, _) => {
                        let counters = &[SHORT, CID_CONFLICT];
                        came.went_to(OTHER, Rule::CidRegistered, counters);
                    }
                    // And nothing is learned in its place.
                    (false, _) => came.went_to(DRAINING, Rule::Flow, &[SHORT, HIT]),
                }
                assert_eq!(world.cid(service, &CID), Some(entry));
                assert_eq!(world.machine.cids().len(), 1);
            }
        }
    });
}

#[test]
fn a_binding_of_no_use_goes_to_the_owner_of_the_flows_slot() {
    isolated("datapath::state::stale", || {
        let mut world = World::new();
        let missing = |world: &World, row, later| {
            let entry = world.cid_entry("bound", &CID, row, Origin::Traffic);
            (row, entry.incarnation + later)
        };
        for (origin, _) in ORIGINS {
            for (base, frame, mut counters, writes) in [
                (PLAIN, bound(&short(&CID)), vec![SHORT], true),
                (OTHER, bound(&long(0, V1, &CID)), vec![LONG, STARTS], true),
                (HELD, bound(&long(3, V1, &CID)), vec![LONG, RETRY], false),
            ] {
                for (row, later, stale) in [
                    (UNHEALTHY, 0, false),
                    (OTHER, 1, true),
                    (EMPTY, 0, true),
                    (BEYOND, 0, true),
                ] {
                    world.publish(READY, base);
                    let (row, incarnation) = missing(&world, row, later);
                    let entry = Binding {
                        row,
                        incarnation,
                        ..world.cid_entry("bound", &CID, row, origin)
                    };
                    world.machine.forget();
                    world.put_cid("bound", &CID, entry);
                    let begin = monotonic_coarse_ns();
                    let came = world.run("bound", &frame);
                    let now = begin..=monotonic_coarse_ns();
                    let counted = counters.len();
                    counters.extend(stale.then_some(STALE));
                    came.went_to(
                        READY,
                        Rule::Reselect,
                        &[&counters[..], &[RESELECTED]].concat(),
                    );
                    let after = world.cid("bound", &CID).unwrap();
                    let moved = Binding {
                        row: READY,
                        incarnation: world.incarnation("bound", READY),
                        ..entry
                    };
                    match writes {
                        true => used(moved, now, after),
                        false => assert_eq!(after, entry),
                    }
                    assert!(world.machine.flows().is_empty());

                    world.publish(NONE, base);
                    world.machine.forget();
                    world.put_cid("bound", &CID, entry);
                    let came = world.run("bound", &frame);
                    came.left(Reason::NoBackend, &[&counters[..], &[NO_BACKEND]].concat());
                    assert_eq!(world.cid("bound", &CID), Some(entry));
                    counters.truncate(counted);
                }
            }
        }
    });
}

#[test]
fn a_strangers_binding_is_none() {
    isolated("datapath::state::strange_cids", || {
        let mut world = World::new();
        world.publish(READY, HELD);
        for (service, port) in [("bound", 446), ("learned", 445)] {
            world.machine.forget();
            let flow = world.flow_entry(service, DRAINING);
            world.put_flow(service, flow);
            let entry = world.cid_entry(service, &CID, OTHER, Origin::Traffic);
            let entry = Binding {
                tag: entry.tag ^ 0x8000,
                ..entry
            };
            world.put_cid(service, &CID, entry);
            let came = world.run(service, &datagram(port, &short(&CID)));
            came.went_to(DRAINING, Rule::Flow, &[SHORT, TAG_MISMATCH, HIT]);
            assert_eq!(world.cid(service, &CID), Some(entry));
        }
    });
}

#[test]
fn a_packet_keeps_a_binding_from_being_deleted() {
    isolated("datapath::state::cid_phases", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        for (origin, rule) in ORIGINS {
            for (phase, after, is_stamped) in [
                (Phase::Expiring, Phase::Live, true),
                (Phase::Dead, Phase::Touched, false),
                (Phase::Touched, Phase::Touched, false),
            ] {
                world.machine.forget();
                let entry = Binding {
                    phase,
                    ..world.cid_entry("bound", &CID, OTHER, origin)
                };
                world.put_cid("bound", &CID, entry);
                let begin = monotonic_coarse_ns();
                let came = world.run("bound", &bound(&short(&CID)));
                came.went_to(OTHER, rule, &[SHORT]);
                let found = world.cid("bound", &CID).unwrap();
                // Who ends a registration means it.
                let is_ended = origin == Origin::Registered && !is_stamped;
                let expected = Binding {
                    phase: if is_ended { phase } else { after },
                    ..entry
                };
                if is_stamped {
                    used(expected, begin..=monotonic_coarse_ns(), found);
                } else {
                    assert_eq!(found, expected);
                }
            }
        }
        // A recent one is not written again.
        world.machine.forget();
        let entry = Binding {
            seen_ns: monotonic_coarse_ns(),
            ..world.cid_entry("bound", &CID, OTHER, Origin::Traffic)
        };
        world.put_cid("bound", &CID, entry);
        world.run("bound", &bound(&short(&CID)));
        assert_eq!(world.cid("bound", &CID), Some(entry));
    });
}

#[test]
fn a_server_id_comes_first_and_a_binding_second() {
    isolated("datapath::state::order", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let ids = |payload: &[u8]| datagram(447, payload);
        let cid_of = |id: u8| [0x00, 0, id, 9, 9, 9, 9, 9];
        let (ready, unhealthy, nobody) = (cid_of(2), cid_of(4), cid_of(9));
        let no_config = [0x20, 0, 9, 9, 9, 9, 9, 9];
        let bind = |world: &World, cid: &[u8]| {
            let entry = world.cid_entry("ids", cid, DRAINING, Origin::Registered);
            world.put_cid("ids", cid, entry);
        };
        // Unbound: by server ID, by flow, or not at all.
        world
            .run("ids", &ids(&short(&ready)))
            .went_to(OTHER, Rule::ServerId, &[SHORT]);
        let came = world.run("ids", &ids(&short(&unhealthy)));
        came.went_to(READY, Rule::Table, &[SHORT, PLAIN_OUTCOME]);
        let came = world.run("ids", &ids(&short(&nobody)));
        came.left(Reason::UnknownServerId, &[SHORT, UNKNOWN_ID]);
        let came = world.run("ids", &ids(&long(0, V1, &nobody)));
        came.went_to(
            READY,
            Rule::Table,
            &[LONG, STARTS, UNKNOWN_ID, PLAIN_OUTCOME],
        );

        for cid in [ready, unhealthy, nobody, no_config] {
            bind(&world, &cid);
        }
        world
            .run("ids", &ids(&short(&ready)))
            .went_to(OTHER, Rule::ServerId, &[SHORT]);
        // Its backend is known, so the flow is asked next.
        let came = world.run("ids", &ids(&short(&unhealthy)));
        came.went_to(READY, Rule::Table, &[SHORT, PLAIN_OUTCOME]);
        let came = world.run("ids", &ids(&short(&nobody)));
        came.went_to(DRAINING, Rule::CidRegistered, &[SHORT, UNKNOWN_ID]);
        let came = world.run("ids", &ids(&long(0, V1, &nobody)));
        came.went_to(DRAINING, Rule::CidRegistered, &[LONG, STARTS, UNKNOWN_ID]);
        let unroutable = guideway::abi::Counter::GW_COUNTER_UNROUTABLE_CONFIG;
        let came = world.run("ids", &ids(&short(&no_config)));
        came.went_to(DRAINING, Rule::CidRegistered, &[SHORT, unroutable]);

        // The server ID of a backend that is gone is nobody's.
        let mut services = world.generation.spec.services().iter();
        let at = services
            .position(|service| service.name.as_str() == "ids")
            .unwrap();
        let server_ids = &mut world.generation.services[at].server_ids;
        server_ids[1].row = Some(EMPTY);
        world.publish(READY, PLAIN);
        let gone = cid_of(2);
        let came = world.run("ids", &ids(&short(&gone)));
        came.went_to(DRAINING, Rule::CidRegistered, &[SHORT, UNKNOWN_ID]);
    });
}

/// What an error quotes is the server's packet, so its source is a connection ID of the server.
#[test]
fn an_error_follows_the_binding_of_the_source() {
    isolated("datapath::state::quoted_cids", || {
        let mut world = World::new();
        world.publish(READY, OTHER);
        let about = |port: u16, dcid: &[u8], scid: &[u8]| {
            let mut quoted = vec![0xe0, 0, 0, 0, 1];
            for cid in [dcid, scid] {
                quoted.push(cid.len() as u8);
                quoted.extend(cid);
            }
            quoted.extend([0; 8]);
            error4(&quoted4(UDP, &udp(port, CLIENT_PORT, &quoted)))
        };
        for length in [1, 8, 17, 18, 20] {
            let cid: Vec<u8> = (0xc1..0xc1 + length).collect();
            for (service, port) in [("bound", 446), ("learned", 445), ("ids", 447)] {
                world.machine.forget();
                let entry = world.cid_entry(service, &cid, DRAINING, Origin::Traffic);
                world.put_cid(service, &cid, entry);
                let came = world.run(service, &about(port, &[9; 5], &cid));
                came.went_to(DRAINING, Rule::CidLearned, &[ICMP_ERROR]);
                assert_eq!(world.cid(service, &cid), Some(entry));
                assert!(world.machine.flows().is_empty());
            }
        }
        // The client's own says nothing.
        world.machine.forget();
        world.put_cid(
            "bound",
            &CID,
            world.cid_entry("bound", &CID, DRAINING, Origin::Traffic),
        );
        let came = world.run("bound", &about(446, &CID, &[7; 8]));
        came.went_to(OTHER, Rule::Previous, &[ICMP_ERROR, NO_ENTRY]);
        // Nobody answers an error, so one about a backend that is gone harms nobody.
        world.machine.forget();
        let entry = world.cid_entry("bound", &CID, EMPTY, Origin::Traffic);
        world.put_cid("bound", &CID, entry);
        let came = world.run("bound", &about(446, &[9; 5], &CID));
        came.went_to(READY, Rule::Reselect, &[ICMP_ERROR, STALE, RESELECTED]);
        assert_eq!(world.cid("bound", &CID), Some(entry));
    });
}

#[test]
fn what_is_not_looked_up() {
    isolated("datapath::state::unasked", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let bind = |world: &World, service: &str, cid: &[u8]| {
            world.put_cid(
                service,
                cid,
                world.cid_entry(service, cid, OTHER, Origin::Registered),
            );
        };
        bind(&world, "bound", &CID);
        let came = world.run("bound", &bound(&long(0, 0, &CID)));
        came.went_to(READY, Rule::Table, &[LONG, NEGOTIATION, PLAIN_OUTCOME]);
        // A service without bindings pays for no look-up, and sees none.
        bind(&world, "quic", &CID);
        let came = world.run("quic", &datagram(443, &long(2, V1, &CID)));
        came.went_to(READY, Rule::Table, &[LONG, PLAIN_OUTCOME]);
        // The same connection ID of another service.
        let came = world.run("ids", &datagram(447, &long(0, V1, &CID)));
        assert_eq!(came.end, Some((READY, Rule::Table)));
    });
}

/// A greased short header may look like a record of DTLS; one that is bound is none.
#[test]
fn what_is_bound_is_quic() {
    isolated("datapath::state::dtls", || {
        let mut world = World::new();
        world.publish(READY, PLAIN);
        let mut record = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4];
        record.extend([0x44; 4]);
        let frame = bound(&record);
        world.run("bound", &frame).left(Reason::NotQuic, &[]);
        let cid = &record[1..9];
        world.put_cid(
            "bound",
            cid,
            world.cid_entry("bound", cid, OTHER, Origin::Imported),
        );
        let greased = guideway::abi::Counter::GW_COUNTER_FIXED_BIT_CLEAR;
        let came = world.run("bound", &frame);
        came.went_to(OTHER, Rule::CidImported, &[SHORT, greased]);
    });
}
