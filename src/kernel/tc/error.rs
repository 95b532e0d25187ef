// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why a program is not on the TC hook, or not off it.

use super::{Anchor, FilterId, Neighbour, Occupant};
use crate::error::ErrorKind;
use crate::kernel::sys::object::PinError;
use crate::kernel::SysError;

/// Why an attachment was not made, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No such interface in the calling thread's network namespace.
    #[error("there is no interface {interface} here")]
    #[non_exhaustive]
    NoInterface {
        /// Its index in words.
        interface: String,
    },
    /// The filter's place is somebody else's.
    #[error(
        "{filter} at the ingress of interface {interface} (index {ifindex}) is held by {}",
        text(occupant)
    )]
    #[non_exhaustive]
    Occupied {
        /// Name of the interface.
        interface: String,
        /// Its index.
        ifindex: u32,
        /// The place.
        filter: FilterId,
        /// Who has it, or another handle in the same priority that does not admit us; `None` if it
        /// was gone again when asked for.
        occupant: Option<Occupant>,
    },
    /// The program is on the hook already. Nothing was changed.
    #[error(
        "program {program_id} is at the ingress of interface {interface} already: {}",
        text(occupant)
    )]
    #[non_exhaustive]
    Attached {
        /// Name of the interface.
        interface: String,
        /// The program.
        program_id: u32,
        /// Where it is.
        occupant: Option<Occupant>,
    },
    /// Somebody attached or detached a program since the hook was looked at.
    #[error(
        "the ingress of interface {interface} has changed: expected revision {expected}, found {}",
        found.map_or_else(|| "none".to_owned(), |found| found.to_string())
    )]
    #[non_exhaustive]
    Raced {
        /// Name of the interface.
        interface: String,
        /// The revision that was given.
        expected: u64,
        /// The one after the refusal.
        found: Option<u64>,
    },
    /// The program or link to run before or after is not on the hook.
    #[error("{neighbour} is not at the ingress of interface {interface}")]
    #[non_exhaustive]
    NoNeighbour {
        /// Name of the interface.
        interface: String,
        /// Whom the anchor names.
        neighbour: Neighbour,
    },
    /// A filter with this priority would run elsewhere than asked for.
    #[error(
        "a filter with priority {} at the ingress of interface {interface} would run after {before} \
         of {others} others, not {anchor}",
        filter.priority
    )]
    #[non_exhaustive]
    Misplaced {
        /// Name of the interface.
        interface: String,
        /// Where it would be.
        filter: FilterId,
        /// Where it should run.
        anchor: Anchor,
        /// How many run before it.
        before: usize,
        /// How many there are.
        others: usize,
    },
    /// As many programs as TCX takes are there.
    #[error(
        "{programs} programs are at the ingress of interface {interface}, more are not possible"
    )]
    #[non_exhaustive]
    Full {
        /// Name of the interface.
        interface: String,
        /// How many.
        programs: usize,
    },
    /// The kernel cannot do this.
    #[error("cannot attach to interface {interface}: the kernel has no {what}")]
    #[non_exhaustive]
    Unsupported {
        /// Name of the interface.
        interface: String,
        /// What it lacks.
        what: &'static str,
    },
    /// The process lacks rights that attaching takes.
    #[error("cannot attach to interface {interface}: missing right: CAP_NET_ADMIN")]
    #[non_exhaustive]
    Permission {
        /// Name of the interface.
        interface: String,
    },
    /// The link runs another program than the caller believed. Nothing was changed.
    #[error("link {link_id} runs program {found}, not {expected}")]
    #[non_exhaustive]
    OtherProgram {
        /// The link.
        link_id: u32,
        /// The program that was expected.
        expected: u32,
        /// The program that runs.
        found: u32,
    },
    /// The attachment to be changed is not there any more.
    #[error("{attachment} is gone")]
    #[non_exhaustive]
    Gone {
        /// The link or filter, in words.
        attachment: String,
    },
    /// The pin holds something that is no attachment.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The pinned link is not one at the ingress of the TC hook.
    #[error("{path} is a link, but not on TCX ingress")]
    #[non_exhaustive]
    NotTcx {
        /// Where it is pinned.
        path: String,
    },
    /// The kernel says it detached the program, and the program is still there.
    #[error(
        "interface {interface} still runs {} after it was detached",
        text(occupant)
    )]
    #[non_exhaustive]
    StillAttached {
        /// Name of the interface.
        interface: String,
        /// The program.
        occupant: Option<Occupant>,
    },
    /// The kernel refused for another reason.
    #[error(transparent)]
    Sys(#[from] SysError),
}

fn text(occupant: &Option<Occupant>) -> String {
    occupant.as_ref().map_or_else(
        || "a program that is gone again".to_owned(),
        Occupant::to_string,
    )
}

impl AttachError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoInterface { .. } | Self::NoNeighbour { .. } | Self::Gone { .. } => {
                ErrorKind::NotFound
            }
            Self::Occupied { .. } | Self::Full { .. } => ErrorKind::Occupied,
            Self::Attached { .. }
            | Self::Raced { .. }
            | Self::Misplaced { .. }
            | Self::OtherProgram { .. } => ErrorKind::Conflict,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Pin(error) => error.kind(),
            Self::NotTcx { .. } => ErrorKind::Incompatible,
            Self::StillAttached { .. } => ErrorKind::Partial,
            Self::Sys(error) => error.kind(),
        }
    }
}
