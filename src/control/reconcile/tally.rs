// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many there are of something, and which is the first.

/// A count with its first thing, by order.
#[derive(Debug, Clone)]
pub(super) struct Tally<T> {
    count: u64,
    first: Option<T>,
}

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self {
            count: 0,
            first: None,
        }
    }
}

impl<T: Copy + Ord> Tally<T> {
    pub(super) fn count(&mut self, one: T) {
        self.count += 1;
        self.first = Some(self.first.map_or(one, |first| first.min(one)));
    }

    /// How many, and the first; none of none.
    pub(super) fn some(&self) -> Option<(u64, T)> {
        Some((self.count, self.first?))
    }

    pub(super) const fn len(&self) -> u64 {
        self.count
    }
}
