// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the schema refuses the program refuses, and what the program writes the schema takes.

use guideway::affinity::ReadOptions;
use guideway::quiclb::schema;
use serde_json::{json, Value};

use super::{accepted, read, sound, with, without};

fn validator() -> jsonschema::Validator {
    let schema: Value =
        serde_json::from_str(schema::named("affinity").expect("a schema")).expect("JSON");
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema")
}

#[test]
fn what_is_written_is_valid() {
    let validator = validator();
    assert!(validator.is_valid(&sound()));
    let written: Value = serde_json::from_slice(&accepted(&sound()).to_json()).expect("JSON");
    assert!(validator.is_valid(&written));
}

#[test]
fn what_is_invalid_is_refused() {
    let validator = validator();
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(65536),
        json!(4294967296_u64),
        json!(""),
        json!("x"),
        json!("0"),
        json!("00".repeat(21)),
        json!("203.0.113.80"),
        json!([]),
        json!({}),
        json!([1]),
        json!([{}]),
    ];
    let mut refused = 0;
    let mut members = Vec::new();
    for (object, names) in [
        ("", "schema exported_at instance services"),
        ("/services/1", "id name vip protocol port bindings"),
        ("/services/1/bindings/0", "cid backend origin last_seen_ns"),
    ] {
        members.extend(names.split(' ').map(|name| format!("{object}/{name}")));
    }
    for pointer in &members {
        let damaged = values.iter().map(|value| with(pointer, value.clone()));
        for document in damaged.chain([without(pointer)]) {
            if validator.is_valid(&document) {
                continue;
            }
            refused += 1;
            let text = document.to_string();
            assert!(
                read(text.as_bytes(), &ReadOptions::default()).is_err(),
                "{pointer}: {text}"
            );
        }
    }
    // Nearly all of them: a schema that says nothing would pass otherwise.
    assert!(refused > 150, "{refused}");
}

#[test]
fn bounds_and_choices_are_in_it() {
    let validator = validator();
    for (pointer, bad) in [
        ("/schema", json!("guideway.affinity/v2")),
        ("/services/0/id", json!(0)),
        ("/services/0/vip", json!("host")),
        ("/services/0/port", json!(0)),
        ("/services/0/port", json!(65536)),
        ("/services/0/protocol", json!("sctp")),
        ("/services/0/bindings/0/cid", json!("c4600")),
        ("/services/0/bindings/0/cid", json!("00".repeat(21))),
        ("/services/0/bindings/0/backend", json!(0)),
        ("/services/0/bindings/0/backend", json!(4294967296_u64)),
        ("/services/0/bindings/0/origin", json!("traffic")),
        ("/services/0/bindings/0/last_seen_ns", json!(-1)),
        ("/exported_at", json!("yesterday")),
    ] {
        assert!(
            !validator.is_valid(&with(pointer, bad.clone())),
            "{pointer} {bad}"
        );
    }
}
