// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The fill: every turn claims the first free slot of a member's preference list.
//!
//! The number of free slots alone says how many probes a turn takes on average, and each turn
//! takes one slot away. So the fill goes through bands of turns: each looks at so many slots of
//! the list at once that one look nearly always finds a free one, without a branch that the
//! processor would guess wrong. When few free slots are left, the list of those is searched
//! instead of the table.

use super::scratch::{Cursor, Scratch};
use super::size::TableSize;
use super::slot::SlotIndex;
use super::tail::Tail;
use super::turns::Turns;

/// Fills `out`, for the members in `scratch.entries` with their cursors; at least one.
pub(super) fn fill<S: SlotIndex>(out: &mut [S], scratch: &mut Scratch, size: TableSize) {
    let Scratch {
        entries,
        cursors,
        paces,
        queue,
        rounds,
        free,
        open,
    } = scratch;
    let m = size.get();
    if let [only] = cursors.as_mut_slice() {
        out.fill(S::from_u32(only.value));
        only.claimed = m;
        return;
    }
    let mut probe = Probe::new(free, m);
    let mut turns = Turns::new(entries, queue, rounds, paces);
    let tail_length = super::tail::length(size) as u32;
    let bands = [(m / 2, 4), (m / 5, 8), (tail_length, 16)];
    let mut left = m;
    let mut ranks = turns.next(entries);
    for (floor, lanes) in bands {
        while left > floor {
            if ranks.is_empty() {
                ranks = turns.next(entries);
            }
            let (now, later) = ranks.split_at(ranks.len().min((left - floor) as usize));
            match lanes {
                4 => probe.claim::<4, S>(now, cursors, out),
                8 => probe.claim::<8, S>(now, cursors, out),
                _ => probe.claim::<16, S>(now, cursors, out),
            }
            ranks = later;
            left -= now.len() as u32;
        }
    }
    let mut tail = Tail::new(probe.free_slots(), open, entries, m);
    while left > 0 {
        if ranks.is_empty() {
            ranks = turns.next(tail.entries());
        }
        let (now, later) = ranks.split_at(ranks.len().min(left as usize));
        for &rank in now {
            tail.claim(rank as usize, cursors, out);
        }
        ranks = later;
        left -= now.len() as u32;
    }
}

/// A search of the table itself.
struct Probe<'a> {
    /// One bit per slot, set while the slot is free.
    free: &'a mut Vec<u32>,
    m: u32,
}

impl<'a> Probe<'a> {
    fn new(free: &'a mut Vec<u32>, m: u32) -> Self {
        free.clear();
        free.resize(m.div_ceil(32) as usize, u32::MAX);
        if let Some(last) = free.last_mut() {
            *last >>= m.wrapping_neg() % 32;
        }
        Self { free, m }
    }

    /// Gives each of `ranks` a turn. Every turn ends, as long as there is a free slot for it: the
    /// list of a member visits all slots.
    fn claim<const LANES: usize, S: SlotIndex>(
        &mut self,
        ranks: &[u32],
        cursors: &mut [Cursor],
        out: &mut [S],
    ) {
        let m = self.m;
        for &rank in ranks {
            let cursor = &mut cursors[rank as usize];
            let skip = cursor.skip;
            let mut position = cursor.position;
            let slot = loop {
                let mut lanes = [0; LANES];
                let mut found = 0u32;
                for (lane, at) in lanes.iter_mut().enumerate() {
                    *at = position;
                    found |= (self.free[(position / 32) as usize] >> (position % 32) & 1) << lane;
                    position = step(position, skip, m);
                }
                if found != 0 {
                    break lanes[found.trailing_zeros() as usize % LANES];
                }
            };
            self.free[(slot / 32) as usize] &= !(1 << (slot % 32));
            out[slot as usize] = S::from_u32(cursor.value);
            cursor.position = step(slot, skip, m);
            cursor.claimed += 1;
        }
    }

    fn free_slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .step_by(32)
            .zip(self.free.iter())
            .flat_map(|(first, &bits)| {
                std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)))
                    .take_while(|&bits| bits != 0)
                    .map(move |bits| first + bits.trailing_zeros())
            })
    }
}

/// The next slot of a preference list. No sum overflows: sizes stay below 2^21.
#[inline]
pub(super) fn step(position: u32, skip: u32, m: u32) -> u32 {
    let next = position + skip;
    // The subtraction wraps around to a large number unless the sum is out of the table.
    next.min(next.wrapping_sub(m))
}
