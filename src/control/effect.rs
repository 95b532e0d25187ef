// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan does to packets, told before it is done.

use std::collections::BTreeMap;

use crate::group::{Change, Class, Disruption, GroupId};
use crate::srv6::BaseSid;

/// What a [`Plan`](super::Plan) does to packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PredictedEffect {
    /// The configured classes in their order, then those whose groups go away.
    pub classes: Vec<ClassEffect>,
    /// Tenants of which a route leads to another shard or group than before, or to none.
    pub tenants_moved: u64,
    /// Memory of the kernel in bytes that snapshots take beside those that they replace, until
    /// these are free.
    pub publishing_bytes: u64,
}

/// What becomes of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassEffect {
    /// The class.
    pub class: Class,
    /// Whether it is configured; if not, its group goes away.
    pub configured: bool,
    /// Its group; none if it has none.
    pub group: Option<GroupId>,
    /// What becomes of the group; none if no plan is made for it.
    pub change: Option<Change>,
    /// Its shards, as the group has them afterwards.
    pub members: MemberCounts,
    /// Names and SIDs of shards that could be members, but do not translate this class.
    pub ineligible: Vec<(String, BaseSid)>,
    /// Whether its packets get to a shard afterwards: some member takes new addresses, or in ordered
    /// mode some static SID is reached.
    pub served: bool,
    /// What moves in the group's table, if the group is published.
    pub disruption: Option<Disruption>,
    /// Each shard's part, before and afterwards.
    pub shares: BTreeMap<BaseSid, ShardShare>,
    /// Tenants' routes to the class's prefix, and other routes that name its group, which lead
    /// elsewhere afterwards.
    pub routes_moved: u64,
    /// Of all addresses behind these routes without a pin, the part that gets to another shard.
    pub addresses_moved: Part,
    /// What becomes of its pins; none if they were not counted.
    pub pins: Option<PinEffect>,
}

/// How many members are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemberCounts {
    /// Take new addresses.
    pub active: u64,
    /// Keep the addresses pinned to them.
    pub draining: u64,
    /// Are not reached.
    pub unreachable: u64,
    /// Are no members, as they do not translate this class.
    pub ineligible: u64,
}

/// A shard's part of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ShardShare {
    /// Slots of the group's table before.
    pub slots_before: u32,
    /// Slots of it afterwards.
    pub slots_after: u32,
    /// Tenants' routes that lead to this shard and no other before.
    pub routes_before: u64,
    /// Such routes afterwards.
    pub routes_after: u64,
}

/// A part of a whole; 0 of 0 is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// The part.
    pub part: u64,
    /// The whole.
    pub whole: u64,
}

/// What becomes of the pins of a group that are in use: sessions that last only as long as their
/// address stays with its shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PinEffect {
    /// Pins in use.
    pub live: u64,
    /// Held to a member that leaves: they move.
    pub leaving: u64,
    /// Held to a member that nothing reaches: they move.
    pub unreachable: u64,
    /// Not looked at any more, as the group goes away, hashes something else or has no pins: those
    /// move whom the table sends elsewhere.
    pub released: u64,
}

impl PinEffect {
    /// Those that may get to another shard with their next packet, or nowhere.
    #[must_use]
    pub const fn at_risk(&self) -> u64 {
        self.leaving + self.unreachable + self.released
    }
}
