// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The one text of a specification, and its digest.

use guideway::egress_spec::Spec;
use serde_json::{json, Value};

use super::{accept, small, two_tenants, with, EXAMPLE, FULL};

const FULL_CANONICAL: &str = include_str!("../data/egress_spec/full.canonical.json");

fn spec(text: &str) -> Spec {
    Spec::from_json(text.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn canonical(spec: &Spec) -> String {
    String::from_utf8(spec.to_canonical_json()).unwrap()
}

#[test]
fn every_member_is_written_in_one_form_and_place() {
    assert_eq!(canonical(&spec(FULL)), FULL_CANONICAL.trim_end());
}

#[test]
fn it_is_a_fixed_point() {
    for text in [EXAMPLE, FULL] {
        let spec = spec(text);
        let again = accept(&serde_json::from_slice(&spec.to_canonical_json()).unwrap());
        assert_eq!(again, spec);
        assert_eq!(canonical(&again), canonical(&spec));
        // What is known of a document only, where values stood, tells nothing.
        let pointers = |spec: &Spec| {
            let mut codes: Vec<_> = spec.warnings().iter().map(|one| one.code).collect();
            codes.sort();
            codes
        };
        assert_eq!(pointers(&again), pointers(&spec));
    }
}

#[test]
fn digests_are_sha_256_of_the_canonical_text() {
    // By sha256sum.
    assert_eq!(
        spec(FULL).digest().to_string(),
        "7b39b72482dd7bcc46ba56a5bd2b4ec5a401bca72dd55e0ef76e6ab9e66bdba2"
    );
}

#[test]
fn order_in_lists_means_nothing_but_for_classes() {
    let reversed = |document: &Value, pointer: &str| {
        let mut document = document.clone();
        let list = document.pointer_mut(pointer).and_then(Value::as_array_mut);
        list.unwrap().reverse();
        document
    };
    let full: Value = serde_json::from_str(FULL).unwrap();
    let spec = accept(&full);
    for pointer in [
        "/tenants",
        "/classes/0/shards",
        "/tenants/0/interfaces",
        "/tenants/0/routes",
    ] {
        let other = accept(&reversed(&full, pointer));
        assert_eq!(other, spec, "{pointer}");
        assert_eq!(other.digest(), spec.digest(), "{pointer}");
    }
    assert_ne!(accept(&reversed(&full, "/classes")), spec);
}

#[test]
fn forms_of_one_value_are_one() {
    let base = accept(&two_tenants());
    for (pointer, value) in [
        ("/tenants/0/argument", json!(0x2a5)),
        ("/tenants/0/argument", json!("0X02A5")),
        ("/tenants/1/interfaces/0", json!({"name": "tap1"})),
        ("/classes/1/class", json!("nat64:64:ff9b::/96")),
        ("/classes/1/class", json!("0064:ff9b:0::/96")),
        ("/classes/0/pin_idle", json!("2h4m")),
        (
            "/classes/0/shards/0/next_hop/destination",
            json!("02:00:00:00:00:10"),
        ),
        (
            "/encap",
            json!({"profile": "standard", "dscp": "copy", "hop_limit": 64}),
        ),
        ("/tenants/0/routes/0/prefix", json!("10.0.0.0/08")),
    ] {
        let other = accept(&with(two_tenants(), pointer, value));
        assert_eq!(other, base, "{pointer}");
    }
    assert_ne!(accept(&small()), base);
}
