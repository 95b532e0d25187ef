// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The order of turns.
//!
//! Turn `k` of a member with weight `w` happens in round `ceil(k * w_max / w)`, and within a round
//! the ranks ascend. Going through the rounds one by one would take time in proportion to
//! `w_max`; instead, the turns of many rounds at once are sorted by counting, so that the work is
//! in proportion to the turns.

use super::order::Entry;

/// Turns that a queue is to have at least, so that starting one is cheap even for few members.
const MIN_TURNS: usize = 1024;

/// The next turn of a member, and the step to the one after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The round of the next turn, `ceil(k * w_max / w)`. It stays at the maximum once there: the
    /// heaviest member has a turn in each round, so no table has that many.
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
        pace.advance(weight);
        pace
    }

    #[inline]
    fn advance(&mut self, weight: u32) {
        let short = self.over < self.remainder;
        // Without a branch; in wrapping arithmetic, as the sum is in range but not each term.
        let refill = if short { weight } else { 0 };
        self.over = self.over.wrapping_sub(self.remainder).wrapping_add(refill);
        self.round = self
            .round
            .saturating_add(self.quotient)
            .saturating_add(u32::from(short));
    }
}

/// Entries that the queue needs: the turns aimed at, and one more of each member.
pub(super) const fn queue_capacity(placed: usize) -> usize {
    turns_aimed_at(placed) + placed
}

/// Rounds that a queue can span.
pub(super) const fn rounds_capacity(placed: usize) -> usize {
    turns_aimed_at(placed)
}

const fn turns_aimed_at(placed: usize) -> usize {
    if placed > MIN_TURNS {
        placed
    } else {
        MIN_TURNS
    }
}

/// A source of turns.
pub(super) struct Turns<'a> {
    queue: &'a mut Vec<u32>,
    rounds: &'a mut Vec<u32>,
    paces: &'a mut Vec<Pace>,
    /// Rounds that have been in the queue.
    done: u32,
    /// Rounds to put into the queue at a time. Zero if the queue has been filled once and for all,
    /// with whole rounds of everyone.
    step: u32,
}

impl<'a> Turns<'a> {
    /// `entries` are the placed members; there is at least one, and none has weight zero.
    pub(super) fn new(
        entries: &[Entry],
        queue: &'a mut Vec<u32>,
        rounds: &'a mut Vec<u32>,
        paces: &'a mut Vec<Pace>,
    ) -> Self {
        let weights = || entries.iter().map(|entry| entry.weight);
        let max = weights().max().unwrap_or(0);
        queue.clear();
        rounds.clear();
        paces.clear();
        if weights().all(|weight| weight == max) {
            let ranks = 0..entries.len() as u32;
            while queue.len() + entries.len() <= queue_capacity(entries.len()) {
                queue.extend(ranks.clone());
            }
            return Self {
                queue,
                rounds,
                paces,
                done: 0,
                step: 0,
            };
        }
        paces.extend(weights().map(|weight| Pace::new(weight, max)));
        // In this many rounds everyone together has at most the turns aimed at, plus one each for
        // rounding; and it is at most as many rounds as turns, because max <= sum.
        let sum: u64 = weights().map(u64::from).sum();
        let aim = turns_aimed_at(entries.len()) as u64;
        let step = (aim * u64::from(max) / sum).max(1) as u32;
        Self {
            queue,
            rounds,
            paces,
            done: 0,
            step,
        }
    }

    /// The ranks whose turn it is next, in order; never none.
    pub(super) fn next(&mut self, entries: &[Entry]) -> &[u32] {
        if self.step > 0 {
            self.sort_rounds(entries);
        }
        self.queue
    }

    fn sort_rounds(&mut self, entries: &[Entry]) {
        let first = self.done + 1;
        let end = first.saturating_add(self.step);
        self.rounds.clear();
        self.rounds.resize(self.step as usize, 0);
        for (pace, entry) in self.paces.iter().zip(entries) {
            let mut pace = *pace;
            while pace.round < end {
                self.rounds[(pace.round - first) as usize] += 1;
                pace.advance(entry.weight);
            }
        }
        let mut start = 0;
        for turns in self.rounds.iter_mut() {
            start += std::mem::replace(turns, start);
        }
        self.queue.clear();
        self.queue.resize(start as usize, 0);
        for (rank, (pace, entry)) in (0..).zip(self.paces.iter_mut().zip(entries)) {
            while pace.round < end {
                let place = &mut self.rounds[(pace.round - first) as usize];
                self.queue[*place as usize] = rank;
                *place += 1;
                pace.advance(entry.weight);
            }
        }
        self.done = end - 1;
    }
}
