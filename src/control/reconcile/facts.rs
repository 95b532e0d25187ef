// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What there is, by what plans ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::tally::Tally;
use crate::control::desired::{Desired, Verdict};
use crate::control::observed::{GroupContext, Observed};
use crate::control::problem::Problem;
use crate::group::{self, Class, Context, GroupId, GroupPlan, Incarnation, PlanError, Snapshot};
use crate::placement::HashTable;
use crate::route::{Key, Prefix, TableId};
use crate::srv6::{BaseSid, NextHop};
use crate::tenant::Tenant;

/// A tenant by its interfaces.
pub(super) struct TenantFacts {
    /// Its row at the interface with the lowest index, without what is that interface's own.
    pub(super) tenant: Tenant,
    /// Whether packets of any interface are looked at.
    pub(super) enabled: bool,
    /// What the first interface that disagrees with the lowest says.
    disagrees: Option<Problem>,
}

impl TenantFacts {
    /// Whether routes that it lacks can be written.
    pub(super) const fn is_writable(&self) -> bool {
        self.enabled && self.disagrees.is_none()
    }
}

/// What a tenure that a route names is.
#[derive(Clone, Copy)]
pub(super) enum Tenure<'a> {
    /// It is the one that the group is in, and packets are forwarded.
    Live(&'a Snapshot),
    /// The group is in another one.
    Over,
    /// Nobody knows which one the group is in.
    Lost,
    /// The group is disabled or was never opened.
    Dead,
}

/// What there is.
pub(super) struct Facts<'a> {
    pub(super) observed: &'a Observed,
    pub(super) desired: &'a Desired,
    pub(super) groups: BTreeMap<GroupId, &'a Snapshot>,
    pub(super) tenants: BTreeMap<TableId, TenantFacts>,
    /// Routes that name each group, of whatever writer and tenure.
    pub(super) named: BTreeMap<GroupId, Tally<Key>>,
    /// Of these, those that are other writers'.
    pub(super) held: BTreeMap<GroupId, Tally<Key>>,
    static_sids: BTreeSet<BaseSid>,
    prefixes: BTreeMap<Prefix, Class>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(observed: &'a Observed, desired: &'a Desired) -> Self {
        let prefixes = desired.classes.iter();
        let prefixes = prefixes.map(|entry| (Prefix::from(entry.class), entry.class));
        let mut groups: BTreeMap<GroupId, &Snapshot> = BTreeMap::new();
        for snapshot in &observed.groups {
            // The kernel has one of each; of two, the choice must not depend on their order.
            let newest = |one: &Snapshot| (one.publication.get(), one.incarnation.get(), one.class);
            let entry = groups.entry(snapshot.group).or_insert(snapshot);
            if newest(snapshot) > newest(entry) {
                *entry = snapshot;
            }
        }
        let mut facts = Self {
            observed,
            desired,
            groups,
            tenants: tenants(observed),
            named: BTreeMap::new(),
            held: BTreeMap::new(),
            static_sids: desired.static_sids.iter().copied().collect(),
            prefixes: prefixes.collect(),
        };
        for (key, route) in &observed.routes {
            if let Some((group, _)) = route.group() {
                facts.named.entry(group).or_default().count(*key);
                if route.origin.is_foreign() {
                    facts.held.entry(group).or_default().count(*key);
                }
            }
        }
        for (key, row) in &observed.senseless {
            if let Some(group) = row.group {
                facts.named.entry(group).or_default().count(*key);
                // The loop's own are mended when the group is retired.
                if row.origin.is_foreign() {
                    facts.held.entry(group).or_default().count(*key);
                }
            }
        }
        facts
    }

    /// The class of a route, if it is one that the rules of classes are for.
    pub(super) fn class_of(&self, prefix: Prefix) -> Option<Class> {
        self.prefixes.get(&prefix).copied()
    }

    /// The prefixes that each tenant has a route for.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = (Prefix, Class)> + '_ {
        self.prefixes
            .iter()
            .map(|(prefix, class)| (*prefix, *class))
    }

    /// Whether a row without sense is written over as if it were not there.
    pub(super) fn is_rewritten(&self, key: &Key) -> bool {
        let row = self.observed.senseless.get(key);
        let ours = row.is_some_and(|row| !row.origin.is_foreign());
        let tenant = self.tenants.get(&key.table);
        ours && self.class_of(key.prefix).is_some() && tenant.is_some_and(TenantFacts::is_writable)
    }

    pub(super) fn tenure(&self, group: GroupId, incarnation: Incarnation) -> Tenure<'a> {
        match self.groups.get(&group) {
            None if self.observed.damaged.contains_key(&group) => Tenure::Lost,
            None => Tenure::Dead,
            Some(live) if live.incarnation != incarnation => Tenure::Over,
            Some(live) if live.forwards() => Tenure::Live(live),
            Some(_) => Tenure::Dead,
        }
    }

    /// What is hashed for the tenant of a table, if it is known.
    pub(super) fn hash_table(&self, table: TableId) -> Option<HashTable> {
        Some(self.tenants.get(&table)?.tenant.hash_table)
    }

    pub(super) fn is_static(&self, sid: BaseSid) -> bool {
        self.static_sids.contains(&sid)
    }

    /// How packets get to a shard, of which `published` is the way that they take now.
    pub(super) fn next_hop(&self, sid: BaseSid, published: Option<NextHop>) -> Option<NextHop> {
        let verdict = self.desired.overrides.get(&sid);
        match (verdict, self.observed.reach.0.get(&sid)) {
            (Some(Verdict::Dead), _) => None,
            (_, Some(Ok(next_hop))) => Some(*next_hop),
            (Some(Verdict::Alive), Some(Err(_))) => published,
            (None, Some(Err(_))) => None,
            // Nothing is taken away because nobody asked.
            (_, None) => published,
        }
    }

    /// The way that some group has to a shard.
    pub(super) fn published_hop(&self, sid: BaseSid) -> Option<NextHop> {
        let members = self.groups.values().filter(|group| group.forwards());
        let mut hops = members.filter_map(|group| group.member_by_sid(sid)?.next_hop);
        hops.next()
    }

    /// The first static SID that is reached, and how.
    pub(super) fn first_static(&self) -> Option<(BaseSid, NextHop)> {
        let mut sids = self.desired.static_sids.iter();
        sids.find_map(|&sid| {
            let published = match self.desired.overrides.get(&sid) {
                Some(Verdict::Alive) => self.published_hop(sid),
                _ => None,
            };
            Some((sid, self.next_hop(sid, published)?))
        })
    }

    /// Plans something for a group.
    pub(super) fn plan(
        &self,
        group: GroupId,
        plan: impl FnOnce(Option<&Snapshot>, &Context<'_>) -> Result<GroupPlan, PlanError>,
    ) -> Result<GroupPlan, PlanError> {
        let none = GroupContext::default();
        let context = self.observed.contexts.get(&group).unwrap_or(&none);
        let context = Context {
            limits: self.observed.limits,
            high_water: context.high_water,
            counters: &context.counters,
            now_ns: self.observed.now_ns,
            rewrite: self.observed.damaged.contains_key(&group),
        };
        plan(self.groups.get(&group).copied(), &context)
    }

    /// Plans that the members of a group follow their next hops, and nothing else.
    pub(super) fn track(&self, live: &Snapshot) -> Result<GroupPlan, PlanError> {
        self.plan(live.group, |_, context| {
            let next_hop = |sid| {
                let published = live.member_by_sid(sid).and_then(|member| member.next_hop);
                self.next_hop(sid, published)
            };
            group::track(live, next_hop, context)
        })
    }

    /// Groups of which nobody knows whose they are.
    pub(super) fn lost(&self) -> BTreeSet<GroupId> {
        let damaged = self.observed.damaged.keys().copied();
        damaged
            .filter(|group| !self.groups.contains_key(group))
            .collect()
    }

    /// Whether a lost group may be a class's: one that none but routes of other classes name is not,
    /// and neither if another group forwards for the class.
    pub(super) fn may_have_lost(&self, class: Class) -> bool {
        let mut live = self.groups.values();
        if live.any(|live| live.forwards() && live.class == class) {
            return false;
        }
        self.lost().into_iter().any(|group| {
            let routes = self.observed.routes.iter();
            let named = routes
                .filter(|(_, route)| route.group().is_some_and(|(named, _)| named == group))
                .filter_map(|(key, _)| self.class_of(key.prefix));
            let named: BTreeSet<_> = named.collect();
            named.is_empty() || named.contains(&class)
        })
    }

    /// Why a shard that is to be reached is not, if so.
    pub(super) fn unreached(&self, sid: BaseSid) -> Option<Problem> {
        match (
            self.desired.overrides.get(&sid),
            self.observed.reach.0.get(&sid),
        ) {
            (Some(Verdict::Dead), _) => Some(Problem::OverruledDead { sid }),
            (None, Some(Err(why))) => {
                let why = why.clone();
                Some(Problem::Unreached { sid, why })
            }
            (_, None) => Some(Problem::NotAsked { sid }),
            (_, Some(Ok(_))) | (Some(Verdict::Alive), Some(Err(_))) => None,
        }
    }

    /// Tells what stays as it is whatever the mode.
    pub(super) fn report(&self, problems: &mut Vec<Problem>) {
        let lists = self.desired.shards.value();
        let mut faults: Vec<_> = lists.map_or_else(Vec::new, |list| list.faults.clone());
        faults.sort_unstable();
        problems.extend(faults.into_iter().map(Problem::Shard));
        let disagreeing = self.tenants.values();
        problems.extend(disagreeing.filter_map(|tenant| tenant.disagrees.clone()));
        for (key, row) in &self.observed.senseless {
            if !self.is_rewritten(key) {
                problems.push(Problem::SenselessRoute {
                    key: *key,
                    error: row.error.clone(),
                });
            }
        }
        let mut unreadable = self.observed.unreadable.clone();
        unreadable.sort_unstable_by_key(ToString::to_string);
        problems.extend(unreadable.into_iter().map(Problem::Unreadable));

        let mut dead: BTreeMap<GroupId, Tally<Key>> = BTreeMap::new();
        for (key, route) in &self.observed.routes {
            let Some((group, incarnation)) = route.group().filter(|_| route.origin.is_foreign())
            else {
                continue;
            };
            if matches!(self.tenure(group, incarnation), Tenure::Over | Tenure::Dead) {
                dead.entry(group).or_default().count(*key);
            }
        }
        for (group, tally) in dead {
            if let Some((routes, first)) = tally.some() {
                problems.push(Problem::ForeignDead {
                    group,
                    routes,
                    first,
                });
            }
        }
    }
}

fn tenants(observed: &Observed) -> BTreeMap<TableId, TenantFacts> {
    let mut tenants: BTreeMap<TableId, (u32, TenantFacts)> = BTreeMap::new();
    for (&ifindex, row) in &observed.tenants {
        let new = || {
            let tenant = Tenant {
                enabled: true,
                gateway6: None,
                gateway4: None,
                ..*row
            };
            let facts = TenantFacts {
                tenant,
                enabled: false,
                disagrees: None,
            };
            (ifindex, facts)
        };
        let (first, facts) = tenants.entry(row.table).or_insert_with(new);
        facts.enabled |= row.enabled;
        if facts.disagrees.is_none() {
            facts.disagrees =
                facts
                    .tenant
                    .contradiction(row)
                    .map(|(field, one, two)| Problem::TenantDisagrees {
                        table: row.table,
                        field,
                        first: *first,
                        second: ifindex,
                        one,
                        two,
                    });
        }
    }
    let tenants = tenants.into_iter();
    tenants.map(|(table, (_, facts))| (table, facts)).collect()
}
