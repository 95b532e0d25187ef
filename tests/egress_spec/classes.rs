// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Classes and their shards.

use serde_json::{json, Value};

use super::{accept, accept_in, refuse, refuse_in, shard, small, with};

#[test]
fn classes_are_nat66_and_prefixes_of_nat64() {
    for (text, message) in [
        (
            "nat44",
            "must be nat66 or the /96 prefix of a NAT64, got nat44",
        ),
        (
            "nat64",
            "must be nat66 or the /96 prefix of a NAT64, got nat64",
        ),
        (
            "64:ff9b::/64",
            "is no class: NAT64 prefix 64:ff9b::/64 has 64 bits, not 96",
        ),
        (
            "64:ff9b::1/96",
            "is no class: NAT64 prefix 64:ff9b::1/96 has host bits 0x00000001, not 0",
        ),
        (
            "10.0.0.0/8",
            "is no class: NAT64 prefix 10.0.0.0/8 is an IPv4 prefix",
        ),
        (
            "64:ff9b::/+96",
            "must be nat66 or the /96 prefix of a NAT64, got 64:ff9b::/+96",
        ),
    ] {
        refuse_in(small(), "/classes/1/class", json!(text), "prefix", message);
    }
}

#[test]
fn one_class_is_there_once() {
    for (first, second) in [("nat66", "nat66"), ("64:ff9b::/96", "nat64:64:ff9b:0::/96")] {
        let class = |name| json!({"class": name, "shards": []});
        let document = with(small(), "/classes", json!([class(first), class(second)]));
        let name = if first == "nat66" {
            first
        } else {
            "nat64:64:ff9b::/96"
        };
        let message = format!("{name} is already /classes/0");
        refuse(&document, "/classes/1/class", "duplicate", &message);
    }
}

#[test]
fn no_two_classes_hash_by_one_number() {
    let of = |first: Value, second: Value| {
        let document = with(small(), "/classes/0/hash_group", first);
        with(document, "/classes/1/hash_group", second)
    };
    refuse(
        &of(json!(3), json!(3)),
        "/classes/1/hash_group",
        "duplicate",
        "hash_group 3 is already used by /classes/0",
    );
    // NAT66 has 0 unless it says another.
    let message = "hash_group 0 is that of nat66";
    refuse_in(
        small(),
        "/classes/1/hash_group",
        json!(0),
        "duplicate",
        message,
    );
    let without_nat66 = json!([{"class": "64:ff9b::/96", "hash_group": 0, "shards": []}]);
    let document = with(small(), "/classes", without_nat66);
    refuse(&document, "/classes/0/hash_group", "duplicate", message);
    accept(&of(json!(1), json!(0)));
    accept(&of(json!(0), json!(255)));
    let message = "must be 0 to 255, got 256";
    refuse_in(
        small(),
        "/classes/1/hash_group",
        json!(256),
        "range",
        message,
    );
}

#[test]
fn one_shard_is_there_once() {
    let pointer = "/classes/0/shards/1";
    let document = with(small(), pointer, shard(0x10));
    let message = "SID 2001:db8:ff09:10:e000:: is already that of /classes/0/shards/0";
    refuse(&document, "/classes/0/shards/1/sid", "duplicate", message);
    // In another class it is another member.
    accept_in(small(), "/classes/1/shards/1", shard(0x11));
}

#[test]
fn how_packets_are_treated() {
    for (member, value, code, message) in [
        (
            "hash",
            json!("destination"),
            "enum",
            "must be one of source, flow, got destination",
        ),
        (
            "pin_idle",
            json!(2_592_001),
            "duration",
            "must be a duration from 0s to 30d, got 2592001",
        ),
        (
            "pin_idle",
            json!("31d"),
            "duration",
            "must be a duration from 0s to 30d, got 31d",
        ),
        (
            "reject",
            json!(0),
            "type",
            "must be a boolean, got a number",
        ),
        (
            "ecn",
            json!("ce"),
            "enum",
            "must be one of compatibility, normal, got ce",
        ),
    ] {
        let pointer = format!("/classes/0/{member}");
        refuse_in(small(), &pointer, value, code, message);
    }
    let normal = with(small(), "/encap", json!({"ecn": "normal"}));
    refuse_in(
        normal,
        "/classes/1/ecn",
        json!("compatibility"),
        "conflict",
        "compatibility does not undo the normal of encap.ecn",
    );
    for (idle, seconds) in [(json!("0s"), 0), (json!(1), 1), (json!("30d"), 2_592_000)] {
        let spec = accept_in(small(), "/classes/0/pin_idle", idle);
        assert_eq!(spec.classes()[0].settings.pin_idle.as_secs(), seconds);
    }
}

#[test]
fn weights() {
    let pointer = "/classes/0/shards/0/weight";
    for (value, shown) in [(json!(65_536), "65536"), (json!(-1), "-1")] {
        let message = format!("must be 0 to 65535, got {shown}");
        refuse_in(small(), pointer, value, "range", &message);
    }
    let spec = accept_in(small(), pointer, json!(0));
    assert!(!spec.classes()[0].shards[0].is_active());
    let spec = accept_in(small(), "/classes/0/shards/0/draining", json!(true));
    assert_eq!(spec.classes()[0].active(), 0);
    let spec = accept_in(small(), "/classes/0/shards/0/next_hop", json!(null));
    assert_eq!(spec.classes()[0].active(), 0);
}
