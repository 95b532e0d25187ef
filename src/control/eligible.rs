// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which shards may be members of which groups.

use std::collections::{BTreeMap, BTreeSet};

use super::shard::Shard;
use crate::group::Class;
use crate::srv6::BaseSid;

/// The shards of a list by their SIDs: all objects of one SID are one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool<'s> {
    candidates: BTreeMap<BaseSid, Pooled<'s>>,
    listed: BTreeSet<BaseSid>,
}

/// The objects of one SID of which at least one is a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pooled<'s> {
    /// In order of names.
    objects: Vec<&'s Shard>,
    disagree: bool,
}

impl Pooled<'_> {
    fn draining(&self) -> bool {
        self.disagree || self.objects.iter().any(|shard| shard.drain)
    }

    /// What an object says that is not a candidate does not count.
    fn translates(&self, class: Class) -> bool {
        let able = self.objects.iter().filter(|one| one.candidate().is_some());
        able.into_iter().any(|shard| shard.translates(class))
    }
}

/// Everything of an object in which others of its SID have to agree.
fn content(shard: &Shard) -> impl PartialEq {
    let translation = (
        shard.ipv6,
        shard.ipv4,
        shard.nat64_prefix,
        shard.well_known_prefix,
    );
    let condition = (shard.programmed, shard.ready, shard.terminating);
    (translation, condition)
}

impl<'s> Pool<'s> {
    /// The shards of a list, whose order does not matter.
    ///
    /// Of several objects with one SID, the shard drains if one of them says so. If they differ in
    /// anything else, which of them is right is not known: it drains, too, and translates what any of
    /// them does.
    #[must_use]
    pub fn of(shards: &'s [Shard]) -> Self {
        let mut objects: BTreeMap<BaseSid, Vec<&Shard>> = BTreeMap::new();
        for shard in shards {
            if let Some(sid) = shard.sid {
                objects.entry(sid).or_default().push(shard);
            }
        }
        let listed = objects.keys().copied().collect();
        let pooled = objects.into_iter().map(|(sid, mut objects)| {
            objects.sort_unstable();
            let pairs = objects.iter().zip(objects.iter().skip(1));
            let disagree = pairs.into_iter().any(|(a, b)| content(a) != content(b));
            (sid, Pooled { objects, disagree })
        });
        let is_candidate = |pooled: &Pooled<'_>| {
            let mut objects = pooled.objects.iter();
            objects.any(|shard| shard.candidate().is_some())
        };
        Self {
            candidates: pooled.filter(|(_, one)| is_candidate(one)).collect(),
            listed,
        }
    }

    /// Whether the list names this SID, candidate or not.
    #[must_use]
    pub fn lists(&self, sid: BaseSid) -> bool {
        self.listed.contains(&sid)
    }

    /// The shards that may be members of any group, in ascending order.
    pub fn candidates(&self) -> impl Iterator<Item = BaseSid> + '_ {
        self.candidates.keys().copied()
    }

    /// Those that translate this class, and whether they drain.
    pub fn eligible(&self, class: Class) -> impl Iterator<Item = (BaseSid, bool)> + '_ {
        let able = self.candidates.iter();
        able.filter(move |(_, pooled)| pooled.translates(class))
            .map(|(sid, pooled)| (*sid, pooled.draining()))
    }

    /// Those that do not, with the name of the first object of each.
    pub fn ineligible(&self, class: Class) -> impl Iterator<Item = (&'s str, BaseSid)> + '_ {
        let unable = self.candidates.iter();
        unable
            .filter(move |(_, pooled)| !pooled.translates(class))
            .map(|(sid, pooled)| {
                let first = pooled.objects.first();
                (first.map_or("", |shard| shard.name.as_str()), *sid)
            })
    }

    /// The shards whose objects differ, with the names of these.
    pub fn disagreements(&self) -> impl Iterator<Item = (BaseSid, Vec<&'s str>)> + '_ {
        let differing = self.candidates.iter().filter(|(_, pooled)| pooled.disagree);
        differing.map(|(sid, pooled)| {
            let names = pooled.objects.iter().map(|shard| shard.name.as_str());
            (*sid, names.collect())
        })
    }
}
