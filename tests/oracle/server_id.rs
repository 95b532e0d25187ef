// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Server IDs: of backends in every state, of nobody, and of those that are gone.

use guideway::abi::Counter;
use guideway::plan::{Generation, PlacedServerId};
use guideway::reason::{Reason, Rule};
use serde_json::json;

use crate::world::*;

/// Connection IDs of both backends, of nobody, and of one that is gone.
const OF_1: [u8; 8] = [0x1f, 0xc4, 0x60, 1, 2, 3, 4, 5];
const OF_2: [u8; 8] = [0x00, 0xd5, 0xe7, 1, 2, 3, 4, 5];
const UNKNOWN: [u8; 8] = [0x00, 0xff, 0xff, 1, 2, 3, 4, 5];
const GONE: [u8; 8] = [0x00, 0xab, 0xcd, 1, 2, 3, 4, 5];

/// A payload, and whether it is a flow start and of an unknown version.
fn payloads(cid: &[u8]) -> [(Vec<u8>, bool, bool); 6] {
    [
        (long(0xc0, 1, cid), true, false),
        (long(0xd0, 1, cid), true, false),
        (long(0xe0, 1, cid), false, false),
        (long(0xf0, 1, cid), false, false),
        (long(0xc0, 0x0a0a_0a0a, cid), false, true),
        (short(cid), false, false),
    ]
}

fn with_policies(unknown: &str, unhealthy: &str, states: [&str; 2]) -> Generation {
    let mut spec = with_server_ids();
    let service = &mut spec["services"][0];
    service["quic"]["unknown_server_id"] = json!(unknown);
    service["quic"]["unhealthy"] = json!(unhealthy);
    for (i, state) in states.into_iter().enumerate() {
        service["backends"][i]["state"] = json!(state);
    }
    let mut generation = generation(&spec);
    generation.services[0].server_ids.push(PlacedServerId {
        config_id: 0,
        server_id: "abcd".parse().unwrap(),
        row: None,
    });
    generation
}

#[test]
fn a_server_id_names_its_backend_in_every_form_and_version() {
    let generation = with_policies("drop", "drop", ["ready", "ready"]);
    for (cid, backend) in [(OF_1, 1), (OF_2, 2)] {
        for (payload, start, _) in payloads(&cid) {
            let verdict = run(&generation, &to_vip(&payload));
            assert_forwarded(&verdict, Rule::ServerId, backend);
            assert_eq!((verdict.hash, verdict.slot), (None, None));
            assert_eq!(verdict.flow_start, Some(start));
        }
        // A list of versions is read by nobody here.
        let verdict = run(&generation, &to_vip(&long(0xc0, 0, &cid)));
        assert_forwarded(&verdict, Rule::Table, 2);
    }
}

#[test]
fn draining_backends_keep_what_names_them() {
    let mut spec = with_server_ids();
    spec["services"][0]["backends"][0]["weight"] = json!(0);
    for generation in [
        with_policies("drop", "drop", ["draining", "ready"]),
        generation(&spec),
    ] {
        for (payload, ..) in payloads(&OF_1) {
            assert_forwarded(&run(&generation, &to_vip(&payload)), Rule::ServerId, 1);
        }
    }
}

#[test]
fn unhealthy_backends_lose_what_names_them() {
    for policy in ["fallback", "drop"] {
        let generation = with_policies("drop", policy, ["unhealthy", "ready"]);
        for (payload, start, _) in payloads(&OF_1) {
            let verdict = run(&generation, &to_vip(&payload));
            if start || policy == "fallback" {
                assert_forwarded(&verdict, Rule::Table, 2);
            } else {
                assert_eq!((verdict.reason, verdict.rule), (Reason::Unhealthy, None));
                assert_eq!(verdict.backend.map(|(id, _)| id.get()), Some(1));
                assert_eq!((verdict.hash, verdict.slot), (None, None));
            }
        }
    }
}

#[test]
fn server_ids_of_nobody() {
    for policy in ["fallback", "drop"] {
        let generation = with_policies(policy, "drop", ["ready", "ready"]);
        for (cid, reason, counter) in [
            (
                UNKNOWN,
                Reason::UnknownServerId,
                Counter::GW_COUNTER_UNKNOWN_SERVER_ID,
            ),
            (
                GONE,
                Reason::QuarantinedServerId,
                Counter::GW_COUNTER_QUARANTINED_SERVER_ID,
            ),
        ] {
            for (payload, start, unknown_version) in payloads(&cid) {
                let frame = to_vip(&payload);
                let verdict = run(&generation, &frame);
                let counted = |counter| verdict.counters.contains(&counter);
                if start || unknown_version || policy == "fallback" {
                    assert_forwarded(&verdict, Rule::Table, 2);
                    assert!(counted(Counter::GW_COUNTER_UNKNOWN_SERVER_ID));
                } else {
                    assert_left(&verdict, &frame, reason);
                    assert!(counted(counter) && verdict.hash.is_none());
                }
            }
        }
    }
}

/// Connection IDs that carry no server ID go by flow, and are told apart.
#[test]
fn unroutable_connection_ids_go_by_flow() {
    use Counter as C;
    let mut spec = with_server_ids();
    let service = &mut spec["services"][0];
    service["short_dcid_len"] = json!(0);
    service["quic"]["configs"] = json!([
        {"config_id": 0, "server_id_len": 2, "nonce_len": 4, "extra_len": 1},
        {"config_id": 1, "server_id_len": 2, "nonce_len": 5, "encodes_length": true},
    ]);
    let generation = generation(&spec);
    let cid = |first: u8, len: usize| {
        let mut cid = OF_1.repeat(3)[..len].to_vec();
        cid[0] = first;
        cid
    };
    // What a long header with all of it says, and a short header that ends with it.
    let named = None;
    for (cid, in_long, in_short) in [
        (
            cid(0xe0, 8),
            Some(C::GW_COUNTER_UNROUTABLE_RESERVED),
            Some(C::GW_COUNTER_UNROUTABLE_RESERVED),
        ),
        (
            cid(0x40, 8),
            Some(C::GW_COUNTER_UNROUTABLE_CONFIG),
            Some(C::GW_COUNTER_UNROUTABLE_CONFIG),
        ),
        (
            cid(0x00, 6),
            Some(C::GW_COUNTER_UNROUTABLE_SHORT),
            Some(C::GW_COUNTER_UNROUTABLE_SHORT),
        ),
        // Server ID and nonce are there, the bytes behind them are not.
        (cid(0x00, 7), Some(C::GW_COUNTER_UNROUTABLE_LENGTH), named),
        (cid(0x00, 8), named, named),
        (cid(0x00, 9), Some(C::GW_COUNTER_UNROUTABLE_LENGTH), named),
        (cid(0x27, 8), named, named),
        (
            cid(0x26, 8),
            Some(C::GW_COUNTER_UNROUTABLE_LENGTH),
            Some(C::GW_COUNTER_UNROUTABLE_LENGTH),
        ),
        (
            cid(0x27, 7),
            Some(C::GW_COUNTER_UNROUTABLE_SHORT),
            Some(C::GW_COUNTER_UNROUTABLE_SHORT),
        ),
    ] {
        let mut short = vec![0x40];
        short.extend(&cid);
        for (payload, form, expected) in [
            (long(0xe0, 1, &cid), C::GW_COUNTER_QUIC_LONG, in_long),
            (short, C::GW_COUNTER_QUIC_SHORT, in_short),
        ] {
            let verdict = run(&generation, &to_vip(&payload));
            match expected {
                None => {
                    assert_forwarded(&verdict, Rule::ServerId, 1);
                    assert_counts(&verdict, &[form]);
                }
                Some(counter) => {
                    assert_forwarded(&verdict, Rule::Table, 2);
                    assert_counts(&verdict, &[form, counter, C::GW_COUNTER_PLAIN]);
                }
            }
        }
    }
}

/// The same bytes are another server ID under another config.
#[test]
fn server_ids_are_looked_up_with_their_config() {
    let mut spec = with_server_ids();
    let service = &mut spec["services"][0];
    service["quic"]["configs"] = json!([
        {"config_id": 0, "server_id_len": 2, "nonce_len": 5},
        {"config_id": 3, "server_id_len": 3, "nonce_len": 4},
    ]);
    service["backends"][1]["server_id"] = json!(["d5e7", "c46001"]);
    let generation = generation(&spec);
    for (first, backend) in [(0x00, 1), (0x60, 2)] {
        let mut cid = OF_1;
        cid[0] = first;
        let verdict = run(&generation, &to_vip(&short(&cid)));
        assert_forwarded(&verdict, Rule::ServerId, backend);
    }
}
