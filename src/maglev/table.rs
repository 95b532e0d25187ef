// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A built table that knows its members.

use std::fmt;

use super::build::{build_into, Member};
use super::diff::Diff;
use super::digest::{Digest, Hasher, UNOWNED};
use super::error::{BuildError, DiffError};
use super::keys::Keys;
use super::scratch::Scratch;
use super::shares::{Share, Shares};
use super::size::TableSize;
use super::slot::SlotIndex;
use super::translate::Translation;

/// A table, with the keys and weights that it was built from.
///
/// It never changes: another set of members makes another table. To share one, put it into an
/// [`Arc`](std::sync::Arc).
#[derive(Clone, PartialEq, Eq)]
pub struct Table<S> {
    size: TableSize,
    slots: Box<[S]>,
    /// Keys of the placed members, in ascending order.
    keys: Keys,
    /// The rest about the placed members, in order of keys.
    placed: Box<[Placed<S>]>,
    /// Positions in `placed`, in order of indices.
    by_index: Box<[u32]>,
    weight_sum: u64,
}

/// A placed member, but for its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed<S> {
    pub(super) index: S,
    weight: u32,
    pub(super) slots: u32,
}

impl<S: SlotIndex> Table<S> {
    /// Builds a table from members in any order.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(size: TableSize, members: &[Member<'_, S>]) -> Result<Self, BuildError> {
        Self::build_with(&mut Scratch::new(), size, members)
    }

    /// Builds a table with working memory that is already there.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build_with(
        scratch: &mut Scratch,
        size: TableSize,
        members: &[Member<'_, S>],
    ) -> Result<Self, BuildError> {
        let mut slots = vec![S::NONE; size.slots()].into_boxed_slice();
        let built = build_into(&mut slots, scratch, size, members)?;
        let sorted = || {
            scratch
                .entries
                .iter()
                .map(|entry| &members[entry.member as usize])
        };
        let mut keys = Keys::with_capacity(built.placed, sorted().map(|m| m.key.len()).sum());
        sorted().for_each(|member| keys.push(member.key));
        let placed: Box<[_]> = sorted()
            .zip(&scratch.cursors)
            .map(|(member, cursor)| Placed {
                index: member.index,
                weight: member.weight,
                slots: cursor.claimed,
            })
            .collect();
        let mut by_index: Box<[u32]> = (0..placed.len() as u32).collect();
        by_index.sort_unstable_by_key(|&rank| placed[rank as usize].index);
        Ok(Self {
            size,
            slots,
            keys,
            placed,
            by_index,
            weight_sum: built.weight_sum,
        })
    }

    /// The size.
    #[must_use]
    pub const fn size(&self) -> TableSize {
        self.size
    }

    /// All slots, to be copied to where packets are looked up: the owner's index in each, or
    /// [`SlotIndex::NONE`] in an empty table.
    #[must_use]
    pub const fn slots(&self) -> &[S] {
        &self.slots
    }

    /// True if no member was placed, so that no slot has an owner.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// The key of the member that owns a slot; `None` if nobody does or there is no such slot.
    #[must_use]
    pub fn owner(&self, slot: u32) -> Option<&[u8]> {
        let value = *self.slots.get(slot as usize)?;
        let index = |&rank: &u32| self.placed[rank as usize].index;
        let place = self.by_index.binary_search_by_key(&value, index).ok()?;
        self.keys.get(self.by_index[place] as usize)
    }

    /// The value of slot `hash % M`; `None` if it has no owner.
    #[must_use]
    pub fn by_modulo(&self, hash: u32) -> Option<S> {
        self.value(self.size.slot_by_modulo(hash))
    }

    /// The value of slot `hash * M / 2^32`; `None` if it has no owner.
    #[must_use]
    pub fn by_multiply_shift(&self, hash: u32) -> Option<S> {
        self.value(self.size.slot_by_multiply_shift(hash))
    }

    fn value(&self, slot: u32) -> Option<S> {
        self.slots
            .get(slot as usize)
            .copied()
            .filter(|&value| value != S::NONE)
    }

    /// The digest of who owns which slot. Computed on each call, from every slot.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let owns = |&(_, placed): &(&[u8], &Placed<S>)| placed.slots > 0;
        let owners = self.keys.iter().zip(&self.placed).filter(owns);
        let positions = owners
            .clone()
            .zip(0..)
            .map(|((_, placed), at)| (placed.index, at));
        let translation = Translation::new(positions.clone(), UNOWNED);
        let keys = owners.map(|(key, _)| key);
        let mut hasher = Hasher::new(self.size, positions.count(), keys);
        translation.chunks(&self.slots, |positions| hasher.slots(positions));
        hasher.finish()
    }

    /// What changes from this table to `new`.
    ///
    /// # Errors
    /// Only tables of one size can be compared.
    pub fn diff(&self, new: &Self) -> Result<Diff, DiffError> {
        if self.size != new.size {
            return Err(DiffError::SizeMismatch {
                old: self.size.get(),
                new: new.size.get(),
            });
        }
        Ok(Diff::new(self, new))
    }

    /// What each placed member got.
    #[must_use]
    pub fn shares(&self) -> Shares<'_> {
        let shares = self
            .keys
            .iter()
            .zip(&self.placed)
            .map(|(key, placed)| Share {
                key,
                weight: placed.weight,
                slots: placed.slots,
            });
        Shares::new(self.size, self.weight_sum, shares.collect())
    }

    pub(super) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) const fn placed(&self) -> &[Placed<S>] {
        &self.placed
    }
}

impl<S: SlotIndex> fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("size", &self.size)
            .field("placed", &self.placed.len())
            .field("weight_sum", &self.weight_sum)
            .finish_non_exhaustive()
    }
}
