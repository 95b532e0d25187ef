// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The order of turns.
//!
//! In each round, all members in ascending order of ranks add their weight to a credit, and those
//! who thereby reach the largest weight, `w_max`, pay that much for a turn. As long as a round has
//! turns for a good part of the members, it is gone through as it stands. But that takes time in
//! proportion to `N * w_max` over the sum of weights, which has no bound: for less even weights,
//! turn `k` of weight `w` is known to happen in round `ceil(k * w_max / w)`, and the turns of many
//! rounds at once are sorted by counting.

use std::ops::RangeInclusive;

use super::order::Entry;

/// The next turn of a member, and the step to the one after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The round of the next turn, `ceil(k * w_max / w)`, or the largest number if it is beyond
    /// that: the heaviest member has a turn in each round, so no table has that many.
    round: u32,
    /// By how much the rounding up overshoots: `round * w - k * w_max`, less than `w`.
    over: u32,
    /// `w_max / w`.
    quotient: u32,
    /// `w_max % w`.
    remainder: u32,
}

impl Pace {
    fn new(weight: u32, max: u32) -> Self {
        let mut pace = Self {
            round: 0,
            over: 0,
            quotient: max / weight,
            remainder: max % weight,
        };
        // The turn after turn zero, which would be in round zero.
        pace.take_through(0, weight, |_| ());
        pace
    }

    /// Takes all turns up to the round `last`; calls `turn` with the round of each.
    #[inline(always)]
    fn take_through(&mut self, last: u32, weight: u32, mut turn: impl FnMut(u32)) {
        let last = u64::from(last);
        let mut round = u64::from(self.round);
        while round <= last {
            turn(round as u32);
            let short = self.over < self.remainder;
            // Without a branch; the sum is in range, though not each term.
            let refill = if short { weight } else { 0 };
            self.over = self.over.wrapping_sub(self.remainder).wrapping_add(refill);
            round += u64::from(self.quotient) + u64::from(short);
        }
        self.round = u32::try_from(round).unwrap_or(u32::MAX);
    }
}

/// Entries that the queue needs: the turns aimed at, and one more of each member.
pub(super) const fn queue_capacity(placed: usize) -> usize {
    turns_aimed_at(placed) + placed
}

/// Counts that go with a queue: as many rounds as it spans, or as there are members.
pub(super) const fn counts_capacity(placed: usize) -> usize {
    turns_aimed_at(placed)
}

/// How many turns to sort at a time. The more, the less the cost of going through all members, who
/// may have none among them; memory sets the bound.
const fn turns_aimed_at(placed: usize) -> usize {
    1024 + placed + placed / 2
}

/// Members per turn of a round up to which rounds are gone through member by member.
const MAX_MEMBERS_PER_TURN: u64 = 4;

/// A source of turns.
pub(super) struct Turns<'a> {
    queue: &'a mut Vec<u32>,
    /// Places in the queue by round, or credits by rank.
    counts: &'a mut Vec<u32>,
    paces: &'a mut Vec<Pace>,
    method: Method,
}

enum Method {
    /// All weights are equal, and the queue holds whole rounds of everyone for good.
    Repeat,
    /// Going through rounds, for a largest weight of `max`.
    Scan { max: u32 },
    /// Sorting the turns of `step` rounds at a time; `done` have been in the queue.
    Sort { step: u32, done: u32 },
}

impl<'a> Turns<'a> {
    /// `entries` are the placed members; there is at least one, and none has weight zero.
    pub(super) fn new(
        entries: &[Entry],
        queue: &'a mut Vec<u32>,
        counts: &'a mut Vec<u32>,
        paces: &'a mut Vec<Pace>,
    ) -> Self {
        let members = entries.len();
        let weights = || entries.iter().map(|entry| entry.weight);
        let max = weights().max().unwrap_or(0);
        let sum: u64 = weights().map(u64::from).sum();
        let whole_rounds = queue_capacity(members) / members.max(1) * members;
        queue.clear();
        counts.clear();
        paces.clear();
        let even = members as u64 * u64::from(max);
        let method = if even == sum {
            queue.extend((0..members as u32).cycle().take(whole_rounds));
            Method::Repeat
        } else if even <= MAX_MEMBERS_PER_TURN * sum {
            queue.resize(whole_rounds, 0);
            counts.resize(members, 0);
            Method::Scan { max }
        } else {
            paces.extend(weights().map(|weight| Pace::new(weight, max)));
            // In that many rounds, everyone together has at most the turns aimed at, and one each
            // for rounding. It is at most as many rounds as turns, because max <= sum.
            let aim = turns_aimed_at(members) as u64;
            let step = (aim * u64::from(max) / sum).max(1) as u32;
            Method::Sort { step, done: 0 }
        };
        Self {
            queue,
            counts,
            paces,
            method,
        }
    }

    /// The ranks whose turn it is next, in order; never none.
    pub(super) fn next(&mut self, entries: &[Entry]) -> &[u32] {
        match &mut self.method {
            Method::Repeat => self.queue,
            Method::Scan { max } => scan_rounds(entries, *max, self.counts, self.queue),
            Method::Sort { step, done } => {
                let first = *done + 1;
                *done = done.saturating_add(*step);
                sort_rounds(entries, first..=*done, self.paces, self.counts, self.queue)
            }
        }
    }
}

/// Goes through as many rounds as the queue has room for if everyone has a turn in each.
fn scan_rounds<'q>(
    entries: &[Entry],
    max: u32,
    credits: &mut [u32],
    queue: &'q mut [u32],
) -> &'q [u32] {
    let mut turns = 0;
    for _ in 0..queue.len() / entries.len() {
        for (rank, (credit, entry)) in (0..).zip(credits.iter_mut().zip(entries)) {
            // Without a branch: written in any case, and counted if it is a turn. Credits are less
            // than `max`, and compared with what they lack, so that no sum exceeds 32 bits.
            let lack = max - *credit;
            let turn = entry.weight >= lack;
            queue[turns] = rank;
            turns += usize::from(turn);
            *credit = if turn {
                entry.weight - lack
            } else {
                *credit + entry.weight
            };
        }
    }
    &queue[..turns]
}

/// Sorts the turns of some rounds, which follow those sorted before.
fn sort_rounds<'q>(
    entries: &[Entry],
    span: RangeInclusive<u32>,
    paces: &mut [Pace],
    counts: &mut Vec<u32>,
    queue: &'q mut Vec<u32>,
) -> &'q [u32] {
    let (first, last) = span.into_inner();
    counts.clear();
    counts.resize((last - first) as usize + 1, 0);
    for (pace, entry) in paces.iter().zip(entries) {
        pace.clone().take_through(last, entry.weight, |round| {
            counts[(round - first) as usize] += 1;
        });
    }
    let mut turns = 0;
    for count in counts.iter_mut() {
        turns += std::mem::replace(count, turns);
    }
    queue.clear();
    queue.resize(turns as usize, 0);
    for (rank, (pace, entry)) in (0..).zip(paces.iter_mut().zip(entries)) {
        pace.take_through(last, entry.weight, |round| {
            let place = &mut counts[(round - first) as usize];
            queue[*place as usize] = rank;
            *place += 1;
        });
    }
    queue
}
