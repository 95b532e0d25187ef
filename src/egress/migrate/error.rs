// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why an instance is not migrated.

use super::known::UnknownRoutes;
use super::plan::Shortage;
use super::Step;
use crate::egress::{AttachmentError, GuardError, InstanceError};
use crate::error::ErrorKind;
use crate::kernel::statedir::AbiVersion;

/// Why an instance is not migrated. Unless it says otherwise packets meet what they met before, and
/// nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Less room is wanted than is in use.
    #[error("{}", list(shortages))]
    #[non_exhaustive]
    TooSmall {
        /// Each limit that is too small.
        shortages: Vec<Shortage>,
    },
    /// Tables of another size would lead tenants without pins to other shards.
    #[error(
        "tables of groups have size {found}; with size {wanted} tenants without pins would go to other \
         shards, so it stays as long as the instance does"
    )]
    #[non_exhaustive]
    TableSize {
        /// The size that they have.
        found: u32,
        /// The one that is wanted.
        wanted: u32,
    },
    /// No state of that version can be made here.
    #[error("state of version {wanted} cannot be made by this one, which makes {made}")]
    #[non_exhaustive]
    Version {
        /// The version that is wanted.
        wanted: AbiVersion,
        /// This library's.
        made: AbiVersion,
    },
    /// There are routes that the version does not know: it would drop their packets.
    #[error("version {wanted} does not know these routes: {}", list(routes))]
    #[non_exhaustive]
    UnknownRoutes {
        /// The version that is wanted.
        wanted: AbiVersion,
        /// The routes, by kind.
        routes: Vec<UnknownRoutes>,
    },
    /// An upgrade or rollback of the program has come to some interfaces only.
    #[error(
        "interfaces run two programs since an upgrade that was not finished: upgrade or roll back first"
    )]
    OpenExchange,
    /// The instance cannot be read, locked or made.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Somebody writes routes all the time, or the barrier cannot be locked.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// What is known of an attachment cannot be read or written.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// The caller's observer stopped it before a step.
    #[error("stopped by the caller before: {step}")]
    #[non_exhaustive]
    Aborted {
        /// The step that was not made.
        step: Step,
    },
    /// A step failed. If it is [`Step::Forget`] the new state is in force, and the next one who opens
    /// the instance removes the old one.
    #[error("{step}: {error}")]
    #[non_exhaustive]
    Step {
        /// The step.
        step: Step,
        /// Why.
        error: Box<MigrateError>,
    },
    /// It failed and could not be undone: some interfaces run the new program, some the old one. The
    /// next one who opens the instance ends it; until then nobody writes routes.
    #[error("{error}; and it cannot be undone: {undo}")]
    #[non_exhaustive]
    Stuck {
        /// Why it failed.
        error: Box<MigrateError>,
        /// Why it is not undone.
        undo: Box<MigrateError>,
    },
}

fn list(things: &[impl ToString]) -> String {
    let texts: Vec<_> = things.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

impl MigrateError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooSmall { .. } | Self::TableSize { .. } | Self::OpenExchange => {
                ErrorKind::Conflict
            }
            Self::Version { .. } | Self::UnknownRoutes { .. } => ErrorKind::Incompatible,
            Self::Instance(error) => error.kind(),
            Self::Guard(error) => error.kind(),
            Self::Attachment(error) => error.kind(),
            Self::Step { error, .. } if !self.is_in_force() => error.kind(),
            Self::Aborted { .. } | Self::Step { .. } | Self::Stuck { .. } => ErrorKind::Partial,
        }
    }

    /// Whether the new state is in force all the same.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        match self {
            Self::Aborted { step } | Self::Step { step, .. } => step.is_in_force(),
            _ => false,
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::TooSmall { .. } => Some("want at least as many, or remove some first"),
            Self::TableSize { .. } => {
                Some("detach it with --purge, which forgets all pins, then apply the specification")
            }
            Self::UnknownRoutes { .. } => Some("remove them first"),
            Self::Instance(error) => error.remedy(),
            Self::Attachment(error) => error.remedy(),
            Self::Stuck { .. } => Some("migrate it again"),
            Self::Step { error, .. } => error.remedy(),
            _ => None,
        }
    }
}
