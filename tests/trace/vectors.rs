// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Published QUIC packets and connection IDs.

use guideway::capture::from_hex;
use guideway::quiclb::trace::payload_frame;
use serde_json::{json, Value};

use crate::netns::{isolated, require_keys};
use crate::{example, parse, trace, trace_one};

fn vectors() -> Vec<Value> {
    let document: Value = serde_json::from_str(include_str!("../vectors/quic.json")).expect("JSON");
    let vectors = document["vectors"].as_array().expect("vectors").clone();
    // So that no test passes for want of vectors.
    assert_eq!(vectors.len(), 15);
    vectors
}

/// The frame of a vector's payload to a service.
fn frame(spec: &Value, service: &str, vector: &Value) -> Vec<u8> {
    let payload = from_hex(vector["udp_payload_hex"].as_str().expect("digits")).expect("hex");
    payload_frame(&parse(spec), service, None, &payload).expect("a frame")
}

/// The example, and the same service over IPv6, reading QUIC with connection IDs of this length.
fn spec(short_dcid_len: usize) -> Value {
    let mut spec = example();
    let service = &mut spec["services"][0];
    service["quic"] = json!({"routing": "tuple"});
    service["short_dcid_len"] = json!(short_dcid_len);
    let mut other = service.clone();
    other["name"] = json!("quic-api6");
    other["vip"] = json!("2001:db8::80");
    spec["services"] = json!([service, other]);
    spec
}

/// Every vector in services that read QUIC and nothing else.
#[test]
fn every_vector_is_read_and_goes_where_its_form_says() {
    isolated("trace::vectors", || {
        for vector in vectors() {
            let expected = &vector["expected"];
            let dcid = expected["dcid"].as_str();
            // The length that servers would have agreed on.
            let spec = spec(match expected["form"].as_str() {
                Some("short") => dcid.map_or(0, str::len) / 2,
                _ => 8,
            });
            let services = ["quic-api", "quic-api6"];
            let frames = services.map(|service| frame(&spec, service, &vector));
            let document = trace(&spec, &frames);
            let packets = document["packets"].as_array().expect("packets");
            for (packet, service) in packets.iter().zip(services) {
                assert_eq!(packet["service"]["name"], service);
                check(packet, &vector);
            }
            assert_eq!(packets[0]["ip"]["family"], "ipv4");
            assert_eq!(packets[1]["ip"]["family"], "ipv6");
        }
    });
}

fn check(packet: &Value, vector: &Value) {
    let (name, expected) = (&vector["name"], &vector["expected"]);
    let form = expected["form"].as_str().expect("a form");
    let (form, verdict, reason, rule) = match form {
        "error" => ("malformed", "pass", "bad_quic", Value::Null),
        "not-quic" => (form, "pass", "not_quic", Value::Null),
        _ => (form, "redirect", "forwarded", json!("table")),
    };
    let version = expected["version"].as_str();
    let version = version.map(|v| u32::from_str_radix(v, 16).expect("hex"));
    assert_eq!(packet["quic"]["form"], form, "{name}");
    assert_eq!(packet["quic"]["version"], json!(version), "{name}");
    // An empty one of a short header was not read.
    let dcid = expected["dcid"].as_str();
    let dcid = dcid.filter(|dcid| form == "long" || !dcid.is_empty());
    assert_eq!(packet["quic"]["dcid"], json!(dcid), "{name}");
    if let (Some(kind), "long") = (expected["type"].as_str(), form) {
        assert_eq!(packet["quic"]["type"], kind, "{name}");
        assert_eq!(packet["flow_start"], kind == "initial", "{name}");
    }
    let found = ["error", "verdict", "reason", "rule"].map(|key| packet[key].clone());
    let expected = [Value::Null, json!(verdict), json!(reason), rule];
    assert_eq!(found, expected, "{name}");
}

#[test]
fn server_ids_of_the_vectors_name_their_backend() {
    isolated("trace::server_ids", || {
        let is_plain = |vector: &Value| vector.get("key") == Some(&Value::Null);
        assert_eq!(name_their_backend(is_plain), 2);
    });
}

#[test]
fn encrypted_server_ids_of_the_vectors_name_their_backend() {
    isolated("trace::encrypted_server_ids", || {
        if require_keys("trace::encrypted_server_ids") {
            assert_eq!(name_their_backend(|vector| vector["key"].is_string()), 2);
        }
    });
}

/// Connection IDs of these vectors, under the lengths and the key that they state: to the backend
/// that has the server ID, and nowhere if nobody has it. How many there are.
fn name_their_backend(wanted: impl Fn(&Value) -> bool) -> usize {
    let mut tried = 0;
    for vector in vectors().into_iter().filter(wanted) {
        let id = vector["expected"]["server_id"].as_str().expect("digits");
        tried += 1;
        let cid = vector["cid"].as_str().expect("a connection ID");
        let mut spec = example();
        let service = &mut spec["services"][0];
        service["short_dcid_len"] = json!(cid.len() / 2);
        let config = json!({
            "config_id": vector["expected"]["config_id"],
            "server_id_len": id.len() / 2,
            "nonce_len": (cid.len() - id.len()) / 2 - 1,
            "key": vector["key"],
        });
        service["quic"] = json!({"routing": "server-id", "configs": [config]});
        for owner in [0, 1] {
            let mut spec = spec.clone();
            let other = "ff".repeat(id.len() / 2);
            spec["services"][0]["backends"][owner]["server_id"] = json!(id);
            spec["services"][0]["backends"][1 - owner]["server_id"] = json!(other);
            let packet = trace_one(&spec, frame(&spec, "quic-api", &vector));
            assert_eq!(packet["rule"], "server_id");
            assert_eq!(packet["backend"]["id"], owner + 1);
            assert_eq!(packet["quic"]["server_id"], id);
            assert_eq!(packet["quic"]["config_id"], vector["expected"]["config_id"]);
            assert_eq!(packet["quic"]["unroutable"], Value::Null);
            // Nothing was hashed.
            assert_eq!(packet["hash"], Value::Null);
            assert_eq!(packet["slot_state"], Value::Null);
        }
        spec["services"][0]["backends"][0]["server_id"] = json!("ee".repeat(id.len() / 2));
        let packet = trace_one(&spec, frame(&spec, "quic-api", &vector));
        assert_eq!(packet["reason"], "unknown_server_id");
        assert_eq!(packet["verdict"], "drop");
        assert_eq!(packet["quic"]["unroutable"], "unknown");
        assert_eq!(packet["backend"], Value::Null);
    }
    tried
}
