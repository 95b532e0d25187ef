// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What command lines have in common.

use std::ffi::OsString;

use clap::ValueEnum;

/// The help's words on exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  error: nothing was done, unless the message says so
  2  usage: the command line makes no sense
  3  partial: some of it was done, the output says what not
  4  refused: somebody else has the interface or the lock, the plan is stale, or the state is of
     another version; nothing was changed
  5  degraded: done, and something is wrong that the output tells";

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON object on one line; of a verb that goes on or lists, one per line.
    #[value(alias = "jsonl")]
    Json,
}

/// What clap has to say, without its mark of an error.
pub(crate) fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.trim_end()
        .strip_prefix("error: ")
        .unwrap_or(&text)
        .to_owned()
}

/// Whether a command line that cannot be read asks for JSON.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    let mut json = false;
    let mut arguments = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy());
    while let Some(argument) = arguments.next() {
        match argument.as_ref() {
            "--" => break,
            "-o" | "--output" => json = arguments.next().is_some_and(|form| is_json(&form)),
            other => {
                let form = ["--output=", "-o=", "-o"]
                    .iter()
                    .find_map(|flag| other.strip_prefix(flag));
                json |= form.is_some_and(is_json);
            }
        }
    }
    json
}

/// Whether a text names the form, as [`Form::Json`] does.
fn is_json(form: &str) -> bool {
    matches!(form, "json" | "jsonl")
}
