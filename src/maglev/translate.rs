// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From slot values to small numbers of the caller's choice, for a whole table at a time.

use super::slot::SlotIndex;

/// Slots translated at a time; small enough for the stack, large enough to forget the call.
const CHUNK: usize = 512;

/// Values up to here are looked up by position: twice as many as there can be slots.
const DENSE: u32 = 1 << 22;

/// A map from the values in a table's slots to numbers.
pub(super) enum Translation<S> {
    /// A table without members has only one value.
    Unowned(u32),
    /// Numbers by value.
    Dense(Vec<u32>),
    /// Values and numbers in order of values, for values too large to have a place each.
    Sparse(Vec<(S, u32)>),
}

impl<S: SlotIndex> Translation<S> {
    /// `pairs` are the values that occur, each with its number; `unowned` is the number of
    /// [`SlotIndex::NONE`], which occurs in a table only if nothing else does.
    pub(super) fn new(pairs: impl Iterator<Item = (S, u32)> + Clone, unowned: u32) -> Self {
        let Some(max) = pairs.clone().map(|(value, _)| value.to_u32()).max() else {
            return Self::Unowned(unowned);
        };
        if max <= DENSE {
            let mut numbers = vec![unowned; max as usize + 1];
            pairs.for_each(|(value, number)| numbers[value.to_u32() as usize] = number);
            return Self::Dense(numbers);
        }
        let mut sorted: Vec<_> = pairs.collect();
        sorted.sort_unstable();
        Self::Sparse(sorted)
    }

    /// Calls `each` with the numbers of `slots`, in order, many at a time.
    pub(super) fn chunks(&self, slots: &[S], mut each: impl FnMut(&[u32])) {
        let mut numbers = [0; CHUNK];
        for slots in slots.chunks(CHUNK) {
            each(self.translate(slots, &mut numbers));
        }
    }

    /// Calls `each` with the numbers of two tables' slots, side by side.
    pub(super) fn zip_chunks(
        &self,
        slots: &[S],
        other: (&Self, &[S]),
        mut each: impl FnMut(&[u32], &[u32]),
    ) {
        let (mut numbers, mut other_numbers) = ([0; CHUNK], [0; CHUNK]);
        for (slots, other_slots) in slots.chunks(CHUNK).zip(other.1.chunks(CHUNK)) {
            each(
                self.translate(slots, &mut numbers),
                other.0.translate(other_slots, &mut other_numbers),
            );
        }
    }

    fn translate<'n>(&self, slots: &[S], numbers: &'n mut [u32; CHUNK]) -> &'n [u32] {
        let numbers = &mut numbers[..slots.len()];
        let pairs = numbers.iter_mut().zip(slots);
        match self {
            Self::Unowned(unowned) => pairs.for_each(|(number, _)| *number = *unowned),
            Self::Dense(table) => {
                pairs.for_each(|(number, slot)| *number = table[slot.to_u32() as usize]);
            }
            Self::Sparse(table) => pairs.for_each(|(number, slot)| {
                // Every value in a table's slots is one of its members'.
                let place = table.partition_point(|(value, _)| value < slot);
                *number = table[place].1;
            }),
        }
        numbers
    }
}
