// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whatever comes in: no panic, no secret in a message, and what is accepted is sound.

use guideway::service::{Spec, SpecDraft};
use proptest::prelude::*;
use serde_json::{json, Value};

use super::edit::pointers;
use super::{schema, EXAMPLE, FULL};

/// Values that are near to right, or as far away as can be.
fn value() -> impl Strategy<Value = Value> {
    let texts = prop::sample::select(vec![
        "",
        ".",
        "..",
        "a",
        "a/b",
        "é",
        "\u{0}",
        "\u{202e}",
        "udp",
        "tcp",
        "tuple",
        "learned",
        "server-id",
        "route",
        "source",
        "all",
        "exceptions",
        "drop",
        "ready",
        "0a",
        "ed793a",
        "zz",
        "éé",
        "1s",
        "7d",
        "5s",
        "8d",
        "1d1d",
        "203.0.113.80",
        "2001:db8::50",
        "::1",
        "ffff::",
        "02:00:00:00:01:01",
        "02:00:00:00:01:+f",
        "99999999999999999999s",
        "00112233445566778899AABBCCDDEEFF",
        "1d9016f2-8957-42bc-9dd7-32d684d76446",
    ]);
    let numbers = prop::sample::select(vec![
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        12,
        16,
        20,
        21,
        80,
        251,
        443,
        1024,
        4093,
        65_535,
        65_537,
        604_800,
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
            assert_eq!(Spec::from_json(&canonical).as_ref(), Ok(&spec));
            assert_eq!(Spec::new(&SpecDraft::from(&spec)).as_ref(), Ok(&spec));
            assert!(schema::allows(&serde_json::from_slice(text).unwrap()));
            assert!(schema::allows(&serde_json::from_slice(&canonical).unwrap()));
            spec.warnings();
        }
        Err(faults) => {
            assert!(!faults.as_slice().is_empty());
            let text = faults.to_string().to_lowercase();
            // The ends of the secrets of the document.
            for secret in ["0a0b0c0d0e0f", "256934e50c66207f"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
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
fn faults_of_a_large_document_are_all_found_and_each_is_short() {
    let backends: Vec<Value> = (0..20_000)
        .map(|_| json!({"id": 0, "x".repeat(100): 1}))
        .collect();
    let document = json!({
        "instance_id": "x".repeat(1_000_000),
        "interface": "edge0",
        "services": [{"name": "a", "vip": "10.0.0.1", "port": 1, "backends": backends}],
    });
    let faults = Spec::from_json(document.to_string().as_bytes()).unwrap_err();
    // The number of backends, and for each its id, the unknown member and two missing ones.
    assert_eq!(faults.as_slice().len(), 1 + 1 + 20_000 * 4);
    assert!(faults.iter().all(|fault| fault.message.len() < 200));
}
