// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schema: up to date, sound, and never stricter than the program.
//!
//! `accept` and `refuse` put every document of the other tests to it as well.

use std::sync::LazyLock;

use guideway::service::schema;
use jsonschema::Validator;
use serde_json::{json, Value};

use super::{server_id, tuple, with, EXAMPLE, FULL};

/// Whether the schema has nothing against the document.
pub(crate) fn allows(document: &Value) -> bool {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
        let schema: Value = serde_json::from_str(schema::SPEC).unwrap();
        jsonschema::draft202012::new(&schema).unwrap()
    });
    VALIDATOR.is_valid(document)
}

#[test]
fn the_file_is_the_generated_one() {
    if std::env::var_os("GUIDEWAY_WRITE_SCHEMAS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/service/schema/spec.json");
        std::fs::write(path, schema::generate_spec()).unwrap();
    }
    let hint = "run this test with GUIDEWAY_WRITE_SCHEMAS=1 to write the file anew";
    assert!(schema::SPEC == schema::generate_spec(), "{hint}");
}

#[test]
fn it_is_a_schema_of_its_dialect() {
    let schema: Value = serde_json::from_str(schema::SPEC).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
}

#[test]
fn it_allows_the_examples() {
    assert!(allows(&serde_json::from_str(EXAMPLE).unwrap()));
    assert!(allows(&serde_json::from_str(FULL).unwrap()));
}

#[test]
fn it_refuses_forms_that_other_tests_leave_to_the_program() {
    for (document, pointer, value) in [
        (tuple(), "/interface", json!("")),
        (tuple(), "/interface", json!("..")),
        (tuple(), "/interface", json!("a/b")),
        (tuple(), "/interface", json!("a b")),
        (tuple(), "/interface", json!("sixteen-bytes-xy")),
        (tuple(), "/services/0/maglev_table_size", json!(250)),
        (tuple(), "/services/0/maglev_table_size", json!(65_538)),
        (tuple(), "/services/0/flow_idle", json!(0)),
        (tuple(), "/services/0/flow_idle", json!(604_801)),
        (tuple(), "/services/0/flow_idle", json!("90")),
        (tuple(), "/services/0/flow_idle", json!("")),
        (tuple(), "/services/0/handshake_grace", json!(61)),
        (server_id(), "/services/0/quic/quarantine", json!("1w")),
        (
            tuple(),
            "/services/0/backends/0/mac",
            json!("02:00:00:00:01:+f"),
        ),
        (
            server_id(),
            "/services/0/backends/0/server_id",
            json!("000102030405060708090a0b0c0d0e0f"),
        ),
    ] {
        let document = with(document, pointer, value);
        assert!(!allows(&document), "{document}");
    }
}
