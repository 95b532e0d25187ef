// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an instance had lost, and has again.

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
    pub(crate) fn pinned_again(
        dir: &StateDir,
        section: Section,
        name: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            object: dir.pin(section, name).display().to_string(),
            action: RepairAction::PinnedAgain,
            message: message.into(),
        }
    }

    /// A map that the program with this number uses.
    pub(crate) fn had_back(dir: &StateDir, map: &str, program: u32) -> Self {
        let message = format!(
            "pinned again, with all that is in it: program {program} has used it all along"
        );
        Self::pinned_again(dir, Section::Maps, map, message)
    }

    pub(crate) fn made_anew(
        dir: &StateDir,
        section: Section,
        name: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            action: RepairAction::MadeAnew,
            ..Self::pinned_again(dir, section, name, message)
        }
    }

    /// A map that nothing had any more; `lost` says what that means.
    pub(crate) fn empty_map(dir: &StateDir, map: &str, lost: &str) -> Self {
        let message = format!("made anew and empty, as nothing had it any more: {lost}");
        Self::made_anew(dir, Section::Maps, map, message)
    }

    /// A program that was pinned no more.
    pub(crate) fn program(dir: &StateDir, name: &str, id: u32) -> Self {
        let message = format!("loaded anew, as program {id}, around the maps");
        Self::made_anew(dir, Section::Programs, name, message)
    }
}
