// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why there is no document.

use super::retire::RetireRefused;
use crate::egress::apply::{ApplyError, CompareError, Part};
use crate::egress::migrate::MigrateError;
use crate::egress::pins::SweepError;
use crate::egress::{
    AttachmentError, GroupError, GuardError, InstanceError, LimitError, PublishError, ResolveError,
};
use crate::egress_spec::Faults;
use crate::error::ErrorKind;
use crate::kernel::SysError;
use crate::route::TableId;

/// Why something was not done, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The specification does not fit this machine.
    #[error("{0}")]
    Faults(Faults),
    /// The specification asks for limits that no instance has.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The instance cannot be made, opened or read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// It cannot be said what would change.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The first step failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// It is not known where the program is attached.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// The pins could not be gone through.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// There is no interface of this name.
    #[error("there is no interface {name} here")]
    #[non_exhaustive]
    NoInterface {
        /// The name.
        name: String,
    },
    /// Nobody has an interface, a route or a pin in this table.
    #[error("there is no tenant {table} here")]
    #[non_exhaustive]
    NoTenant {
        /// The table.
        table: TableId,
    },
    /// Rows and routes cannot be written now.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The instance is not migrated.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The group is not retired.
    #[error(transparent)]
    Retire(#[from] RetireRefused),
    /// A group cannot be closed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// A group is not closed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Faults(faults) => Self::Faults(faults),
            ResolveError::Sys(error) => Self::Sys(error),
        }
    }
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Faults(_) | Self::Limit(_) => ErrorKind::Invalid,
            Self::Instance(error) => error.kind(),
            Self::Compare(error) => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::Attachment(error) => error.kind(),
            Self::Sweep(error) => error.kind(),
            Self::Migrate(error) => error.kind(),
            Self::Retire(error) => error.kind(),
            Self::Group(error) => error.kind(),
            Self::Publish(error) => error.kind(),
            Self::Guard(error) => error.kind(),
            Self::NoInterface { .. } | Self::NoTenant { .. } => ErrorKind::NotFound,
            Self::Sys(error) => error.kind(),
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Instance(error) | Self::Compare(CompareError::Instance(error)) => error.remedy(),
            Self::NoInterface { .. } => {
                Some("one that is gone is known by its index alone, which egressd status shows")
            }
            Self::Migrate(error) => error.remedy(),
            Self::Retire(error) => error.remedy(),
            Self::Attachment(error) | Self::Compare(CompareError::Attachment(error)) => {
                error.remedy()
            }
            Self::Apply(error) => match &*error.error {
                Part::Compare(CompareError::Instance(error)) => error.remedy(),
                Part::Compare(CompareError::Attachment(error)) | Part::Attachment(error) => {
                    error.remedy()
                }
                _ => None,
            },
            _ => None,
        }
    }
}
