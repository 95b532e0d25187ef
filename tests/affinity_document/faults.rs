// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every fault is named with its place.

use guideway::affinity::{DocumentError, ReadOptions};
use serde_json::{json, Value};

use super::{accepted, read, refused, sound, with, without};

const BINDING: &str = "/services/1/bindings/1";

/// The pointer, code and message of a fault.
#[track_caller]
fn fault(document: &Value) -> (String, String, String) {
    let error = refused(document);
    let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
    let text = format!("{}: {}", fault.pointer, fault.message);
    assert!(error.to_string().starts_with(&text), "{error}");
    (
        fault.pointer.clone(),
        fault.code.to_string(),
        fault.message.clone(),
    )
}

#[test]
fn values_that_a_member_must_not_have() {
    let binding = |member: &str| format!("{BINDING}/{member}");
    let service = |member: &str| format!("/services/0/{member}");
    let cid = |digits: usize| {
        format!("must be 2 to 40 hexadecimal digits, an even number, got {digits} characters")
    };
    let id = |found: &str| format!("must be an integer from 1 to 4294967295, got {found}");
    let cases: Vec<(String, Value, &str, String)> = vec![
        (binding("cid"), json!(""), "hex", cid(0)),
        (binding("cid"), json!("0"), "hex", cid(1)),
        (binding("cid"), json!("000"), "hex", cid(3)),
        (binding("cid"), json!("00".repeat(21)), "hex", cid(42)),
        (binding("cid"), json!("00".repeat(2000)), "hex", cid(4000)),
        (
            binding("cid"),
            json!("c4g0"),
            "hex",
            "must be hexadecimal digits, character 2 is none".into(),
        ),
        (
            binding("cid"),
            json!("+f00"),
            "hex",
            "must be hexadecimal digits, character 0 is none".into(),
        ),
        (
            binding("cid"),
            json!("\u{ff10}0"),
            "hex",
            "must be hexadecimal digits, character 0 is none".into(),
        ),
        (binding("backend"), json!(0), "range", id("0")),
        (binding("backend"), json!(-1), "range", id("-1")),
        (
            binding("backend"),
            json!(4294967296_u64),
            "range",
            id("4294967296"),
        ),
        (binding("backend"), json!(1.5), "range", id("1.5")),
        (binding("backend"), json!(1.0), "range", id("1.0")),
        (
            binding("backend"),
            json!("1"),
            "type",
            "invalid type: string \"1\", expected an integer from 1 to 4294967295".into(),
        ),
        (
            binding("backend"),
            json!(null),
            "type",
            "invalid type: null, expected an integer from 1 to 4294967295".into(),
        ),
        (
            binding("origin"),
            json!("traffic"),
            "enum",
            "must be one of learned, registered, imported, got traffic".into(),
        ),
        (
            binding("last_seen_ns"),
            json!(-5),
            "range",
            "must be an integer from 0 to 18446744073709551615, got -5".into(),
        ),
        (
            binding("last_seen_ns"),
            json!(1e20),
            "range",
            "must be an integer from 0 to 18446744073709551615, got 1e20".into(),
        ),
        (service("id"), json!(0), "range", id("0")),
        (
            service("name"),
            json!(["a"]),
            "type",
            "invalid type: sequence, expected a string".into(),
        ),
        (
            service("vip"),
            json!("203.0.113.256"),
            "address",
            "is not an IPv4 or IPv6 address, got 203.0.113.256".into(),
        ),
        (
            service("protocol"),
            json!("UDP"),
            "enum",
            "must be one of udp, tcp, got UDP".into(),
        ),
        (
            service("port"),
            json!(65536),
            "range",
            "must be an integer from 1 to 65535, got 65536".into(),
        ),
        (
            service("bindings"),
            json!({}),
            "type",
            "invalid type: map, expected an array".into(),
        ),
        (
            "/services".into(),
            json!(null),
            "type",
            "invalid type: null, expected an array".into(),
        ),
        (
            "/services/1".into(),
            json!(7),
            "type",
            "invalid type: integer `7`, expected an object".into(),
        ),
        (
            "/services/1/bindings/0".into(),
            json!("00"),
            "type",
            "invalid type: string \"00\", expected an object".into(),
        ),
        (
            "/exported_at".into(),
            json!("yesterday"),
            "type",
            "must be a time such as 2026-07-31T08:00:00Z, got yesterday".into(),
        ),
    ];
    for (pointer, value, code, message) in cases {
        let found = fault(&with(&pointer, value.clone()));
        assert_eq!(
            found,
            (pointer.clone(), code.to_owned(), message),
            "{pointer} {value}"
        );
    }
}

#[test]
fn members_that_are_missing_doubled_or_unknown() {
    for pointer in [
        "/exported_at",
        "/instance",
        "/services",
        "/services/0/id",
        "/services/0/name",
        "/services/0/vip",
        "/services/0/protocol",
        "/services/0/port",
        "/services/0/bindings",
        "/services/1/bindings/1/cid",
        "/services/1/bindings/1/backend",
        "/services/1/bindings/1/origin",
        "/services/1/bindings/1/last_seen_ns",
    ] {
        let (at, code, message) = fault(&without(pointer));
        assert_eq!((at.as_str(), code.as_str()), (pointer, "missing"));
        assert_eq!(message, "is missing");
    }
    let text = sound().to_string();
    let doubled = [
        (
            "\"port\":443",
            "\"port\":443,\"port\":443",
            "/services/0/port",
        ),
        (
            "\"cid\":\"00\"",
            "\"cid\":\"00\",\"cid\":\"00\"",
            "/services/1/bindings/0/cid",
        ),
        (
            "\"instance\"",
            "\"instance\":\"a\",\"instance\"",
            "/instance",
        ),
    ];
    for (from, to, pointer) in doubled {
        let twice = text.replacen(from, to, 1);
        assert_ne!(twice, text);
        let error = read(twice.as_bytes(), &ReadOptions::default()).expect_err("doubled");
        let fault = error.fault().expect("a fault");
        assert_eq!(
            (fault.pointer.as_str(), fault.code.as_str()),
            (pointer, "duplicate-member")
        );
    }

    let mut strict = ReadOptions::default();
    strict.strict = true;
    for (pointer, shown) in [
        ("/note", "note"),
        ("/services/1/weight", "weight"),
        ("/services/0/bindings/1/row", "row"),
        ("/services/0/bindings/1/a~b", "a~b"),
    ] {
        let document = with(pointer, json!({"deep": [[[{"x": -1.5e300}]]]}));
        assert_eq!(accepted(&document), accepted(&sound()), "{pointer}");
        let error = read(document.to_string().as_bytes(), &strict).expect_err(pointer);
        let fault = error.fault().expect("a fault");
        assert_eq!(fault.pointer, pointer.replace('~', "~0"));
        assert_eq!(fault.code.as_str(), "unknown");
        assert_eq!(fault.message, format!("unknown field {shown}"));
    }
    assert!(read(sound().to_string().as_bytes(), &strict).is_ok());
}

#[test]
fn other_kinds_of_document_and_later_versions_are_told_apart() {
    for (schema, newer) in [
        ("guideway.affinity/v2", true),
        ("guideway.affinity/v10", true),
        ("guideway.affinity/v01", false),
        ("guideway.affinity/v", false),
        ("guideway.affinity/v1x", false),
        ("guideway.affinity/v1 ", false),
        ("guideway.quiclb.status/v1", false),
        ("", false),
    ] {
        let error = refused(&with("/schema", json!(schema)));
        match (&error, newer) {
            (DocumentError::NewerSchema { found, .. }, true) => assert_eq!(found, schema),
            (DocumentError::OtherSchema { found, .. }, false) => assert_eq!(found, schema),
            _ => panic!("{schema}: {error:?}"),
        }
        assert!(
            error.to_string().contains("guideway.affinity/v1"),
            "{error}"
        );
    }
    let (pointer, code, _) = fault(&without("/schema"));
    assert_eq!((pointer.as_str(), code.as_str()), ("/schema", "missing"));
    // The version comes first: what else a later one says is not judged.
    let later = r#"{"schema": "guideway.affinity/v2", "services": {"by": "name"}}"#;
    let error = read(later.as_bytes(), &ReadOptions::default()).expect_err("newer");
    assert!(
        matches!(error, DocumentError::NewerSchema { .. }),
        "{error}"
    );
}

#[test]
fn rows_of_flows_are_refused_unless_they_are_to_be_left_out() {
    for flows in [
        json!([]),
        json!(null),
        json!([{"service": 7, "address": "198.51.100.7"}]),
    ] {
        let document = with("/flows", flows);
        assert_eq!(refused(&document), DocumentError::Flows);
        let mut options = ReadOptions::default();
        options.without_flows = true;
        options.strict = true;
        let read = read(document.to_string().as_bytes(), &options).expect("without");
        assert_eq!(read, accepted(&sound()));
    }
}

#[test]
fn what_is_no_json_is_told_with_its_place() {
    for (text, place) in [
        ("guideway", "is not JSON: expected value at line 1 column 1"),
        (
            "\u{feff}{}",
            "is not JSON: expected value at line 1 column 1",
        ),
        (
            "{\n\"schema\" \"x\"}",
            "is not JSON: expected `:` at line 2 column 10",
        ),
        (
            "{'schema': 1}",
            "is not JSON: key must be a string at line 1 column 2",
        ),
        (
            "{\"schema\": \"guideway.affinity/v1\",\n\"services\": [1e999]}",
            "is not JSON: number out of range at line 2 column 17",
        ),
    ] {
        let error = read(text.as_bytes(), &ReadOptions::default()).expect_err(text);
        assert!(
            error
                .to_string()
                .starts_with(place.split(" at line").next().unwrap()),
            "{error}"
        );
        assert!(error.to_string().contains(" at line "), "{error}");
    }
    for text in ["[]", "7", "null", "\"guideway.affinity/v1\""] {
        let error = read(text.as_bytes(), &ReadOptions::default()).expect_err(text);
        assert_eq!(error.fault().expect("a fault").pointer, "", "{error}");
    }
    // Two documents, or one and something else, are not one.
    let text = sound().to_string();
    for rest in ["{}", "x", "\0", ",", &text] {
        let both = format!("{text}\n{rest}");
        let error = read(both.as_bytes(), &ReadOptions::default()).expect_err(rest);
        assert!(
            matches!(error, DocumentError::Json { .. }),
            "{rest}: {error}"
        );
    }
    assert!(read(
        format!(" {text}\r\n\t ").as_bytes(),
        &ReadOptions::default()
    )
    .is_ok());
}
