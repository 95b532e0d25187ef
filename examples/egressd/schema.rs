// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `schema`: the JSON Schema of a document.

use guideway::egress::schema;
use guideway::{control, quiclb};

use crate::args::SchemaArgs;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(arguments: &SchemaArgs, output: &Output) -> Result<Done, Failure> {
    let schema = match arguments.name.as_str() {
        // All tools end alike.
        "error" => Some(quiclb::schema::ERROR),
        "control-plan" => Some(control::schema::PLAN),
        name => schema::named(name),
    };
    let missing = || Failure::usage(format!("there is no schema {}", arguments.name));
    output.print(schema.ok_or_else(missing)?)?;
    Ok(Done::Well)
}
