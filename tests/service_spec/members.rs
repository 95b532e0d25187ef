// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every member: its JSON type, and whether it must be there.

use serde_json::{json, Value};

use super::{faults, refuse, refuse_in, server_id, tcp, tuple, with, without};

const C: &str = "/services/0/quic/configs/0";

#[test]
fn types() {
    let other_than = |kind: &str| {
        [
            ("null", Value::Null),
            ("a boolean", json!(true)),
            ("a number", json!(300)),
            ("a string", json!("x")),
            ("an array", json!([])),
            ("an object", json!({})),
        ]
        .into_iter()
        .filter(|(got, _)| *got != kind)
        .collect::<Vec<_>>()
    };
    for (document, pointer, kind) in [
        (tuple(), "/instance_id", "a string"),
        (tuple(), "/interface", "a string"),
        (tuple(), "/mode", "a string"),
        (tuple(), "/hash_seed", "a string"),
        (tuple(), "/source_mac", "a string"),
        (tuple(), "/events_per_second", "a number"),
        (tuple(), "/limits", "an object"),
        (tuple(), "/services", "an array"),
        (tuple(), "/services/0", "an object"),
        (tuple(), "/services/0/name", "a string"),
        (tuple(), "/services/0/vip", "a string"),
        (tuple(), "/services/0/port", "a number"),
        (tuple(), "/services/0/protocol", "a string"),
        (tuple(), "/services/0/short_dcid_len", "a number"),
        (tcp(), "/services/0/quic_only", "a boolean"),
        (tuple(), "/services/0/hash", "a string"),
        (tuple(), "/services/0/tracking", "a string"),
        (tuple(), "/services/0/fragments", "a string"),
        (tuple(), "/services/0/quic", "an object"),
        (server_id(), "/services/0/quic/routing", "a string"),
        (
            with(server_id(), "/services/0/backends", json!([])),
            "/services/0/quic/configs",
            "an array",
        ),
        (
            with(server_id(), "/services/0/backends", json!([])),
            "/services/0/quic/configs/0",
            "an object",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/config_id",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/server_id_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/nonce_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/extra_len",
            "a number",
        ),
        (
            server_id(),
            "/services/0/quic/configs/0/encodes_length",
            "a boolean",
        ),
        (
            server_id(),
            "/services/0/quic/unknown_server_id",
            "a string",
        ),
        (server_id(), "/services/0/quic/unhealthy", "a string"),
        (tuple(), "/services/0/backends", "an array"),
        (tuple(), "/services/0/backends/0", "an object"),
        (tuple(), "/services/0/backends/0/id", "a number"),
        (tuple(), "/services/0/backends/0/interface", "a string"),
        (tuple(), "/services/0/backends/0/mac", "a string"),
        (tuple(), "/services/0/backends/0/weight", "a number"),
        (tuple(), "/services/0/backends/0/state", "a string"),
    ] {
        for (got, value) in other_than(kind) {
            let message = format!("must be {kind}, got {got}");
            refuse_in(document.clone(), pointer, value, "type", &message);
        }
    }
    assert_eq!(faults("[]"), [" type: must be an object, got an array"]);
    assert_eq!(faults("null"), [" type: must be an object, got null"]);
    for (member, kind, other) in [
        ("path", "a string", json!(1)),
        ("index", "a number", json!([])),
    ] {
        let got = if other.is_number() {
            "a number"
        } else {
            "an array"
        };
        let message = format!("must be {kind}, got {got}");
        let pointer = format!("/root_array/{member}");
        refuse_in(array(), &pointer, other, "type", &message);
    }
    let message = "must be an object or null, got a string";
    refuse_in(tuple(), "/root_array", json!("x"), "type", message);
    let message = "must be a string or null, got a number";
    refuse_in(server_id(), &format!("{C}/key"), json!(1), "type", message);
}

/// A document whose interface has another owner.
fn array() -> Value {
    let place = json!({"path": "/sys/fs/bpf/roots", "index": 3});
    with(tuple(), "/root_array", place)
}

#[test]
fn required_members() {
    for (document, pointer) in [
        (tuple(), "/instance_id"),
        (tuple(), "/interface"),
        (tuple(), "/services"),
        (array(), "/root_array/path"),
        (array(), "/root_array/index"),
        (tuple(), "/services/0/name"),
        (tuple(), "/services/0/vip"),
        (tuple(), "/services/0/port"),
        (tuple(), "/services/0/backends"),
        (server_id(), "/services/0/quic/configs/0/config_id"),
        (server_id(), "/services/0/quic/configs/0/server_id_len"),
        (server_id(), "/services/0/quic/configs/0/nonce_len"),
        (tuple(), "/services/0/backends/0/id"),
        (tuple(), "/services/0/backends/0/interface"),
        (tuple(), "/services/0/backends/0/mac"),
    ] {
        refuse(
            &without(document, pointer),
            pointer,
            "missing",
            "is missing",
        );
    }
}
