// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! An instance in maps of other sizes, under traffic.
//!
//! A second state directory is made beside the first: maps of new sizes with the same contents, the
//! maps that can stay, and this build's program around them. Then each interface gets the new program
//! in the place of the old one, what packets did in the old maps meanwhile is taken over, and the two
//! directories change names in one step.
//!
//! ```text
//!   NAME: old                NAME: old, takeover          NAME: new
//!                   copy     next-NAME: new     exchange                    remove
//!   packets: old   ------>   packets: old      --------->  packets: new   ------->
//! ```
//!
//! Nobody publishes and nobody writes routes meanwhile, so old and new program send each packet to the
//! same shard. Who is killed in the middle leaves packets with one or the other; `takeover` tells
//! those who write routes to wait for the next one who takes the instance's lock, who ends it.

mod copy;
mod error;
mod known;
mod plan;
mod run;
mod settle;
mod usage;

use std::fmt;

pub use copy::CopiedRows;
pub use error::MigrateError;
pub use known::{unknown_to, UnknownRoutes};
pub use plan::{LimitChange, MigrationPlan, Shortage};
pub use run::Migrated;
pub(super) use settle::settle;
pub use settle::Settled;
pub use usage::Usage;

/// A step of a migration, in their order. [`Step::Exchange`] comes once for each interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Load the program with maps of the new sizes.
    Load,
    /// Copy pins, while packets make more.
    CopyPins,
    /// Copy what nobody writes any more: tenants, routes and groups.
    Copy,
    /// Give the new state its name beside the old one's.
    Store,
    /// Say that packets go over.
    Announce,
    /// Put the new program in the place of the old one on an interface.
    Exchange,
    /// Take over what packets did in the old maps meanwhile.
    CopyAgain,
    /// Put the new state in the place of the old one.
    Commit,
    /// Remove the old state.
    Forget,
}

impl Step {
    /// Whether the new state is in force when this step fails.
    #[must_use]
    pub const fn is_in_force(self) -> bool {
        matches!(self, Self::Forget)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load the program with new maps",
            Self::CopyPins => "copy pins",
            Self::Copy => "copy tenants, routes and groups",
            Self::Store => "store the new state",
            Self::Announce => "announce the new state",
            Self::Exchange => "exchange the program on an interface",
            Self::CopyAgain => "copy what packets have changed",
            Self::Commit => "put the new state in the place of the old one",
            Self::Forget => "remove the old state",
        })
    }
}
