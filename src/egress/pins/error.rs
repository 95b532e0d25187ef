// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why pins could not be read or removed.

use crate::error::ErrorKind;
use crate::kernel::SysError;
use crate::route::RowError;

/// Why a pin could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The row is none that a program of this library writes.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The kernel refused the call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl ReadError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Row(_) => ErrorKind::Incompatible,
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Why a pass over the pins was not made, or not to its end. What it has removed is counted in the
/// kernel all the same; the next pass does the rest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The program came back before the end of the table.
    #[error("{program} broke off with result {result}")]
    #[non_exhaustive]
    Broken {
        /// The program.
        program: String,
        /// What it returned.
        result: u32,
    },
    /// The kernel refused the call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl SweepError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Broken { .. } => ErrorKind::Kernel,
            Self::Sys(error) => error.kind(),
        }
    }
}
