// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What there is: the kernel's tables and the node's ways to shards.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::encap::Encap;
use crate::group::{Counters, Generation, GroupId, HighWater, Limits, Slot, Snapshot};
use crate::route::{Key, Origin, Route, RowError};
use crate::srv6::{BaseSid, NextHop};
use crate::tenant::Tenant;

/// What there is, read before it is [reconciled](super::reconcile()).
///
/// It is complete: what could not be read to its end is not reconciled.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// How packets are encapsulated; none before that was published, or if it makes no sense.
    pub encap: Option<Encap>,
    /// What the maps have room for.
    pub limits: Limits,
    /// All groups that were ever opened and of which is known what they are, in no particular order.
    /// Of a damaged one it is what is [left](Snapshot::salvage).
    pub groups: Vec<Snapshot>,
    /// What is wrong with groups that are damaged. One that is not among `groups` is lost: nobody
    /// knows whose it is, and it stays as it is.
    pub damaged: BTreeMap<GroupId, Damage>,
    /// What plans of each group depend on beside its snapshot; nothing: as after a start, with
    /// counters of zero.
    pub contexts: BTreeMap<GroupId, GroupContext>,
    /// All routes that make sense.
    pub routes: BTreeMap<Key, Route>,
    /// Rows of routes whose key makes sense and whose value does not.
    pub senseless: BTreeMap<Key, SenselessRoute>,
    /// Rows of routes and tenants that make no sense at all. Nothing is done to them.
    pub unreadable: Vec<RowError>,
    /// The tenant at each interface, by its index.
    pub tenants: BTreeMap<u32, Tenant>,
    /// How the node gets to shards.
    pub reach: Reachability,
    /// Live pins by the tenure that holds them; none where they were not counted. They decide
    /// nothing, the predicted effect tells them.
    pub pins: Option<HashMap<(GroupId, Slot, Generation), u64>>,
    /// When it was read, by the monotonic clock.
    pub now: Duration,
    /// When it was read, in nanoseconds of the real-time clock, for the record.
    pub now_ns: u64,
}

impl Observed {
    /// What there is before anything is published or written, with room for that much.
    #[must_use]
    pub fn nothing(limits: Limits, reach: Reachability, now: Duration, now_ns: u64) -> Self {
        Self {
            encap: None,
            limits,
            groups: Vec::new(),
            damaged: BTreeMap::new(),
            contexts: BTreeMap::new(),
            routes: BTreeMap::new(),
            senseless: BTreeMap::new(),
            unreadable: Vec::new(),
            tenants: BTreeMap::new(),
            reach,
            pins: None,
            now,
            now_ns,
        }
    }
}

/// What is wrong with what is published of a group. Packets go on by what they have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub why: String,
    /// What can be done about it where no plan mends it, if that is known.
    pub remedy: Option<&'static str>,
}

/// What a plan of a group depends on beside its snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupContext {
    /// The numbers that this process has used.
    pub high_water: HighWater,
    /// What its slots have counted, from the first on.
    pub counters: Vec<Counters>,
}

/// A row of a route that no writer of this library makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenselessRoute {
    /// Who keeps it.
    pub origin: Origin,
    /// The group that packets read it to name.
    pub group: Option<GroupId>,
    /// What is wrong with it.
    pub error: RowError,
}

/// How the node gets to each shard that was asked for.
///
/// Every member of a group, every candidate and every static SID is to be asked for. Of a member
/// that was not, what is published stays; another shard that was not is not reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reachability(pub BTreeMap<BaseSid, Result<NextHop, Unreached>>);

impl Reachability {
    /// The way to a shard; none where there is none or nobody asked.
    #[must_use]
    pub fn next_hop(&self, sid: BaseSid) -> Option<NextHop> {
        self.0.get(&sid)?.as_ref().ok().copied()
    }
}

/// Why a node does not get to a shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreached {
    /// No route leads there.
    #[error("no route")]
    NoRoute,
    /// The route leaves by another interface than the uplinks.
    #[error("route leaves by {0}")]
    NotUplink(String),
    /// The next hop's link-layer address is not known.
    #[error("next hop without a link-layer address")]
    NoNeighbour,
    /// The way is one that no packet can be sent by.
    #[error("{0}")]
    NoNextHop(String),
}
