// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hashed mode: a group for each class, and every class's routes on its group.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, NOWHERE};
use super::facts::{Facts, Tenure};
use super::tally::Tally;
use super::{retire, write};
use crate::control::eligible::Pool;
use crate::control::plan::MoveReason;
use crate::control::problem::Problem;
use crate::egress_spec::RouteTarget;
use crate::group::{
    self, allocate_beside, Candidate, Class, GroupId, GroupPlan, GroupSpec, Place, Places,
    PlanError, Snapshot, State,
};
use crate::placement::Scope;
use crate::route::{Key, Route, Target};
use crate::srv6::BaseSid;

pub(super) fn draft(facts: &Facts<'_>, pool: &Pool<'_>, draft: &mut Draft) {
    let named = |group| facts.named.get(&group).map_or(0, Tally::len);
    let published: Vec<_> = facts
        .groups
        .values()
        .map(|group| (*group).clone())
        .collect();
    let limits = facts.observed.limits;
    let classes = &facts.desired.classes;
    let places = allocate_beside(classes, &published, &facts.lost(), named, limits);
    let hashed = Hashed {
        facts,
        pool,
        own: own_groups(facts, pool, &places, draft),
    };
    hashed.report(draft);
    hashed.routes(draft);
    write::missing(facts, draft, true, |class| hashed.wanted(class));
    hashed.retire(&places, draft);
}

/// What the group of each class is afterwards, if it has one.
type OwnGroups = BTreeMap<Class, Snapshot>;

fn own_groups(facts: &Facts<'_>, pool: &Pool<'_>, places: &Places, draft: &mut Draft) -> OwnGroups {
    let mut own = BTreeMap::new();
    for place in &places.classes {
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                draft.problems.push(Problem::NoGroupLeft(*error));
                continue;
            }
        };
        // Its routes name the lost group, and its pins are there: another one would move them all.
        if facts.may_have_lost(place.class) {
            continue;
        }
        match plan_group(facts, pool, place, &mut draft.problems) {
            Ok(plan) => {
                own.insert(place.class, plan.snapshot().clone());
                if plan.is_changed() {
                    draft.groups.push(plan);
                }
            }
            Err(error) => {
                draft.problems.push(Problem::Group {
                    class: place.class,
                    error,
                });
                let live = facts.groups.get(&place.group);
                let live = live.filter(|live| live.forwards() && live.class == place.class);
                own.extend(live.map(|live| (place.class, (*live).clone())));
            }
        }
    }
    for duplicate in &places.duplicates {
        draft.problems.push(Problem::DuplicateClass {
            class: duplicate.class,
            kept: duplicate.kept,
            others: duplicate.others.clone(),
        });
    }
    own
}

/// Plans the group of a class as the list of shards has it.
fn plan_group(
    facts: &Facts<'_>,
    pool: &Pool<'_>,
    place: &Place,
    problems: &mut Vec<Problem>,
) -> Result<GroupPlan, PlanError> {
    let live = facts.groups.get(&place.group);
    let live = live.filter(|live| live.forwards());
    let candidate = |(sid, draining): (BaseSid, bool)| {
        let member = live.and_then(|live| live.member_by_sid(sid));
        Candidate {
            sid,
            weight: 1,
            draining,
            next_hop: facts.next_hop(sid, member.and_then(|member| member.next_hop)),
        }
    };
    let spec = GroupSpec {
        settings: facts.desired.settings,
        candidates: pool.eligible(place.class).map(candidate).collect(),
        ineligible: pool.ineligible(place.class).count() as u32,
    };
    let plan = |spec: &GroupSpec| {
        facts.plan(place.group, |previous, context| {
            group::plan(previous, place, spec, context)
        })
    };
    let most = usize::from(facts.observed.limits.members());
    if spec.candidates.len() <= most {
        return plan(&spec);
    }
    problems.push(Problem::TooManyCandidates {
        class: place.class,
        candidates: spec.candidates.len(),
        members: facts.observed.limits.members(),
    });
    let is_member = |candidate: &Candidate| {
        live.is_some_and(|live| live.member_by_sid(candidate.sid).is_some())
    };
    let mut kept = spec.clone();
    kept.candidates.retain(is_member);
    if kept.candidates.is_empty() {
        // A group that has none would serve nobody. The first in an order that all nodes have.
        kept.candidates = spec.candidates;
        let key = |one: &Candidate| crate::placement::member_key(one.sid);
        kept.candidates.sort_by_cached_key(key);
        kept.candidates.truncate(most);
    }
    plan(&kept)
}

/// Hashed mode with a list of shards.
struct Hashed<'a> {
    facts: &'a Facts<'a>,
    pool: &'a Pool<'a>,
    own: OwnGroups,
}

impl Hashed<'_> {
    /// Whether a class's group takes routes afterwards.
    fn open(&self, class: Class) -> Option<&Snapshot> {
        let own = self.own.get(&class)?;
        (own.state == State::Open).then_some(own)
    }

    /// Where the routes of a class belong.
    fn wanted(&self, class: Class) -> RouteTarget {
        match self.open(class) {
            Some(_) => RouteTarget::Class(class),
            None => NOWHERE,
        }
    }

    /// Whether the shard of a route is one whose routes are moved.
    fn is_ours(&self, sid: BaseSid) -> bool {
        self.pool.lists(sid) || self.facts.is_static(sid)
    }

    fn report(&self, draft: &mut Draft) {
        for (sid, names) in self.pool.disagreements() {
            let names = names.into_iter().map(str::to_owned).collect();
            draft.problems.push(Problem::ShardsDisagree { sid, names });
        }
        for sid in self.pool.candidates() {
            draft.problems.extend(self.facts.unreached(sid));
        }
    }

    fn routes(&self, draft: &mut Draft) {
        let mut unknown: BTreeMap<BaseSid, Tally<Key>> = BTreeMap::new();
        let mut tenantless = Tally::default();
        for (key, route) in &self.facts.observed.routes {
            if route.origin.is_foreign() {
                continue;
            }
            let class = self.facts.class_of(key.prefix);
            let move_to = match class {
                None => self.beside(key, route),
                Some(class) => match route.target {
                    Target::Shard { sid, .. } if !self.is_ours(sid) => {
                        unknown.entry(sid).or_default().count(*key);
                        None
                    }
                    _ => self.of_class(class, key, route),
                },
            };
            let Some((reason, class, to)) = move_to else {
                continue;
            };
            match to {
                RouteTarget::Class(_) if self.facts.hash_table(key.table).is_none() => {
                    tenantless.count(*key);
                    // What names the wrong group must not stay there; it can be led back later.
                    if route.group().is_some() {
                        draft.lead(reason, class, (key, route), Some(NOWHERE));
                    }
                }
                to => draft.lead(reason, class, (key, route), Some(to)),
            }
        }
        for (sid, tally) in unknown {
            if let Some((routes, first)) = tally.some() {
                draft
                    .problems
                    .push(Problem::UnknownShard { sid, routes, first });
            }
        }
        if let Some((routes, first)) = tenantless.some() {
            draft
                .problems
                .push(Problem::TenantUnknown { routes, first });
        }
    }

    /// Where a route of a class is to lead instead, and why.
    fn of_class(
        &self,
        class: Class,
        key: &Key,
        route: &Route,
    ) -> Option<(MoveReason, Class, RouteTarget)> {
        let open = self.open(class);
        let lead = |reason, to| Some((reason, class, to));
        match route.target {
            Target::Pass => None,
            Target::Block(_) => {
                open.and_then(|_| lead(MoveReason::Group, RouteTarget::Class(class)))
            }
            Target::Shard { sid, next_hop, .. } => {
                let serves = |own: &&Snapshot| own.members.iter().any(group::Member::is_active);
                if open.as_ref().is_some_and(serves) {
                    return lead(MoveReason::Group, RouteTarget::Class(class));
                }
                let reached = self.facts.next_hop(sid, Some(next_hop))?;
                let to = RouteTarget::Shard {
                    sid,
                    next_hop: reached,
                };
                (reached != next_hop).then_some(())?;
                lead(MoveReason::NextHop, to)
            }
            Target::Group {
                group, incarnation, ..
            } => {
                let own = self.own.get(&class);
                let names_own =
                    own.is_some_and(|own| own.group == group && own.incarnation == incarnation);
                if names_own {
                    return self.rehashed(class, own?, key, route);
                }
                let reason = match self.facts.tenure(group, incarnation) {
                    Tenure::Live(live) if live.class != class => MoveReason::WrongClass,
                    // The other group of the class serves it as long as its own does not.
                    Tenure::Live(_) | Tenure::Lost if open.is_none() => return None,
                    Tenure::Live(_) | Tenure::Lost | Tenure::Dead => MoveReason::Orphan,
                    Tenure::Over => MoveReason::OldIncarnation,
                };
                lead(reason, self.wanted(class))
            }
        }
    }

    /// Where a route to a prefix of no class is to lead: it stays, but for what it must not name.
    fn beside(&self, key: &Key, route: &Route) -> Option<(MoveReason, Class, RouteTarget)> {
        let (group, incarnation) = route.group()?;
        let live = self.facts.groups.get(&group);
        let class = live.map_or(Class::Nat66, |live| live.class);
        match self.facts.tenure(group, incarnation) {
            Tenure::Live(live) => {
                let own = self.open(live.class)?;
                if own.group == group {
                    return self.rehashed(class, own, key, route);
                }
                Some((MoveReason::Orphan, class, RouteTarget::Class(class)))
            }
            Tenure::Over => Some((MoveReason::OldIncarnation, class, NOWHERE)),
            Tenure::Lost => None,
            Tenure::Dead => Some((MoveReason::Orphan, class, NOWHERE)),
        }
    }

    /// The same place, if what a route to its group has precomputed is out of date.
    fn rehashed(
        &self,
        class: Class,
        own: &Snapshot,
        key: &Key,
        route: &Route,
    ) -> Option<(MoveReason, Class, RouteTarget)> {
        let scope = Scope {
            table: self.facts.hash_table(key.table)?,
            group: own.hash_group,
        };
        let argument = route.argument()?;
        let right = Target::group(argument, own.group, own.incarnation, scope, key.prefix);
        let writable = own.state == State::Open && right != route.target;
        writable.then_some((MoveReason::HashState, class, RouteTarget::Class(class)))
    }

    /// Ends the groups of classes that are not configured, and those that claim another's class.
    fn retire(&self, places: &Places, draft: &mut Draft) {
        let duplicates = places.duplicates.iter();
        let duplicates = duplicates.flat_map(|duplicate| duplicate.others.iter().copied());
        let unconfigured = places.unconfigured.iter().copied();
        let groups: BTreeSet<GroupId> = unconfigured.chain(duplicates).collect();
        for live in groups.iter().filter_map(|id| self.facts.groups.get(id)) {
            let open = self.open(live.class);
            let instead = open.map(|_| RouteTarget::Class(live.class));
            retire::end(self.facts, Some(self.pool), live, instead, draft);
        }
    }
}
