// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which routes there are.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::error::InstanceError;
use super::instance::Egress;
use crate::group::{GroupId, Incarnation};
use crate::route::{Key, Origin, RowError, TableId};

/// What routes there are.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RouteCensus {
    /// Routes of all kinds.
    pub routes: u64,
    /// Routes that name a group, whichever tenure of it.
    pub groups: BTreeMap<GroupId, u64>,
    /// Of these, routes that name a tenure which is over.
    pub stale: u64,
    /// Routes to a group that forwards nothing in the tenure that they name: their packets are dropped.
    pub dead: u64,
    /// Routes by tenant.
    pub tables: BTreeMap<TableId, u64>,
    /// Routes by who keeps them in line.
    pub origins: BTreeMap<Origin, u64>,
    /// Routes to groups that others keep in line than the node's control loop. It moves none of them,
    /// and a group that they name is not disabled.
    pub foreign: Vec<ForeignRoute>,
    /// Rows that make no sense.
    pub unknown: Vec<RowError>,
    /// How long the look at all of them took.
    pub duration: Duration,
}

/// A route to a group that another writer keeps in line than the node's control loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignRoute {
    /// Whose it is, and for which packets.
    pub key: Key,
    /// The group that it names.
    pub group: GroupId,
    /// The tenure of the group that it names.
    pub incarnation: Incarnation,
    /// Who keeps it in line.
    pub origin: Origin,
}

impl RouteCensus {
    /// How many routes name a group.
    #[must_use]
    pub fn of(&self, group: GroupId) -> u64 {
        self.groups.get(&group).copied().unwrap_or(0)
    }

    /// How many of these others keep in line.
    #[must_use]
    pub fn foreign_of(&self, group: GroupId) -> u64 {
        let foreign = self.foreign.iter();
        foreign.filter(|route| route.group == group).count() as u64
    }
}

impl Egress {
    /// Counts all routes. While others write some they may be missed, or their groups be another
    /// thing; under [`retire`](super::Writer::retire), where
    /// [`scan`](super::RetireGuard::scan) is the same, nobody does.
    ///
    /// # Errors
    /// The routes cannot be read to the end, or the groups cannot.
    pub fn census(&self) -> Result<RouteCensus, InstanceError> {
        let started = Instant::now();
        let groups = self.groups_as_they_are()?;
        let live: BTreeMap<_, _> = groups
            .known
            .iter()
            .map(|group| (group.group, (group.incarnation, group.forwards())))
            .collect();
        let mut census = RouteCensus::default();
        self.for_each_route(|row| {
            census.routes += 1;
            match row {
                Ok((key, route)) => {
                    *census.tables.entry(key.table).or_default() += 1;
                    *census.origins.entry(route.origin).or_default() += 1;
                    if let Some((group, incarnation)) = route.group() {
                        *census.groups.entry(group).or_default() += 1;
                        if route.origin != Origin::default() {
                            census.foreign.push(ForeignRoute {
                                key,
                                group,
                                incarnation,
                                origin: route.origin,
                            });
                        }
                        let live = live.get(&group);
                        // Of one that is lost nobody knows which tenure it is in.
                        if live.is_none() && groups.damaged.contains_key(&group) {
                            return ControlFlow::Continue(());
                        }
                        let named = live.filter(|(live, _)| *live == incarnation);
                        census.stale += u64::from(named.is_none());
                        census.dead += u64::from(named.is_none_or(|(_, forwards)| !forwards));
                    }
                }
                Err(error) => census.unknown.push(error),
            }
            ControlFlow::Continue(())
        })?;
        census.foreign.sort_unstable_by_key(|route| route.key);
        census.duration = started.elapsed();
        Ok(census)
    }
}
