// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Finding the service, placing by flow, and sending.

use guideway::abi::Counter;
use guideway::affinity::state::State;
use guideway::oracle::{route, Action};
use guideway::plan::Generation;
use guideway::reason::{Reason, Rule};
use serde_json::{json, Value};

use crate::build::*;
use crate::world::*;

const COUNTING_SEED: &str = "000102030405060708090a0b0c0d0e0f";

fn request() -> Vec<u8> {
    to_vip(&long(0xc0, 1, &[0x5a; 8]))
}

/// 198.51.100.7:50000 to the first service of the example, and where every node must place it.
#[test]
fn published_placements() {
    for (seed, hash, h64, slot, backend) in [
        (None, "flow", 0x5630_5f65_43cb_2707, 1378, 2),
        (Some(COUNTING_SEED), "flow", 0x63d9_eb92_39c1_356c, 1596, 2),
        (None, "source", 0x2073_3fac_0c9a_8f7b, 518, 2),
        (Some(COUNTING_SEED), "source", 0x114e_f7bd_1629_7831, 276, 1),
    ] {
        let mut spec = example();
        spec["services"][0]["hash"] = json!(hash);
        if let Some(seed) = seed {
            spec["hash_seed"] = json!(seed);
        }
        let generation = generation(&spec);
        let verdict = run(&generation, &request());
        assert_forwarded(&verdict, Rule::Table, backend);
        assert_eq!((verdict.hash, verdict.slot), (Some(h64), Some(slot)));
        assert_eq!(verdict.service.map(|id| id.get()), Some(0x8cd5_d28f));
    }
}

/// The frame as it must leave: bytes 0 to 5, and 6 to 11 where a source is given.
fn rewritten(frame: &[u8], mac: [u8; 6], source: Option<[u8; 6]>) -> Vec<u8> {
    let mut output = frame.to_vec();
    output[..6].copy_from_slice(&mac);
    if let Some(source) = source {
        output[6..12].copy_from_slice(&source);
    }
    output
}

#[test]
fn forwarding_writes_mac_addresses_and_nothing_else() {
    let backend_mac = [2, 0, 0, 0, 1, 2];
    let frame = request();
    let verdict = run(&generation(&example()), &frame);
    assert_eq!(
        verdict.action,
        Action::Redirect {
            ifindex: TARGETS[1]
        }
    );
    assert_eq!(verdict.output, rewritten(&frame, backend_mac, None));

    let mut spec = example();
    spec["source_mac"] = json!("interface");
    let verdict = run(&generation(&spec), &frame);
    assert_eq!(
        verdict.output,
        rewritten(&frame, backend_mac, Some(OWN_MACS[1]))
    );
}

#[test]
fn a_backend_behind_the_ingress_interface_is_sent_to_from_its_address() {
    let mut spec = example();
    spec["services"][0]["backends"][1]["interface"] = json!("edge0");
    let frame = request();
    let verdict = route(&generation(&spec), &mut State::default(), &frame, |_| false);
    assert_eq!(
        (verdict.action, verdict.reason),
        (Action::Transmit, Reason::Forwarded)
    );
    let expected = rewritten(&frame, [2, 0, 0, 0, 1, 2], Some(EDGE_MAC));
    assert_eq!(verdict.output, expected);
}

#[test]
fn a_target_that_is_gone_drops_the_frame() {
    let frame = request();
    let verdict = route(
        &generation(&example()),
        &mut State::default(),
        &frame,
        |ifindex| ifindex != TARGETS[1],
    );
    assert_eq!(
        (verdict.action, verdict.reason),
        (Action::Drop, Reason::NoTarget)
    );
    assert_eq!(
        (verdict.rule, verdict.backend.map(|(id, _)| id.get())),
        (None, Some(2))
    );
    assert_eq!(verdict.output, frame);
}

#[test]
fn what_is_of_no_service_passes_untouched() {
    let generation = generation(&example());
    let other_vip = ipv4_between(
        CLIENT4,
        [203, 0, 113, 81].into(),
        UDP,
        0,
        &udp(50000, 443, b"x"),
    );
    for frame in [
        ethernet(&[], 0x0800, &other_vip),
        ipv4(UDP, &udp(50000, 444, b"x")),
        ipv4(UDP, &udp(50000, 0, b"x")),
        ipv4(TCP, &tcp(50000, 443, 2)),
        ipv6(&[], UDP, &udp(50000, 443, b"x")),
    ] {
        let verdict = run(&generation, &frame);
        assert_left(&verdict, &frame, Reason::NoService);
        assert_eq!((verdict.service, verdict.flow_start), (None, None));
        assert_counts(&verdict, &[]);
    }
    let frame = ethernet(&[], 0x0806, &[0; 28]);
    assert_left(&run(&generation, &frame), &frame, Reason::NotIp);
}

#[test]
fn a_service_without_ready_backends_drops() {
    for backends in [
        json!([]),
        json!([{"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "weight": 0}]),
        json!([{"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "state": "draining"}]),
        json!([{"id": 1, "interface": "vm-edge-a", "mac": "02:00:00:00:01:01", "state": "unhealthy"}]),
    ] {
        let mut spec = example();
        spec["services"][0]["backends"] = backends;
        let frame = request();
        let verdict = run(&generation(&spec), &frame);
        assert_left(&verdict, &frame, Reason::NoBackend);
        assert_eq!(verdict.slot, Some(1378));
        assert_counts(
            &verdict,
            &[
                Counter::GW_COUNTER_QUIC_LONG,
                Counter::GW_COUNTER_STARTS,
                Counter::GW_COUNTER_NO_BACKEND,
            ],
        );
    }
}

fn tcp_service() -> Generation {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["protocol"] = json!("tcp");
    for member in ["short_dcid_len", "quic_only"] {
        service.as_object_mut().unwrap().remove(member);
    }
    generation(&spec)
}

#[test]
fn a_connection_starts_with_syn_without_ack() {
    let generation = tcp_service();
    for (flags, start) in [
        (0x02, true),
        (0xc2, true),
        (0x12, false),
        (0x10, false),
        (0x04, false),
    ] {
        let verdict = run(&generation, &ipv4(TCP, &tcp(50000, 443, flags)));
        assert_eq!(
            (verdict.reason, verdict.rule),
            (Reason::Forwarded, Some(Rule::Table))
        );
        assert_eq!(verdict.flow_start, Some(start));
        let mut counters = vec![Counter::GW_COUNTER_PLAIN];
        if start {
            counters.push(Counter::GW_COUNTER_STARTS);
        }
        assert_counts(&verdict, &counters);
    }
}

#[test]
fn plain_udp_is_placed_by_flow_whatever_it_carries() {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["short_dcid_len"] = json!(0);
    service["quic_only"] = json!(false);
    service["tracking"] = json!("exceptions");
    let generation = generation(&spec);
    for payload in [
        &long(0xc0, 1, &[0x5a; 8])[..],
        b"",
        b"\x80",
        &short(&[1; 8]),
    ] {
        let verdict = run(&generation, &to_vip(payload));
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_eq!(
            (verdict.slot, verdict.flow_start),
            (Some(1378), Some(false))
        );
        assert_counts(&verdict, &[Counter::GW_COUNTER_PLAIN]);
    }
}

fn with_fragments(policy: &str, services: usize) -> Value {
    let mut spec = example();
    let mut service = spec["services"][0].clone();
    service["fragments"] = json!(policy);
    service["short_dcid_len"] = json!(0);
    service["hash"] = json!("source");
    service["quic"] = json!({"routing": "tuple"});
    let numbered = (0..services).map(|i| {
        let mut service = service.clone();
        if i > 0 {
            service["name"] = json!(format!("other-{i}"));
            service["port"] = json!(443 + i);
        }
        service
    });
    spec["services"] = numbered.collect();
    spec
}

/// A first fragment with ports, and a later one without.
fn fragments() -> [Vec<u8>; 2] {
    let whole = to_vip(&[0x5a; 24]);
    [
        with(whole.clone(), &[(20, 0x20)]),
        with(whole, &[(20, 0), (21, 3)]),
    ]
}

#[test]
fn fragments_are_treated_alike_first_and_later() {
    for (policy, reason) in [
        ("drop", Reason::FragmentDrop),
        ("pass", Reason::FragmentPass),
    ] {
        for (services, found) in [(1, Some(0x8cd5_d28f)), (2, None)] {
            let generation = generation(&with_fragments(policy, services));
            for frame in fragments() {
                let verdict = run(&generation, &frame);
                assert_left(&verdict, &frame, reason);
                assert_eq!(verdict.service.map(|id| id.get()), found);
                assert_eq!(verdict.flow_start, None);
                match found {
                    Some(_) => assert_counts(&verdict, &[Counter::GW_COUNTER_FRAGMENTS]),
                    None => assert_counts(&verdict, &[]),
                }
            }
        }
    }
    let generation = generation(&with_fragments("drop", 1));
    let to_tcp = fragments().map(|frame| with(frame, &[(23, TCP)]));
    for frame in to_tcp {
        assert_left(&run(&generation, &frame), &frame, Reason::NoService);
    }
}

/// All packets of a client share the slot of its address: 518, as published.
#[test]
fn routed_fragments_go_where_their_client_goes() {
    let generation = generation(&with_fragments("route", 1));
    for frame in fragments() {
        let verdict = run(&generation, &frame);
        assert_forwarded(&verdict, Rule::Table, 2);
        assert_eq!((verdict.slot, verdict.flow_start), (Some(518), None));
        assert_counts(
            &verdict,
            &[Counter::GW_COUNTER_FRAGMENTS, Counter::GW_COUNTER_PLAIN],
        );
    }
}
