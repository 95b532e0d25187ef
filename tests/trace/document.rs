// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The form of the document, to the letter.

use std::sync::LazyLock;

use guideway::quiclb::schema;
use jsonschema::Validator;
use serde_json::{json, Value};

use crate::build::*;
use crate::netns::isolated;
use crate::{example, trace};

/// Fails if the published schema does not describe the document.
pub(crate) fn check_schema(document: &Value) {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
        let schema: Value = serde_json::from_str(schema::TRACE).expect("JSON");
        jsonschema::draft202012::new(&schema).expect("a schema")
    });
    if let Err(error) = VALIDATOR.validate(document) {
        panic!("{error} at {}", error.instance_path());
    }
}

fn keys(object: &Value) -> Vec<&str> {
    let object = object.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// A QUIC Initial of version 1 whose flow is one of the published examples: under the seed of
/// zeros it has the hash 56305f6543cb2707, which is slot 1378 of 4093 and backend 2.
#[test]
fn a_forwarded_packet() {
    isolated("trace::forwarded", || {
        let payload = b"\xc0\0\0\0\x01\x08\x83\x94\xc8\xf0\x3e\x51\x57\x08\0\0";
        let frame = ipv4(UDP, &udp(50000, 443, payload));
        let document = trace(&example(), &[frame]);
        let packet = json!({
            "index": 0,
            "length": 58,
            "timestamp_ns": null,
            "l2": {"vlans": [], "ethertype": 0x0800},
            "ip": {
                "family": "ipv4", "protocol": "udp", "source": "198.51.100.7",
                "destination": "203.0.113.80", "source_port": 50000, "destination_port": 443,
                "fragment": "none"
            },
            "icmp": null,
            "quic": {
                "form": "long", "version": 1, "type": "initial", "dcid": "8394c8f03e515708",
                "config_id": null, "server_id": null, "unroutable": null
            },
            "verdict": "redirect",
            "reason": "forwarded",
            "rule": "table",
            "service": {"name": "quic-api", "service_id": 0x8cd5_d28f_u32},
            "backend": {
                "id": 2, "row": 1, "interface": "vm-edge-b", "mac": "02:00:00:00:01:02",
                "state": "ready"
            },
            "flow_start": true,
            "hash": "56305f6543cb2707",
            "slot": 1378,
            "slot_state": "plain",
            "created": ["flow"],
            // From 02:00:00:00:00:01.
            "output": {"length": 58, "changed": [{"offset": 4, "from": "0001", "to": "0102"}]},
            "error": null
        });
        assert_eq!(document["packets"], json!([packet]));
        assert_eq!(
            document["summary"],
            json!({
                "packets": 1, "redirect": 1, "tx": 0, "pass": 0, "drop": 0, "aborted": 0,
                "errors": 0, "by_reason": {"forwarded": 1}, "by_rule": {"table": 1}
            })
        );
        assert_eq!(document["schema"], "guideway.quiclb.trace/v1");
        assert_eq!(
            document["instance_id"],
            "1d9016f2-8957-42bc-9dd7-32d684d76446"
        );
        assert_eq!(document["program"]["name"], "gw_quiclb");
        let tag = document["program"]["tag"].as_str().expect("text");
        assert!(
            tag.len() == 16 && tag.chars().all(|c| c.is_ascii_hexdigit()),
            "{tag}"
        );
        assert!(document["program"]["verified_insns"].as_u64() > Some(100));
        assert_eq!(
            document["notes"],
            json!([
                "stand-ins took the place of interfaces that do not exist here: edge0, \
                    vm-edge-a, vm-edge-b"
            ])
        );
    });
}

#[test]
fn every_member_is_there() {
    isolated("trace::members", || {
        let frames = [
            ipv4(UDP, &udp(50000, 443, b"\x40hello world")),
            error4(&quoted4(UDP, &reply())),
            vec![0; 3],
        ];
        let document = trace(&example(), &frames);
        assert_eq!(
            keys(&document),
            [
                "digest",
                "instance_id",
                "notes",
                "packets",
                "program",
                "schema",
                "summary"
            ]
        );
        let packets = document["packets"].as_array().expect("packets");
        for packet in packets {
            assert_eq!(
                keys(packet),
                [
                    "backend",
                    "created",
                    "error",
                    "flow_start",
                    "hash",
                    "icmp",
                    "index",
                    "ip",
                    "l2",
                    "length",
                    "output",
                    "quic",
                    "reason",
                    "rule",
                    "service",
                    "slot",
                    "slot_state",
                    "timestamp_ns",
                    "verdict"
                ]
            );
        }
        let ip = [
            "destination",
            "destination_port",
            "family",
            "fragment",
            "protocol",
            "source",
            "source_port",
        ];
        assert_eq!(keys(&packets[0]["ip"]), ip);
        assert_eq!(
            keys(&packets[0]["quic"]),
            [
                "config_id",
                "dcid",
                "form",
                "server_id",
                "type",
                "unroutable",
                "version"
            ]
        );
        assert_eq!(keys(&packets[1]["icmp"]), ["code", "embedded", "type"]);
        assert_eq!(keys(&packets[1]["icmp"]["embedded"]), ip);
        assert_eq!(
            packets[2]["error"],
            "3 bytes, below the 14 of an Ethernet header"
        );
    });
}

/// What the notes of the hash say: the same client under another seed, and by its address alone.
#[test]
fn hashes_and_slots_are_the_published_ones() {
    isolated("trace::hashes", || {
        let seed = "000102030405060708090a0b0c0d0e0f";
        for (seed, of, hash, slot, backend) in [
            (None, "flow", "56305f6543cb2707", 1378, 2),
            (Some(seed), "flow", "63d9eb9239c1356c", 1596, 2),
            (None, "source", "20733fac0c9a8f7b", 518, 2),
            (Some(seed), "source", "114ef7bd16297831", 276, 1),
        ] {
            let mut spec = example();
            if let Some(seed) = seed {
                spec["hash_seed"] = json!(seed);
            }
            spec["services"][0]["hash"] = json!(of);
            let frame = ipv4(UDP, &udp(50000, 443, &[0x40; 20]));
            let packet = crate::trace_one(&spec, frame);
            let found = [&packet["hash"], &packet["slot"], &packet["backend"]["id"]];
            assert_eq!(found, [&json!(hash), &json!(slot), &json!(backend)]);
            assert_eq!(packet["flow_start"], false);
        }
    });
}

#[test]
fn the_digest_is_that_of_the_canonical_specification() {
    isolated("trace::digest", || {
        let canonical = crate::parse(&example()).to_canonical_json();
        let document = trace(&example(), &[]);
        let sum = std::process::Command::new("sh")
            .args(["-c", "printf %s \"$1\" | sha256sum | cut -d' ' -f1", "sh"])
            .arg(String::from_utf8(canonical).expect("text"))
            .output()
            .expect("sha256sum, of coreutils");
        let sum = String::from_utf8(sum.stdout).expect("text");
        assert_eq!(document["digest"], sum.trim());
        assert_eq!(document["packets"], json!([]));
    });
}
