// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The last few slots, which would cost most of the probes.
//!
//! With `e` of `M` slots free, a probe finds one of them with a chance of `e / M`. But each free
//! slot's place in a member's list is known without probing: slot `c` comes
//! `(c - position) * skip^-1 mod M` steps after the cursor. The least of the `e` distances wins.
//! No free slot lies behind the cursor, since the cursor has passed only slots that are taken.
//!
//! Distances are compared without a division per slot. For `f = skip^-1 / M`, the fraction of
//! `(c - position) * f` is the distance divided by `M`; so with `f` as a 64-bit fixed-point
//! fraction, wrapping multiplication leaves just the fractions to compare. They are multiples of
//! `1 / M`, at least 2^43 units apart, and rounding `f` up moves one by less than `M` units.

use super::fill::step;
use super::order::Entry;
use super::scratch::Cursor;
use super::size::TableSize;
use super::slot::SlotIndex;

/// More than rounding can move a fraction, and far less than two are apart.
const SLACK: u64 = 1 << 22;

/// Free slots with which the tail begins. A turn in the tail looks at each free slot, a turn
/// before it probes `M / e`; that they cost the same, up to a factor, at the square root of `M`
/// makes it the place to change over.
pub(super) const fn length(size: TableSize) -> usize {
    (2 * size.get()).isqrt() as usize
}

/// A search of the free slots.
pub(super) struct Tail<'a> {
    /// The free slots, ascending.
    open: &'a mut Vec<u32>,
    entries: &'a mut [Entry],
    m: u32,
}

impl<'a> Tail<'a> {
    pub(super) fn new(
        free: impl Iterator<Item = u32>,
        open: &'a mut Vec<u32>,
        entries: &'a mut [Entry],
        m: u32,
    ) -> Self {
        open.clear();
        open.extend(free);
        for entry in entries.iter_mut() {
            entry.word = 0;
        }
        Self { open, entries, m }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.entries
    }

    /// Gives `rank` a turn, if there is a free slot.
    pub(super) fn claim<S: SlotIndex>(
        &mut self,
        rank: usize,
        cursors: &mut [Cursor],
        out: &mut [S],
    ) {
        let m = u64::from(self.m);
        let cursor = &mut cursors[rank];
        let factor = &mut self.entries[rank].word;
        if *factor == 0 {
            *factor = fixed_point(inverse(cursor.skip, self.m), self.m);
        }
        let position = u64::from(cursor.position);
        let base = position.wrapping_mul(*factor).wrapping_sub(SLACK);
        let nearest = nearest(self.open, *factor, base);
        let distance = ((u128::from(nearest) * u128::from(m)) >> 64) as u64;
        let slot = ((position + distance * u64::from(cursor.skip)) % m) as u32;
        if let Ok(place) = self.open.binary_search(&slot) {
            self.open.remove(place);
        }
        out[slot as usize] = S::from_u32(cursor.value);
        cursor.position = step(slot, cursor.skip, self.m);
        cursor.claimed += 1;
    }
}

/// The least of the fractions `slot * factor - base`, one for each slot.
fn nearest(slots: &[u32], factor: u64, base: u64) -> u64 {
    let fraction = |slot: u32| u64::from(slot).wrapping_mul(factor).wrapping_sub(base);
    // Four minima, because each comparison waits for the one before.
    let mut least = [u64::MAX; 4];
    let quads = slots.chunks_exact(4);
    let rest = quads.remainder();
    for quad in quads {
        for (least, &slot) in least.iter_mut().zip(quad) {
            *least = fraction(slot).min(*least);
        }
    }
    rest.iter()
        .map(|&slot| fraction(slot))
        .chain(least)
        .min()
        .unwrap_or(u64::MAX)
}

/// `x^-1 mod m` for a prime `m` and `0 < x < m`, by Euclid's algorithm.
fn inverse(x: u32, m: u32) -> u32 {
    // Invariant: `x * factor = value (mod m)`, for both pairs.
    let (mut value, mut factor) = (i64::from(m), 0i64);
    let (mut next_value, mut next_factor) = (i64::from(x), 1i64);
    while next_value != 0 {
        let quotient = value / next_value;
        (value, next_value) = (next_value, value - quotient * next_value);
        (factor, next_factor) = (next_factor, factor - quotient * next_factor);
    }
    factor.rem_euclid(i64::from(m)) as u32
}

/// `x / m` for `x < m`, in units of 2^-64, rounded up or one more.
fn fixed_point(x: u32, m: u32) -> u64 {
    let m = u64::from(m);
    let high = u64::from(x) << 32;
    let low = (high % m) << 32;
    (((high / m) << 32) | (low / m)) + 1
}
