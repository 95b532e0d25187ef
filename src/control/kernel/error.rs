// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What fails in a round of the loop, and at which stage.

use std::error::Error;
use std::fmt;

use crate::control::metrics::{Label as _, Stage};
use crate::error::ErrorKind;

/// Why the kernel's side did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct KernelError {
    kind: ErrorKind,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

impl KernelError {
    /// For this reason.
    pub fn new(kind: ErrorKind, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let cause = cause.into();
        Self { kind, cause }
    }

    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether something is otherwise than when it was planned: the next round decides anew.
    #[must_use]
    pub const fn is_race(&self) -> bool {
        matches!(self.kind, ErrorKind::StalePlan)
    }
}

/// What failed: the stage, the object and the cause.
#[derive(Debug, thiserror::Error)]
#[error("{}: {object}: {cause}", stage.name())]
#[non_exhaustive]
pub struct Failure {
    /// What the round was at.
    pub stage: Stage,
    /// What it was about: `group 3`, `route ::/0 of table 7`.
    pub object: String,
    /// Why.
    #[source]
    pub cause: KernelError,
}

impl Failure {
    /// At this stage, about this object, for this reason.
    pub fn new(stage: Stage, object: impl fmt::Display, cause: KernelError) -> Self {
        let object = object.to_string();
        Self {
            stage,
            object,
            cause,
        }
    }

    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.cause.kind()
    }
}
