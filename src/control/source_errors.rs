// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How often a source of shards could not be read, and why.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Add;

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
    /// The server is busy, and asks to be left alone for a while.
    Throttled,
    /// The server cannot be reached or fails.
    Unavailable,
}

impl SourceErrorReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Parse,
        Self::Forbidden,
        Self::Gone,
        Self::Closed,
        Self::Timeout,
        Self::Throttled,
        Self::Unavailable,
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
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Parse => 0,
            Self::Forbidden => 1,
            Self::Gone => 2,
            Self::Closed => 3,
            Self::Timeout => 4,
            Self::Throttled => 5,
            Self::Unavailable => 6,
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

impl Add for SourceErrors {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
        self
    }
}

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
