// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! JSON Schema (2020-12) of the specification document.
//!
//! It says what each member may hold by itself; rules between members are the validator's alone.
//! So a document that the schema refuses is refused by the program, but not the other way round.

use super::members;
use crate::document::schema;

/// The schema of the specification document.
pub const SPEC: &str = include_str!("schema/spec.json");

/// The schema of the specification document, made from the table of members that the validator
/// reads by. [`SPEC`] is the same text.
pub fn generate_spec() -> String {
    schema::generate(
        "urn:guideway:egress:spec:v1",
        "egress specification",
        &members::root::TABLE,
    )
}
