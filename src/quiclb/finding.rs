// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is not as it should be with an instance, each thing by a code of its own.

use std::fmt;

use serde::Serialize;

pub use crate::document::severity::Severity;
use crate::plan::{Check, CheckResult};

/// Something about an instance that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Finding {
    /// Machine name.
    pub code: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a pin, an interface, a service.
    pub object: String,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(
        code: FindingCode,
        object: impl fmt::Display,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = remedy.into();
        Self {
            code,
            severity: code.severity(),
            object: object.to_string(),
            message: message.into(),
            remedy: Some(remedy).filter(|remedy| !remedy.is_empty()),
        }
    }
}

impl Finding {
    /// From a check that found something.
    pub(super) fn of(code: FindingCode, check: Check) -> Self {
        Self {
            code,
            severity: match check.result {
                CheckResult::Error => Severity::Error,
                _ => Severity::Warning,
            },
            object: check.object,
            message: check.message,
            remedy: check.remedy,
        }
    }
}

/// Defines the codes with their text, their severity, and what holds where nothing is found.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $severity:ident, $sound:literal;)+) => {
        /// Machine name of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum FindingCode { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl FindingCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code's text in documents and outputs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// How bad it is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)+ }
            }

            /// What holds where it was looked for and not found.
            pub const fn sound(self) -> &'static str {
                match self { $(Self::$variant => $sound,)+ }
            }
        }
    };
}

impl FindingCode {
    /// Whether it is only looked for where the interfaces are in sight.
    pub(super) const fn needs_interfaces(self) -> bool {
        matches!(
            self,
            Self::ForeignProgram
                | Self::OtherProgram
                | Self::ModeDrift
                | Self::UnpinnedLink
                | Self::NoRootProgram
                | Self::NoInterface
                | Self::IfindexDrift
                | Self::SourceMacDrift
                | Self::LostTarget
                | Self::TargetDown
                | Self::TargetNapi
                | Self::NoRedirectErrorsSource
        )
    }

    /// Whether it is only looked for where the program is attached.
    pub(super) const fn needs_attachment(self) -> bool {
        matches!(
            self,
            Self::OtherProgram | Self::ModeDrift | Self::NoRootProgram
        )
    }

    /// Whether it is only looked for where the program is called from a root array.
    pub(super) const fn needs_root_array(self) -> bool {
        matches!(self, Self::RootArray | Self::NoRootProgram)
    }

    /// Whether it is only looked for where a generation is live.
    pub(super) const fn needs_generation(self) -> bool {
        matches!(
            self,
            Self::Leftover
                | Self::ForeignProgram
                | Self::OtherProgram
                | Self::ModeDrift
                | Self::UnpinnedLink
                | Self::RootArray
                | Self::NoRootProgram
                | Self::NoInterface
                | Self::IfindexDrift
                | Self::SourceMacDrift
                | Self::LostTarget
                | Self::TargetDown
                | Self::TargetNapi
                | Self::MissingKey
                | Self::CidLengthMismatch
                | Self::NoCollector
                | Self::StateFills
                | Self::Refusing
                | Self::NoRedirectErrorsSource
        )
    }
}

codes! {
    /// A pin of the state directory is missing, or the program uses other maps than those pinned.
    LostPin = "lost-pin", Error, "the program and its maps are pinned and belong together";
    /// Something of somebody else's has the name of a program of the instance, to come or to go back to.
    ForeignPin = "foreign-pin", Error, "no foreign object has the name of one of its programs";
    /// Nothing is published: an attached program would pass every packet to the host.
    NoGeneration = "no-generation", Error, "a generation is live";
    /// A generation is live that nothing in the state directory describes.
    OrphanGeneration = "orphan-generation", Error, "the live generation is pinned";
    /// What was stored with the live generation cannot be read.
    UnreadableRecord = "unreadable-record", Error, "the record of the generation is readable";
    /// Pins of generations that are over, or never were.
    Leftover = "leftover", Warning, "no pins of dead generations";
    /// The pinned link holds no interface any more.
    LinkWithoutInterface = "link-without-interface", Error, "no link without an interface";
    /// The program is held by a link that is not pinned and ends with its owner.
    UnpinnedLink = "unpinned-link", Error, "no attachment that ends with a process";
    /// The interface runs another program of this instance than the pinned one.
    OtherProgram = "other-program", Error, "what runs is the pinned program";
    /// The program was loaded by another build of the library than the one that looks.
    OtherBuild = "other-build", Warning, "the program is of this build";
    /// An older build made the state, with maps of a layout that this build does not use.
    OlderLayout = "older-layout", Error, "the maps are of this build's layout";
    /// An exchange of the program was interrupted, or is under way.
    OpenExchange = "open-exchange", Warning, "no exchange of the program is open";
    /// The program runs in another mode than the specification says.
    ModeDrift = "mode-drift", Error, "the program runs in the mode of the specification";
    /// Somebody else's program is on the interface.
    ForeignProgram = "foreign-program", Error, "no foreign program on the interface";
    /// The program is not at its place in the array of the interface's owner, although it was put
    /// there, or the array is not the one that is pinned there now.
    RootArray = "root-array", Error, "the program is at its place in the root array";
    /// Nothing runs on the interface that could call the program.
    NoRootProgram = "no-root-program", Warning, "a root program runs on the interface";
    /// The interface where packets arrive does not exist here.
    NoInterface = "no-interface", Error, "the interface exists";
    /// The program is attached in another network namespace than the one that was looked at.
    OtherNamespace = "other-namespace", Warning,
        "not attached in another network namespace";
    /// An interface was made again since the generation was published.
    IfindexDrift = "ifindex-drift", Error, "all interfaces are those that were published";
    /// An interface has another address than the one that frames are sent with.
    SourceMacDrift = "source-mac-drift", Warning, "source addresses are those of the interfaces";
    /// The program may not redirect to an interface that the generation names: frames are dropped.
    LostTarget = "lost-target", Error, "the program may redirect to all interfaces";
    /// An interface of the generation is down, or what is at its other end.
    TargetDown = "target-down", Error, "all interfaces are up";
    /// The other end of a veth does not poll: frames are dropped.
    TargetNapi = "target-napi", Error, "the other ends of all veths poll";
    /// The program has not got keys of the generation: their connection IDs go by flow.
    MissingKey = "missing-key", Error, "the program has every key of the generation";
    /// The program met an inconsistency of its own.
    Internal = "internal", Error, "the program met no inconsistency";
    /// Connection IDs of another length than the specification says.
    CidLengthMismatch = "cid-length-mismatch", Warning, "connection IDs have the length agreed on";
    /// Nobody has swept the flow state for long.
    NoCollector = "no-collector", Warning, "flow state is swept in time";
    /// A table of flow state fills up: newcomers will be refused soon.
    StateFills = "state-fills", Warning, "the tables of flow state have room";
    /// A service refuses entries to newcomers.
    Refusing = "refusing", Warning, "every service admits newcomers to its flow state";
    /// Nothing tells what becomes of redirected frames.
    NoRedirectErrorsSource = "no-redirect-errors-source", Warning,
        "lost redirected frames are counted";
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
