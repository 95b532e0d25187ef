// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is to be done, step by step.

use std::collections::BTreeMap;
use std::fmt;

use super::effect::PredictedEffect;
use super::problem::Problem;
use crate::egress_spec::RouteTarget;
use crate::encap::Encap;
use crate::group::{Class, GroupId, GroupPlan};
use crate::route::{Key, Prefix, Route};
use crate::tenant::Tenant;

/// What brings what there is in line with what there should be.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Plan {
    /// What is to be done, in this order.
    pub steps: Vec<PlannedStep>,
    /// What is not as it should be and what no step mends, each once, in a fixed order.
    pub problems: Vec<Problem>,
    /// What of the steps repairs what should never have been, in routes.
    pub repairs: BTreeMap<Repair, u64>,
    /// What the steps do to packets.
    pub effect: PredictedEffect,
}

impl Plan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// A step and what it needs.
#[derive(Debug, Clone)]
pub struct PlannedStep {
    /// What is to be done.
    pub step: Step,
    /// Why, in words.
    pub why: String,
    /// Places in [`Plan::steps`] of the steps without which this one is left out. Of a step that
    /// publishes several groups, only the group of the same class counts where this step has a
    /// class.
    pub after: Vec<usize>,
}

/// What is done as one. Each holds what it was planned against, which is looked at again before
/// anything is written: the publication that a [`GroupPlan`] was made of, and the routes as they
/// were.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// Publish how packets are encapsulated.
    PublishConfig(Encap),
    /// Publish the next hops of members, and with them who is in the table; nothing else changes.
    PublishLiveness(Vec<GroupPlan>),
    /// Publish what changes in the groups of configured classes, all at once.
    PublishGroups(Vec<GroupPlan>),
    /// Write routes that a tenant lacks: all or none, long prefixes first.
    WriteRoutes {
        /// Whose, with what all of its interfaces agree in.
        tenant: Tenant,
        /// Where each is to lead. There is no route that makes sense at these prefixes.
        routes: BTreeMap<Prefix, RouteTarget>,
    },
    /// Let routes lead elsewhere, each by one update.
    MoveRoutes {
        /// The class of their prefixes.
        class: Class,
        /// Which, in ascending order of keys.
        moves: Vec<RouteMove>,
        /// What it is for.
        reason: MoveReason,
    },
    /// Publish that groups take no new routes, all at once.
    CloseGroups(Vec<GroupPlan>),
    /// While nobody writes routes: let those that still name a closing group lead elsewhere, prove
    /// that none is left, and disable it.
    Retire {
        /// The group.
        group: GroupId,
        /// Whose it is.
        class: Class,
        /// What becomes of its class's prefix in each tenant's table.
        own: RouteEnd,
        /// What becomes of routes at other prefixes.
        others: RouteEnd,
    },
}

impl Step {
    /// The class that it is for; none if it is for several, or none.
    #[must_use]
    pub const fn class(&self) -> Option<Class> {
        match self {
            Self::MoveRoutes { class, .. } | Self::Retire { class, .. } => Some(*class),
            _ => None,
        }
    }

    /// The name of its kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PublishConfig(_) => "publish-config",
            Self::PublishLiveness(_) => "publish-liveness",
            Self::PublishGroups(_) => "publish-groups",
            Self::WriteRoutes { .. } => "write-routes",
            Self::MoveRoutes { .. } => "move-routes",
            Self::CloseGroups(_) => "close-groups",
            Self::Retire { .. } => "retire",
        }
    }
}

/// A route that is to lead elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteMove {
    /// Which.
    pub key: Key,
    /// As it was: if it is otherwise now, it stays.
    pub before: Route,
    /// Where it is to lead, with the Argument that it has; none: it goes away.
    pub to: Option<RouteTarget>,
}

/// Why routes are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveReason {
    /// They name another class's group.
    WrongClass,
    /// They name a tenure of the group that is over.
    OldIncarnation,
    /// They name a group that forwards nothing, was never opened, or is retired for another.
    Orphan,
    /// The class's group serves them now, instead of one shard or none.
    Group,
    /// The number that is hashed for the tenant or the class is another one.
    HashState,
    /// Their shard is reached in another way.
    NextHop,
    /// The first static SID that is reached is another one, or the first at all.
    Ordered,
    /// In ordered mode no group serves them any more.
    GroupCloses,
    /// Their class is not configured any more.
    ClassRemoved,
}

impl MoveReason {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongClass => "wrong-class",
            Self::OldIncarnation => "old-incarnation",
            Self::Orphan => "orphan",
            Self::Group => "group",
            Self::HashState => "hash-state",
            Self::NextHop => "next-hop",
            Self::Ordered => "ordered",
            Self::GroupCloses => "group-closes",
            Self::ClassRemoved => "class-removed",
        }
    }

    /// In words, for who reads a plan.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::WrongClass => "they name another class's group",
            Self::OldIncarnation => "they name a tenure of a group that is over",
            Self::Orphan => "they name a group that forwards nothing, or is retired for another",
            Self::Group => "the class's group serves them",
            Self::HashState => "the number that is hashed for them is another one",
            Self::NextHop => "their shard is reached in another way",
            Self::Ordered => "the first static SID that is reached is another one",
            Self::GroupCloses => "no group serves them in ordered mode",
            Self::ClassRemoved => "the class is not configured any more",
        }
    }

    /// What it is counted as, if nothing of this loop should have let it come so far.
    #[must_use]
    pub const fn repair(self) -> Option<Repair> {
        match self {
            Self::WrongClass => Some(Repair::WrongClass),
            Self::OldIncarnation => Some(Repair::OldIncarnation),
            Self::Orphan => Some(Repair::Orphan),
            _ => None,
        }
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What becomes of a route whose group is retired. Routes of other writers always stay, and keep
/// the group from being disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteEnd {
    /// It leads there, with the Argument that it has. A route whose tenant is not known cannot lead
    /// to a group: it leads nowhere.
    To(RouteTarget),
    /// It goes away.
    Remove,
    /// It stays, and the group with it: there is nowhere to lead it to.
    Stay,
}

/// What is repaired although no step of this loop breaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Repair {
    /// A route named the group of another class.
    WrongClass,
    /// A route named a tenure that is over.
    OldIncarnation,
    /// A tenant had no route for a configured class.
    Missing,
    /// A route named a group that was disabled, never opened, or one of two that claimed a class.
    Orphan,
}

impl Repair {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::WrongClass,
        Self::OldIncarnation,
        Self::Missing,
        Self::Orphan,
    ];

    /// Its name, as metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongClass => "wrong_class",
            Self::OldIncarnation => "old_incarnation",
            Self::Missing => "missing",
            Self::Orphan => "orphan",
        }
    }
}
