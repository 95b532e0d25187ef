// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The document as a whole: its form, its members, and many faults at once.

use serde_json::json;

use super::{accept, faults, refuse, refuse_in, small, with, without, EXAMPLE, FULL};

#[test]
fn the_examples_are_sound() {
    for text in [EXAMPLE, FULL] {
        accept(&serde_json::from_str(text).unwrap());
    }
}

#[test]
fn the_example_says_what_the_readme_says_of_it() {
    let spec = accept(&serde_json::from_str(EXAMPLE).unwrap());
    let classes: Vec<_> = spec
        .classes()
        .iter()
        .map(|one| one.class.to_string())
        .collect();
    assert_eq!(classes, ["nat66", "nat64:64:ff9b::/96"]);
    assert!(spec.classes().iter().all(|class| class.shards.len() == 3));
    assert_eq!(spec.tenants().len(), 2);
    // Tenant 43 has no gateway, and asks for no answers.
    assert_eq!(spec.warnings(), []);
}

#[test]
fn other_forms_are_refused() {
    refuse_in(
        small(),
        "/schema",
        json!("guideway.egress.spec/v2"),
        "enum",
        "must be guideway.egress.spec/v1, got guideway.egress.spec/v2",
    );
    refuse(
        &without(small(), "/schema"),
        "/schema",
        "missing",
        "is missing",
    );
    refuse_in(
        small(),
        "/schema",
        json!(1),
        "type",
        "must be a string, got a number",
    );
    refuse(&json!([]), "", "type", "must be an object, got an array");
    assert_eq!(
        faults("{\"schema\": "),
        [" json: is not JSON: EOF while parsing a value at line 1 column 11"]
    );
}

#[test]
fn members_that_must_be_there() {
    for pointer in [
        "/schema",
        "/node_sid",
        "/classes",
        "/tenants",
        "/classes/0/class",
        "/classes/0/shards",
        "/classes/0/shards/0/sid",
        // That nothing reaches a shard is said, not left out.
        "/classes/0/shards/0/next_hop",
        "/classes/0/shards/0/next_hop/interface",
        "/classes/0/shards/0/next_hop/destination",
        "/tenants/0/table",
        "/tenants/0/argument",
        "/tenants/0/interfaces",
        "/tenants/0/interfaces/0/name",
        "/tenants/0/routes/0/prefix",
        "/tenants/0/routes/0/to",
    ] {
        refuse(&without(small(), pointer), pointer, "missing", "is missing");
    }
}

#[test]
fn members_that_nobody_knows() {
    for (pointer, hint) in [
        ("/encapp", " (did you mean encap?)"),
        ("/encap/hop_limits", " (did you mean hop_limit?)"),
        ("/encap/icmp/per_secnd", " (did you mean per_second?)"),
        ("/limits/group", " (did you mean groups?)"),
        ("/classes/0/hash_groups", " (did you mean hash_group?)"),
        ("/classes/0/shards/0/wieght", " (did you mean weight?)"),
        ("/classes/0/shards/0/next_hop/mut", " (did you mean mtu?)"),
        ("/tenants/0/gateway", ""),
        (
            "/tenants/0/interfaces/0/gateway",
            " (did you mean gateway6?)",
        ),
        ("/tenants/0/routes/0/prefixes", " (did you mean prefix?)"),
    ] {
        let name = pointer.rsplit('/').next().unwrap();
        let document = with(small(), "/encap", json!({"icmp": {}}));
        let document = with(document, "/limits", json!({}));
        let message = format!("unknown field {name}{hint}");
        refuse_in(document, pointer, json!(1), "unknown", &message);
    }
}

#[test]
fn a_member_given_twice() {
    let text = small().to_string();
    let twice = text.replacen("\"table\":42", "\"table\":42,\"table\":42", 1);
    assert_ne!(text, twice);
    assert_eq!(
        faults(&twice),
        ["/tenants/0/table duplicate-member: field table is given more than once"]
    );
}

#[test]
fn types_of_members() {
    for (pointer, wanted) in [
        ("/node_sid", "a string"),
        ("/classes", "an array"),
        ("/classes/0", "an object"),
        ("/classes/0/class", "a string"),
        ("/classes/0/shards", "an array"),
        ("/classes/0/shards/0", "an object"),
        ("/classes/0/shards/0/next_hop", "an object or null"),
        ("/tenants", "an array"),
        ("/tenants/0/argument", "a number or a string"),
        ("/tenants/0/interfaces", "an array"),
        ("/tenants/0/interfaces/0", "a string or an object"),
        ("/tenants/0/routes", "an array"),
        ("/tenants/0/routes/0/to", "a string or an object"),
        ("/tenants/0/icmp", "a boolean"),
        ("/tenants/0/pin_quota", "a string or a number"),
        ("/tenants/0/table", "a number"),
    ] {
        let message = format!("must be {wanted}, got a boolean");
        let (value, message) = match wanted {
            "a boolean" => (json!("yes"), "must be a boolean, got a string".to_owned()),
            _ => (json!(true), message),
        };
        refuse_in(small(), pointer, value, "type", &message);
    }
}

#[test]
fn every_fault_is_reported_in_the_order_of_the_document() {
    let document = r#"{
        "schema": "guideway.egress.spec/v1",
        "tenants": [
            {"table": 42, "argument": 0, "interfaces": ["a/b", "tap0"]},
            {"table": 42, "argument": "0x2a5", "interfaces": [{"name": "tap0", "gateway4": "::1"}],
             "routes": [{"prefix": "10.0.0.1/8", "to": "elsewhere"}]}
        ],
        "node_sid": "::",
        "encap": {"hop_limit": 0, "dscp": 64},
        "classes": [{"class": "nat66", "shards": [{"sid": "fe80::1", "next_hop": {}}]}],
        "limits": {"table_size": 1000}
    }"#;
    assert_eq!(
        faults(document),
        [
            "/tenants/0/argument range: must be 0x001 to 0xfff, got 0",
            "/tenants/0/interfaces/0 ifname: is not an interface name (1 to 15 bytes, no '/', no \
             white space), got a/b",
            "/tenants/1/table duplicate: table 42 is already used by /tenants/0",
            "/tenants/1/interfaces/0/gateway4 address: is not an IPv4 address, got ::1",
            "/tenants/1/routes/0/prefix prefix: is no prefix: prefix 10.0.0.1/8 has host bits set; \
             the prefix is 10.0.0.0/8",
            "/tenants/1/routes/0/to prefix: must be pass, block, unreachable, a class (nat66 or a \
             NAT64 prefix) or a shard (an object), got elsewhere",
            "/node_sid sid: is not a uSID: SID :: is the unspecified address",
            "/encap/hop_limit range: must be 1 to 255, got 0",
            "/encap/dscp range: must be zero, copy, or 0 to 63, got 64",
            "/classes/0/shards/0/sid sid: is not a uSID: SID fe80::1 is a link-local address",
            "/classes/0/shards/0/next_hop/interface missing: is missing",
            "/classes/0/shards/0/next_hop/destination missing: is missing",
            "/limits/table_size prime: must be a prime from 2 to 65537, got 1000 (nearest 997 and \
             1009)",
        ]
    );
}
