// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What must hold after every sweep, whatever failed in it.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::Observed;
use super::plan::Repair;
use crate::group::{Class, Classes, GroupId, Incarnation, Snapshot};
use crate::route::{Key, Prefix, Route, TableId};
use crate::tenant::Tenant;

/// What does not hold of what must.
///
/// Routes of other writers than the loop are only counted: nobody here may mend them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invariants {
    /// Routes of the loop's own that must not be, by what is wrong with them, the first of each named.
    pub routes: BTreeMap<Repair, Broken>,
    /// Of these, routes to a group that forwards nothing in the tenure that they name: their packets
    /// are dropped.
    pub dead: u64,
    /// The same of other writers.
    pub foreign_dead: u64,
    /// Classes for which several groups forward.
    pub duplicates: BTreeSet<Class>,
    /// How many routes name the groups of each class, whichever tenure and whoever keeps them. That
    /// there is none is told only of a class all of whose groups are disabled, which was done with a
    /// proof while nobody wrote any: of another class, a route may be about to be written.
    pub group_routes: BTreeMap<Class, u64>,
}

/// Routes with the same fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Key,
}

impl Invariants {
    /// Whether all of them hold.
    #[must_use]
    pub fn hold(&self) -> bool {
        self.routes.is_empty() && self.duplicates.is_empty()
    }

    /// How many routes have this fault.
    #[must_use]
    pub fn count(&self, kind: Repair) -> u64 {
        self.routes.get(&kind).map_or(0, |broken| broken.count)
    }

    fn note(&mut self, kind: Repair, key: Key) {
        let broken = self.routes.entry(kind);
        broken
            .or_insert(Broken {
                count: 0,
                first: key,
            })
            .count += 1;
    }
}

/// Looks whether everything holds that must: no route to a group that forwards nothing, none to
/// another class's group, and a route of every configured class in every tenant's table. The next
/// plan mends what does not.
#[must_use]
pub fn invariants(observed: &Observed, classes: &Classes) -> Invariants {
    let mut found = Invariants::default();
    let live: BTreeMap<GroupId, &Snapshot> = observed
        .groups
        .iter()
        .map(|group| (group.group, group))
        .collect();
    let mut claimed = BTreeSet::new();
    for group in live.values().filter(|group| group.forwards()) {
        if !claimed.insert(group.class) {
            found.duplicates.insert(group.class);
        }
    }
    let tables: BTreeSet<_> = tables(&observed.tenants);
    let mut named = BTreeMap::<GroupId, u64>::new();
    let rows = observed.routes.values().filter_map(Route::group);
    let senseless = observed.senseless.values();
    let senseless = senseless.filter_map(|senseless| senseless.group);
    for group in rows.map(|(group, _)| group).chain(senseless) {
        *named.entry(group).or_default() += 1;
    }
    for (&key, route) in &observed.routes {
        let Some((group, incarnation)) = route.group() else {
            continue;
        };
        let named = live.get(&group);
        let named = named.filter(|group| group.incarnation == incarnation && group.forwards());
        // Nobody knows which tenure a lost group is in: its packets may well go on.
        if !live.contains_key(&group) && observed.damaged.contains_key(&group) {
            continue;
        }
        if route.origin.is_foreign() {
            found.foreign_dead += u64::from(named.is_none());
            continue;
        }
        found.dead += u64::from(named.is_none());
        let class = classes.of_route(key.prefix.address(), key.prefix.bits());
        match named {
            None => found.note(fault_of(live.get(&group).copied(), incarnation), key),
            Some(live) if class.is_some_and(|class| class != live.class) => {
                found.note(Repair::WrongClass, key);
            }
            Some(_) => {}
        }
    }
    for group in live.values() {
        let named = named.get(&group.group).copied().unwrap_or(0);
        *found.group_routes.entry(group.class).or_default() += named;
    }
    for group in live.values().filter(|group| group.forwards()) {
        if found.group_routes.get(&group.class) == Some(&0) {
            found.group_routes.remove(&group.class);
        }
    }
    for table in tables {
        for entry in classes.iter() {
            let key = Key::new(table, Prefix::from(entry.class));
            // A row that makes no sense drops its packets: it is no hole.
            if !observed.routes.contains_key(&key) && !observed.senseless.contains_key(&key) {
                found.note(Repair::Missing, key);
            }
        }
    }
    found
}

/// What is wrong with a route that names a group which forwards nothing in that tenure.
fn fault_of(live: Option<&Snapshot>, named: Incarnation) -> Repair {
    match live {
        Some(live) if live.incarnation != named => Repair::OldIncarnation,
        _ => Repair::Orphan,
    }
}

/// The tables whose packets are looked at.
fn tables(tenants: &BTreeMap<u32, Tenant>) -> BTreeSet<TableId> {
    let enabled = tenants.values().filter(|tenant| tenant.enabled);
    enabled.map(|tenant| tenant.table).collect()
}
