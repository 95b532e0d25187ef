// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The document as a whole: every fault at once and in order, unknown and doubled members, text
//! that is no JSON.

use guideway::service::{FaultCode, Spec};
use serde_json::json;

use super::{faults, refuse, server_id, tuple, with, EXAMPLE};

#[test]
fn every_fault_is_reported_at_once_in_the_order_of_the_document() {
    let document = include_str!("../data/spec/faulty.json");
    let expected = include_str!("../data/spec/faulty.txt");
    let found = faults(document);
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(found, expected);
}

#[test]
fn order_is_that_of_the_text_not_of_the_rules() {
    let document = r#"{"services": [{"backends": 1, "port": 0, "vip": "x", "name": ""}],
                       "interface": "", "instance_id": "x"}"#;
    let found = faults(document);
    let pointers: Vec<&str> = found
        .iter()
        .map(|fault| fault.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        pointers,
        [
            "/services/0/backends",
            "/services/0/port",
            "/services/0/vip",
            "/services/0/name",
            "/interface",
            "/instance_id"
        ]
    );
}

#[test]
fn what_is_absent_stands_where_its_object_begins() {
    let document = r#"{"mode": "x", "services": [{"port": 0}]}"#;
    assert_eq!(
        faults(document),
        [
            "/instance_id missing: is missing",
            "/interface missing: is missing",
            "/mode enum: must be one of native, generic, offload, got x",
            "/services/0/name missing: is missing",
            "/services/0/vip missing: is missing",
            "/services/0/backends missing: is missing",
            "/services/0/port range: must be 1 to 65535, got 0",
        ]
    );
}

#[test]
fn a_faulty_member_causes_no_faults_of_rules_it_takes_part_in() {
    let document = with(server_id(), "/services/0/quic/routing", json!("sticky"));
    let message = "must be one of server-id, learned, tuple, got sticky";
    refuse(&document, "/services/0/quic/routing", "enum", message);
    let document = with(
        server_id(),
        "/services/0/quic/configs/0/server_id_len",
        json!(0),
    );
    let message = "must be 1 to 15, got 0";
    refuse(
        &document,
        "/services/0/quic/configs/0/server_id_len",
        "range",
        message,
    );
    let document = with(tuple(), "/limits", json!({"slots": 7}));
    refuse(
        &document,
        "/limits/slots",
        "range",
        "must be 251 to 65537, got 7",
    );
}

#[test]
fn unknown_members_are_refused_with_the_name_that_was_meant() {
    for (document, pointer, hint) in [
        (tuple(), "/instanceid", " (did you mean instance_id?)"),
        (tuple(), "/Mode", " (did you mean mode?)"),
        (tuple(), "/comment", ""),
        (
            with(tuple(), "/limits", json!({})),
            "/limits/flow",
            " (did you mean flows?)",
        ),
        (tuple(), "/services/0/short_dcid_length", ""),
        (
            tuple(),
            "/services/0/shortdcidlen",
            " (did you mean short_dcid_len?)",
        ),
        (tuple(), "/services/0/prot", " (did you mean port?)"),
        (
            server_id(),
            "/services/0/quic/config",
            " (did you mean configs?)",
        ),
        (server_id(), "/services/0/quic/configs/0/nonce_length", ""),
        (
            server_id(),
            "/services/0/quic/configs/0/keys",
            " (did you mean key?)",
        ),
        (
            tuple(),
            "/services/0/backends/0/wieght",
            " (did you mean weight?)",
        ),
        (
            tuple(),
            "/services/0/backends/0/server_ids",
            " (did you mean server_id?)",
        ),
    ] {
        let name = pointer.rsplit_once('/').unwrap().1;
        let message = format!("unknown field {name}{hint}");
        refuse(
            &with(document, pointer, json!(1)),
            pointer,
            "unknown",
            &message,
        );
    }
}

#[test]
fn pointers_escape_names() {
    let mut document = tuple();
    document["a/b~c"] = json!(1);
    refuse(&document, "/a~1b~0c", "unknown", "unknown field a/b~c");
    let mut document = tuple();
    document[""] = json!(1);
    refuse(&document, "/", "unknown", "unknown field \"\"");
}

#[test]
fn doubled_members_are_refused_even_if_equal() {
    let document = EXAMPLE.replacen("\"port\": 443", "\"port\": 443, \"port\": 443", 1);
    let expected = "/services/0/port duplicate-member: field port is given more than once";
    assert_eq!(faults(&document), [expected]);
    // Escapes make the same name.
    let document = EXAMPLE.replacen("\"mode\"", "\"m\\u006fde\": \"generic\", \"mode\"", 1);
    let expected = "/mode duplicate-member: field mode is given more than once";
    assert_eq!(faults(&document), [expected]);
    let document = EXAMPLE.replacen("\"id\": 1", "\"id\": 1, \"id\": 1, \"id\": 1", 1);
    assert_eq!(faults(&document).len(), 2);
}

#[test]
fn text_that_is_no_json_is_one_fault_with_its_place() {
    for (text, place) in [
        (&b""[..], "line 1 column 0"),
        (b"{", "line 1 column 1"),
        (b"{\n  \"mode\": native}", "line 2 column 12"),
        (b"{} {}", "line 1 column 4"),
        (b"{\"a\": 1,}", "line 1 column 9"),
        (b"{'a': 1}", "line 1 column 2"),
        (b"\xff", "line 1 column 1"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
        (b"{\"interface\": \"\xc3\x28\"}", "line 1 column 16"),
        (b"{\"interface\": \"\\ud800\"}", "line 1 column"),
        (b"{\"port\": 1e999}", "line 1 column 14"),
    ] {
        let faults = Spec::from_json(text).unwrap_err();
        let [fault] = faults.as_slice() else {
            panic!("{faults}")
        };
        assert_eq!((fault.pointer.as_str(), fault.code), ("", FaultCode::Json));
        assert!(fault.message.starts_with("is not JSON: "), "{fault}");
        assert!(fault.message.contains(place), "{place}: {fault}");
    }
}

#[test]
fn faults_print_as_pointer_and_text_one_a_line_and_serialise_as_objects() {
    let faults = Spec::from_json(br#"{"interface": "edge0", "services": 1}"#).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "/instance_id: is missing\n/services: must be an array, got a number"
    );
    assert_eq!(
        serde_json::to_value(&faults).unwrap(),
        json!([
            {"pointer": "/instance_id", "code": "missing", "message": "is missing"},
            {"pointer": "/services", "code": "type", "message": "must be an array, got a number"},
        ])
    );
}
