// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification document of the egress: what is accepted, with which defaults, what is refused
//! how, and what it means for a machine's interfaces.

mod canonical;
mod classes;
mod defaults;
mod document;
#[path = "../common/json.rs"]
mod edit;
mod hostile;
mod limits;
mod resolve;
mod routes;
mod scalars;
mod schema;
mod tenants;
mod warnings;

use edit::{with, without};
use guideway::egress_spec::Spec;
use serde_json::{json, Value};

/// The document of the README.
const EXAMPLE: &str = include_str!("../../examples/egressd/example.json");
/// Every member, each with another value than its default.
const FULL: &str = include_str!("../data/egress_spec/full.json");

/// A sound document: NAT66 and a NAT64 of a shard each, a tenant with an interface and a route.
fn small() -> Value {
    json!({
        "schema": "guideway.egress.spec/v1",
        "node_sid": "2001:db8:ff01:1:e000::",
        "classes": [
            {"class": "nat66", "shards": [shard(0x10)]},
            {"class": "64:ff9b::/96", "shards": [shard(0x10)]},
        ],
        "tenants": [{
            "table": 42, "argument": "0x2a5",
            "interfaces": [{"name": "tap0", "gateway6": "fe80::1"}],
            "routes": [{"prefix": "10.0.0.0/8", "to": "block"}],
        }],
    })
}

/// A shard of this node ID, reached through `uplink0`.
fn shard(node: u16) -> Value {
    json!({
        "sid": format!("2001:db8:ff09:{node:x}:e000::"),
        "next_hop": {"interface": "uplink0", "destination": "02:00:00:00:00:10"},
    })
}

/// [`small`] with a second tenant.
fn two_tenants() -> Value {
    let second = json!({"table": 43, "argument": 0x2a6, "interfaces": ["tap1"]});
    with(small(), "/tenants/1", second)
}

/// The specification of a document that must be sound, to the schema as well.
#[track_caller]
fn accept(document: &Value) -> Spec {
    assert!(schema::allows(document), "the schema refuses {document}");
    Spec::from_json(document.to_string().as_bytes())
        .unwrap_or_else(|faults| panic!("{document} is refused:\n{faults}"))
}

/// [`accept`] of the document with another value at the pointer.
#[track_caller]
fn accept_in(document: Value, pointer: &str, value: Value) -> Spec {
    accept(&with(document, pointer, value))
}

/// The faults of a document, each as `pointer code: message`.
#[track_caller]
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
    let seen = ["missing", "unknown", "type", "enum", "count", "hex"];
    if seen.contains(&code) {
        assert!(!schema::allows(document), "the schema allows {document}");
    }
}

/// [`refuse`] of the document with another value at the pointer.
#[track_caller]
fn refuse_in(document: Value, pointer: &str, value: Value, code: &str, message: &str) {
    refuse(&with(document, pointer, value), pointer, code, message);
}
