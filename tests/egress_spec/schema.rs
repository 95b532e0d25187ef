// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schema: up to date, sound, and never stricter than the program.
//!
//! `accept` and `refuse` put every document of the other tests to it as well.

use std::sync::LazyLock;

use guideway::egress_spec::schema;
use jsonschema::Validator;
use serde_json::{json, Value};

use super::{small, with};

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
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/egress_spec/schema/spec.json"
        );
        std::fs::write(path, schema::generate_spec()).unwrap();
    }
    let hint = "run this test with GUIDEWAY_WRITE_SCHEMAS=1 to write the file anew";
    assert!(schema::SPEC == schema::generate_spec(), "{hint}");
}

#[test]
fn it_is_a_schema_of_its_dialect() {
    let schema: Value = serde_json::from_str(schema::SPEC).unwrap();
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(schema["$schema"], dialect);
    assert_eq!(schema["$id"], "urn:guideway:egress:spec:v1");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
}

#[test]
fn it_refuses_forms_that_other_tests_leave_to_the_program() {
    let small = || with(small(), "/limits", json!({}));
    for (pointer, value) in [
        ("/limits/tenants", json!(65_537)),
        ("/limits/table_size", json!(65_538)),
        ("/limits/ring_bytes", json!(4095)),
        ("/classes/0/class", json!("nat44")),
        ("/classes/0/hash_group", json!(256)),
        ("/classes/0/pin_idle", json!("7440")),
        ("/classes/0/shards/0/weight", json!(65_536)),
        (
            "/classes/0/shards/0/next_hop/destination",
            json!("02:00:00:00:01:+f"),
        ),
        ("/classes/0/shards/0/next_hop/mtu", json!(65_537)),
        ("/tenants/0/table", json!(4_294_967_296_u64)),
        ("/tenants/0/argument", json!(4096)),
        ("/tenants/0/argument", json!("2a5")),
        ("/tenants/0/pin_quota", json!(u32::MAX)),
        ("/tenants/0/interfaces/0", json!("a/b")),
        ("/tenants/0/interfaces/0", json!({"name": ".."})),
        ("/tenants/0/routes/0/prefix", json!("10.0.0.0")),
        ("/tenants/0/routes/0/to", json!("drop")),
    ] {
        let document = with(small(), pointer, value);
        assert!(!allows(&document), "{document}");
    }
}

#[test]
fn what_may_be_null_says_so() {
    let schema: Value = serde_json::from_str(schema::SPEC).unwrap();
    let shards = "/properties/classes/items/properties/shards/items/properties/next_hop/type";
    assert_eq!(schema.pointer(shards), Some(&json!(["object", "null"])));
    let routes = "/properties/tenants/items/properties/routes/items/properties/to/anyOf/2/\
                  properties/next_hop/type";
    assert_eq!(schema.pointer(routes), Some(&json!("object")));
}
