// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A pin, and its row in the kernel's maps.
#![forbid(unsafe_code)]

use std::fmt;

use super::Tick;
use crate::abi::{self, PinBind, PinState};
use crate::group::{Generation, Slot};
use crate::pin::Holder;
use crate::route::RowError;

const LIVE: u8 = PinState::GW_PIN_LIVE.0 as u8;

/// To whom: the tenure of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The slot.
    pub slot: Slot,
    /// The tenure of it.
    pub generation: Generation,
}

/// A pin as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pin {
    /// Who is held.
    pub holder: Holder,
    /// To whom.
    pub held: Held,
    /// Changes each time that a packet binds it anew.
    pub sequence: u8,
    /// About to be deleted: no packet follows it.
    pub dead: bool,
    /// When a packet last said that it uses the pin, which each does that comes an interval of
    /// renewal after the one before.
    pub last_seen: Tick,
    /// Its binding as the kernel has it.
    bind: u64,
}

impl Pin {
    pub(super) fn new(holder: Holder, row: &abi::Pin) -> Result<Self, RowError> {
        let at = |field, value: String| RowError::new(format!("pin of {holder}"), field, value);
        let part = |shift: PinBind| row.bind >> shift.0;
        let slot = part(PinBind::GW_PIN_SLOT_SHIFT) as u16;
        let generation = part(PinBind::GW_PIN_GENERATION_SHIFT) as u32;
        Ok(Self {
            holder,
            held: Held {
                slot: Slot::new(slot.into()).ok_or_else(|| at("slot", slot.to_string()))?,
                generation: Generation::new(generation)
                    .ok_or_else(|| at("generation", generation.to_string()))?,
            },
            sequence: part(PinBind::GW_PIN_SEQUENCE_SHIFT) as u8,
            dead: part(PinBind::GW_PIN_STATE_SHIFT) as u8 != LIVE,
            last_seen: Tick::new(row.last_seen_tick),
            bind: row.bind,
        })
    }

    /// Its binding as the kernel has it.
    pub(super) fn bind(&self) -> u64 {
        self.bind
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} generation {}", self.slot, self.generation)
    }
}
