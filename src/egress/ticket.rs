// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The right to write routes to a group.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::error::InstanceError;
use super::instance::Egress;
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, Incarnation, State};
use crate::placement::HashGroup;
use crate::route::Block;
use crate::srv6::{BaseSid, NextHop};

/// Why no route may be written to a class's group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The class has no group, or had one that is disabled.
    #[error("{class} has no group")]
    #[non_exhaustive]
    NotPublished {
        /// The class.
        class: Class,
    },
    /// The group takes no new routes.
    #[error("group {group} of {class} is closing and takes no new routes")]
    #[non_exhaustive]
    Closing {
        /// The class.
        class: Class,
        /// Its group.
        group: GroupId,
    },
    /// The group forwards nothing any more.
    #[error("group {group} of {class} is disabled")]
    #[non_exhaustive]
    Disabled {
        /// The class.
        class: Class,
        /// The group that it had last.
        group: GroupId,
    },
    /// What is published cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

impl TicketError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotPublished { .. } => ErrorKind::NotFound,
            Self::Closing { .. } | Self::Disabled { .. } => ErrorKind::Conflict,
            Self::Instance(error) => error.kind(),
        }
    }
}

/// The right to write routes to one tenure of a class's group, as long as the guard that gave it is
/// held: nobody can retire the group meanwhile.
#[derive(Debug)]
pub struct GroupTicket<'g> {
    class: Class,
    group: GroupId,
    incarnation: Incarnation,
    hash_group: HashGroup,
    /// Id of the instance's array of groups.
    instance: u32,
    guard: PhantomData<&'g ()>,
}

impl GroupTicket<'_> {
    /// The class.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Its group.
    #[must_use]
    pub const fn group(&self) -> GroupId {
        self.group
    }

    /// The tenure that routes will name.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) const fn hash_group(&self) -> HashGroup {
        self.hash_group
    }

    pub(super) fn is_of(&self, egress: &Egress) -> bool {
        self.instance == egress.maps.groups.map().id()
    }

    /// For a guard, which gives it its own lifetime.
    pub(super) fn new(egress: &Egress, class: Class) -> Result<Self, TicketError> {
        let mut groups = egress.groups_as_they_are()?;
        let lost = groups.lost().and_then(|lost| groups.damaged.remove(&lost));
        let mut claims = groups.known;
        claims.retain(|group| group.class == class);
        // It may be the class's.
        if let (true, Some(error)) = (claims.is_empty(), lost) {
            return Err(error.into());
        }
        let rank = |state| match state {
            State::Open => 0,
            State::Closing => 1,
            State::Disabled => 2,
        };
        let best = claims.iter().map(|claim| rank(claim.state)).min();
        claims.retain(|claim| Some(rank(claim.state)) == best);
        // Where two claim a class, the one with more routes is kept: see `allocate`.
        let routes = if claims.len() > 1 {
            egress.named().map_err(InstanceError::from)?
        } else {
            BTreeMap::new()
        };
        let live = claims
            .into_iter()
            .max_by_key(|claim| (routes.get(&claim.group), Reverse(claim.group)))
            .ok_or(TicketError::NotPublished { class })?;
        let group = live.group;
        match live.state {
            State::Closing => return Err(TicketError::Closing { class, group }),
            State::Disabled => return Err(TicketError::Disabled { class, group }),
            State::Open => {}
        }
        Ok(Self {
            class,
            group,
            incarnation: live.incarnation,
            hash_group: live.hash_group,
            instance: egress.maps.groups.map().id(),
            guard: PhantomData,
        })
    }
}

/// Where a route shall lead.
#[derive(Debug, Clone, Copy)]
pub enum To<'t> {
    /// To the next program, untouched.
    Pass,
    /// Nowhere.
    Block(Block),
    /// To one shard.
    Shard {
        /// The shard.
        sid: BaseSid,
        /// The way to it.
        next_hop: NextHop,
    },
    /// To the group of this ticket.
    Group(&'t GroupTicket<'t>),
}
