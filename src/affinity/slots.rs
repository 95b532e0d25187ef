// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The slots of a table with what they remember of earlier tables.

use std::sync::Arc;

use super::rules::{Slot, SlotKind};
use crate::abi;

/// A slot without an owner.
pub(super) const NONE: u16 = abi::SlotWord::GW_SLOT_NONE.0 as u16;
/// The highest row number; what is above it says something else.
const LAST_ROW: u16 = abi::SlotWord::GW_SLOT_HELD.0 as u16 - 1;

/// The word of a slot with this owner.
fn word(owner: u16, kind: SlotKind) -> abi::Slot {
    let owner = (owner != NONE).then_some(owner);
    Slot { owner, kind }.to_abi()
}

/// The kind in a slot word.
pub(super) fn kind(word: &abi::Slot) -> SlotKind {
    Slot::from_abi(*word).kind
}

/// Since when a slot is open: nanoseconds on the monotonic clock, none as long as nobody knows when
/// the publication that opened it returned.
pub type OpenedNs = Option<u64>;

/// The slots of one service: the words that packets read, and since when those are open that are.
///
/// Cheap to clone, and no larger than its words while no slot is open.
#[derive(Debug, Clone)]
pub struct Slots {
    words: Arc<[abi::Slot]>,
    /// For each slot the opening it belongs to, meaningful for open ones; empty if none is open.
    opened: Arc<[u8]>,
    openings: Vec<OpenedNs>,
}

/// Marks that do not belong together, or not to their table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// There is no such slot, or its mark is not behind that of the slot before.
    #[error("slot {slot} of {slots} is out of range or order")]
    Slot {
        /// Index of the slot.
        slot: u32,
        /// Slots of the table.
        slots: usize,
    },
    /// The base owner is nobody, or the owner itself.
    #[error("slot {slot} is open with base row {base}, its owner is {owner}")]
    Base {
        /// Index of the slot.
        slot: u32,
        /// Row of the base owner.
        base: u16,
        /// Row of the owner.
        owner: u16,
    },
    /// There is no such opening.
    #[error("slot {slot} belongs to opening {opening} of {openings}")]
    Opening {
        /// Index of the slot.
        slot: u32,
        /// Index of the opening.
        opening: u8,
        /// How many there are.
        openings: usize,
    },
    /// More openings than one byte counts, or openings that no slot belongs to.
    #[error("{openings} openings, {used} of them with a slot")]
    Openings {
        /// How many there are.
        openings: usize,
        /// To how many of them a slot belongs.
        used: usize,
    },
}

/// A marked slot as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Index of the slot.
    pub slot: u32,
    /// For an open slot its base row and the index of its opening; none for a held one.
    pub open: Option<(u16, u8)>,
}

/// How many slots there are of each marked kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MarkCount {
    /// Open slots.
    pub open: u32,
    /// Held slots.
    pub held: u32,
}

impl Slots {
    /// No slot is marked.
    pub fn plain(owners: &[u16]) -> Self {
        Self::unmarked(owners, SlotKind::Plain)
    }

    /// Every slot is held: flows may have entries that differ.
    pub fn held(owners: &[u16]) -> Self {
        Self::unmarked(owners, SlotKind::Held)
    }

    fn unmarked(owners: &[u16], kind: SlotKind) -> Self {
        Self {
            words: owners.iter().map(|&owner| word(owner, kind)).collect(),
            opened: Arc::default(),
            openings: Vec::new(),
        }
    }

    /// Puts together what [`marks`](Self::marks) and [`openings`](Self::openings) gave, for a table
    /// with these owners. `marks` are in the order of slots.
    ///
    /// # Errors
    /// They contradict each other or the table.
    pub fn with_marks(
        owners: &[u16],
        openings: Vec<OpenedNs>,
        marks: impl IntoIterator<Item = Mark>,
    ) -> Result<Self, MarkError> {
        let mut words: Vec<_> = owners
            .iter()
            .map(|&owner| word(owner, SlotKind::Plain))
            .collect();
        let mut opened = vec![0; if openings.is_empty() { 0 } else { words.len() }];
        let mut used = vec![false; openings.len()];
        let mut next = 0;
        for Mark { slot, open } in marks {
            let slots = words.len();
            let found = words.get_mut(slot as usize).filter(|_| slot >= next);
            let found = found.ok_or(MarkError::Slot { slot, slots })?;
            next = slot.saturating_add(1);
            let owner = found.owner;
            let Some((base, opening)) = open else {
                *found = word(owner, SlotKind::Held);
                continue;
            };
            if base > LAST_ROW || base == owner {
                return Err(MarkError::Base { slot, base, owner });
            }
            let known = used.get_mut(usize::from(opening));
            *known.ok_or(MarkError::Opening {
                slot,
                opening,
                openings: openings.len(),
            })? = true;
            *found = word(owner, SlotKind::Open { base });
            opened[slot as usize] = opening;
        }
        let count = used.iter().filter(|used| **used).count();
        if count < openings.len() || count > OPENINGS {
            return Err(MarkError::Openings {
                openings: openings.len(),
                used: count,
            });
        }
        Ok(Self {
            words: words.into(),
            opened: opened.into(),
            openings,
        })
    }

    /// What packets read: owner and kind of each slot.
    pub fn words(&self) -> &Arc<[abi::Slot]> {
        &self.words
    }

    /// Whether packets find the same in both.
    pub fn has_words_of(&self, other: &Self) -> bool {
        same_words(&self.words, &other.words)
    }

    /// Since when a slot is open; none if it is not.
    pub fn opened(&self, slot: u32) -> Option<OpenedNs> {
        let word = self.words.get(slot as usize)?;
        let opening = *self.opened.get(slot as usize)?;
        match kind(word) {
            SlotKind::Open { .. } => self.openings.get(usize::from(opening)).copied(),
            _ => None,
        }
    }

    /// Index of the opening that an open slot belongs to.
    pub(super) fn opening_index(&self, slot: u32) -> Option<usize> {
        self.opened.get(slot as usize).copied().map(usize::from)
    }

    /// The different times since which slots are open.
    pub fn openings(&self) -> &[OpenedNs] {
        &self.openings
    }

    /// The marked slots, in order.
    pub fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        (0..).zip(self.words.iter()).filter_map(|(slot, word)| {
            let open = match kind(word) {
                SlotKind::Plain => return None,
                SlotKind::Held => None,
                SlotKind::Open { base } => Some((base, *self.opened.get(slot as usize)?)),
            };
            Some(Mark { slot, open })
        })
    }

    /// How many slots are marked.
    pub fn count(&self) -> MarkCount {
        count_marks(&self.words)
    }
}

/// How many of these slot words are marked.
pub fn count_marks(words: &[abi::Slot]) -> MarkCount {
    let mut count = MarkCount::default();
    for word in words {
        match kind(word) {
            SlotKind::Plain => {}
            SlotKind::Held => count.held += 1,
            SlotKind::Open { .. } => count.open += 1,
        }
    }
    count
}

fn same_words(one: &Arc<[abi::Slot]>, other: &Arc<[abi::Slot]>) -> bool {
    Arc::ptr_eq(one, other) || bytes(one) == bytes(other)
}

/// Slot words as bytes, to compare them.
fn bytes(words: &[abi::Slot]) -> &[u8] {
    bytemuck::cast_slice(words)
}

/// Most openings that are told apart. Rounding leaves fewer unless refusals keep windows open
/// beyond their time.
pub(super) const OPENINGS: usize = 128;

/// Collects marked slots one after the other.
pub(super) struct Builder {
    words: Vec<abi::Slot>,
    opened: Vec<u8>,
    openings: Vec<OpenedNs>,
}

impl Builder {
    /// For `slots` slots, of which each open one belongs to one of `openings`.
    pub(super) fn new(slots: usize, openings: Vec<OpenedNs>) -> Self {
        Self {
            words: Vec::with_capacity(slots),
            opened: Vec::with_capacity(slots),
            openings,
        }
    }

    /// The next slot; `opening` counts for an open one.
    pub(super) fn push(&mut self, owner: u16, kind: SlotKind, opening: u8) {
        self.words.push(word(owner, kind));
        self.opened.push(opening);
    }

    /// The slots without openings that none of them belongs to.
    pub(super) fn finish(self) -> Slots {
        let mut places = vec![None; self.openings.len()];
        let mut openings = Vec::new();
        let mut opened = self.opened;
        for (word, opening) in self.words.iter().zip(&mut opened) {
            if !matches!(kind(word), SlotKind::Open { .. }) {
                *opening = 0;
                continue;
            }
            let at = usize::from(*opening);
            let place = places[at].unwrap_or_else(|| {
                openings.push(self.openings[at]);
                openings.len() as u8 - 1
            });
            places[at] = Some(place);
            *opening = place;
        }
        if openings.is_empty() {
            opened.clear();
        }
        Slots {
            words: self.words.into(),
            opened: opened.into(),
            openings,
        }
    }
}

/// A set of the slots of one service: 64 to a word, the lowest in the lowest bit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotSet(Vec<u64>);

impl SlotSet {
    /// From words of 64 slots each; slots behind the last word are not in it.
    pub fn from_words(words: Vec<u64>) -> Self {
        Self(words)
    }

    /// Puts a slot into it.
    pub fn insert(&mut self, slot: u32) {
        let at = (slot / 64) as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (slot % 64);
    }

    /// How many slots are in it.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether a slot is in it.
    pub fn contains(&self, slot: u32) -> bool {
        let word = self.0.get((slot / 64) as usize);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}
