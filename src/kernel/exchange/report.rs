// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What reports of an exchange have in common, whatever the datapath.

use serde::Serialize;

use super::Verification;
use crate::kernel::build::Build;
use crate::kernel::program::Program;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum UpgradeKind {
    /// This build's program.
    Upgrade,
    /// The program before.
    Rollback,
}

/// Which program was exchanged for which; twice the same where nothing was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ProgramChange {
    /// The kernel's number of the program that ran before.
    pub old_program_id: u32,
    /// The kernel's number of the one that runs now.
    pub new_program_id: u32,
    /// The kernel's hash over the instructions of the program before, 16 hexadecimal digits.
    pub old_tag: String,
    /// The kernel's hash over the instructions of the program that runs now.
    pub new_tag: String,
    /// What the program before was made of; none if its build kept no record.
    pub old_build: Option<Build>,
    /// What the program that runs now was made of; none if its build kept no record.
    pub new_build: Option<Build>,
}

impl ProgramChange {
    /// The change from one program to another, with what is known of them.
    pub(crate) fn new(old: (&Program, Option<Build>), new: (&Program, Option<Build>)) -> Self {
        Self {
            old_program_id: old.0.id(),
            new_program_id: new.0.id(),
            old_tag: old.0.tag_text(),
            new_tag: new.0.tag_text(),
            old_build: old.1,
            new_build: new.1,
        }
    }
}

/// How it was seen that a program works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SeenHow {
    /// Nothing was exchanged.
    Unchanged,
    /// The program is on no interface.
    Detached,
    /// Packets were counted after the exchange.
    Counted,
    /// No packet came.
    Idle,
}

/// What was seen of a program that had taken over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Seen {
    /// How it was seen that it works.
    pub verification: SeenHow,
    /// Packets that were counted until then.
    pub packets: u64,
    /// Milliseconds that a packet was waited for.
    pub waited_ms: f64,
}

impl Seen {
    /// Of what was not exchanged, as nothing runs that could be.
    pub(crate) const DETACHED: Self = Self {
        verification: SeenHow::Detached,
        ..Self::UNCHANGED
    };

    /// Of what was not exchanged.
    pub(crate) const UNCHANGED: Self = Self {
        verification: SeenHow::Unchanged,
        packets: 0,
        waited_ms: 0.0,
    };
}

impl From<Verification> for Seen {
    fn from(verification: Verification) -> Self {
        let (verification, packets, waited) = match verification {
            Verification::Detached => (SeenHow::Detached, 0, Default::default()),
            Verification::Counted { packets, after } => (SeenHow::Counted, packets, after),
            Verification::Idle { waited } => (SeenHow::Idle, 0, waited),
        };
        Self {
            verification,
            packets,
            waited_ms: waited.as_secs_f64() * 1_000.0,
        }
    }
}
