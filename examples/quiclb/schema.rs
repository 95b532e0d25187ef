// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `schema`: the JSON Schema of a document.

use guideway::quiclb::schema;

use crate::args::SchemaArgs;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(arguments: &SchemaArgs, output: &Output) -> Result<Done, Failure> {
    let schema = schema::named(&arguments.name)
        .ok_or_else(|| Failure::usage(format!("there is no schema {}", arguments.name)))?;
    output.print(schema)?;
    Ok(Done::Well)
}
