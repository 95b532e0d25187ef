// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which group is whose, and which number placement hashes for it.
//!
//! Both belong to a class and are read back from what is published, so that the order of a
//! configuration, and what is missing from it, changes neither.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::class::{Class, Classes};
use super::number::GroupId;
use super::snapshot::{Snapshot, State};
use super::Limits;
use crate::placement::HashGroup;

/// A class's group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The group.
    pub group: GroupId,
    /// The class.
    pub class: Class,
    /// The number that placement hashes for the class.
    pub hash_group: HashGroup,
}

/// No group is left for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no group is left for {class}: of {groups}, configured classes have {configured}, the rest \
         is not disabled yet"
)]
#[non_exhaustive]
pub struct NoGroupLeft {
    /// The class.
    pub class: Class,
    /// Groups of other configured classes.
    pub configured: usize,
    /// The limit on groups.
    pub groups: u8,
}

/// Groups that claim one class.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Duplicate {
    /// The class.
    pub class: Class,
    /// The one that has it.
    pub kept: GroupId,
    /// Those that are to be retired.
    pub others: Vec<GroupId>,
}

impl Duplicate {
    /// That these groups claim a class, which one of them has.
    #[must_use]
    pub const fn new(class: Class, kept: GroupId, others: Vec<GroupId>) -> Self {
        Self {
            class,
            kept,
            others,
        }
    }
}

/// The groups of all classes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// Those of the configured classes, in their order.
    pub classes: Vec<Result<Place, NoGroupLeft>>,
    /// Groups that forward for a class that is not configured, in ascending order: to be retired.
    pub unconfigured: Vec<GroupId>,
    /// Classes with more than one group.
    pub duplicates: Vec<Duplicate>,
}

impl Places {
    /// The class's place.
    #[must_use]
    pub fn of(&self, class: Class) -> Option<Place> {
        let mut places = self.classes.iter().flatten();
        places.find(|place| place.class == class).copied()
    }
}

/// Finds a group for each of `classes`, given all snapshots that are published, in any order.
///
/// A class keeps the group that it has, open, closing or disabled. One without takes the lowest
/// group that nobody ever had, then the lowest disabled one. Of several groups of one class, it has
/// the one that the most routes lead to, which `routes` counts, or else the lowest.
pub fn allocate(
    classes: &Classes,
    published: &[Snapshot],
    routes: impl Fn(GroupId) -> u64,
    limits: Limits,
) -> Places {
    allocate_beside(classes, published, &BTreeSet::new(), routes, limits)
}

/// As [`allocate`], where nobody knows whose these `others` are: no class gets one of them.
pub fn allocate_beside(
    classes: &Classes,
    published: &[Snapshot],
    others: &BTreeSet<GroupId>,
    routes: impl Fn(GroupId) -> u64,
    limits: Limits,
) -> Places {
    let mut published: Vec<&Snapshot> = published.iter().collect();
    published.sort_by_key(|snapshot| snapshot.group);
    let (mut unconfigured, mut duplicates) = (Vec::new(), Vec::new());
    let mut owned = Vec::with_capacity(classes.iter().len());
    for entry in classes.iter() {
        let claims = || published.iter().filter(|one| one.class == entry.class);
        let forwarding = || claims().filter(|claim| claim.forwards());
        let kept = forwarding().max_by_key(|one| (routes(one.group), Reverse(one.group)));
        if let Some(kept) = kept {
            let others = forwarding().map(|other| other.group);
            let others: Vec<_> = others.filter(|&other| other != kept.group).collect();
            if !others.is_empty() {
                duplicates.push(Duplicate {
                    class: entry.class,
                    kept: kept.group,
                    others,
                });
            }
        }
        owned.push(kept.or_else(|| claims().next()).copied());
    }
    let stray = published
        .iter()
        .filter(|one| one.forwards() && !classes.contains(one.class));
    unconfigured.extend(stray.map(|one| one.group));

    let hash_groups = hash_groups(classes, &published, &owned);
    let mut taken: BTreeSet<_> = owned.iter().flatten().map(|one| one.group).collect();
    let ids = || {
        let ids = (0..limits.groups().into()).filter_map(GroupId::new);
        ids.filter(|id| !others.contains(id))
    };
    let state = |id| {
        let found = published.iter().find(|one| one.group == id);
        found.map(|found| found.state)
    };
    let places = classes.iter().zip(owned).zip(hash_groups);
    let places = places.map(|((entry, owned), hash_group)| {
        let free = |taken: &BTreeSet<_>, wanted| {
            ids().find(|id| !taken.contains(id) && state(*id) == wanted)
        };
        let group = owned
            .map(|owned| owned.group)
            .or_else(|| free(&taken, None))
            .or_else(|| free(&taken, Some(State::Disabled)))
            .ok_or(NoGroupLeft {
                class: entry.class,
                configured: taken.len(),
                groups: limits.groups(),
            })?;
        taken.insert(group);
        Ok(Place {
            group,
            class: entry.class,
            hash_group,
        })
    });
    Places {
        classes: places.collect(),
        unconfigured,
        duplicates,
    }
}

/// The numbers that placement hashes, in the order of `classes`, whose snapshots are `owned`.
fn hash_groups(
    classes: &Classes,
    published: &[&Snapshot],
    owned: &[Option<&Snapshot>],
) -> Vec<HashGroup> {
    let in_use = published.iter().filter(|one| one.forwards());
    let mut taken: BTreeSet<_> = in_use.map(|one| one.hash_group).collect();
    let mut numbers: Vec<Option<HashGroup>> = classes
        .iter()
        .zip(owned)
        .map(|(entry, owned)| {
            let kept = owned.filter(|one| one.forwards());
            match entry.class {
                _ if entry.hash_group.is_some() => entry.hash_group,
                Class::Nat66 => Some(HashGroup::default()),
                Class::Nat64(_) => kept.map(|kept| kept.hash_group),
            }
        })
        .collect();
    taken.extend(numbers.iter().flatten());
    // What a class had when its group was disabled is its own unless somebody has it by now.
    for (number, owned) in numbers.iter_mut().zip(owned) {
        if let (None, Some(owned)) = (&number, owned) {
            if owned.hash_group != HashGroup::default() && taken.insert(owned.hash_group) {
                *number = Some(owned.hash_group);
            }
        }
    }
    let lowest = |taken: &mut BTreeSet<HashGroup>| {
        // There are at most 64 classes and 64 groups, so one of 255 numbers is free.
        let mut numbers = (1..=u8::MAX).map(HashGroup);
        let free = numbers.find(|number| !taken.contains(number));
        let free = free.unwrap_or(HashGroup(u8::MAX));
        taken.insert(free);
        free
    };
    let numbers = numbers.into_iter();
    numbers
        .map(|number| number.unwrap_or_else(|| lowest(&mut taken)))
        .collect()
}
