// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an instance had lost, and has again.

use std::fmt;

use serde::Serialize;

use super::statedir::{Section, StateDir};

/// Something that an instance had lost, and has again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Repair {
    /// The pin.
    pub object: String,
    /// How it came back.
    pub action: RepairAction,
    /// That in words, and what is lost all the same.
    pub message: String,
}

/// How something came back that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RepairAction {
    /// The very object was pinned again: nothing is lost.
    PinnedAgain,
    /// Another one was made in its place.
    MadeAnew,
}

impl Repair {
    /// A map that the program with this number uses.
    pub(crate) fn had_back(dir: &StateDir, map: &str, program: u32) -> Self {
        let message = format!(
            "pinned again, with all that is in it: program {program} has used it all along"
        );
        Self::new(dir, Section::Maps, map, RepairAction::PinnedAgain, message)
    }

    /// A link that holds the program.
    pub(crate) fn link(dir: &StateDir, name: &str, id: u32) -> Self {
        let message = format!("pinned again: link {id} has held the program all along");
        Self::new(
            dir,
            Section::Links,
            name,
            RepairAction::PinnedAgain,
            message,
        )
    }

    /// A map that nothing had any more; `lost` says what that means.
    pub(crate) fn empty_map(dir: &StateDir, map: &str, lost: &str) -> Self {
        let message = format!("made anew and empty, as nothing had it any more: {lost}");
        Self::new(dir, Section::Maps, map, RepairAction::MadeAnew, message)
    }

    /// A program that was pinned no more.
    pub(crate) fn program(dir: &StateDir, name: &str, id: u32) -> Self {
        let message = format!("loaded anew, as program {id}, around the maps");
        Self::new(
            dir,
            Section::Programs,
            name,
            RepairAction::MadeAnew,
            message,
        )
    }

    fn new(
        dir: &StateDir,
        section: Section,
        name: &str,
        action: RepairAction,
        message: String,
    ) -> Self {
        Self {
            object: dir.pin(section, name).display().to_string(),
            action,
            message,
        }
    }
}

/// The pin, and how it came back.
impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}
