// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants and their interfaces.

use serde_json::json;

use super::{accept, accept_in, refuse_in, small, two_tenants, with};

#[test]
fn tables_and_arguments_are_unique() {
    refuse_in(
        two_tenants(),
        "/tenants/1/table",
        json!(42),
        "duplicate",
        "table 42 is already used by /tenants/0",
    );
    // Shards tell tenants by nothing else.
    for same in [json!("0x2a5"), json!(0x2a5)] {
        refuse_in(
            two_tenants(),
            "/tenants/1/argument",
            same,
            "duplicate",
            "argument 0x2a5 is already used by /tenants/0",
        );
    }
    // Nodes that place alike may give two tenants one number to hash.
    accept_in(two_tenants(), "/tenants/1/hash_table", json!(42));
}

#[test]
fn tables_are_any_number_of_32_bits() {
    for table in [0, u32::MAX] {
        let spec = accept_in(small(), "/tenants/0/table", json!(table));
        assert_eq!(spec.tenants()[0].table.get(), table);
    }
    for member in ["table", "hash_table"] {
        let pointer = format!("/tenants/0/{member}");
        let message = "must be 0 to 4294967295, got 4294967296";
        refuse_in(
            small(),
            &pointer,
            json!(4_294_967_296_u64),
            "range",
            message,
        );
    }
}

#[test]
fn one_interface_brings_one_tenants_packets() {
    let interfaces = "/tenants/0/interfaces";
    for (pointer, again, first) in [
        (
            "/tenants/0/interfaces/1",
            json!("tap0"),
            "/tenants/0/interfaces/0",
        ),
        (
            "/tenants/0/interfaces/1",
            json!({"name": "tap0"}),
            "/tenants/0/interfaces/0",
        ),
        (
            "/tenants/1/interfaces/0",
            json!("tap0"),
            "/tenants/0/interfaces/0",
        ),
        (
            "/tenants/1/interfaces/0",
            json!({"name": "tap0"}),
            "/tenants/0/interfaces/0",
        ),
    ] {
        let message = format!("interface tap0 is already {first}");
        refuse_in(two_tenants(), pointer, again, "duplicate", &message);
    }
    let spec = accept(&with(
        two_tenants(),
        interfaces,
        json!(["tap9", {"name": "tap3"}]),
    ));
    let names: Vec<_> = spec.tenants()[0]
        .interfaces
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["tap3", "tap9"]);
}

#[test]
fn names_of_interfaces() {
    let rule = "is not an interface name (1 to 15 bytes, no '/', no white space)";
    for pointer in ["/tenants/0/interfaces/0", "/tenants/0/interfaces/0/name"] {
        let message = format!("{rule}, got sixteen-bytes-xy");
        refuse_in(
            small(),
            pointer,
            json!("sixteen-bytes-xy"),
            "ifname",
            &message,
        );
    }
    let pointer = "/classes/0/shards/0/next_hop/interface";
    refuse_in(
        small(),
        pointer,
        json!("a/b"),
        "ifname",
        &format!("{rule}, got a/b"),
    );
}

#[test]
fn there_may_be_none() {
    let spec = accept_in(small(), "/tenants", json!([]));
    assert_eq!(spec.tenants(), []);
    let spec = accept_in(small(), "/tenants/0/interfaces", json!([]));
    assert_eq!(spec.tenants()[0].interfaces, []);
}
