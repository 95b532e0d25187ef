// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Groups that are not used any more, in either mode.

use super::draft::{Draft, Retirement, NOWHERE};
use super::facts::Facts;
use crate::control::eligible::Pool;
use crate::control::plan::{MoveReason, RouteEnd};
use crate::control::problem::Problem;
use crate::egress_spec::RouteTarget;
use crate::group::{self, Snapshot, State};
use crate::route::{Prefix, Target};

/// Drafts what brings a group that forwards nearer to its end. It goes on forwarding while anything
/// names it that cannot be led elsewhere. `instead` is where routes lead then; those of a class that
/// is not configured any more go away.
pub(super) fn end(
    facts: &Facts<'_>,
    pool: Option<&Pool<'_>>,
    live: &Snapshot,
    instead: Option<RouteTarget>,
    draft: &mut Draft,
) {
    let instead = instead.map_or(RouteEnd::Stay, RouteEnd::To);
    let (own, others) = match facts.desired.classes.contains(live.class) {
        true => (instead, instead),
        false => (RouteEnd::Remove, RouteEnd::To(NOWHERE)),
    };
    let retirement = Retirement {
        group: live.group,
        class: live.class,
        own,
        others,
    };
    let planned = match live.state {
        State::Disabled => return,
        State::Open => facts.plan(live.group, |_, context| group::close(live, context)),
        State::Closing => facts.track(live),
    };
    match planned {
        Ok(plan) if live.state == State::Open => draft.closes.push(plan),
        Ok(plan) if plan.is_changed() => draft.liveness.push(plan),
        Ok(_) => {}
        Err(error) => {
            draft.problems.push(Problem::Group {
                class: live.class,
                error,
            });
            return;
        }
    }
    if retirement.own == RouteEnd::Remove {
        remove(facts, pool, live, draft);
    }
    let held = facts.held.get(&live.group).and_then(|held| held.some());
    if let Some((routes, first)) = held {
        draft.problems.push(Problem::HeldGroup {
            group: live.group,
            class: live.class,
            routes,
            first,
        });
        return;
    }
    let stays = [retirement.own, retirement.others].contains(&RouteEnd::Stay);
    if stays && facts.named.contains_key(&live.group) {
        return;
    }
    draft.retirements.push(retirement);
}

/// Drafts that the routes go which a class has that is not configured any more. What a shorter
/// prefix has applies then.
fn remove(facts: &Facts<'_>, pool: Option<&Pool<'_>>, live: &Snapshot, draft: &mut Draft) {
    let own = Prefix::from(live.class);
    let is_ours = |sid| facts.is_static(sid) || pool.is_some_and(|pool| pool.lists(sid));
    for (key, route) in &facts.observed.routes {
        // A route at the prefix of a configured class is moved as one of that.
        if route.origin.is_foreign() || facts.class_of(key.prefix).is_some() {
            continue;
        }
        let names = route.group() == Some((live.group, live.incarnation));
        let to = match route.target {
            // Of another prefix it is not known what a shorter one would do to its packets.
            _ if key.prefix != own => names.then_some(Some(NOWHERE)),
            Target::Shard { sid, .. } => is_ours(sid).then_some(None),
            Target::Block(_) => Some(None),
            Target::Pass => None,
            Target::Group { .. } => names.then_some(None),
        };
        if let Some(to) = to {
            draft.lead(MoveReason::ClassRemoved, live.class, (key, route), to);
        }
    }
}
