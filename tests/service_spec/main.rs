// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification document: what is accepted, with which defaults, and what is refused how.

mod canonical;
mod conflicts;
mod defaults;
mod document;
mod draft;
#[path = "../common/json.rs"]
mod edit;
mod hostile;
mod members;
mod numbers;
mod schema;
mod texts;
mod warnings;

use edit::{with, without};
use guideway::service::Spec;
use serde_json::{json, Value};

/// The document of the README, which other tools of its kind read as well.
const EXAMPLE: &str = include_str!("../data/spec/example.json");
/// Every member, each with another value than its default where it may have one.
const FULL: &str = include_str!("../data/spec/full.json");

/// A sound document: a UDP service `a` routed by tuple with two backends.
fn tuple() -> Value {
    json!({
        "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446",
        "interface": "edge0",
        "services": [{
            "name": "a", "vip": "203.0.113.80", "port": 443,
            "backends": [
                {"id": 1, "interface": "vm-a", "mac": "02:00:00:00:01:01"},
                {"id": 2, "interface": "vm-b", "mac": "02:00:00:00:01:02"},
            ],
        }],
    })
}

/// [`tuple`] routed by server ID: one config, a server ID per backend.
fn server_id() -> Value {
    let quic = json!({
        "routing": "server-id",
        "configs": [{"config_id": 0, "server_id_len": 2, "nonce_len": 5}],
    });
    let document = with(tuple(), "/services/0/quic", quic);
    let document = with(document, "/services/0/backends/0/server_id", json!("c460"));
    with(
        document,
        "/services/0/backends/1/server_id",
        json!(["c461", "c462"]),
    )
}

/// [`tuple`] over TCP.
fn tcp() -> Value {
    with(tuple(), "/services/0/protocol", json!("tcp"))
}

/// [`tuple`] with a second service `b` on another port.
fn two_services() -> Value {
    let second = json!({"name": "b", "vip": "203.0.113.80", "port": 8443, "backends": []});
    with(tuple(), "/services/1", second)
}

/// The specification of a document that must be sound, to the schema as well.
#[track_caller]
fn accept(document: &Value) -> Spec {
    assert!(schema::allows(document), "the schema refuses {document}");
    Spec::from_json(document.to_string().as_bytes())
        .unwrap_or_else(|faults| panic!("{document} is refused:\n{faults}"))
}

/// The faults of a document, each as `pointer code: message`.
fn faults(document: &str) -> Vec<String> {
    match Spec::from_json(document.as_bytes()) {
        Ok(spec) => panic!("{document} is accepted: {spec:?}"),
        Err(faults) => faults
            .iter()
            .map(|fault| format!("{} {}: {}", fault.pointer, fault.code, fault.message))
            .collect(),
    }
}

/// The document has this one fault and no other. The schema sees it too if it can be seen in one
/// member alone.
#[track_caller]
fn refuse(document: &Value, pointer: &str, code: &str, message: &str) {
    assert_eq!(
        faults(&document.to_string()),
        [format!("{pointer} {code}: {message}")]
    );
    let seen = [
        "missing", "unknown", "type", "enum", "range", "count", "uuid", "name", "hex",
    ];
    // Whether configs must be there depends on the routing.
    if seen.contains(&code) && message != "server-id routing needs at least one config" {
        assert!(!schema::allows(document), "the schema allows {document}");
    }
}

/// [`refuse`] of the document with another value at the pointer.
#[track_caller]
fn refuse_in(document: Value, pointer: &str, value: Value, code: &str, message: &str) {
    refuse(&with(document, pointer, value), pointer, code, message);
}

/// [`accept`] of the document with another value at the pointer.
#[track_caller]
fn accept_in(document: Value, pointer: &str, value: Value) {
    accept(&with(document, pointer, value));
}
