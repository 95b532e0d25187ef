// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Limits, and what does not fit them.

use serde_json::{json, Value};

use super::{accept, accept_in, refuse, shard, small, two_tenants, with};

#[track_caller]
fn refuse_limit(member: &str, value: Value, code: &str, message: &str) {
    let document = with(small(), "/limits", json!({member: value}));
    refuse(&document, &format!("/limits/{member}"), code, message);
}

#[test]
fn every_limit_has_its_ceiling() {
    for (member, max) in [
        ("tenants", 65_536),
        ("routes", 1_048_576),
        ("groups", 64),
        ("members", 256),
        ("pins", 4_194_304),
        ("flow_pins", 4_194_304),
    ] {
        accept_in(small(), "/limits", json!({member: max}));
        for value in [0, max + 1] {
            let message = format!("must be 1 to {max}, got {value}");
            refuse_limit(member, json!(value), "range", &message);
        }
    }
}

#[test]
fn tables_are_primes() {
    for size in [2, 1021, 65_537] {
        let spec = accept_in(small(), "/limits", json!({"table_size": size}));
        assert_eq!(spec.limits().groups.table_size().get(), size);
    }
    for (size, nearest) in [
        (1, "2"),
        (1022, "1021 and 1031"),
        (65_536, "65521 and 65537"),
        (65_539, "65537"),
    ] {
        let message = format!("must be a prime from 2 to 65537, got {size} (nearest {nearest})");
        refuse_limit("table_size", json!(size), "prime", &message);
    }
}

#[test]
fn rings_are_powers_of_two() {
    accept_in(small(), "/limits", json!({"ring_bytes": 4096}));
    refuse_limit(
        "ring_bytes",
        json!(100_000),
        "range",
        "must be a power of two, got 100000",
    );
}

#[test]
fn instances_are_held_to_the_same_bounds() {
    let (least, most) = (
        json!({
            "tenants": 1, "routes": 3, "groups": 2, "members": 1, "table_size": 2, "pins": 1,
            "flow_pins": 1, "ring_bytes": 4096,
        }),
        json!({
            "tenants": 65_536, "routes": 1_048_576, "groups": 64, "members": 256,
            "table_size": 65_537, "pins": 4_194_304, "flow_pins": 4_194_304,
            "ring_bytes": 67_108_864,
        }),
    );
    for given in [least, most] {
        let spec = accept_in(small(), "/limits", given.clone());
        let limits = guideway::egress::Limits::try_from(spec.limits()).unwrap();
        let of_instance = json!({
            "tenants": limits.tenants(), "routes": limits.routes(),
            "groups": limits.groups().groups(), "members": limits.groups().members(),
            "table_size": limits.groups().table_size().get(), "pins": limits.pins(),
            "flow_pins": limits.flow_pins(), "ring_bytes": limits.ring_bytes(),
        });
        assert_eq!(of_instance, given);
    }
    for bytes in [2048, 134_217_728] {
        let message = format!("must be 4096 to 67108864, got {bytes}");
        refuse_limit("ring_bytes", json!(bytes), "range", &message);
    }
    let defaults = accept(&small());
    let defaults = guideway::egress::Limits::try_from(defaults.limits()).unwrap();
    assert_eq!(defaults, guideway::egress::Limits::default());
}

#[test]
fn shards_fit_members_and_table() {
    let three = json!([shard(0x10), shard(0x11), shard(0x12)]);
    let document = with(small(), "/classes/0/shards", three.clone());
    let pointer = "/classes/0/shards";
    accept_in(
        document.clone(),
        "/limits",
        json!({"members": 3, "table_size": 3}),
    );
    refuse(
        &with(document.clone(), "/limits", json!({"members": 2})),
        pointer,
        "capacity",
        "has 3 shards, more than limits.members 2",
    );
    let small_table = with(document, "/limits", json!({"table_size": 2}));
    refuse(
        &small_table,
        pointer,
        "capacity",
        "has 3 shards for new addresses, more than the slots of a table (limits.table_size 2)",
    );
    // Who takes no new addresses needs no slot.
    accept_in(small_table, "/classes/0/shards/1/draining", json!(true));
    let many: Vec<Value> = (1..=257).map(shard).collect();
    let document = with(small(), pointer, json!(many));
    refuse(
        &document,
        pointer,
        "count",
        "must have 0 to 256 entries, got 257",
    );
}

#[test]
fn classes_fit_groups() {
    let document = with(small(), "/limits", json!({"groups": 1}));
    let message = "have 2 classes, nat66 included, more than limits.groups 1";
    refuse(&document, "/classes", "capacity", message);
    let only_nat64 = json!([{"class": "64:ff9b::/96", "shards": []}]);
    refuse(
        &with(document.clone(), "/classes", only_nat64),
        "/classes",
        "capacity",
        message,
    );
    let only_nat66 = json!([{"class": "nat66", "shards": []}]);
    accept(&with(document, "/classes", only_nat66));
}

#[test]
fn interfaces_fit_tenants() {
    let document = with(
        two_tenants(),
        "/tenants/1/interfaces",
        json!(["tap1", "tap2"]),
    );
    accept_in(document.clone(), "/limits", json!({"tenants": 3}));
    refuse(
        &with(document, "/limits", json!({"tenants": 2})),
        "/tenants",
        "capacity",
        "have 3 interfaces, more than limits.tenants 2",
    );
}

#[test]
fn routes_of_classes_count_and_those_in_their_place_do_not_again() {
    // Two classes for two tenants, and one to 10.0.0.0/8.
    accept_in(two_tenants(), "/limits", json!({"routes": 5}));
    refuse(
        &with(two_tenants(), "/limits", json!({"routes": 4})),
        "/tenants",
        "capacity",
        "have 5 routes, 4 of them to the prefixes of classes, more than limits.routes 4",
    );
    let in_place = json!([{"prefix": "::/0", "to": "block"}]);
    let document = with(two_tenants(), "/tenants/0/routes", in_place);
    accept_in(document, "/limits", json!({"routes": 4}));
}

#[test]
fn a_faulty_limit_adds_no_faults_to_what_it_bounds() {
    let document = with(small(), "/limits", json!({"members": 0}));
    refuse(
        &document,
        "/limits/members",
        "range",
        "must be 1 to 256, got 0",
    );
    let document = with(small(), "/limits", json!({"groups": "two"}));
    refuse(
        &document,
        "/limits/groups",
        "type",
        "must be a number, got a string",
    );
    let document = with(small(), "/limits", json!([]));
    refuse(
        &document,
        "/limits",
        "type",
        "must be an object, got an array",
    );
}
