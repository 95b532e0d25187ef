// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which build of this library a pinned program is of.
//!
//! The kernel's tag of a program is a hash over its instructions alone: two programs of the same tag
//! may have other constants. So what a program was made of is kept beside it, as a frozen record
//! that is pinned under the program's number.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::program::Program;
use super::record::{self, RecordError};
use super::statedir::{Section, StateDir};
use super::SysError;

/// Name of the record, in the kernel's listings.
const RECORD: &str = "gw_build";
/// What the pin's name begins with.
const PIN: &str = "build-";

/// What a program was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Build {
    /// Hash over the instructions and constants of its object, 16 hexadecimal digits.
    pub digest: String,
    /// Version of the library.
    pub version: String,
}

impl Build {
    /// This build's object with this hash.
    pub(super) fn this(digest: &str) -> Self {
        Self {
            digest: digest.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Whether both make the same program, whatever their versions are called.
    pub fn makes_the_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Name of the pin, in the section of programs, of what is known of a program.
    pub fn pin(program_id: u32) -> String {
        format!("{PIN}{program_id}")
    }

    /// The program that a pin of this name tells of.
    pub(super) fn program_of(pin: &str) -> Option<u32> {
        pin.strip_prefix(PIN)?.parse().ok()
    }

    /// Stores it beside `program`; `pin` gives the path of a name.
    pub(crate) fn store(
        &self,
        program: &Program,
        pin: impl FnOnce(&str) -> std::path::PathBuf,
    ) -> Result<(), SysError> {
        // Plain data with text keys always serialises.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let record = record::write(RECORD, &bytes)?;
        record.pin(&pin(&Self::pin(program.id())))
    }

    /// What is known of a pinned program; none if nothing is, as of one that was loaded by a build
    /// which kept no such record, or if there is something else in its place.
    ///
    /// # Errors
    /// The kernel refuses to read it.
    pub fn of(dir: &StateDir, program_id: u32) -> Result<Option<Self>, SysError> {
        let path = dir.pin(Section::Programs, &Self::pin(program_id));
        match record::read(&path, RECORD) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(RecordError::Sys(error)) => Err(error),
            Err(RecordError::Open(_) | RecordError::Corrupt { .. }) => Ok(None),
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of version {}", self.digest, self.version)
    }
}
