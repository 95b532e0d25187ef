// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! JSON Schemas (2020-12) of the documents that the load balancer reads.
//!
//! They say what each member may hold by itself; rules between members are the validator's alone.
//! So a document that a schema refuses is refused by the program, but not the other way round.

use super::field::{AnyField, Shape, Table};
use super::members;
use super::tree::{Member, Node, Value};

/// The schema of the specification document.
pub const SPEC: &str = include_str!("schema/spec.json");

/// The schema of the specification document, made from the table of members that the validator
/// reads by. [`SPEC`] is the same text.
pub fn generate_spec() -> String {
    let Value::Object(mut members) = table(&members::root::TABLE) else {
        // An object is what `table` makes.
        return String::new();
    };
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    let head = [
        member("$schema", text(dialect)),
        member("$id", text("urn:guideway:quiclb:spec:v1")),
        member("title", text("quiclb specification")),
    ];
    members.splice(0..0, head);
    let mut document = serde_json::to_string_pretty(&Value::Object(members)).unwrap_or_default();
    document.push('\n');
    document
}

fn table(table: &Table) -> Value {
    let properties = table
        .fields
        .iter()
        .map(|field| member(field.name(), property(*field)))
        .collect();
    let required = table.fields.iter().filter(|field| field.is_required());
    let required: Vec<Value> = required.map(|field| text(field.name())).collect();
    let mut members = vec![
        member("description", text(table.about)),
        member("type", text("object")),
        member("properties", Value::Object(properties)),
    ];
    if !required.is_empty() {
        members.push(member("required", list(required)));
    }
    members.push(member("additionalProperties", Value::Bool(false)));
    Value::Object(members)
}

fn property(field: &dyn AnyField) -> Value {
    let mut members = vec![member("description", text(field.about()))];
    members.extend(constraint(field.shape()));
    if let Some(default) = field.default() {
        members.push(member("default", default));
    }
    Value::Object(members)
}

/// No pattern uses `\s`, `\d` or `\w`, which differ between dialects, nor allows less than the
/// validator.
fn constraint(shape: &Shape) -> Vec<Member> {
    const HEX_128: &str = "^[0-9A-Fa-f]{32}$";
    const SERVER_ID: &str = "^([0-9A-Fa-f]{2}){1,15}$";
    match *shape {
        Shape::Uuid => {
            pattern("^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$")
        }
        Shape::Interface => {
            let mut members = pattern("^[^/ \\t\\n\\r\\f]{1,15}$");
            let reserved = list(vec![text("."), text("..")]);
            members.push(member("not", Value::Object(vec![member("enum", reserved)])));
            members
        }
        Shape::ServiceName => pattern("^[0-9A-Za-z][0-9A-Za-z._-]{0,62}$"),
        Shape::Address => {
            let format = |name| Value::Object(vec![member("format", text(name))]);
            vec![
                member("type", text("string")),
                member("anyOf", list(vec![format("ipv4"), format("ipv6")])),
            ]
        }
        Shape::Mac => pattern("^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"),
        Shape::Hex128 { nullable: false } => pattern(HEX_128),
        Shape::Hex128 { nullable: true } => vec![
            member("type", list(vec![text("string"), text("null")])),
            member("pattern", text(HEX_128)),
        ],
        Shape::Choice(texts) => vec![
            member("type", text("string")),
            member(
                "enum",
                list(texts.iter().map(|choice| text(choice)).collect()),
            ),
        ],
        Shape::Bool => vec![member("type", text("boolean"))],
        Shape::Integer { min, max } => integer(min, max),
        Shape::Prime { min, max } => integer(min.into(), max.into()),
        Shape::Duration { min, max } => {
            let seconds = Value::Object(integer(min, max));
            let written = pattern("^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$");
            vec![member("anyOf", list(vec![seconds, Value::Object(written)]))]
        }
        Shape::ServerIds { max } => {
            let one = || Value::Object(pattern(SERVER_ID));
            let many = vec![
                member("type", text("array")),
                member("maxItems", Value::Integer(max as u64)),
                member("items", one()),
            ];
            vec![member("anyOf", list(vec![one(), Value::Object(many)]))]
        }
        Shape::Object(of) => match table(of) {
            // The member describes itself.
            Value::Object(members) => members.into_iter().skip(1).collect(),
            _ => Vec::new(),
        },
        Shape::List { min, max, of } => vec![
            member("type", text("array")),
            member("minItems", Value::Integer(min as u64)),
            member("maxItems", Value::Integer(max as u64)),
            member("items", table(of)),
        ],
    }
}

fn pattern(pattern: &str) -> Vec<Member> {
    vec![
        member("type", text("string")),
        member("pattern", text(pattern)),
    ]
}

fn integer(min: u64, max: u64) -> Vec<Member> {
    let mut members = vec![
        member("type", text("integer")),
        member("minimum", Value::Integer(min)),
    ];
    // What ends with the type ends where JSON's own integers do.
    if max != u64::MAX {
        members.push(member("maximum", Value::Integer(max)));
    }
    members
}

fn member(name: &str, value: Value) -> Member {
    Member {
        name: name.to_owned(),
        node: Node { at: 0, value },
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn list(values: Vec<Value>) -> Value {
    Value::List(
        values
            .into_iter()
            .map(|value| Node { at: 0, value })
            .collect(),
    )
}
