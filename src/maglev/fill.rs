// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The fill: every turn claims the first free slot of a member's preference list.
//!
//! The number of free slots says how many probes a turn takes on average, and each turn takes one
//! slot away. So the turns fall into bands, each with the search that suits its number of probes.
//! When few free slots are left, those are searched instead of the table.

use super::scratch::{Cursor, Scratch};
use super::size::TableSize;
use super::slot::SlotIndex;
use super::tail::{self, Tail};
use super::turns::Turns;

/// Fills `out`, for the members in `scratch.entries` with their cursors; at least one.
pub(super) fn fill<S: SlotIndex>(out: &mut [S], scratch: &mut Scratch, size: TableSize) {
    let Scratch {
        entries,
        cursors,
        paces,
        queue,
        counts,
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
    let mut turns = Turns::new(entries, queue, counts, paces);
    // Down to how many free slots, and how each turn looks for one until then. A look at one slot
    // is short, and nearly always succeeds while most are free. After that, the processor would
    // guess wrong once per turn where to stop; it need not guess if a look covers so many slots
    // that one of them is free. The places to change over were found by measuring.
    let bands = [
        (m / 10 * 7, Look::One),
        (m / 3, Look::Four),
        (m / 10, Look::Six),
        (tail::length(size) as u32, Look::Walk),
    ];
    let mut left = m;
    let mut ranks = turns.next(entries);
    for (floor, look) in bands {
        while left > floor {
            if ranks.is_empty() {
                ranks = turns.next(entries);
            }
            let (now, later) = ranks.split_at(ranks.len().min((left - floor) as usize));
            match look {
                Look::One => probe.claim(now, cursors, out, Probe::look::<1>),
                Look::Four => probe.claim(now, cursors, out, Probe::look::<4>),
                Look::Six => probe.claim(now, cursors, out, Probe::look::<6>),
                Look::Walk => probe.claim(now, cursors, out, Probe::walk),
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

/// How a turn looks for a free slot.
#[derive(Clone, Copy)]
enum Look {
    /// At one slot, then at the next.
    One,
    /// At four slots at once.
    Four,
    /// At six slots at once.
    Six,
    /// At one slot after the other, prepared for many.
    Walk,
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

    /// Gives each of `ranks` a turn, in which `find` finds the first free slot from a position on.
    #[inline(always)]
    fn claim<S: SlotIndex>(
        &mut self,
        ranks: &[u32],
        cursors: &mut [Cursor],
        out: &mut [S],
        find: impl Fn(&Self, u32, u32) -> u32,
    ) {
        for &rank in ranks {
            let cursor = &mut cursors[rank as usize];
            let slot = find(self, cursor.position, cursor.skip);
            // Written so that the mask is not computed along with each look.
            self.free[(slot / 32) as usize] &= (!1u32).rotate_left(slot % 32);
            out[slot as usize] = S::from_u32(cursor.value);
            cursor.position = step(slot, cursor.skip, self.m);
            cursor.claimed += 1;
        }
    }

    /// Looks at so many slots at once, without a branch, until one of them is free. It ends as
    /// long as any slot is: the list of a member visits all.
    #[inline(always)]
    fn look<const SLOTS: usize>(&self, mut position: u32, skip: u32) -> u32 {
        loop {
            let mut slots = [position; SLOTS];
            for next in 1..SLOTS {
                slots[next] = step(slots[next - 1], skip, self.m);
            }
            let last = slots[SLOTS - 1];
            let (slot, found) = slots
                .iter()
                .rev()
                .fold((last, false), |(slot, found), &before| {
                    let free = self.is_free(before);
                    (if free { before } else { slot }, found | free)
                });
            if found {
                return slot;
            }
            position = step(last, skip, self.m);
        }
    }

    /// Looks at one slot after the other, where most looks are in vain. Two walks take turns, each
    /// two slots at a time, because a step has to wait for the one before.
    #[inline(always)]
    fn walk(&self, position: u32, skip: u32) -> u32 {
        let twice = step(skip, skip, self.m);
        let (mut even, mut odd) = (position, step(position, skip, self.m));
        loop {
            if self.is_free(even) {
                return even;
            }
            if self.is_free(odd) {
                return odd;
            }
            even = step(even, twice, self.m);
            odd = step(odd, twice, self.m);
        }
    }

    #[inline(always)]
    fn is_free(&self, slot: u32) -> bool {
        (self.free[(slot / 32) as usize] >> (slot % 32)) & 1 != 0
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
    // Two sums that do not wait for each other; the sign says which one is in the table.
    let within = position + skip;
    let beyond = position.wrapping_add(skip.wrapping_sub(m));
    if (beyond as i32) < 0 {
        within
    } else {
        beyond
    }
}
