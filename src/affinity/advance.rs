// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What becomes of the slots of a service with a publication.
//!
//! The rules keep one promise: for every live flow, bound to a backend that stays usable, there is
//! an entry, or the answer for packets without one is that backend. In a plain and a held slot
//! that answer is the owner; in an open one the base owner as long as it is usable.
//!
//! - A change of owner *opens* a slot. Its base is the owner before, so flows without an entry
//!   stay, and each gets its entry with its next packet. Further changes alter neither base nor
//!   time: at the end of the window every live flow of the slot has an entry, however often the
//!   owner changed.
//! - When the window is over, an open slot becomes *held*: flows with entries that differ keep
//!   them, and nothing new is remembered.
//! - When a sweep finds no such entry any more, it becomes *plain*.

use std::collections::BTreeSet;

use super::rules::SlotKind;
use super::slots::{kind, Builder, OpenedNs, SlotSet, Slots, NONE, OPENINGS};
use crate::service::Tracking;

/// The fraction of a window to which openings are rounded, so that few different ones are kept.
const GRID: u64 = 64;

/// A publication as the slots of one service see it.
#[derive(Debug, Clone)]
pub struct SlotChange<'a> {
    /// The row that owns each slot afterwards, or [`GW_SLOT_NONE`](crate::abi::SlotWord).
    pub owners: &'a [u16],
    /// Rows, as they were given before, of backends that the publication removes from the service.
    /// Whoever gets such a row afterwards is somebody else.
    pub removed: &'a BTreeSet<u16>,
    /// Monotonic clock in nanoseconds.
    pub now_ns: u64,
    /// When the publication before had returned, on that clock; none if that is not known, which
    /// counts as now.
    pub returned_ns: Option<u64>,
    /// For how long slots stay open, in nanoseconds: at least the longest time that a flow may be
    /// silent and live.
    pub window_ns: u64,
    /// When an insert in an open slot of the service was last refused or found no lock; none if
    /// that never happened.
    pub refused_ns: Option<u64>,
    /// The slots with a live entry that differs from the owner, as found by a complete sweep that
    /// began after the publication before had returned; none if there was no such sweep.
    pub differing: Option<&'a SlotSet>,
    /// Which flows had an entry.
    pub before: Tracking,
    /// Which flows get one.
    pub after: Tracking,
}

/// The slots of a service after a publication, from those before.
///
/// Tables of two sizes have no slots in common: then, and where only the flows that need it get an
/// entry and every flow had one, all slots are held before the owners change. Where every flow gets
/// an entry, no slot is marked. Openings of this publication have no time, for it is not known
/// before the publication has returned: the next one tells.
pub fn advance(previous: &Slots, change: &SlotChange<'_>) -> Slots {
    match (change.before, change.after) {
        (_, Tracking::All) => Slots::plain(change.owners),
        _ if previous.words().len() != change.owners.len() => Slots::held(change.owners),
        (before, Tracking::Exceptions) => exceptions(previous, change, before == Tracking::All),
    }
}

fn exceptions(previous: &Slots, change: &SlotChange<'_>, all_held: bool) -> Slots {
    let Openings {
        places,
        mut openings,
    } = Openings::settle(previous.openings(), change);
    let due: Vec<bool> = openings
        .iter()
        .map(|opened| opened.is_some_and(|opened| is_due(opened, change)))
        .collect();
    let this_one = openings.len() as u8;
    openings.push(None);

    let removed = |row: u16| !change.removed.is_empty() && change.removed.contains(&row);
    let mut slots = Builder::new(change.owners.len(), openings);
    for ((slot, word), &owner) in (0..).zip(previous.words().iter()).zip(change.owners) {
        let stays = word.owner == owner && !removed(owner);
        let before = match kind(word) {
            SlotKind::Plain if all_held => SlotKind::Held,
            before => before,
        };
        let mut opening = this_one;
        let after = match before {
            // Nobody's flows have to be told from the new owner's.
            SlotKind::Plain | SlotKind::Held
                if !stays && (word.owner == NONE || removed(word.owner)) =>
            {
                before
            }
            SlotKind::Plain | SlotKind::Held if !stays => SlotKind::Open { base: word.owner },
            SlotKind::Plain => SlotKind::Plain,
            SlotKind::Held => match change.differing {
                Some(differing) if !all_held && !differing.contains(slot) => SlotKind::Plain,
                _ => SlotKind::Held,
            },
            // Packets without an entry have nobody to go to but the owner.
            SlotKind::Open { base } if base == owner || removed(base) => SlotKind::Held,
            SlotKind::Open { .. } => {
                let place = previous.opening_index(slot).and_then(|at| places.get(at));
                opening = place.copied().unwrap_or(this_one);
                if due.get(usize::from(opening)).is_some_and(|due| *due) {
                    SlotKind::Held
                } else {
                    before
                }
            }
        };
        slots.push(owner, after, opening);
    }
    slots.finish()
}

/// Whether a window is over: every live flow of the slot has sent a packet since it opened, and
/// every such packet found room.
fn is_due(opened_ns: u64, change: &SlotChange<'_>) -> bool {
    let over = |since: u64| since.saturating_add(change.window_ns) <= change.now_ns;
    over(opened_ns) && change.refused_ns.is_none_or(over)
}

/// When a window counts as opened that opened then: the time on a grid, never earlier.
pub(crate) fn rounded(opened_ns: u64, window_ns: u64) -> u64 {
    let grid = (window_ns / GRID).max(1);
    opened_ns.div_ceil(grid).saturating_mul(grid)
}

/// Openings with their times, each once.
struct Openings {
    /// Where each of the former ones is among them.
    places: Vec<u8>,
    openings: Vec<OpenedNs>,
}

impl Openings {
    /// Gives the last publication's openings their time, and rounds all up. A time that is too
    /// late lengthens a window, which costs memory; one too early would lose flows.
    fn settle(openings: &[OpenedNs], change: &SlotChange<'_>) -> Self {
        let returned = change.returned_ns.unwrap_or(change.now_ns);
        let settled: Vec<u64> = openings
            .iter()
            .map(|opened| rounded(opened.unwrap_or(returned), change.window_ns))
            .collect();
        let times: BTreeSet<u64> = settled.iter().copied().collect();
        // One place is left for the openings of this publication.
        let times: Vec<u64> = times.into_iter().rev().take(OPENINGS - 1).collect();
        let places = settled.iter().map(|time| {
            // In descending order; what is older than all joins the oldest.
            let place = times.partition_point(|kept| kept > time);
            place.min(times.len().saturating_sub(1)) as u8
        });
        Self {
            places: places.collect(),
            openings: times.iter().map(|&time| Some(time)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
