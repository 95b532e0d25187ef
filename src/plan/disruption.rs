// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a change moves, told before it is made.

use serde::Serialize;

use crate::maglev::Table;

/// What a publication does to the flows of one service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Disruption {
    /// Slots whose backend differs.
    pub slots_moved: u32,
    /// The least number of moves that any method needs for these shares.
    pub slots_forced: u32,
    /// What the method moves beyond that.
    pub slots_extra: u32,
    /// Slots that remember their former owner for a while; 0 without flow state.
    pub slots_open: u32,
    /// Slots that keep entries of flows that differ; 0 without flow state.
    pub slots_held: u32,
    /// Moved slots as a fraction of the table.
    pub moved_ratio: f64,
    /// Until when flows need state, in seconds after the publication; 0 without flow state.
    pub window_seconds: u64,
    /// Live flows; none where nothing counts them.
    pub flows_live: Option<u64>,
    /// Entries that the change will need; 0 without flow state.
    pub entries_expected: u64,
    /// Exact bindings and flow entries whose backend goes.
    pub bindings_lost: u64,
}

impl Disruption {
    /// Nothing moves.
    pub(super) fn none() -> Self {
        Self::of(0, 0, 1)
    }

    /// From one table to another; from none to one, nothing that exists moves.
    pub(super) fn between(before: Option<&Table<u16>>, after: Option<&Table<u16>>) -> Self {
        match (before, after) {
            (None, _) => Self::none(),
            (Some(before), Some(after)) => match before.diff(after) {
                Ok(diff) => Self::of(diff.moved(), diff.forced(), before.size().get()),
                // Tables of two sizes have no slots in common.
                Err(_) => Self::all(before),
            },
            (Some(before), None) => Self::all(before),
        }
    }

    fn all(before: &Table<u16>) -> Self {
        let slots = before.size().get();
        Self::of(slots, slots, slots)
    }

    fn of(moved: u32, forced: u32, slots: u32) -> Self {
        Self {
            slots_moved: moved,
            slots_forced: forced,
            slots_extra: moved.saturating_sub(forced),
            slots_open: 0,
            slots_held: 0,
            moved_ratio: f64::from(moved) / f64::from(slots),
            window_seconds: 0,
            flows_live: None,
            entries_expected: 0,
            bindings_lost: 0,
        }
    }
}
