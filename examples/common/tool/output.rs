// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where results go: standard output.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use guideway::error::ErrorKind;
use serde::Serialize;

use super::cli::Form;
use super::failure::{Done, Failure};

/// Standard output in the form that was asked for.
pub(crate) struct Output {
    form: Form,
}

impl Output {
    pub(crate) fn new(form: Form) -> Self {
        Self { form }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Prints a result: the document, or what `text` makes of it.
    pub(crate) fn result<T: Serialize>(
        &self,
        document: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.form {
            Form::Json => json(document),
            Form::Text => text(document),
        };
        self.print(&text).map(|_| ())
    }

    /// Prints a text, with a newline at its end; whether anybody still reads.
    pub(crate) fn print(&self, text: &str) -> Result<bool, Failure> {
        let print = || {
            let mut stdout = BufWriter::new(io::stdout().lock());
            stdout.write_all(text.as_bytes())?;
            if !text.ends_with('\n') {
                stdout.write_all(b"\n")?;
            }
            stdout.flush()
        };
        match print() {
            Ok(()) => Ok(true),
            // Whoever read it has enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::new(ErrorKind::Io, error).about("standard output")),
        }
    }
}

/// A document as one line.
pub(crate) fn json(document: &impl Serialize) -> String {
    // Plain data with text keys always serialises.
    serde_json::to_string(document).unwrap_or_default()
}

/// Ends a run that only prints; a reader that has enough is no error.
pub(crate) fn quietly(print: impl FnOnce() -> io::Result<()>) -> ExitCode {
    match print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(1),
        _ => Done::Well.code(),
    }
}
