// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Working memory of a build.

use super::order::Entry;
use super::size::TableSize;
use super::turns::{self, Pace};

/// Working memory that one build after the other can use, whatever their sizes, members and slot
/// types.
///
/// It holds nothing that a later build depends on. It grows to what the largest build so far
/// needed, at most `M / 8 + 64 N` bytes and 16 KiB; a build that needs no more allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// The members in order of keys.
    pub(super) entries: Vec<Entry>,
    /// Where each placed member stands in its preference list, by rank.
    pub(super) cursors: Vec<Cursor>,
    /// When each placed member has its next turn, by rank; only with uneven weights.
    pub(super) paces: Vec<Pace>,
    /// Ranks of the next turns. Before that, indices of all members.
    pub(super) queue: Vec<u32>,
    /// What the order of turns is computed with.
    pub(super) counts: Vec<u32>,
    /// One bit per slot, set while the slot is free.
    pub(super) free: Vec<u32>,
    /// The free slots, once few are left.
    pub(super) open: Vec<u32>,
}

/// A placed member's place in its preference list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// The next slot to try.
    pub(super) position: u32,
    /// The distance to the one after that.
    pub(super) skip: u32,
    /// What to write into its slots.
    pub(super) value: u32,
    /// Slots claimed.
    pub(super) claimed: u32,
}

impl Scratch {
    /// Working memory that allocates when it is first used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Working memory with which a build of up to `members` members and `size` slots allocates
    /// nothing.
    #[must_use]
    pub fn with_capacity(size: TableSize, members: usize) -> Self {
        let mut scratch = Self::default();
        scratch.reserve(size, members);
        scratch
    }

    /// Makes room for a build, so that no buffer grows by doubling.
    pub(super) fn reserve(&mut self, size: TableSize, members: usize) {
        fn room<T>(buffer: &mut Vec<T>, capacity: usize) {
            buffer.clear();
            buffer.reserve_exact(capacity);
        }
        let slots = size.slots();
        let placed = members.min(slots);
        room(&mut self.entries, members);
        room(&mut self.cursors, placed);
        room(&mut self.paces, placed);
        room(&mut self.queue, members.max(turns::queue_capacity(placed)));
        room(&mut self.counts, turns::counts_capacity(placed));
        room(&mut self.free, slots.div_ceil(32));
        room(&mut self.open, super::tail::length(size));
    }
}
