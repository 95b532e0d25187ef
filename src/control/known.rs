// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is known of something that others tell.

use std::time::Duration;

/// What somebody else tells, who may not have told it yet or may have fallen silent. Not to know
/// is not to know of nothing: nothing is taken away because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known<T> {
    /// It was never told.
    Unknown,
    /// It was told, and a change would be.
    Known(T),
    /// It was told, and whether it is still so nobody says.
    Stale {
        /// What was told last.
        value: T,
        /// Since when nothing is heard, by the monotonic clock.
        since: Duration,
        /// Why nothing is heard.
        why: String,
    },
}

impl<T> Known<T> {
    /// What was told last; none before that.
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Unknown => None,
            Self::Known(value) | Self::Stale { value, .. } => Some(value),
        }
    }

    /// Whether it is known to be so now.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// The same of what is made of the value.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Unknown => Known::Unknown,
            Self::Known(value) => Known::Known(make(value)),
            Self::Stale { value, since, why } => Known::Stale {
                value: make(value),
                since,
                why,
            },
        }
    }

    /// What follows when nothing is heard any more, for the reason `why`: what was told stays in
    /// force, and what was stale is so since the first time.
    #[must_use]
    pub fn lost(self, now: Duration, why: impl Into<String>) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Known(value) => Self::Stale {
                value,
                since: now,
                why: why.into(),
            },
            Self::Stale { value, since, .. } => Self::Stale {
                value,
                since,
                why: why.into(),
            },
        }
    }
}
