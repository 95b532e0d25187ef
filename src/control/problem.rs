// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is not as it should be.

use super::observed::Unreached;
use super::shard::ShardFault;
use crate::group::{Class, GroupId, NoGroupLeft, PlanError};
use crate::route::{Key, RowError, TableId};
use crate::srv6::BaseSid;

/// Something that is not as it should be, and that the plan which tells it does not mend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Hashed mode without a list of shards: groups stay as they are.
    #[error("no complete list of shards yet: groups and their routes stay as they are")]
    ShardsUnknown,
    /// The list of shards may be out of date: it stays in force.
    #[error("the list of shards may be out of date, the last one stays in force: {why}")]
    ShardsStale {
        /// Why nothing is heard.
        why: String,
    },
    /// An object that is no shard, and left out.
    #[error("{0}")]
    Shard(ShardFault),
    /// Objects of one SID that say different things: it drains, and translates what any of them says.
    #[error("shards {} have the same SID {sid} and differ: it drains", names.join(", "))]
    ShardsDisagree {
        /// The SID.
        sid: BaseSid,
        /// The objects, in order.
        names: Vec<String>,
    },
    /// More shards than a group has room for: it keeps its members.
    #[error(
        "{class}: {candidates} shards, but there is room for {members}; the group keeps its members"
    )]
    TooManyCandidates {
        /// The class.
        class: Class,
        /// Shards that should be members.
        candidates: usize,
        /// The limit on members.
        members: u16,
    },
    /// A class waits for a group: its packets are dropped until others are retired.
    #[error("{0}")]
    NoGroupLeft(NoGroupLeft),
    /// Several groups claim a class: the others are retired.
    #[error("groups {others:?} claim {class}, which is group {kept}'s: they are retired")]
    DuplicateClass {
        /// The class.
        class: Class,
        /// The one that has it.
        kept: GroupId,
        /// The others.
        others: Vec<GroupId>,
    },
    /// No plan can be made for a group: it stays as it is.
    #[error("{class}: no plan can be made, the group stays as it is: {error}")]
    Group {
        /// Its class.
        class: Class,
        /// Why.
        error: PlanError,
    },
    /// What is published of a group is damaged, and this plan does not mend it. Packets go on by what
    /// they have, and other groups by what is wanted.
    #[error("group {group} is damaged, {}: {}", ends(*class, *routes), advised(why, *remedy))]
    Damaged {
        /// The group.
        group: GroupId,
        /// Whose it is; none if that cannot be told, so that its class has no group.
        class: Option<Class>,
        /// Routes that name it.
        routes: u64,
        /// What is wrong.
        why: String,
        /// What can be done about it, if that is known.
        remedy: Option<&'static str>,
    },
    /// A shard is not reached.
    #[error("shard {sid} is not reached: {why}")]
    Unreached {
        /// The shard.
        sid: BaseSid,
        /// Why.
        why: Unreached,
    },
    /// Nobody asked for the way to a shard.
    #[error("shard {sid}: nobody asked for the way to it")]
    NotAsked {
        /// The shard.
        sid: BaseSid,
    },
    /// A health check overrules what the node sees of a shard.
    #[error("shard {sid} is taken for dead, as a health check says")]
    OverruledDead {
        /// The shard.
        sid: BaseSid,
    },
    /// In ordered mode no static SID is reached: routes that there are stay as they are.
    #[error("{class}: {}; {routes} routes stay as they are", unresolved(*sids))]
    Unresolved {
        /// The class.
        class: Class,
        /// How many SIDs there are.
        sids: usize,
        /// Routes of the class.
        routes: u64,
    },
    /// A group has fewer active members than it should.
    #[error("{class}: {active} active shards, fewer than {minimum}")]
    BelowMinimum {
        /// The class.
        class: Class,
        /// Active members, afterwards.
        active: u64,
        /// The least that is wanted.
        minimum: u32,
    },
    /// A configured class has no active member: packets without a pin are dropped.
    #[error("{class}: no active shard, its packets are dropped")]
    Unserved {
        /// The class.
        class: Class,
    },
    /// Routes of other writers name a group that is to go: it stays as long as they do.
    #[error("group {group} of {class} stays as long as {routes} routes of other writers name it, the first is {first}")]
    HeldGroup {
        /// The group.
        group: GroupId,
        /// Whose it is.
        class: Class,
        /// How many.
        routes: u64,
        /// One of them.
        first: Key,
    },
    /// Routes of other writers name a group in a tenure that it is not in. They are left alone.
    #[error("{routes} routes of other writers, the first is {first}, name group {group} in a tenure that it is not in: their packets are dropped")]
    ForeignDead {
        /// The group.
        group: GroupId,
        /// How many.
        routes: u64,
        /// One of them.
        first: Key,
    },
    /// Routes lead to a shard that is neither known nor static. They are left alone.
    #[error("{routes} routes, the first is {first}, lead to shard {sid}, which is neither known nor static: they are left alone")]
    UnknownShard {
        /// The shard.
        sid: BaseSid,
        /// How many.
        routes: u64,
        /// One of them.
        first: Key,
    },
    /// A route makes no sense and is not at a prefix, or of an origin, that is the loop's to write.
    #[error("{error}: it is left alone")]
    SenselessRoute {
        /// The route.
        key: Key,
        /// What is wrong.
        error: RowError,
    },
    /// A row makes no sense.
    #[error("{0}: it is left alone")]
    Unreadable(RowError),
    /// A tenant's interfaces disagree: routes that it lacks are not written.
    #[error("tenant {table}: interfaces {first} and {second} disagree in {field}, {one} and {two}: routes that it lacks are not written")]
    TenantDisagrees {
        /// The tenant.
        table: TableId,
        /// In what, by its name in the ABI.
        field: &'static str,
        /// The interface with the lowest index.
        first: u32,
        /// One that disagrees with it.
        second: u32,
        /// The value of the first.
        one: u32,
        /// The value of the second.
        two: u32,
    },
    /// No interface is known of the tenants of some routes, so that these cannot lead to a group. They
    /// drop nobody's packets.
    #[error("{routes} routes, the first is {first}, are of tenants without a known interface: they are not led to a group")]
    TenantUnknown {
        /// How many.
        routes: u64,
        /// One of them.
        first: Key,
    },
}

impl Problem {
    /// Whether the round that has it counts as failed: what is wanted has no plan that would do it.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::TooManyCandidates { .. })
    }

    /// The name of its kind, for counters and to tell whether it is one of before.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ShardsUnknown => "shards-unknown",
            Self::ShardsStale { .. } => "shards-stale",
            Self::Shard(_) => "shard",
            Self::ShardsDisagree { .. } => "shards-disagree",
            Self::TooManyCandidates { .. } => "too-many-candidates",
            Self::NoGroupLeft(_) => "no-group-left",
            Self::DuplicateClass { .. } => "duplicate-class",
            Self::Group { .. } => "group",
            Self::Damaged { .. } => "damaged",
            Self::Unreached { .. } => "unreached",
            Self::NotAsked { .. } => "not-asked",
            Self::OverruledDead { .. } => "overruled-dead",
            Self::Unresolved { .. } => "unresolved",
            Self::BelowMinimum { .. } => "below-minimum",
            Self::Unserved { .. } => "unserved",
            Self::HeldGroup { .. } => "held-group",
            Self::ForeignDead { .. } => "foreign-dead",
            Self::UnknownShard { .. } => "unknown-shard",
            Self::SenselessRoute { .. } => "senseless-route",
            Self::Unreadable(_) => "unreadable",
            Self::TenantDisagrees { .. } => "tenant-disagrees",
            Self::TenantUnknown { .. } => "tenant-unknown",
        }
    }
}

/// Why no static SID is there to lead routes to.
fn unresolved(sids: usize) -> String {
    match sids {
        0 => "no static SID is configured".to_owned(),
        sids => format!("none of {sids} static SIDs is reached"),
    }
}

/// What becomes of a damaged group.
fn ends(class: Option<Class>, routes: u64) -> String {
    match class {
        Some(class) => format!("written anew when {class} is published next"),
        None => format!("and left as it is with its {routes} routes"),
    }
}

fn advised(why: &str, remedy: Option<&'static str>) -> String {
    match remedy {
        Some(remedy) => format!("{why}; {remedy}"),
        None => why.to_owned(),
    }
}
