// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a change moves, told before it is made.

use serde::Serialize;

use crate::maglev::Table;

/// What a publication does to the flows of one service.
///
/// Numbers of flows are estimates. Where every flow is tracked they follow from the entries that
/// the last sweep counted, elsewhere from the rate at which flows have begun on average since the
/// service is there: a flow is taken to last as long as it may be silent, at most four minutes.
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
    /// Slots that remember their former owner afterwards, those of earlier changes included; 0
    /// where every flow is tracked.
    pub slots_open: u32,
    /// Slots that may have entries of flows that differ from their owner, and make no more; 0
    /// where every flow is tracked.
    pub slots_held: u32,
    /// Moved slots as a fraction of the table.
    pub moved_ratio: f64,
    /// Until when slots are open, in seconds after the publication; 0 if none is. Inserts that are
    /// refused meanwhile make it longer.
    pub window_seconds: u64,
    /// Live flows; none where nothing counts them.
    pub flows_live: Option<u64>,
    /// Flows whose slot gets another backend; none where nothing tells how many there are.
    pub flows_moved: Option<u64>,
    /// Flows that may lose their backend although it stays: those for whose entry the map has no
    /// room, those that move and were silent since all began to be tracked, and all under a
    /// change that nothing remembers; none where nothing tells. A flow that is silent for longer
    /// than the service allows has ended, and is not among them.
    pub flows_at_risk: Option<u64>,
    /// Entries that the change will need at a time: for flows of slots that it opens, and for those
    /// that begin in them while they are open; 0 where nothing tells how many there are.
    pub entries_expected: u64,
    /// Exact bindings and flow entries whose backend goes; none where nobody counted.
    pub bindings_lost: Option<u64>,
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
                Err(_) => Self::all(before.size().get()),
            },
            (Some(before), None) => Self::all(before.size().get()),
        }
    }

    /// Every slot moves.
    pub(super) fn all(slots: u32) -> Self {
        Self::of(slots, slots, slots)
    }

    /// `moved` of `slots` slots move, of which `forced` have to. Nothing is known of flows.
    pub(super) fn of(moved: u32, forced: u32, slots: u32) -> Self {
        Self {
            slots_moved: moved,
            slots_forced: forced,
            slots_extra: moved.saturating_sub(forced),
            slots_open: 0,
            slots_held: 0,
            moved_ratio: f64::from(moved) / f64::from(slots),
            window_seconds: 0,
            flows_live: None,
            flows_moved: None,
            flows_at_risk: None,
            entries_expected: 0,
            bindings_lost: None,
        }
    }
}
