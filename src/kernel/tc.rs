// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The TC hook at the ingress of an interface: a place of one's own among others, and nobody else's
//! is taken.
//!
//! Where the kernel has TCX (Linux 6.6) a program is attached through a link, at a place relative
//! to the others on the hook. Otherwise, or where that is asked for, it becomes a direct-action
//! filter of the clsact qdisc, whose place is its priority. All programs on TCX run before all
//! filters, whichever came first. A program that returns `TC_ACT_UNSPEC` (-1, which TCX calls
//! `TCX_NEXT`) lets the next one run; any other verdict ends the chain.

mod clsact;
mod error;
mod hook;
mod message;
mod tcx;

use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

use super::attach::display_name;
use super::program::Program;

pub use clsact::ClsactFilter;
pub use error::AttachError;
pub use hook::{hook, Hook, Occupant, Place};
pub use tcx::TcxLink;

/// By which of the kernel's ways a program is attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// TCX where the kernel has it, clsact elsewhere.
    #[default]
    Auto,
    /// A link on TCX (Linux 6.6).
    Tcx,
    /// A filter of the clsact qdisc, also where the kernel has TCX.
    Clsact,
}

/// The kernel's number of somebody else's program or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Neighbour {
    /// A program.
    Program(u32),
    /// A link on TCX.
    Link(u32),
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(id) => write!(f, "program {id}"),
            Self::Link(id) => write!(f, "link {id}"),
        }
    }
}

/// Where among the others on the hook a program runs.
///
/// On TCX it is put there. A filter runs where its priority puts it, and is refused if that is
/// elsewhere. What others attach later may come before or after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// Before all others.
    #[default]
    First,
    /// After all others; on TCX after all others there, but still before every filter.
    Last,
    /// Immediately before this one on TCX, anywhere before it as a filter.
    Before(Neighbour),
    /// Immediately after this one on TCX, anywhere after it as a filter.
    After(Neighbour),
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("first"),
            Self::Last => f.write_str("last"),
            Self::Before(neighbour) => write!(f, "before {neighbour}"),
            Self::After(neighbour) => write!(f, "after {neighbour}"),
        }
    }
}

/// What names a filter at the ingress of an interface. Neither number is 0, which the kernel
/// takes for "any".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterId {
    /// Filters run in the order of their priorities, the lowest number first.
    pub priority: NonZeroU16,
    /// Number of the filter in its priority.
    pub handle: NonZeroU32,
}

impl Default for FilterId {
    /// Priority 1, handle 1.
    fn default() -> Self {
        Self {
            priority: NonZeroU16::MIN,
            handle: NonZeroU32::MIN,
        }
    }
}

impl fmt::Display for FilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}, handle {:#x}", self.priority, self.handle)
    }
}

/// How a program is attached. The default is what most want: by TCX or as the filter with priority
/// 1 and handle 1, before all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// By which way.
    pub way: Way,
    /// Where among the others.
    pub anchor: Anchor,
    /// Only if the hook still has this [revision](Hook::revision), which TCX alone counts: what was
    /// concluded from looking at the hook is still true when the program takes its place.
    pub expected_revision: Option<u64>,
    /// Priority and handle of a filter; without meaning on TCX.
    pub filter: FilterId,
}

/// Something that keeps a program at the ingress of an interface.
#[derive(Debug)]
#[must_use = "a link that is not pinned detaches when it is dropped"]
pub enum Attachment {
    /// A link on TCX.
    Tcx(TcxLink),
    /// A filter of clsact; it stays until it is detached.
    Clsact(ClsactFilter),
}

/// Whether the kernel has TCX, asked of an interface.
pub(super) fn has_tcx(ifindex: u32) -> Result<bool, AttachError> {
    Ok(hook::tcx(ifindex)?.is_some())
}

impl Attachment {
    /// Attaches `program`, a TC classifier, to the ingress of an interface of the calling thread's
    /// network namespace. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`AttachError`]; nothing is attached then. A clsact qdisc that was made for the filter
    /// stays.
    pub fn new(program: &Program, ifindex: u32, options: &Options) -> Result<Self, AttachError> {
        let has_tcx = has_tcx(ifindex)?;
        let unsupported = |what| AttachError::Unsupported {
            interface: display_name(ifindex),
            what,
        };
        match options.way {
            Way::Tcx if !has_tcx => Err(unsupported("TCX (Linux 6.6)")),
            Way::Auto | Way::Tcx if has_tcx => {
                TcxLink::create(program, ifindex, options.anchor, options.expected_revision)
                    .map(Self::Tcx)
            }
            // Without effect it would seem to protect.
            _ if options.expected_revision.is_some() => {
                Err(unsupported("revisions of what is on clsact"))
            }
            _ => ClsactFilter::create(program, ifindex, options.anchor, options.filter)
                .map(Self::Clsact),
        }
    }

    /// Exchanges the program in one step, without a packet lost in between, if `expected` is the
    /// one that runs now.
    ///
    /// # Errors
    /// [`AttachError::OtherProgram`] or [`AttachError::Occupied`] if another one does,
    /// [`AttachError::Gone`] if none.
    pub fn update(&self, program: &Program, expected: &Program) -> Result<(), AttachError> {
        match self {
            Self::Tcx(link) => link.update(program, expected),
            Self::Clsact(filter) => filter.update(program, expected),
        }
    }

    /// Takes `program` off the interface and makes sure that it is gone, unless somebody else's
    /// has its place by now; whether it was there.
    ///
    /// # Errors
    /// [`AttachError::Occupied`] if a filter runs another program: it is left alone.
    pub fn detach(&self, program: &Program) -> Result<bool, AttachError> {
        match self {
            Self::Tcx(link) => link.detach(),
            Self::Clsact(filter) => filter.detach(program.id()),
        }
    }
}
