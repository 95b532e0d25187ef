// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Ordered mode: every class's routes lead to the first static SID that is reached, and groups go.

use std::collections::BTreeMap;

use super::draft::{Draft, NOWHERE};
use super::facts::{Facts, Tenure};
use super::tally::Tally;
use super::{retire, write};
use crate::control::eligible::Pool;
use crate::control::plan::MoveReason;
use crate::control::problem::Problem;
use crate::egress_spec::RouteTarget;
use crate::group::Class;
use crate::route::{Route, Target};
use crate::srv6::{BaseSid, NextHop};

pub(super) fn draft(facts: &Facts<'_>, pool: Option<&Pool<'_>>, draft: &mut Draft) {
    draft.ends_groups = true;
    let ordered = Ordered {
        facts,
        pool,
        first: facts.first_static(),
    };
    for &sid in &facts.desired.static_sids {
        draft.problems.extend(facts.unreached(sid));
    }
    ordered.routes(draft);
    write::missing(facts, draft, true, |_| ordered.target().unwrap_or(NOWHERE));
    ordered.retire(draft);
}

/// Ordered mode.
struct Ordered<'a> {
    facts: &'a Facts<'a>,
    /// Shards, if anybody lists some.
    pool: Option<&'a Pool<'a>>,
    /// The first static SID that is reached.
    first: Option<(BaseSid, NextHop)>,
}

impl Ordered<'_> {
    fn target(&self) -> Option<RouteTarget> {
        let (sid, next_hop) = self.first?;
        Some(RouteTarget::Shard { sid, next_hop })
    }

    fn routes(&self, draft: &mut Draft) {
        let mut unresolved: BTreeMap<Class, u64> = BTreeMap::new();
        for (_, class) in self.facts.prefixes() {
            unresolved.insert(class, 0);
        }
        let mut tenantless = Tally::default();
        for (key, route) in &self.facts.observed.routes {
            if route.origin.is_foreign() {
                continue;
            }
            let class = self.facts.class_of(key.prefix);
            if let Some(count) = class.and_then(|class| unresolved.get_mut(&class)) {
                *count += 1;
            }
            let Some((reason, class, to)) = self.lead(class, route) else {
                continue;
            };
            // A block has no Argument of its own.
            let known = self.facts.tenants.contains_key(&key.table);
            if route.argument().is_none() && !known {
                tenantless.count(*key);
                continue;
            }
            draft.lead(reason, class, (key, route), Some(to));
        }
        if self.first.is_none() {
            for (class, routes) in unresolved {
                draft.problems.push(Problem::Unresolved {
                    class,
                    sids: self.facts.desired.static_sids.len(),
                    routes,
                });
            }
        }
        if let Some((routes, first)) = tenantless.some() {
            draft
                .problems
                .push(Problem::TenantUnknown { routes, first });
        }
    }

    /// Where a route is to lead instead, and why.
    fn lead(
        &self,
        class: Option<Class>,
        route: &Route,
    ) -> Option<(MoveReason, Class, RouteTarget)> {
        match route.target {
            Target::Pass => None,
            Target::Block(_) => Some((MoveReason::Ordered, class?, self.target()?)),
            Target::Shard { sid, next_hop, .. } => {
                let class = class?;
                let (first, reached) = self.first?;
                let reason = match (first == sid, reached == next_hop) {
                    (true, true) => return None,
                    (true, false) => MoveReason::NextHop,
                    (false, _) => MoveReason::Ordered,
                };
                Some((reason, class, self.target()?))
            }
            Target::Group {
                group, incarnation, ..
            } => {
                let live = self.facts.groups.get(&group);
                let named = live.map_or(Class::Nat66, |live| live.class);
                let reason = match self.facts.tenure(group, incarnation) {
                    Tenure::Live(live) if class.is_some_and(|class| class != live.class) => {
                        MoveReason::WrongClass
                    }
                    // Such routes go, or get a block, with the group.
                    Tenure::Live(live) if !self.facts.desired.classes.contains(live.class) => {
                        return None;
                    }
                    Tenure::Live(live) => {
                        return Some((MoveReason::GroupCloses, live.class, self.target()?));
                    }
                    Tenure::Lost => {
                        return Some((MoveReason::GroupCloses, class?, self.target()?));
                    }
                    Tenure::Over => MoveReason::OldIncarnation,
                    Tenure::Dead => MoveReason::Orphan,
                };
                let to = match class {
                    Some(_) => self.target().unwrap_or(NOWHERE),
                    None => NOWHERE,
                };
                Some((reason, class.unwrap_or(named), to))
            }
        }
    }

    fn retire(&self, draft: &mut Draft) {
        for live in self.facts.groups.values().filter(|group| group.forwards()) {
            retire::end(self.facts, self.pool, live, self.target(), draft);
        }
    }
}
