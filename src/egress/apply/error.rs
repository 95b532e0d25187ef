// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why a specification is not, or not wholly, what packets see.

use crate::egress::{
    AttachmentError, GroupError, GuardError, InstanceError, PublishError, RetireError, RouteError,
    StillReferenced, TenantError, TicketError, VerifyError,
};
use crate::error::ErrorKind;
use crate::group::NoGroupLeft;
use crate::kernel::SysError;

use super::run::Applied;

/// Why nobody can say what a specification would change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The instance cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// There are more classes than groups.
    #[error(transparent)]
    NoGroup(#[from] NoGroupLeft),
    /// A group cannot be what it should.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// It is not known where the program is attached.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl CompareError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::NoGroup(_) => ErrorKind::Invalid,
            Self::Group(error) => error.kind(),
            Self::Attachment(error) => error.kind(),
            Self::Sys(error) => error.kind(),
        }
    }
}

/// What went wrong in one part of a specification.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Part {
    /// What is to change.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A snapshot.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The write barrier.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The right to write routes to a group.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Routes, or interfaces.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// What was written is something else.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A tenant that is to go.
    #[error(transparent)]
    Tenant(#[from] TenantError),
    /// An interface.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// A group that is to be retired.
    #[error(transparent)]
    Retire(#[from] RetireError),
    /// A group that is to be retired, and routes name it still.
    #[error(transparent)]
    Referenced(#[from] StillReferenced),
    /// What is there cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl Part {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Compare(error) => error.kind(),
            Self::Publish(error) => error.kind(),
            Self::Guard(error) => error.kind(),
            Self::Ticket(error) => error.kind(),
            Self::Route(error) => error.kind(),
            Self::Verify(error) => error.kind(),
            Self::Tenant(error) => error.kind(),
            Self::Attachment(error) => error.kind(),
            Self::Retire(error) => error.kind(),
            Self::Referenced(error) => error.kind(),
            Self::Instance(error) => error.kind(),
            Self::Group(error) => error.kind(),
            Self::Sys(error) => error.kind(),
        }
    }
}

/// Why a specification is not wholly what packets see. What does not depend on what failed is done
/// all the same, and packets go on; applying it again does the rest.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", more(further))]
#[non_exhaustive]
pub struct ApplyError {
    /// What was done.
    pub applied: Box<Applied>,
    /// What failed first.
    #[source]
    pub error: Box<Part>,
    /// What failed beside it.
    pub further: Vec<Part>,
}

fn more(further: &[Part]) -> String {
    further.iter().map(|part| format!("\n{part}")).collect()
}

impl ApplyError {
    /// What a caller can do about it: [`ErrorKind::Partial`] where something was changed.
    pub fn kind(&self) -> ErrorKind {
        if self.applied.is_empty() {
            self.error.kind()
        } else {
            ErrorKind::Partial
        }
    }
}
