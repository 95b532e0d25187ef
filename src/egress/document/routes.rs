// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes in words.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::egress::apply::{RouteChange, TenantChanges};
use crate::egress_spec::RouteTarget;
use crate::group::{Class, GroupId};
use crate::route::{Block, Prefix, Route, Target};

/// A route that changes. Where it leads is said as specifications do: `pass`, `block`,
/// `unreachable`, a class, or the SID of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RoutePlan {
    /// Packets to where.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub prefix: Prefix,
    /// Where it leads now; null if there is no such route.
    pub from: Option<String>,
    /// Where it will lead; null if it goes.
    pub to: Option<String>,
}

impl RoutePlan {
    /// That a route leads there, or to nothing any more.
    pub(super) fn of(
        prefix: Prefix,
        before: Option<&Route>,
        to: Option<&RouteTarget>,
        classes: &BTreeMap<GroupId, Class>,
    ) -> Self {
        Self {
            prefix,
            from: before.map(|route| present(route, classes)),
            to: to.map(target),
        }
    }

    pub(super) fn all(
        changes: &TenantChanges,
        classes: &BTreeMap<GroupId, Class>,
        before: &BTreeMap<Prefix, Route>,
    ) -> Vec<Self> {
        let put = changes.routes.iter();
        let put = put.map(|(&prefix, RouteChange { before, to })| {
            Self::of(prefix, before.as_ref(), Some(to), classes)
        });
        let gone = changes.removed.iter();
        let gone = gone.map(|prefix| Self::of(*prefix, before.get(prefix), None, classes));
        let mut all: Vec<_> = put.chain(gone).collect();
        all.sort_by_key(|route| route.prefix);
        all
    }
}

fn block(block: Block) -> String {
    match block {
        Block::Drop => "block",
        Block::Unreachable => "unreachable",
    }
    .to_owned()
}

fn target(to: &RouteTarget) -> String {
    match to {
        RouteTarget::Pass => "pass".to_owned(),
        RouteTarget::Block(action) => block(*action),
        RouteTarget::Shard { sid, .. } => sid.to_string(),
        RouteTarget::Class(class) => class.to_string(),
    }
}

fn present(route: &Route, classes: &BTreeMap<GroupId, Class>) -> String {
    match &route.target {
        Target::Pass => "pass".to_owned(),
        Target::Block(action) => block(*action),
        Target::Shard { sid, .. } => sid.to_string(),
        Target::Group { group, .. } => match classes.get(group) {
            Some(class) => class.to_string(),
            None => format!("group {group}"),
        },
    }
}
