// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What works but may not be what was meant.

use serde_json::{json, Value};

use super::{accept, shard, small, two_tenants, with};

#[track_caller]
fn warnings(document: &Value) -> Vec<String> {
    let warnings = accept(document).warnings();
    warnings
        .iter()
        .map(|one| format!("{} {}: {}", one.pointer, one.code, one.message))
        .collect()
}

#[track_caller]
fn warn_in(document: Value, pointer: &str, value: Value, expected: &[&str]) {
    assert_eq!(warnings(&with(document, pointer, value)), expected);
}

#[test]
fn a_plain_document_has_none() {
    assert_eq!(warnings(&small()), [""; 0]);
}

#[test]
fn classes_that_nobody_serves() {
    let expected =
        "/classes/1/shards no-active-shard: none of 1 shards of nat64:64:ff9b::/96 takes \
                    new addresses: packets without a pin are dropped";
    let pointer = "/classes/1/shards/0";
    for (member, value) in [
        ("next_hop", json!(null)),
        ("weight", json!(0)),
        ("draining", json!(true)),
    ] {
        warn_in(small(), &format!("{pointer}/{member}"), value, &[expected]);
    }
    warn_in(
        small(),
        "/classes",
        json!([{"class": "64:ff9b::/96", "shards": [shard(1)]}]),
        &["/classes no-active-shard: none of 0 shards of nat66 takes new addresses: packets without \
           a pin are dropped"],
    );
}

#[test]
fn tables_that_are_small_for_their_shards() {
    let shards = |count| json!((1..=count).map(shard).collect::<Vec<_>>());
    warn_in(small(), "/classes/0/shards", shards(10), &[]);
    let of = |shards, advice: &str| {
        format!(
            "/classes/0/shards small-table: a table of 1021 slots has fewer than 100 for each of \
             {shards} active shards of nat66, so that equal shares differ by more than 1 %; \
             limits.table_size {advice} would do"
        )
    };
    warn_in(small(), "/classes/0/shards", shards(11), &[&of(11, "4093")]);
    warn_in(
        small(),
        "/classes/0/shards",
        shards(41),
        &[&of(41, "16381")],
    );
    let draining = with(shard(11), "/draining", json!(true));
    let document = with(small(), "/classes/0/shards", shards(10));
    warn_in(document, "/classes/0/shards/10", draining, &[]);
}

#[test]
fn shards_that_drain_where_nothing_pins() {
    let document = with(small(), "/classes/0/pin_idle", json!(0));
    let draining = with(shard(0x11), "/draining", json!(true));
    warn_in(
        document,
        "/classes/0/shards/1",
        draining.clone(),
        &["/classes/0/shards/1 drains-unpinned: shard 2001:db8:ff09:11:e000:: drains, and all its \
           addresses move at once, as nat66 has no pins"],
    );
    warn_in(small(), "/classes/0/shards/1", draining, &[]);
}

#[test]
fn quotas_beyond_the_pins() {
    let quotas = |one: Value, two: Value| {
        let document = with(two_tenants(), "/tenants/1/icmp", json!(false));
        let document = with(document, "/tenants/0/pin_quota", one);
        with(document, "/tenants/1/pin_quota", two)
    };
    let exact = quotas(json!(65_000), json!(536));
    assert_eq!(warnings(&exact), [""; 0]);
    let over = quotas(json!(65_000), json!(537));
    assert_eq!(
        warnings(&over),
        [
            "/tenants over-commit: the quotas of 2 tenants add up to 65537, more than 65536 pins \
          (limits.pins): one tenant can keep others from making pins"
        ]
    );
    // Pins of flows count into the same quota.
    let flow = with(over.clone(), "/classes/0/hash", json!("flow"));
    assert_eq!(warnings(&flow), [""; 0]);
    let flow = with(flow, "/classes/1/hash", json!("flow"));
    assert_eq!(
        warnings(&flow),
        [
            "/tenants over-commit: the quotas of 2 tenants add up to 65537, more than 65536 pins \
          (limits.flow_pins): one tenant can keep others from making pins"
        ]
    );
    assert_eq!(
        warnings(&quotas(json!("unlimited"), json!(1))),
        ["/tenants over-commit: 1 of 2 tenants may have any number of 65536 pins (limits.pins): one \
          tenant can keep others from making pins"]
    );
    // Without pins, or others, nobody is kept from any.
    let off = with(over, "/classes/0/pin_idle", json!(0));
    let off = with(off, "/classes/1/pin_idle", json!(0));
    assert_eq!(warnings(&off), [""; 0]);
    warn_in(small(), "/tenants/0/pin_quota", json!("unlimited"), &[]);
}

#[test]
fn tenants_that_nothing_brings_or_answers() {
    warn_in(
        small(),
        "/tenants/0/interfaces",
        json!([]),
        &["/tenants/0/interfaces no-interfaces: no interface brings packets of tenant 42"],
    );
    let document = with(small(), "/tenants/0/interfaces/1", json!("tap1"));
    let document = with(document, "/tenants/0/interfaces/2", json!("tap2"));
    let expected = "/tenants/0/interfaces no-gateway: 2 of 3 interfaces of tenant 42 (tap1 first) \
                    have no gateway address that could answer: packets that are too big, or may go \
                    nowhere, are dropped without a word";
    assert_eq!(warnings(&document), [expected]);
    warn_in(document, "/tenants/0/icmp", json!(false), &[]);
    let ipv4 = json!({"name": "tap1", "gateway4": "192.0.2.1"});
    warn_in(small(), "/tenants/0/interfaces/1", ipv4, &[]);
}

#[test]
fn segment_sizes_that_nothing_gives() {
    let document = with(small(), "/tenants/0/mss", json!(true));
    let expected =
        "/tenants/0/mss no-effect: no segment size of tenant 42 is lowered, as encap.mss \
                    says none";
    assert_eq!(warnings(&document), [expected]);
    warn_in(document, "/encap", json!({"mss": {"ipv6": 1220}}), &[]);
}

#[test]
fn packets_that_leave_by_a_tenants_interface() {
    let message = "encapsulated packets leave by tap0, which brings a tenant's \
                   (/tenants/0/interfaces/0)";
    let pointer = "/classes/1/shards/0/next_hop/interface";
    let expected = format!("{pointer} tenant-uplink: {message}");
    warn_in(small(), pointer, json!("tap0"), &[&expected]);
    let to = with(shard(0x20), "/next_hop/interface", json!("tap0"));
    let expected = format!("/tenants/0/routes/0/to/next_hop/interface tenant-uplink: {message}");
    warn_in(small(), "/tenants/0/routes/0/to", to, &[&expected]);
}
