// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Why there is no plan for a group.

use std::fmt;

use thiserror::Error;

use super::class::Class;
use super::number::GroupId;
use super::snapshot::State;
use crate::maglev::BuildError;
use crate::srv6::{BaseSid, NextHop};

/// A change of a group that cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// One shard twice, with two weights.
    #[error("shard {sid} is given twice, with weights {first} and {second}")]
    DuplicateWeight {
        /// The shard.
        sid: BaseSid,
        /// Its weight where it is first.
        first: u32,
        /// Another weight.
        second: u32,
    },
    /// One shard twice, with two next hops.
    #[error(
        "shard {sid} is given twice, with next hops {} and {}",
        Hop(first),
        Hop(second)
    )]
    DuplicateNextHop {
        /// The shard.
        sid: BaseSid,
        /// Its next hop where it is first; none: unreachable.
        first: Option<NextHop>,
        /// Another next hop.
        second: Option<NextHop>,
    },
    /// More shards than a group has slots.
    #[error("group {group} ({class}): {candidates} shards, but there is room for {members}")]
    TooManyMembers {
        /// The group.
        group: GroupId,
        /// Its class.
        class: Class,
        /// Shards, each counted once.
        candidates: usize,
        /// The limit on members.
        members: u16,
    },
    /// More active members than table slots.
    #[error("group {group} ({class}): {active} active shards, but the table has {size} slots")]
    TableTooSmall {
        /// The group.
        group: GroupId,
        /// Its class.
        class: Class,
        /// Active shards.
        active: usize,
        /// The size of its table.
        size: u32,
    },
    /// The published group has slots that there would be no room for.
    #[error("group {group}: slot {slot} is in use, but there is room for {members} members")]
    SlotBeyondLimit {
        /// The group.
        group: GroupId,
        /// The highest slot in use.
        slot: u16,
        /// The limit on members.
        members: u16,
    },
    /// The group belongs to another class until it is disabled.
    #[error("group {group} is {state} for {published}, not for {wanted}")]
    OtherClass {
        /// The group.
        group: GroupId,
        /// Its state.
        state: State,
        /// Its class.
        published: Class,
        /// The class that it was planned for.
        wanted: Class,
    },
    /// What is published is another group.
    #[error("the plan is for group {wanted}, but what is published is group {published}")]
    OtherGroup {
        /// The group that is published.
        published: GroupId,
        /// The group that it was planned for.
        wanted: GroupId,
    },
    /// The group is in a state in which this cannot be done.
    #[error("group {group} ({class}) is {state}; only {needed}")]
    State {
        /// The group.
        group: GroupId,
        /// Its class.
        class: Class,
        /// Its state.
        state: State,
        /// What can be done, and in which state.
        needed: &'static str,
    },
    /// No table can be built.
    #[error(transparent)]
    Table(#[from] BuildError),
}

/// A next hop in words.
struct Hop<'a>(&'a Option<NextHop>);

impl fmt::Display for Hop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("\"unreachable\""),
            Some(hop) => write!(f, "\"{hop}\""),
        }
    }
}
