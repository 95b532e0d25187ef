// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants' routes beside those of the classes, and in their place.

use guideway::egress_spec::RouteTo;
use guideway::group::Class;
use guideway::route::Block;
use serde_json::{json, Value};

use super::{accept, faults, refuse, refuse_in, shard, small, with, without};

const TO: &str = "/tenants/0/routes/0/to";

/// [`small`] with this route alone.
fn route(prefix: &str, to: Value) -> Value {
    with(
        small(),
        "/tenants/0/routes",
        json!([{"prefix": prefix, "to": to}]),
    )
}

#[test]
fn destinations() {
    let to = |to| {
        accept(&route("2001:db8:7::/48", to)).tenants()[0].routes[0]
            .to
            .clone()
    };
    assert_eq!(to(json!("pass")), RouteTo::Pass);
    assert_eq!(to(json!("block")), RouteTo::Block(Block::Drop));
    assert_eq!(to(json!("unreachable")), RouteTo::Block(Block::Unreachable));
    assert_eq!(to(json!("nat66")), RouteTo::Class(Class::Nat66));
    let nat64 = to(json!("64:ff9b::/96"));
    assert!(
        matches!(nat64, RouteTo::Class(Class::Nat64(prefix)) if prefix.to_string() == "64:ff9b::/96")
    );
    match to(shard(0x20)) {
        RouteTo::Shard { sid, next_hop } => {
            assert_eq!(sid.to_string(), "2001:db8:ff09:20:e000::");
            assert_eq!(next_hop.interface.as_str(), "uplink0");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_destinations_are_refused() {
    let rule =
        "must be pass, block, unreachable, a class (nat66 or a NAT64 prefix) or a shard (an \
                object)";
    let message = format!("{rule}, got drop");
    refuse_in(small(), TO, json!("drop"), "prefix", &message);
    refuse_in(
        small(),
        TO,
        json!(["pass"]),
        "type",
        "must be a string or an object, got an array",
    );
    let message = "is no class: NAT64 prefix 64:ff9b::/32 has 32 bits, not 96";
    refuse_in(small(), TO, json!("64:ff9b::/32"), "prefix", message);
    // A route that leads to a shard leads somewhere.
    let unreachable = with(shard(0x20), "/next_hop", json!(null));
    let document = with(small(), TO, unreachable);
    refuse(
        &document,
        &format!("{TO}/next_hop"),
        "type",
        "must be an object, got null",
    );
    let document = with(small(), TO, without(shard(0x20), "/sid"));
    refuse(&document, &format!("{TO}/sid"), "missing", "is missing");
    let document = with(small(), TO, with(shard(0x20), "/weight", json!(1)));
    refuse(
        &document,
        &format!("{TO}/weight"),
        "unknown",
        "unknown field weight",
    );
}

#[test]
fn prefixes() {
    for (text, message) in [
        (
            "10.0.0.0",
            "must be an address, '/' and a length, got 10.0.0.0",
        ),
        (
            "10.0.0.0/+8",
            "must be an address, '/' and a length, got 10.0.0.0/+8",
        ),
        (
            "10.0.0.0/33",
            "is no prefix: prefix 10.0.0.0/33 has 33 bits, more than 32",
        ),
        (
            "2001:db8::1/64",
            "is no prefix: prefix 2001:db8::1/64 has host bits set; the prefix is 2001:db8::/64",
        ),
    ] {
        refuse_in(
            small(),
            "/tenants/0/routes/0/prefix",
            json!(text),
            "prefix",
            message,
        );
    }
}

#[test]
fn one_prefix_is_there_once_in_a_table() {
    let again = json!({"prefix": "10.0.0.0/8", "to": "pass"});
    let document = with(small(), "/tenants/0/routes/1", again.clone());
    let message = "prefix 10.0.0.0/8 is already that of /tenants/0/routes/0";
    refuse(
        &document,
        "/tenants/0/routes/1/prefix",
        "duplicate",
        message,
    );
    let other = json!({"table": 43, "argument": 1, "interfaces": [], "routes": [again]});
    accept(&with(small(), "/tenants/1", other));
}

#[test]
fn classes_of_routes_are_configured() {
    let message = "class nat64:2001:db8:64::/96 is not configured (nat66, nat64:64:ff9b::/96 are)";
    refuse_in(small(), TO, json!("2001:db8:64::/96"), "class", message);
    // While a class is not known, none is missed.
    let document = with(small(), TO, json!("2001:db8:64::/96"));
    let document = with(document, "/classes/1/class", json!("2001:db8:64::/95"));
    assert_eq!(
        faults(&document.to_string()),
        ["/classes/1/class prefix: is no class: NAT64 prefix 2001:db8:64::/95 has 95 bits, not 96"]
    );
    // A fault in another part of a class hides none.
    let document = with(small(), TO, json!("2001:db8:64::/96"));
    let document = with(document, "/classes/1/reject", json!(1));
    assert_eq!(faults(&document.to_string()).len(), 2);
    // NAT66 is, though the document does not name it.
    let document = with(small(), "/classes", json!([]));
    accept(&with(document, TO, json!("nat66")));
}

#[test]
fn packets_of_a_class_go_to_its_shards_or_one_shard_or_nowhere() {
    for (prefix, own, other) in [
        ("::/0", "nat66", "nat64:64:ff9b::/96"),
        ("64:ff9b::/96", "nat64:64:ff9b::/96", "nat66"),
    ] {
        for to in ["pass", other] {
            let message = format!(
                "packets to {prefix} are those of {own}: they may go there, to a shard, or nowhere \
                 (block, unreachable), got {to}"
            );
            refuse(&route(prefix, json!(to)), TO, "conflict", &message);
        }
        for to in [
            json!("block"),
            json!("unreachable"),
            json!(own),
            shard(0x20),
        ] {
            accept(&route(prefix, to));
        }
    }
    // Of a class that the document does not name as well.
    let document = with(route("::/0", json!("pass")), "/classes", json!([]));
    let message = "packets to ::/0 are those of nat66: they may go there, to a shard, or nowhere \
                   (block, unreachable), got pass";
    refuse(&document, TO, "conflict", message);
    // Other prefixes go anywhere.
    for prefix in [
        "0.0.0.0/0",
        "::/1",
        "64:ff9b::/95",
        "64:ff9b::/97",
        "2001:db8::/96",
    ] {
        for to in ["pass", "nat66", "64:ff9b::/96"] {
            accept(&route(prefix, json!(to)));
        }
    }
}
