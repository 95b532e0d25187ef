// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the tools have in common: how they are called, what they print, how they end.
//!
//! Exit codes: 0 done, 1 error, 2 usage, 3 partial, 4 refused, 5 degraded.

#![allow(dead_code, unused_imports)] // each tool uses a part

mod cli;
pub(crate) mod exchange;
mod failure;
pub(crate) mod input;
mod output;
pub(crate) mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub(crate) use cli::{Form, EXIT_CODES};
pub(crate) use failure::{Done, Failure};
pub(crate) use output::{json, Output};

/// Reads the command line, runs what it asks for, and reports a failure in the form asked for.
pub(crate) fn main<C: Parser>(
    form: impl FnOnce(&C) -> Form,
    run: impl FnOnce(&C, &Output) -> Result<Done, Failure>,
) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match C::try_parse_from(&arguments) {
        Ok(cli) => cli,
        // Help and version are no errors, and go where output goes.
        Err(error) if !error.use_stderr() => return output::quietly(|| error.print()),
        Err(error) => {
            let failure = Failure::usage(cli::message(&error));
            return failure.report(cli::wants_json(&arguments));
        }
    };
    let output = Output::new(form(&cli));
    match run(&cli, &output) {
        Ok(done) => done.code(),
        Err(failure) => failure.report(output.is_json()),
    }
}
