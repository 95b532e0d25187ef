// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames with names: what decides about each, and those that once told program and model apart.

use guideway::affinity::state::State;
use guideway::plan::{plan, Generation, Options, PlacedServerId};
use guideway::reason::{Reason, Rule};
use guideway::service::Spec;
use serde_json::{json, Value};

use crate::build::*;
use crate::compare::alone;
use crate::kernel::Machine;
use crate::netns::isolated;
use crate::state::{CIDS, FLOWS};
use crate::LEAST_FRAME;

/// Connection IDs of a ready backend, an unhealthy one, one that is gone, and nobody.
const READY: [u8; 8] = [0x00, 0xc4, 0x60, 1, 2, 3, 4, 5];
const UNHEALTHY: [u8; 8] = [0x00, 0xd5, 0xe7, 1, 2, 3, 4, 5];
const GONE: [u8; 8] = [0x00, 0xab, 0xcd, 1, 2, 3, 4, 5];
const NOBODY: [u8; 8] = [0x00, 0xff, 0xff, 1, 2, 3, 4, 5];

const ROUTED_VIP: std::net::Ipv4Addr = std::net::Ipv4Addr::new(203, 0, 113, 81);

/// QUIC by server ID; UDP whose fragments are routed; two of TCP that share a fragment policy; TCP
/// whose only backend cannot be reached.
fn document() -> Value {
    let backend =
        |interface: &str| json!([{"id": 1, "interface": interface, "mac": "02:00:00:00:02:01"}]);
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "gw-edge",
        "services": [
            {
                "name": "quic", "vip": VIP4, "port": 443, "maglev_table_size": 251,
                "quic": {
                    "routing": "server-id", "unhealthy": "drop",
                    "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}],
                },
                "short_dcid_len": 8,
                "backends": [
                    {"id": 1, "interface": "gw-one", "mac": "02:00:00:00:01:01", "server_id": "c460"},
                    {"id": 2, "interface": "gw-two", "mac": "02:00:00:00:01:02", "server_id": "d5e7",
                     "state": "unhealthy"},
                ],
            },
            {
                "name": "routed", "vip": ROUTED_VIP, "port": 443, "quic_only": false,
                "hash": "source", "fragments": "route", "tracking": "exceptions",
                "maglev_table_size": 251,
                "backends": backend("gw-two"),
            },
            {
                "name": "tcp", "vip": VIP4, "port": 443, "protocol": "tcp", "fragments": "pass",
                "maglev_table_size": 251, "backends": backend("gw-edge"),
            },
            {
                "name": "tcp-other-port", "vip": VIP4, "port": 444, "protocol": "tcp",
                "fragments": "pass", "maglev_table_size": 251, "backends": backend("gw-one"),
            },
            {
                "name": "unreachable", "vip": VIP6, "port": 443, "protocol": "tcp",
                "maglev_table_size": 251, "backends": backend("gw-gone"),
            },
        ],
    })
}

fn generation(machine: &Machine) -> Generation {
    let spec = Spec::from_json(document().to_string().as_bytes()).unwrap();
    let plan = plan(None, &spec, machine.world(), Options::default()).unwrap();
    let mut generation = plan.generation().clone();
    generation.services[0].server_ids.push(PlacedServerId {
        config_id: 0,
        server_id: "abcd".parse().unwrap(),
        row: None,
    });
    generation
}

/// Runs a test against a machine with the generation above.
fn with_machine(name: &str, test: impl FnOnce(&mut Machine, &Generation) + Send + 'static) {
    isolated(name, || {
        let mut machine = Machine::new();
        let generation = generation(&machine);
        machine.publish(&generation);
        machine.set_state(&State::with_capacity(FLOWS, CIDS));
        test(&mut machine, &generation);
    });
}

fn long(first: u8, version: u32, dcid: &[u8], scid: &[u8]) -> Vec<u8> {
    let mut payload = vec![first];
    payload.extend(version.to_be_bytes());
    for cid in [dcid, scid] {
        payload.push(cid.len() as u8);
        payload.extend(cid);
    }
    payload
}

fn initial(dcid: &[u8]) -> Vec<u8> {
    long(0xc0, 1, dcid, &[7; 5])
}

fn handshake(dcid: &[u8]) -> Vec<u8> {
    long(0xe0, 1, dcid, &[7; 5])
}

fn short(first: u8, dcid: &[u8]) -> Vec<u8> {
    let mut payload = vec![first];
    payload.extend(dcid);
    payload.extend([0x99; 16]);
    payload
}

fn quic(payload: &[u8]) -> Vec<u8> {
    ipv4(UDP, &udp(50000, 443, payload))
}

/// A datagram, and bytes behind its end.
fn padded(payload: &[u8], padding: &[u8]) -> Vec<u8> {
    let mut frame = quic(payload);
    frame.extend(padding);
    frame
}

fn error_about(payload: &[u8]) -> Vec<u8> {
    error4(&quoted4(UDP, &udp(443, 50000, payload)))
}

fn to_routed(l4: &[u8]) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4_between(CLIENT4, ROUTED_VIP, UDP, 0, l4))
}

fn first_fragment(frame: Vec<u8>) -> Vec<u8> {
    with(frame, &[(20, 0x20)])
}

fn later_fragment(frame: Vec<u8>) -> Vec<u8> {
    with(frame, &[(20, 0), (21, 9)])
}

fn dtls() -> Vec<u8> {
    let mut record = vec![22, 0xfe, 0xfd];
    record.extend([0; 10]);
    record
}

type Case = (&'static str, Vec<u8>, Reason, Option<Rule>);

fn cases() -> Vec<Case> {
    use Reason::*;
    let by_id = Some(Rule::ServerId);
    let by_flow = Some(Rule::Table);
    vec![
        (
            "the fixed bit set",
            quic(&short(0x40, &READY)),
            Forwarded,
            by_id,
        ),
        (
            "the fixed bit clear, short",
            quic(&short(0x00, &READY)),
            Forwarded,
            by_id,
        ),
        (
            "the fixed bit clear, handshake",
            quic(&long(0xa0, 1, &READY, &[7; 5])),
            Forwarded,
            by_id,
        ),
        (
            "the fixed bit clear, initial",
            quic(&long(0x80, 1, &[9; 8], &[])),
            Forwarded,
            by_flow,
        ),
        (
            "a short header continued in the padding",
            padded(&[0x40, 0x00, 0xc4], &[0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            BadQuic,
            None,
        ),
        (
            "a long header continued in the padding",
            padded(&handshake(&READY)[..10], &handshake(&READY)[10..]),
            BadQuic,
            None,
        ),
        (
            "a short header continued behind the UDP length",
            with(quic(&short(0x40, &READY)), &[(38, 0), (39, 8 + 3)]),
            BadQuic,
            None,
        ),
        (
            "an unknown server ID, initial",
            quic(&initial(&NOBODY)),
            Forwarded,
            by_flow,
        ),
        (
            "an unknown server ID, 0-RTT",
            quic(&long(0xd0, 1, &NOBODY, &[])),
            Forwarded,
            by_flow,
        ),
        (
            "an unknown server ID, unknown version",
            quic(&long(0xe0, 0x0a0a_0a0a, &NOBODY, &[])),
            Forwarded,
            by_flow,
        ),
        (
            "an unknown server ID, handshake",
            quic(&handshake(&NOBODY)),
            UnknownServerId,
            None,
        ),
        (
            "an unknown server ID, short",
            quic(&short(0x40, &NOBODY)),
            UnknownServerId,
            None,
        ),
        (
            "a quarantined server ID, initial",
            quic(&initial(&GONE)),
            Forwarded,
            by_flow,
        ),
        (
            "a quarantined server ID, short",
            quic(&short(0x40, &GONE)),
            QuarantinedServerId,
            None,
        ),
        (
            "an unhealthy backend, initial",
            quic(&initial(&UNHEALTHY)),
            Forwarded,
            by_flow,
        ),
        // The trace once did not name the backend.
        (
            "an unhealthy backend, short",
            quic(&short(0x40, &UNHEALTHY)),
            Unhealthy,
            None,
        ),
        (
            "version negotiation with a server ID",
            quic(&long(0xc0, 0, &READY, &[])),
            Forwarded,
            by_flow,
        ),
        ("DTLS", quic(&dtls()), NotQuic, None),
        // The frame once left with the addresses of the backend it was not sent to.
        (
            "a backend that cannot be reached",
            ipv6(&[], TCP, &tcp(50000, 443, 2)),
            NoTarget,
            None,
        ),
        (
            "UDP to port 0",
            ipv4(UDP, &udp(50000, 0, b"x")),
            NoService,
            None,
        ),
        (
            "TCP to port 0",
            ipv4(TCP, &tcp(50000, 0, 2)),
            NoService,
            None,
        ),
        (
            "an error about port 0",
            error4(&quoted4(UDP, &udp(0, 50000, &[]))),
            IcmpNoService,
            None,
        ),
        (
            "UDP to port 0 where fragments are routed",
            to_routed(&udp(50000, 0, b"x")),
            NoService,
            None,
        ),
        (
            "a first fragment, dropped",
            first_fragment(quic(&initial(&READY))),
            FragmentDrop,
            None,
        ),
        (
            "a later fragment, dropped",
            later_fragment(quic(&initial(&READY))),
            FragmentDrop,
            None,
        ),
        (
            "a first fragment of several services",
            first_fragment(ipv4(TCP, &tcp(50000, 443, 2))),
            FragmentPass,
            None,
        ),
        (
            "a later fragment, routed",
            later_fragment(to_routed(&udp(50000, 443, b"hello"))),
            Forwarded,
            by_flow,
        ),
        (
            "an error about what a backend sent",
            error_about(&long(0xe0, 1, &NOBODY, &READY)),
            Forwarded,
            by_id,
        ),
        (
            "an error with a server ID of nobody",
            error_about(&long(0xe0, 1, &READY, &NOBODY)),
            Forwarded,
            by_flow,
        ),
        (
            "an error with the server ID of an unhealthy backend",
            error_about(&long(0xe0, 1, &READY, &UNHEALTHY)),
            Forwarded,
            by_flow,
        ),
        (
            "a backend behind the ingress",
            ipv4(TCP, &tcp(50000, 443, 2)),
            Forwarded,
            by_flow,
        ),
    ]
}

#[test]
fn named_frames() {
    with_machine("differential::named_frames", |machine, generation| {
        for (name, frame, reason, rule) in cases() {
            let verdict = alone(machine, generation, &frame, frame.len())
                .unwrap_or_else(|difference| panic!("{name}: {difference}"));
            assert_eq!((verdict.reason, verdict.rule), (reason, rule), "{name}");
        }
    });
}

#[test]
fn every_truncation_of_named_frames() {
    with_machine("differential::truncations", |machine, generation| {
        for (name, frame, ..) in cases() {
            for len in LEAST_FRAME..frame.len() {
                // Cut off, and in another piece than the rest.
                for (frame, linear) in [(&frame[..len], len), (&frame[..], len)] {
                    alone(machine, generation, frame, linear)
                        .unwrap_or_else(|difference| panic!("{name}, {len} bytes: {difference}"));
                }
            }
        }
    });
}

/// UDP lengths around every bound and mask, against frames that are shorter, equal and longer.
#[test]
fn udp_lengths() {
    with_machine("differential::udp_lengths", |machine, generation| {
        let lengths = (0..=9).chain(16_383..=16_385).chain([65_535]);
        for (len, payload) in lengths.flat_map(|len| [0, 1, 9, 16_376, 16_377].map(|p| (len, p))) {
            let [high, low] = u16::to_be_bytes(len);
            let frame = with(quic(&vec![0x40; payload]), &[(38, high), (39, low)]);
            let verdict = alone(machine, generation, &frame, frame.len().min(3_000))
                .unwrap_or_else(|difference| panic!("{len} with {payload} bytes: {difference}"));
            let fits = (8..=8 + payload).contains(&usize::from(len));
            assert_eq!(
                verdict.reason != Reason::BadL4,
                fits,
                "{len} with {payload} bytes"
            );
        }
    });
}

/// Published payloads, as they are and with bit 6 flipped: the same end.
#[test]
fn published_quic_payloads_with_either_fixed_bit() {
    with_machine("differential::published", |machine, generation| {
        let document: Value = serde_json::from_str(include_str!("../vectors/quic.json")).unwrap();
        for vector in document["vectors"].as_array().unwrap() {
            let name = &vector["name"];
            let digits = vector["udp_payload_hex"].as_str().unwrap();
            let mut payload: Vec<_> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect();
            let mut end = |payload: &[u8]| {
                let frame = quic(payload);
                let verdict = alone(machine, generation, &frame, frame.len())
                    .unwrap_or_else(|difference| panic!("{name}: {difference}"));
                (
                    verdict.action,
                    verdict.reason,
                    verdict.rule,
                    verdict.backend,
                    verdict.slot,
                )
            };
            let as_published = end(&payload);
            // STUN and DTLS are told by all bits of their first byte.
            if as_published.1 == Reason::NotQuic {
                continue;
            }
            if let Some(first) = payload.first_mut() {
                *first ^= 0x40;
                assert_eq!(end(&payload), as_published, "{name}");
            }
        }
    });
}
