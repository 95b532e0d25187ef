// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the ways to place packets have in common, and the way that remembers nothing.

use crate::fleet::{Change, Fleet};
use crate::traffic::Packet;

/// A way to place packets, with all that it remembers.
pub(crate) trait Policy {
    /// Places a packet.
    fn place(&mut self, packet: &Packet, fleet: &Fleet, now_ns: u64) -> Placed;

    /// The table has changed.
    fn publish(&mut self, _change: &Change, _fleet: &Fleet, _now_ns: u64) {}

    /// Does what is to be done from time to time; called in every step, before its packets.
    fn tick(&mut self, _fleet: &Fleet, _now_ns: u64) {}

    /// Entries that it holds.
    fn entries(&self) -> usize {
        0
    }

    /// Slots in which entries are made.
    fn open_slots(&self) -> u32 {
        0
    }
}

/// Where a packet went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// The row; none if there is no server.
    pub(crate) row: Option<u16>,
    /// Whether the policy says of itself that the connection may move, for want of an entry.
    pub(crate) at_risk: bool,
}

/// By the current table alone.
pub(crate) struct Stateless;

impl Policy for Stateless {
    fn place(&mut self, packet: &Packet, fleet: &Fleet, _now_ns: u64) -> Placed {
        Placed {
            row: fleet.owner(packet.slot),
            at_risk: false,
        }
    }
}
