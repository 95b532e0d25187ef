// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How a run ends: exit codes and the error object.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use guideway::error::ErrorKind;
use guideway::quiclb::{ErrorDocument, ErrorFault};
use guideway::service::Faults;

/// What the tool is called.
const TOOL: &str = env!("CARGO_BIN_NAME");

/// How a run ended that did what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// All of it.
    Well,
    /// Some of it.
    Partly,
    /// It tells of something that is wrong.
    Degraded,
}

impl Done {
    /// Done, and whether it tells of something that is wrong.
    pub(crate) fn degraded_if(errors: bool) -> Self {
        if errors {
            Self::Degraded
        } else {
            Self::Well
        }
    }

    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Well => 0,
            Self::Partly => 3,
            Self::Degraded => 5,
        })
    }
}

/// Why a run did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure(Box<ErrorDocument>);

/// The exit code of each kind of error.
fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => 2,
        ErrorKind::Partial => 3,
        ErrorKind::Occupied
        | ErrorKind::Incompatible
        | ErrorKind::StalePlan
        | ErrorKind::Locked
        | ErrorKind::Conflict => 4,
        _ => 1,
    }
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Display) -> Self {
        Self(Box::new(ErrorDocument::new(kind, message.to_string())))
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// A document with faults; `name` is what the caller calls it.
    pub(crate) fn invalid(name: impl Display, faults: &Faults) -> Self {
        let count = faults.as_slice().len();
        let plural = if count == 1 { "" } else { "s" };
        let message = format!("{name} is not accepted: {count} fault{plural}");
        let document = ErrorDocument::new(ErrorKind::Invalid, message).with_faults(faults);
        Self(Box::new(document)).about(name)
    }

    /// Names everything that is wrong.
    pub(crate) fn with_faults(mut self, faults: impl IntoIterator<Item = ErrorFault>) -> Self {
        self.0.faults.extend(faults);
        self
    }

    /// Names what it was about.
    pub(crate) fn about(mut self, object: impl Display) -> Self {
        self.0.object = Some(object.to_string());
        self
    }

    /// Says first what was done all the same.
    pub(crate) fn although(mut self, done: impl Display) -> Self {
        self.0.message = format!("{done}, only the output failed: {}", self.0.message);
        self
    }

    /// Says first what it is the reason of.
    pub(crate) fn told_as(mut self, what: impl Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Says what to do about it.
    pub(crate) fn remedy(mut self, remedy: Option<&str>) -> Self {
        if let Some(remedy) = remedy {
            self.0.message.push_str("; ");
            self.0.message.push_str(remedy);
        }
        self
    }

    /// It and everything that is wrong, on one line.
    pub(crate) fn text(&self) -> String {
        let faults = self.0.faults.iter();
        let faults = faults.map(|fault| format!("; {}: {}", fault.pointer, fault.message));
        self.0.message.clone() + &faults.collect::<String>()
    }

    /// Prints it where errors go.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let text = if json {
            // Plain data with text keys always serialises.
            serde_json::to_string(&self.0).unwrap_or_default()
        } else {
            let mut text = format!("{TOOL}: {}", self.0.message);
            for fault in &self.0.faults {
                let place = if fault.pointer.is_empty() {
                    "document"
                } else {
                    &fault.pointer
                };
                text.push_str(&format!("\n  {place}: {} [{}]", fault.message, fault.code));
            }
            text
        };
        // Nobody is left to be told of an error on the way of errors.
        let _ = writeln!(std::io::stderr(), "{text}");
        ExitCode::from(exit_code(self.0.kind))
    }
}
