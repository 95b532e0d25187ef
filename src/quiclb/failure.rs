// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The document that tells of an error.

use serde::Serialize;

use crate::error::ErrorKind;
use crate::service::Faults;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ErrorDocument {
    /// Names this form.
    pub schema: ErrorSchema,
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// What is the matter.
    pub message: String,
    /// What it was about: an instance, a file, an interface.
    pub object: Option<String>,
    /// Everything that is wrong with a document or with the machine.
    pub faults: Vec<ErrorFault>,
}

/// Names the form of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ErrorSchema {
    /// The first form.
    #[serde(rename = "guideway.error/v1")]
    V1,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorFault {
    /// JSON pointer (RFC 6901) to the member of the document at fault, or the object of the check
    /// that failed.
    pub pointer: String,
    /// Machine name of the fault or check.
    pub code: String,
    /// What is wrong with it.
    pub message: String,
}

impl ErrorDocument {
    /// An error of this kind, about nothing in particular and without faults.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            schema: ErrorSchema::V1,
            kind,
            message: message.into(),
            object: None,
            faults: Vec::new(),
        }
    }

    /// Adds the faults of a document.
    pub fn with_faults(mut self, faults: &Faults) -> Self {
        self.faults.extend(faults.iter().map(|fault| ErrorFault {
            pointer: fault.pointer.clone(),
            code: fault.code.to_string(),
            message: fault.message.clone(),
        }));
        self
    }
}
