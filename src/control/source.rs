// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Where the list of shards comes from.

use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use super::source_errors::{SourceErrorReason, SourceErrors};
use super::{Known, ShardList};

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

    /// What there is that looks as if it were meant, and is not read, in words: the first of it. The
    /// list is complete without it.
    fn passed_over(&self) -> Vec<String> {
        Vec::new()
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
