// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Who gets which slot, under which generation.
//!
//! A pin names a slot and a generation, so no number may come back while a pin could still carry it.
//! Numbers go up and round. Before a new round begins, the pins that no member answers to are
//! removed; members keep their numbers, which the new round leaves out. A member that leaves while
//! the round is not at its number yet takes all numbers up to its own with it, as nothing else would
//! tell that it was used. Numbers that lie more than half a round ahead are safe: no pin is left by
//! then.

use super::number::{Generation, HighWater, Slot};
use super::snapshot::{Counters, Member};
use super::spec::Keyed;

/// Members in their slots.
#[derive(Debug)]
pub(super) struct Assigned {
    /// In ascending order of slots.
    pub(super) members: Vec<Member>,
    /// The first generation that is left.
    pub(super) next: Generation,
    /// Whether the numbers have begun a new round since the last publication.
    pub(super) wraps: bool,
}

/// The numbers of a group, from the last publication on.
struct Numbers {
    next: Generation,
    wraps: bool,
}

impl Numbers {
    fn skip_to(&mut self, next: Generation) {
        self.wraps |= next.get() < self.next.get();
        self.next = next;
    }

    /// The next number that is none of `carried`.
    fn take(&mut self, carried: &[Member]) -> Generation {
        while carried.iter().any(|member| member.generation == self.next) {
            self.skip_to(self.next.next());
        }
        let number = self.next;
        self.skip_to(number.next());
        number
    }

    /// Leaves out all numbers up to `used`, if it lies ahead in this round.
    fn pass(&mut self, used: Generation) {
        let in_this_round = used.get() >= self.next.get();
        if in_this_round && !self.next.is_after(used) {
            self.skip_to(used.next());
        }
    }
}

/// Gives each candidate a slot and a generation: its own, or, in the order of `candidates`, the
/// lowest that is free. There are at least as many slots as candidates.
pub(super) fn assign(
    previous: &[Member],
    published: Generation,
    high_water: HighWater,
    candidates: &[Keyed],
    slots: u16,
    counters: &[Counters],
) -> Assigned {
    let mut numbers = Numbers {
        next: published,
        wraps: false,
    };
    if let Some(mark) = high_water.next() {
        numbers.skip_to(published.later(mark));
    }
    let mut members = Vec::with_capacity(candidates.len());
    let mut newcomers = Vec::new();
    for keyed in candidates {
        let candidate = &keyed.candidate;
        let before = previous.iter().find(|member| member.sid == candidate.sid);
        match before {
            None => newcomers.push(candidate),
            Some(before) => members.push(Member {
                weight: candidate.weight,
                draining: candidate.draining,
                next_hop: candidate.next_hop,
                ..*before
            }),
        }
    }
    let mut free = vec![Free::Long; slots.into()];
    let stays = |member: &Member| {
        let mut candidates = candidates.iter();
        candidates.any(|keyed| keyed.candidate.sid == member.sid)
    };
    for member in previous {
        if let Some(free) = free.get_mut(usize::from(member.slot.get())) {
            *free = match stays(member) {
                true => Free::No,
                false => Free::JustNow,
            };
        }
    }
    for candidate in newcomers {
        // A slot that was left just now only if there is no other: its counters and its last
        // packets belong to who left.
        let place = |wanted| free.iter().position(|&free| free == wanted);
        let Some(index) = place(Free::Long).or_else(|| place(Free::JustNow)) else {
            break;
        };
        let Some(slot) = Slot::new(index as u32) else {
            break;
        };
        free[index] = Free::No;
        members.push(Member {
            slot,
            generation: numbers.take(previous),
            sid: candidate.sid,
            weight: candidate.weight,
            draining: candidate.draining,
            next_hop: candidate.next_hop,
            base: counters.get(index).copied().unwrap_or_default(),
        });
    }
    for left in previous.iter().filter(|member| !stays(member)) {
        numbers.pass(left.generation);
    }
    members.sort_by_key(|member| member.slot);
    Assigned {
        members,
        next: numbers.next,
        wraps: numbers.wraps,
    }
}

/// Whether a slot can be had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    No,
    /// Its member leaves with this publication.
    JustNow,
    Long,
}
