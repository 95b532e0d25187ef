// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What changes between two tables.

use super::keys::Keys;
use super::slot::SlotIndex;
use super::table::{Placed, Table};
use super::translate::Translation;

/// The slots that change hands between two tables of one size.
///
/// Owners are compared by key. A slot without an owner counts as owned by nobody, so that filling
/// an empty table moves every slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// Keys placed in either table, in ascending order.
    keys: Keys,
    /// Slots lost and gained by each key; the last is the absence of an owner.
    changes: Vec<Change>,
    moved: u32,
    forced: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    lost: u32,
    gained: u32,
}

/// One member's part of a [`Diff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberDiff<'a> {
    /// The member's key.
    pub key: &'a [u8],
    /// Slots that it owned in the old table and does not in the new.
    pub lost: u32,
    /// Slots that it owns in the new table and did not in the old.
    pub gained: u32,
}

impl Diff {
    pub(super) fn new<S: SlotIndex>(old: &Table<S>, new: &Table<S>) -> Self {
        let (keys, old_numbers, new_numbers) = merge(old.keys(), new.keys());
        let unowned = keys.len();
        let translation = |placed: &[Placed<S>], numbers: &[u32]| {
            let pairs = placed
                .iter()
                .map(|placed| placed.index)
                .zip(numbers.iter().copied());
            Translation::new(pairs, unowned as u32)
        };
        let old_owner = translation(old.placed(), &old_numbers);
        let new_owner = translation(new.placed(), &new_numbers);
        let mut changes = vec![Change::default(); unowned + 1];
        old_owner.zip_chunks(old.slots(), (&new_owner, new.slots()), |old, new| {
            for (&old, &new) in old.iter().zip(new) {
                if old != new {
                    changes[old as usize].lost += 1;
                    changes[new as usize].gained += 1;
                }
            }
        });
        let moved = changes.iter().map(|change| change.lost).sum();
        let forced = changes
            .iter()
            .map(|change| change.lost.saturating_sub(change.gained))
            .sum();
        Self {
            keys,
            changes,
            moved,
            forced,
        }
    }

    /// Slots whose owner differs.
    #[must_use]
    pub const fn moved(&self) -> u32 {
        self.moved
    }

    /// The least number of slots that have to move between tables of these shares, by whatever
    /// method they are built.
    #[must_use]
    pub const fn forced(&self) -> u32 {
        self.forced
    }

    /// Slots that moved without need, between owners that keep their shares: `moved - forced`.
    #[must_use]
    pub const fn extra(&self) -> u32 {
        // Each owner lost at least what its share shrank by.
        self.moved - self.forced
    }

    /// True if no slot's owner differs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.moved == 0
    }

    /// Every member placed in either table, in ascending order of keys.
    pub fn members(&self) -> impl ExactSizeIterator<Item = MemberDiff<'_>> + '_ {
        self.keys
            .iter()
            .zip(&self.changes)
            .map(|(key, &Change { lost, gained })| MemberDiff { key, lost, gained })
    }
}

/// Merges two ascending lists of keys; returns the union, and the position in it of each key of
/// each list.
fn merge(old: &Keys, new: &Keys) -> (Keys, Vec<u32>, Vec<u32>) {
    let mut union = Keys::with_capacity(old.len() + new.len(), old.bytes() + new.bytes());
    let (mut old_numbers, mut new_numbers) =
        (Vec::with_capacity(old.len()), Vec::with_capacity(new.len()));
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let key = match (old.peek(), new.peek()) {
            (Some(&old), Some(&new)) => old.min(new),
            (Some(&key), None) | (None, Some(&key)) => key,
            (None, None) => return (union, old_numbers, new_numbers),
        };
        let number = union.len() as u32;
        old_numbers.extend(old.next_if_eq(&key).map(|_| number));
        new_numbers.extend(new.next_if_eq(&key).map(|_| number));
        union.push(key);
    }
}
