// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The builder's front: checks first, then the fill.

use super::error::BuildError;
use super::fill;
use super::fnv::preference;
use super::order;
use super::scratch::{Cursor, Scratch};
use super::size::TableSize;
use super::slot::SlotIndex;

/// Something that can own slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member<'a, S> {
    /// The member's identity, 1 to 1,024 bytes that are the same on every node. It alone decides
    /// which slots the member prefers.
    pub key: &'a [u8],
    /// What the member's slots contain. It has no influence on which slots those are.
    pub index: S,
    /// The member's share in relation to the others. Zero: no slot.
    pub weight: u32,
    /// Whether the member takes part at all; one that does not gets no slot.
    pub eligible: bool,
}

impl<'a, S> Member<'a, S> {
    /// An eligible member.
    #[must_use]
    pub const fn new(key: &'a [u8], index: S, weight: u32) -> Self {
        Self {
            key,
            index,
            weight,
            eligible: true,
        }
    }
}

/// What [`build_into`] has built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Built {
    /// Eligible members with a weight.
    pub placed: usize,
    /// Placed members that got a slot. A weight too small for one in this table gets none.
    pub owners: usize,
    /// Sum of the placed members' weights.
    pub weight_sum: u64,
}

impl Built {
    /// True if no member was placed, so that no slot has an owner.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.placed == 0
    }
}

/// Builds a table into `out`, one value per slot.
///
/// Without a placed member every slot becomes [`SlotIndex::NONE`]; otherwise none does. With a
/// [`Scratch`] that has seen a build of this size, or has the capacity for it, nothing is
/// allocated. The time depends on the numbers of slots and members, not on the weights.
///
/// # Errors
/// Nothing is written to `out` if the input is refused; see [`BuildError`].
pub fn build_into<S: SlotIndex>(
    out: &mut [S],
    scratch: &mut Scratch,
    size: TableSize,
    members: &[Member<'_, S>],
) -> Result<Built, BuildError> {
    if out.len() != size.slots() {
        return Err(BuildError::OutputLength {
            expected: size.slots(),
            got: out.len(),
        });
    }
    scratch.reserve(size, members.len().min(S::MAX_MEMBERS));
    order::place(members, &mut scratch.entries, &mut scratch.queue)?;
    let placed = scratch.entries.len();
    if placed > size.slots() {
        return Err(BuildError::SizeTooSmall {
            size: size.get(),
            placed,
        });
    }
    if placed == 0 {
        scratch.cursors.clear();
        out.fill(S::NONE);
        return Ok(Built {
            placed,
            owners: 0,
            weight_sum: 0,
        });
    }
    scratch.cursors.clear();
    scratch.cursors.extend(scratch.entries.iter().map(|entry| {
        let member = &members[entry.member as usize];
        let (position, skip) = preference(member.key, size);
        Cursor {
            position,
            skip,
            value: member.index.to_u32(),
            claimed: 0,
        }
    }));
    fill::fill(out, scratch, size);
    Ok(Built {
        placed,
        owners: scratch
            .cursors
            .iter()
            .filter(|cursor| cursor.claimed > 0)
            .count(),
        weight_sum: scratch
            .entries
            .iter()
            .map(|entry| u64::from(entry.weight))
            .sum(),
    })
}
