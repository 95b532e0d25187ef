// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The one text of a specification, its digest, and the form that may be shown.

use guideway::service::{schema, Spec, SpecDigest};
use serde_json::{json, Value};

use super::{accept, two_services, with, EXAMPLE, FULL};

const FULL_CANONICAL: &str = include_str!("../data/spec/full.canonical.json");
/// The secrets of [`FULL`], in lower case.
const SEED: &str = "000102030405060708090a0b0c0d0e0f";
const KEY: &str = "8f95f09245765f80256934e50c66207f";

fn spec(text: &str) -> Spec {
    Spec::from_json(text.as_bytes()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn canonical(spec: &Spec) -> String {
    String::from_utf8(spec.to_canonical_json()).unwrap()
}

#[test]
fn the_shortest_document_gets_every_default() {
    let expected = concat!(
        r#"{"instance_id":"1d9016f2-8957-42bc-9dd7-32d684d76446","interface":"edge0","#,
        r#""mode":"native","hash_seed":"00000000000000000000000000000000","source_mac":"keep","#,
        r#""events_per_second":1000,"#,
        r#""limits":{"flows":1048576,"cids":262144,"slots":65537,"memory_mib":512},"#,
        r#""services":[{"name":"quic-api","vip":"203.0.113.80","port":443,"protocol":"udp","#,
        r#""short_dcid_len":8,"quic_only":true,"maglev_table_size":4093,"hash":"flow","#,
        r#""tracking":"all","flow_idle":120,"cid_idle":600,"handshake_grace":0,"#,
        r#""fragments":"drop","quic":{"routing":"learned","unknown_server_id":"drop","#,
        r#""unhealthy":"fallback","quarantine":3600},"backends":["#,
        r#"{"id":1,"interface":"vm-edge-a","mac":"02:00:00:00:01:01","weight":1,"state":"ready"},"#,
        r#"{"id":2,"interface":"vm-edge-b","mac":"02:00:00:00:01:02","weight":1,"state":"ready"}"#,
        r#"]}]}"#,
    );
    assert_eq!(canonical(&spec(EXAMPLE)), expected);
}

/// A place in an array is written where there is one, so that other texts and digests stay what they
/// were before there were any.
#[test]
fn a_place_in_an_array_is_written_where_there_is_one() {
    let document: Value = serde_json::from_str(EXAMPLE).unwrap();
    let place = json!({"index": 3, "path": "/sys/fs/bpf/roots"});
    let placed = accept(&with(document.clone(), "/root_array", place));
    let text = canonical(&placed);
    let member = r#","root_array":{"path":"/sys/fs/bpf/roots","index":3},"hash_seed""#;
    assert!(text.contains(member), "{text}");
    assert_eq!(spec(&text), placed);
    let array = placed.root_array().unwrap();
    assert_eq!(
        (array.path().to_str(), array.index()),
        (Some("/sys/fs/bpf/roots"), 3)
    );
    assert_eq!(array.to_string(), "index 3 of /sys/fs/bpf/roots");
    let without = with(document, "/root_array", Value::Null);
    assert_eq!(canonical(&accept(&without)), canonical(&spec(EXAMPLE)));
}

#[test]
fn every_member_is_written_in_one_form_and_place() {
    assert_eq!(canonical(&spec(FULL)), FULL_CANONICAL.trim_end());
}

#[test]
fn digests_are_sha_256_of_the_canonical_text() {
    // By sha256sum.
    for (text, digest) in [
        (
            EXAMPLE,
            "02da6536815252e3a39de9e1b58fcd523e0d6b220aa1dd367d3c5951dcb3eaf0",
        ),
        (
            FULL,
            "150213d441938d302ad18ecdddb5aef609fe678163b5838247bf24a9c3614179",
        ),
    ] {
        assert_eq!(spec(text).digest().to_string(), digest);
        assert_eq!(digest.parse::<SpecDigest>(), Ok(spec(text).digest()));
        assert_eq!(
            serde_json::to_value(spec(text).digest()).unwrap(),
            json!(digest)
        );
    }
}

#[test]
fn secrets_are_part_of_the_digest() {
    let other = FULL.replacen("0A0B0C0D0E0F", "0A0B0C0D0E00", 1);
    assert_ne!(spec(&other).digest(), spec(FULL).digest());
    let other = FULL.replacen("0C66207F", "0C662070", 1);
    assert_ne!(spec(&other).digest(), spec(FULL).digest());
}

#[test]
fn canonical_text_reads_back_as_the_same_specification() {
    for text in [EXAMPLE, FULL] {
        let spec = spec(text);
        let again = Spec::from_json(&spec.to_canonical_json()).unwrap();
        assert_eq!(again, spec);
        assert_eq!(again.to_canonical_json(), spec.to_canonical_json());
    }
}

#[test]
fn order_in_the_document_changes_nothing_but_pointers() {
    let document = two_services();
    let mut turned = document.clone();
    turned["services"].as_array_mut().unwrap().reverse();
    turned["services"][1]["backends"]
        .as_array_mut()
        .unwrap()
        .reverse();
    let (spec, turned) = (accept(&document), accept(&turned));
    assert_eq!(spec, turned);
    assert_eq!(spec.digest(), turned.digest());
    let pointers = |spec: &Spec| {
        let service = spec.service("a").unwrap();
        let backend = &service.backends[0];
        assert_eq!(backend.id.get(), 1);
        (service.pointer(), backend.pointer())
    };
    let expected = (
        "/services/0".to_owned(),
        "/services/0/backends/0".to_owned(),
    );
    assert_eq!(pointers(&spec), expected);
    let expected = (
        "/services/1".to_owned(),
        "/services/1/backends/1".to_owned(),
    );
    assert_eq!(pointers(&turned), expected);
}

#[test]
fn any_difference_that_counts_makes_another_digest() {
    let base = accept(&two_services()).digest();
    for (pointer, value) in [
        ("/mode", json!("generic")),
        ("/limits", json!({"flows": 1024})),
        ("/services/0/port", json!(444)),
        ("/services/1/quic", json!({"quarantine": 1})),
        ("/services/0/backends/0/weight", json!(2)),
        ("/services/0/backends/1/state", json!("draining")),
    ] {
        assert_ne!(
            accept(&with(two_services(), pointer, value)).digest(),
            base,
            "{pointer}"
        );
    }
}

#[test]
fn members_stand_in_the_order_of_the_schema() {
    // Names of a text in order; of an object in a list, those of the first entry.
    let positions = |text: &str, names: &[&str]| -> Vec<usize> {
        names
            .iter()
            .map(|name| text.find(&format!("\"{name}\":")).unwrap())
            .collect()
    };
    let properties = |marker: &str| -> Vec<String> {
        let schema: Value = serde_json::from_str(schema::SPEC).unwrap();
        let object = schema.pointer(marker).unwrap()["properties"]
            .as_object()
            .unwrap()
            .clone();
        let mut names: Vec<String> = object.keys().cloned().collect();
        // The parser forgets the order; the text has it.
        let body = schema::SPEC;
        let start = |name: &String| {
            let description = object[name]["description"].as_str().unwrap();
            body.find(&serde_json::to_string(description).unwrap())
                .unwrap()
        };
        names.sort_by_key(start);
        names
    };
    for (marker, text) in [
        ("", FULL_CANONICAL.to_owned()),
        (
            "/properties/limits",
            FULL_CANONICAL[FULL_CANONICAL.find("\"limits\"").unwrap()..].to_owned(),
        ),
        (
            "/properties/services/items",
            FULL_CANONICAL[FULL_CANONICAL.find("\"services\"").unwrap()..].to_owned(),
        ),
        (
            "/properties/services/items/properties/quic",
            FULL_CANONICAL[FULL_CANONICAL.find("\"quic\":").unwrap()..].to_owned(),
        ),
        (
            "/properties/services/items/properties/quic/properties/configs/items",
            FULL_CANONICAL[FULL_CANONICAL.find("\"configs\"").unwrap()..].to_owned(),
        ),
        (
            "/properties/services/items/properties/backends/items",
            FULL_CANONICAL[FULL_CANONICAL.find("\"backends\"").unwrap()..].to_owned(),
        ),
    ] {
        let names = properties(marker);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = positions(&text, &names);
        assert!(found.is_sorted(), "{marker}: {names:?} at {found:?}");
    }
}

#[test]
fn what_may_be_shown_holds_no_secret() {
    let shown = serde_json::to_value(spec(FULL).redacted(|_| Some([0x12, 0x34, 0xab]))).unwrap();
    let mut expected: Value = serde_json::from_str(FULL_CANONICAL).unwrap();
    expected["hash_seed"] = Value::Null;
    expected["services"][0]["quic"]["configs"][0]["key"] = json!({"kcv": "1234ab"});
    assert_eq!(shown, expected);
    let shown = serde_json::to_value(spec(FULL).redacted(|_| None)).unwrap();
    expected["services"][0]["quic"]["configs"][0]["key"] = json!({"kcv": null});
    assert_eq!(shown, expected);
}

#[test]
fn each_key_gets_its_own_check_value() {
    let document = json!([{"config_id": 2, "server_id_len": 3, "nonce_len": 8, "key": SEED},
                          {"config_id": 1, "server_id_len": 3, "nonce_len": 8},
                          {"config_id": 0, "server_id_len": 3, "nonce_len": 8, "key": KEY}]);
    let document = with(super::server_id(), "/services/0/quic/configs", document);
    let spec = accept(&with(document, "/services/0/backends", json!([])));
    let of_key = |key: &guideway::quic::lb::Key| key.secret_bytes().first_chunk().copied();
    let shown = serde_json::to_value(spec.redacted(of_key)).unwrap();
    let configs = &shown["services"][0]["quic"]["configs"];
    assert_eq!(configs[0]["key"], json!({"kcv": "8f95f0"}));
    assert_eq!(configs[1]["key"], Value::Null);
    assert_eq!(configs[2]["key"], json!({"kcv": "000102"}));
}

#[test]
fn debug_output_holds_no_secret() {
    let spec = spec(FULL);
    let draft = guideway::service::SpecDraft::from(&spec);
    let redacted = spec.redacted(|_| None);
    for text in [
        format!("{spec:?}"),
        format!("{draft:#?}"),
        format!("{redacted:?}"),
    ] {
        let text = text.to_lowercase();
        // Bytes print as decimals in lists, too.
        for secret in [SEED, KEY, "143, 149, 240", "143,\n", "0, 1, 2, 3"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
