// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The pins that earlier packets left.

use std::collections::BTreeMap;

use crate::abi::{self, PinBind, PinState};
use crate::pin::Holder;
use crate::reason::egress::Selection;
use crate::route::TableId;
use crate::tenant::PinQuota;

const LIVE: u8 = PinState::GW_PIN_LIVE.0 as u8;
const DEAD: u8 = PinState::GW_PIN_DEAD.0 as u8;

/// What is written in a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin {
    /// The slot of the member that it names.
    pub slot: u16,
    /// The member's tenure of the slot; 0 is nobody's.
    pub generation: u32,
    /// Whether it is about to be deleted. Nothing follows it or writes to it any more.
    pub dead: bool,
    /// Another number each time that the pin is made one of another member.
    pub sequence: u8,
    /// When a packet used it, in ticks of 2^30 ns of the coarse monotonic clock. The last time may be
    /// later by the group's [refresh time](crate::group::PinIdle::refresh_ticks).
    pub last_seen_tick: u32,
    /// [`Holder::tag`] of whose it is.
    pub tag: u32,
}

impl Pin {
    /// Ticks since it was used; negative if that is to come.
    pub(super) const fn idle_ticks(&self, now_tick: u32) -> i32 {
        now_tick.wrapping_sub(self.last_seen_tick) as i32
    }

    /// As the kernel has it.
    #[must_use]
    pub fn to_row(self) -> abi::Pin {
        let state = if self.dead { DEAD } else { LIVE };
        abi::Pin {
            bind: u64::from(self.generation) << PinBind::GW_PIN_GENERATION_SHIFT.0
                | u64::from(state) << PinBind::GW_PIN_STATE_SHIFT.0
                | u64::from(self.sequence) << PinBind::GW_PIN_SEQUENCE_SHIFT.0
                | u64::from(self.slot) << PinBind::GW_PIN_SLOT_SHIFT.0,
            last_seen_tick: self.last_seen_tick,
            tag: self.tag,
        }
    }

    /// Reads a row; any state but the live one is dead.
    #[must_use]
    pub const fn from_row(row: &abi::Pin) -> Self {
        // Each part is cut out of the word by its type.
        Self {
            slot: (row.bind >> PinBind::GW_PIN_SLOT_SHIFT.0) as u16,
            generation: (row.bind >> PinBind::GW_PIN_GENERATION_SHIFT.0) as u32,
            dead: (row.bind >> PinBind::GW_PIN_STATE_SHIFT.0) as u8 != LIVE,
            sequence: (row.bind >> PinBind::GW_PIN_SEQUENCE_SHIFT.0) as u8,
            last_seen_tick: row.last_seen_tick,
            tag: row.tag,
        }
    }
}

/// How many pins a tenant has, and how often it got none for want of quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PinUse {
    /// Pins of both kinds.
    pub pins: u64,
    /// Pins refused.
    pub refused: u64,
}

/// How many pins of one kind there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// The most there can be.
    pub capacity: usize,
    /// The two ticks in which the table was found full, by the odd one of them. In these no pin is
    /// tried.
    pub full_tick: Option<u32>,
}

impl Room {
    /// For so many, and not known to be full.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            full_tick: None,
        }
    }
}

/// All pins of a node. What one packet leaves there, the next one finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Room for pins by source.
    pub source: Room,
    /// Room for pins by flow.
    pub flow: Room,
    /// The pins.
    pub pins: BTreeMap<Holder, Pin>,
    /// The count of each tenant. A tenant without one makes no pins.
    pub used: BTreeMap<TableId, PinUse>,
}

impl Pins {
    /// No pins yet, and room for so many.
    #[must_use]
    pub const fn with_capacity(source: usize, flow: usize) -> Self {
        Self {
            source: Room::new(source),
            flow: Room::new(flow),
            pins: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    /// Adds a pin for a holder who has none, and counts it against the quota.
    pub(super) fn add(&mut self, holder: Holder, pin: Pin, quota: PinQuota) -> Selection {
        let by_flow = holder.flow.is_some();
        let kept = self.pins.keys();
        let count = kept.filter(|one| one.flow.is_some() == by_flow).count();
        let room = if by_flow {
            &mut self.flow
        } else {
            &mut self.source
        };
        let ticks = Some(pin.last_seen_tick | 1);
        if room.full_tick == ticks {
            return Selection::PinFull;
        }
        let Some(used) = self.used.get_mut(&holder.table) else {
            return Selection::PinQuota;
        };
        if quota != PinQuota::UNLIMITED && used.pins >= quota.0.into() {
            used.refused += 1;
            return Selection::PinQuota;
        }
        if count >= room.capacity {
            room.full_tick = ticks;
            return Selection::PinFull;
        }
        used.pins += 1;
        self.pins.insert(holder, pin);
        Selection::PinNew
    }
}
