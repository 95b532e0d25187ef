// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a document does not say.

use guideway::encap::{Dscp, Ecn, Encap, Mss, Rate};
use guideway::group::{Class, HashMode, PinIdle};
use guideway::placement::HashTable;
use guideway::tenant::PinQuota;
use serde_json::json;

use super::{accept, accept_in, small, with};

#[test]
fn the_profile_gives_what_encap_leaves_open() {
    let sid = "2001:db8:ff01:1:e000::".parse().unwrap();
    let of = |encap| *accept_in(small(), "/encap", encap).encap();
    assert_eq!(*accept(&small()).encap(), Encap::standard(sid));
    assert_eq!(of(json!({})), Encap::standard(sid));
    assert_eq!(of(json!({"profile": "compat"})), Encap::compat(sid));
    let given = json!({
        "profile": "compat", "hop_limit": 1, "dscp": "copy", "ecn": "normal", "flow_label": true,
        "too_big": false, "mss": {"ipv4": 1240}, "icmp": {"burst": 7}, "events": {"per_second": 9},
    });
    let expected = Encap {
        node_sid: sid,
        hop_limit: 1,
        dscp: Dscp::Copy,
        ecn: Ecn::Normal,
        flow_label: true,
        too_big: false,
        mss: Some(Mss {
            ipv6: 0,
            ipv4: 1240,
        }),
        icmp: Rate {
            per_second: 1000,
            burst: 7,
        },
        events: Rate {
            per_second: 9,
            burst: 100,
        },
    };
    assert_eq!(of(given), expected);
}

#[test]
fn limits_are_those_of_the_maps() {
    let limits = *accept(&small()).limits();
    assert_eq!((limits.tenants, limits.routes), (16_384, 32_768));
    assert_eq!(
        (limits.pins, limits.flow_pins, limits.ring_bytes),
        (65_536, 1, 262_144)
    );
    let groups = limits.groups;
    assert_eq!(
        (groups.groups(), groups.members(), groups.table_size().get()),
        (8, 64, 1021)
    );
}

#[test]
fn flow_pins_are_there_for_classes_that_hash_by_flow() {
    let by_flow = with(small(), "/classes/1/hash", json!("flow"));
    assert_eq!(accept(&by_flow).limits().flow_pins, 65_536);
    let given = with(by_flow, "/limits", json!({"flow_pins": 5}));
    assert_eq!(accept(&given).limits().flow_pins, 5);
    let by_source = accept_in(small(), "/limits", json!({"flow_pins": 5}));
    assert_eq!(by_source.limits().flow_pins, 5);
}

#[test]
fn classes_hash_by_source_and_pin_for_two_hours_and_four_minutes() {
    let spec = accept(&small());
    for class in spec.classes() {
        assert_eq!(class.hash_group, None);
        assert_eq!(class.settings.hash_mode, HashMode::Source);
        assert_eq!(class.settings.pin_idle.as_secs(), 2 * 3600 + 4 * 60);
        assert!(!class.settings.reject && !class.settings.ecn_normal);
        assert_eq!(
            (class.shards[0].weight, class.shards[0].draining),
            (1, false)
        );
        assert!(class.shards[0].is_active());
    }
    // What the datapath's own default is.
    assert_eq!(spec.classes()[0].settings.pin_idle, PinIdle::default());
    assert_eq!(spec.classes()[0].settings, Default::default());
}

#[test]
fn the_nodes_ecn_is_that_of_its_classes() {
    let normal = with(small(), "/encap", json!({"ecn": "normal"}));
    let normal = with(normal, "/classes/0/ecn", json!("normal"));
    assert!(accept(&normal)
        .classes()
        .iter()
        .all(|class| class.settings.ecn_normal));
    // NAT66 where the document does not name it as well, and its canonical form says so.
    let unnamed = with(normal, "/classes", json!([]));
    let spec = accept(&unnamed);
    assert!(spec.classes()[0].settings.ecn_normal);
    let canonical = serde_json::from_slice(&spec.to_canonical_json()).unwrap();
    assert_eq!(accept(&canonical), spec);
    let one = accept_in(small(), "/classes/1/ecn", json!("normal"));
    let of_classes: Vec<_> = one
        .classes()
        .iter()
        .map(|class| class.settings.ecn_normal)
        .collect();
    assert_eq!(of_classes, [false, true]);
    assert_eq!(one.encap().ecn, Ecn::Compatibility);
}

#[test]
fn nat66_is_a_class_though_a_document_may_not_name_it() {
    let document = with(
        small(),
        "/classes",
        json!([{"class": "64:ff9b::/96", "shards": []}]),
    );
    let spec = accept(&document);
    let classes: Vec<_> = spec.classes().iter().map(|one| one.class).collect();
    assert_eq!(classes[0], Class::Nat66);
    assert_eq!(classes[1].to_string(), "nat64:64:ff9b::/96");
    assert_eq!(spec.classes()[0].shards, []);
    assert_eq!(spec.classes()[0].pointer(), "/classes");
    assert_eq!(spec.classes()[1].pointer(), "/classes/0");
    let none = accept_in(small(), "/classes", json!([]));
    assert_eq!(none.classes().len(), 1);
}

#[test]
fn tenants_hash_by_their_table_and_get_a_sixteenth_of_the_pins() {
    let document = with(small(), "/limits", json!({"pins": 160_000}));
    let tenant = accept(&document).tenants()[0].clone();
    assert_eq!(tenant.hash_table, HashTable(42));
    assert_eq!(tenant.pin_quota, PinQuota(10_000));
    assert!(tenant.icmp && !tenant.mss);
    let few = accept_in(small(), "/limits", json!({"pins": 1}));
    assert_eq!(few.tenants()[0].pin_quota, PinQuota(1024));
    let other = accept_in(small(), "/tenants/0/hash_table", json!(7));
    assert_eq!(other.tenants()[0].hash_table, HashTable(7));
}
