// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where the list of shards comes from.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Known, ShardList};

/// Why a source could not be read, or an object of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SourceErrorReason {
    /// A file, an object or an answer makes no sense.
    Parse,
    /// The right to read is missing.
    Forbidden,
    /// What should be read is not there, or no longer.
    Gone,
    /// Reading ended early.
    Closed,
    /// There was no answer in time.
    Timeout,
}

impl SourceErrorReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Parse,
        Self::Forbidden,
        Self::Gone,
        Self::Closed,
        Self::Timeout,
    ];

    /// The name that outputs use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Forbidden => "forbidden",
            Self::Gone => "gone",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Parse => 0,
            Self::Forbidden => 1,
            Self::Gone => 2,
            Self::Closed => 3,
            Self::Timeout => 4,
        }
    }
}

impl fmt::Display for SourceErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often reading a source failed since it was made, by reason. Each attempt counts, also where
/// the one before failed for the same reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceErrors([u64; SourceErrorReason::ALL.len()]);

impl SourceErrors {
    /// How often it failed for this reason.
    #[must_use]
    pub const fn get(&self, reason: SourceErrorReason) -> u64 {
        self.0[reason.index()]
    }

    /// Each reason and how often it failed for it.
    pub fn iter(&self) -> impl Iterator<Item = (SourceErrorReason, u64)> + '_ {
        SourceErrorReason::ALL
            .into_iter()
            .map(|reason| (reason, self.get(reason)))
    }

    /// Counts one more.
    pub fn count(&mut self, reason: SourceErrorReason) {
        let count = &mut self.0[reason.index()];
        *count = count.saturating_add(1);
    }
}

/// Where the list of shards comes from: files, an API server, or anything that an embedding program
/// makes. It only tells; nothing that it does changes what packets see.
///
/// An event asks for a sweep, and the sweep reads the store: events themselves say nothing.
pub trait Source: Send {
    /// The list as of the last reading. Unknown until it was complete once; stale while it cannot be
    /// read, with the last one. Never an empty list because of an error.
    fn latest(&self) -> Known<ShardList>;

    /// Becomes readable when the list may have changed, until [`acknowledge`](Self::acknowledge).
    fn events(&self) -> BorrowedFd<'_>;

    /// Takes note of all events so far, without blocking; whether one of them may have changed the
    /// list.
    fn acknowledge(&mut self) -> bool;

    /// Reads anew what is read on demand, as each sweep begins with: bounded work, no waiting for
    /// others. `now` is a monotonic time. A source that is told of changes has nothing to do.
    fn refresh(&mut self, now: Duration) {
        let _ = now;
    }

    /// How often reading failed.
    fn errors(&self) -> SourceErrors;

    /// Why the list is not known at present, as far as the source can tell: also before there ever
    /// was one.
    fn failure(&self) -> Option<String> {
        match self.latest() {
            Known::Stale { why, .. } => Some(why),
            _ => None,
        }
    }
}
