// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whatever comes in: no panic, and what is accepted is sound.

use guideway::addr::MacAddr;
use guideway::egress_spec::{InterfaceFacts, Spec};
use proptest::prelude::*;
use serde_json::{json, Value};

use super::edit::pointers;
use super::{schema, small, with, EXAMPLE, FULL};

/// Values that are near to right, or as far away as can be.
fn value() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        "é",
        "\u{0}",
        "\u{202e}",
        "a/b",
        "tap0",
        "uplink0",
        "guideway.egress.spec/v1",
        "nat66",
        "nat64:",
        "nat64:64:ff9b::/96",
        "64:ff9b::/96",
        "2001:db8:64::/96",
        "::/0",
        "0.0.0.0/0",
        "::/129",
        "10.0.0.0/99999999999999999999",
        "10.0.0.1/8",
        "pass",
        "block",
        "unreachable",
        "unlimited",
        "zero",
        "copy",
        "normal",
        "compatibility",
        "source",
        "flow",
        "standard",
        "compat",
        "0x2a5",
        "0x",
        "0xffffffffffffffffffff",
        "0s",
        "30d",
        "31d",
        "99999999999999999999d",
        "2001:db8:ff09:10:e000::",
        "2001:db8:ff09:10:e2a5::",
        "2001:db8:ff09:11:e000::",
        "fe80::1",
        "192.0.2.1",
        "02:00:00:00:00:10",
        "ff:ff:ff:ff:ff:ff",
        "00:00:00:00:00:00",
    ]);
    let numbers = prop::sample::select(vec![
        0,
        1,
        2,
        42,
        63,
        64,
        255,
        256,
        1021,
        1319,
        1320,
        4095,
        4096,
        65_535,
        65_536,
        65_537,
        4_194_304,
        4_294_967_295,
        4_294_967_296,
        u64::MAX,
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        numbers.prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Judges any text, and holds what is accepted or refused to what both promise.
fn judge(text: &[u8]) {
    match Spec::from_json(text) {
        Ok(spec) => {
            let canonical = spec.to_canonical_json();
            let again = Spec::from_json(&canonical);
            assert_eq!(again.as_ref(), Ok(&spec));
            assert_eq!(again.unwrap().to_canonical_json(), canonical);
            assert!(schema::allows(&serde_json::from_slice(text).unwrap()));
            assert!(schema::allows(&serde_json::from_slice(&canonical).unwrap()));
            spec.warnings();
            resolve(&spec);
        }
        Err(faults) => {
            assert!(!faults.as_slice().is_empty());
            assert!(faults.iter().all(|fault| fault.message.len() < 400));
        }
    }
}

/// Interfaces that all exist make no faults but those of two names of one.
fn resolve(spec: &Spec) {
    let facts = |name: &guideway::id::InterfaceName| {
        let number = name.as_str().bytes().fold(7_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        Some(InterfaceFacts {
            ifindex: number | 1,
            mac: MacAddr::new([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
        })
    };
    match spec.resolve(facts) {
        Ok(resolved) => {
            assert_eq!(resolved.tenants.len(), spec.tenants().len());
            for tenant in &resolved.tenants {
                // No class without a route.
                let routes = tenant.with_classes(&resolved.classes);
                assert!(routes.len() >= resolved.classes.iter().len());
            }
        }
        Err(faults) => assert!(faults
            .iter()
            .all(|fault| fault.code.as_str() == "duplicate")),
    }
    let missing = spec.resolve(|_| None).err();
    let mut missing = missing.iter().flatten();
    assert!(missing.all(|fault| fault.code.as_str() == "no-interface"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        judge(&bytes);
    }

    #[test]
    fn any_value(value in value()) {
        judge(value.to_string().as_bytes());
    }

    /// One to three members of a sound document replaced.
    #[test]
    fn near_misses(changes in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..4)) {
        for text in [EXAMPLE, FULL] {
            let mut document: Value = serde_json::from_str(text).unwrap();
            for (index, value) in &changes {
                let mut all = Vec::new();
                pointers(&document, "", &mut all);
                let pointer = index.get(&all);
                // A name of the document with a '/' in it is no pointer as it stands.
                if let Some(place) = document.pointer_mut(pointer) {
                    *place = value.clone();
                }
            }
            judge(document.to_string().as_bytes());
        }
    }

    #[test]
    fn damaged_text(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        for (index, byte) in &damage {
            *index.get_mut(&mut bytes) = *byte;
        }
        judge(&bytes);
        bytes.truncate(end.index(bytes.len()));
        judge(&bytes);
    }
}

#[test]
fn deep_nesting_is_refused_as_text() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [127, 128, 100_000] {
            judge(format!("{}1{}", open.repeat(depth), close.repeat(depth)).as_bytes());
            judge(open.repeat(depth).as_bytes());
        }
    }
}

#[test]
fn every_member_given_twice_is_seen() {
    let mut all = Vec::new();
    let document: Value = serde_json::from_str(FULL).unwrap();
    pointers(&document, "", &mut all);
    let mut checked = 0;
    for pointer in all {
        let Some(Value::Object(members)) = document.pointer(&pointer) else {
            continue;
        };
        for (name, value) in members {
            // The object with one member twice, in the text of the document.
            let mut text = serde_json::to_string(members).unwrap();
            text.truncate(text.len() - 1);
            text.push_str(&format!(",{}:{value}}}", json!(name)));
            let marked = match pointer.as_str() {
                "" => "\"HERE\"".to_owned(),
                pointer => with(document.clone(), pointer, json!("HERE")).to_string(),
            };
            let text = marked.replace("\"HERE\"", &text);
            let faults = Spec::from_json(text.as_bytes()).unwrap_err();
            let codes: Vec<_> = faults.iter().map(|fault| fault.code.as_str()).collect();
            assert_eq!(codes, ["duplicate-member"], "{pointer} {name}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn faults_of_a_large_document_are_all_found_and_each_is_short() {
    let routes: Vec<Value> = (0..20_000)
        .map(|_| json!({"prefix": "x".repeat(1000), "to": "y".repeat(1000), "z".repeat(100): 1}))
        .collect();
    let document = with(small(), "/tenants/0/routes", json!(routes));
    let faults = Spec::from_json(document.to_string().as_bytes()).unwrap_err();
    assert_eq!(faults.as_slice().len(), 20_000 * 3);
    assert!(faults.iter().all(|fault| fault.message.len() < 300));
}
