// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The JSON Schema (2020-12) of a document, from the tables by which its reader works.
//!
//! It says what each member may hold by itself; rules between members are the validator's alone.
//! So a document that a schema refuses is refused by the program, but not the other way round.

use super::field::{AnyField, Shape, Table};
use super::tree::{Member, Node, Value};

/// The schema of documents whose root is such an object.
pub(crate) fn generate(id: &str, title: &str, root: &Table) -> String {
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    let mut members = vec![
        member("$schema", text(dialect)),
        member("$id", text(id)),
        member("title", text(title)),
    ];
    members.extend(table(root));
    let mut document = serde_json::to_string_pretty(&Value::Object(members)).unwrap_or_default();
    document.push('\n');
    document
}

/// The schema of an output, from its type.
#[cfg(feature = "schema")]
pub(crate) fn of<T: schemars::JsonSchema>(part: &str, name: &str) -> String {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let id = format!("urn:guideway:{part}:{name}:v1");
    schema.insert("$id".into(), id.into());
    schema.insert("title".into(), format!("{part} {name}").into());
    // Plain data with text keys always serialises.
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

fn table(table: &Table) -> Vec<Member> {
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
    members
}

fn property(field: &dyn AnyField) -> Value {
    let mut members = vec![member("description", text(field.about()))];
    // The member describes itself.
    let constraint = constraint(field.shape()).into_iter();
    members.extend(constraint.filter(|member| member.name != "description"));
    if let Some(default) = field.default() {
        members.push(member("default", default));
    }
    Value::Object(members)
}

fn constraint(shape: &Shape) -> Vec<Member> {
    match *shape {
        Shape::Text(allowed) => pattern(allowed),
        Shape::Format([only]) => vec![member("type", text("string")), member("format", text(only))],
        Shape::Format(formats) => {
            let format = |name: &&str| Value::Object(vec![member("format", text(name))]);
            vec![
                member("type", text("string")),
                member("anyOf", list(formats.iter().map(format).collect())),
            ]
        }
        Shape::Interface => {
            let mut members = pattern("^[^/ \\t\\n\\r\\f]{1,15}$");
            let reserved = list(vec![text("."), text("..")]);
            members.push(member("not", Value::Object(vec![member("enum", reserved)])));
            members
        }
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
        Shape::Object(of) => table(of),
        Shape::List { min, max, of } => vec![
            member("type", text("array")),
            member("minItems", Value::Integer(min as u64)),
            member("maxItems", Value::Integer(max as u64)),
            member("items", Value::Object(constraint(of))),
        ],
        Shape::Nullable(of) => {
            let mut members = constraint(of);
            let kind = members.iter_mut().find(|member| member.name == "type");
            if let Some(kind) = kind {
                let or_null = vec![kind.node.value.clone(), text("null")];
                kind.node.value = list(or_null);
            }
            members
        }
        Shape::AnyOf(shapes) => {
            let shapes = shapes.iter().map(|shape| Value::Object(constraint(shape)));
            vec![member("anyOf", list(shapes.collect()))]
        }
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
