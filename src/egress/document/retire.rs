// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Retiring the group of a class by hand.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;

use super::Error;
use crate::egress::{Egress, InstanceError, Loader, Move, StillReferenced, To, Writer};
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, State};
use crate::kernel::statedir::StateDir;
use crate::route::{Block, Key, Origin, Prefix, TableId};

/// A class whose group forwards nothing any more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RetireDocument {
    /// Names this form.
    pub schema: RetireSchema,
    /// The class.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// Its groups, of which there is more than one only where several claimed the class.
    pub groups: Vec<GroupRetired>,
}

/// Names the form of what was retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RetireSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.retire/v1")]
    V1,
}

/// A group that was retired.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupRetired {
    /// The group.
    pub group: u8,
    /// Whether it had been closing before.
    pub was_closing: bool,
    /// Routes that led to it and block now.
    pub blocked: u64,
    /// Routes that were looked at to prove that none names it.
    pub routes_seen: u64,
    /// Number of the publication that disabled it.
    pub publication: u32,
    /// How long nobody else could write routes, in milliseconds.
    pub held_ms: f64,
}

/// A route that names a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct NamedBy {
    /// The group.
    pub group: GroupId,
    /// The tenant.
    pub table: TableId,
    /// Where the route leads from.
    pub prefix: Prefix,
    /// Who keeps it.
    pub origin: Origin,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin(origin) = self.origin;
        let who = match origin {
            0 => "kept by the control loop".to_owned(),
            origin => format!("of writer {origin}"),
        };
        write!(f, "{} of table {}, {who}", self.prefix, self.table)
    }
}

/// Why a class's group is not retired by hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireRefused {
    /// The class has no group that forwards.
    #[error("{class} has no group that forwards")]
    #[non_exhaustive]
    NoGroup {
        /// The class.
        class: Class,
    },
    /// Routes lead to it that are not to be blocked. Nothing was changed.
    #[error("{} routes lead to {class}: {}", routes.len(), list(routes))]
    #[non_exhaustive]
    Named {
        /// The class.
        class: Class,
        /// Each of them.
        routes: Vec<NamedBy>,
    },
    /// Somebody wrote routes to it in between. It forwards, and takes no more routes.
    #[error("group {group} of {class} is closed and forwards still: {reason}")]
    #[non_exhaustive]
    Closed {
        /// The class.
        class: Class,
        /// The group.
        group: GroupId,
        /// Why it is not disabled.
        reason: String,
    },
}

/// Most routes that a message names.
const NAMED: usize = 16;

fn list(routes: &[NamedBy]) -> String {
    let mut texts: Vec<_> = routes.iter().take(NAMED).map(ToString::to_string).collect();
    if routes.len() > NAMED {
        texts.push(format!("and {} more", routes.len() - NAMED));
    }
    texts.join("; ")
}

impl RetireRefused {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoGroup { .. } => ErrorKind::NotFound,
            Self::Named { .. } => ErrorKind::Conflict,
            Self::Closed { .. } => ErrorKind::Partial,
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoGroup { .. } => None,
            Self::Named { routes, .. } if routes.iter().all(|route| route.origin.0 == 0) => Some(
                "--block has them drop their packets; or apply a specification without the class",
            ),
            Self::Named { .. } => Some("other writers must lead theirs elsewhere first"),
            Self::Closed { .. } => Some("retire it again"),
        }
    }
}

/// Closes the group of a class, proves that no route names it, and disables it: it forwards nothing
/// any more, and may become another class's. With `block`, routes that the control loop keeps drop
/// their packets instead; routes of other writers are left alone, and prevent it. Waits as long as
/// `patience` says for the instance's lock, and for those who write routes.
///
/// # Errors
/// [`RetireRefused`] among others; nothing was changed unless it says so.
pub fn retire(
    dir: &StateDir,
    class: Class,
    block: bool,
    patience: Duration,
) -> Result<RetireDocument, Error> {
    let mut writer = Loader::new(dir).patience(patience).open()?;
    let mut all = writer.groups_as_they_are()?;
    let groups = all.known.iter();
    let groups = groups.filter(|group| group.class == class && group.forwards());
    let groups: Vec<_> = groups.map(|group| (group.group, group.state)).collect();
    // One that is damaged is in the way of its own class only, or of the one that it may have.
    let lost = all.lost().filter(|_| groups.is_empty());
    let mut ids = groups.iter().map(|(group, _)| *group).chain(lost);
    if let Some(error) = ids.find_map(|group| all.damaged.remove(&group)) {
        return Err(error.into());
    }
    if groups.is_empty() {
        return Err(RetireRefused::NoGroup { class }.into());
    }
    let ids: Vec<GroupId> = groups.iter().map(|(group, _)| *group).collect();
    let mut routes = named(&writer, &ids)?;
    if block {
        routes.retain(|route| route.origin.is_foreign());
    }
    if !routes.is_empty() {
        return Err(RetireRefused::Named { class, routes }.into());
    }
    let mut document = RetireDocument {
        schema: RetireSchema::V1,
        class,
        groups: Vec::new(),
    };
    for (group, state) in groups {
        let retired = retire_group(&mut writer, class, group, (state, block), patience)?;
        document.groups.push(retired);
    }
    Ok(document)
}

fn named(egress: &Egress, groups: &[GroupId]) -> Result<Vec<NamedBy>, InstanceError> {
    let mut routes = Vec::new();
    egress.for_each_route(|row| {
        if let Ok((Key { table, prefix }, route)) = row {
            let named = route.group().filter(|(group, _)| groups.contains(group));
            routes.extend(named.map(|(group, _)| NamedBy {
                group,
                table,
                prefix,
                origin: route.origin,
            }));
        }
        ControlFlow::Continue(())
    })?;
    routes.sort();
    Ok(routes)
}

fn retire_group(
    writer: &mut Writer,
    class: Class,
    group: GroupId,
    (state, block): (State, bool),
    patience: Duration,
) -> Result<GroupRetired, Error> {
    if state == State::Open {
        let close = writer.plan_close(group)?;
        for published in writer.publish(&[close])? {
            published?;
        }
    }
    let closed = |reason: &dyn fmt::Display| RetireRefused::Closed {
        class,
        group,
        reason: reason.to_string(),
    };
    let mut guard = writer.retire(patience).map_err(|error| closed(&error))?;
    let began = std::time::Instant::now();
    let mut blocked = 0;
    if block {
        let moved = guard.move_routes(|_, route| match route.group() {
            Some((named, _)) if named == group && !route.origin.is_foreign() => {
                Move::To(To::Block(Block::Drop))
            }
            _ => Move::Keep,
        });
        blocked = moved.map_err(|error| closed(&error))?.moved;
    }
    let proof = guard
        .prove_zero(group)
        .map_err(|error: StillReferenced| closed(&error))?;
    let routes_seen = proof.census().routes;
    let published = guard.disable(proof).map_err(|error| closed(&error))?;
    Ok(GroupRetired {
        group: group.get(),
        was_closing: state == State::Closing,
        blocked,
        routes_seen,
        publication: published.publication.get(),
        held_ms: began.elapsed().as_secs_f64() * 1_000.0,
    })
}
