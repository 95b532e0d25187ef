// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From what there is and what there should be to what is to be done.

mod draft;
mod facts;
mod hashed;
mod ordered;
mod predict;
mod retire;
mod tally;
mod unsynced;
mod write;

use std::collections::BTreeSet;

use draft::Draft;
use facts::Facts;
use tally::Tally;

use super::desired::{Desired, Mode};
use super::eligible::Pool;
use super::known::Known;
use super::observed::Observed;
use super::plan::Plan;
use super::problem::Problem;
use crate::group::GroupPlan;

/// Plans what brings `observed` in line with `desired`.
///
/// It never fails: what contradicts itself or cannot be mended is among the plan's problems, and
/// stays as it is. The order of lists has no influence, but for the static SIDs. When all steps of a
/// plan are done, the plan of what there is then is empty, unless a class waited for a group that
/// the plan freed.
///
/// | mode | list of shards | groups | routes |
/// |---|---|---|---|
/// | ordered | any | all are closed and retired | to the first static SID that is reached |
/// | hashed | unknown | stay; with [`liveness_before_sync`] members follow their next hops | stay; where a tenant has none for a class, it gets a block |
/// | hashed | known, stale | as the list says | to the class's group |
///
/// Routes of other writers (another origin than 0) are never touched, and neither are those that
/// pass packets on, those to shards that nobody lists, and, but to retire a group, those to prefixes
/// of no class.
///
/// [`liveness_before_sync`]: super::Policy::liveness_before_sync
#[must_use]
pub fn reconcile(observed: &Observed, desired: &Desired) -> Plan {
    let facts = Facts::new(observed, desired);
    let mut draft = Draft::default();
    if observed.encap.as_ref() != Some(&desired.encap) {
        draft.config = Some(desired.encap);
    }
    let pool = desired.shards.value().map(|list| Pool::of(&list.shards));
    match (desired.mode, &pool) {
        // Nothing but the end of classes that are not configured depends on the list of shards.
        (Mode::Ordered, _) => ordered::draft(&facts, pool.as_ref(), &mut draft),
        (Mode::Hashed, None) => unsynced::draft(&facts, &mut draft),
        (Mode::Hashed, Some(pool)) => {
            if let Known::Stale { why, .. } = &desired.shards {
                let why = why.clone();
                draft.problems.push(Problem::ShardsStale { why });
            }
            hashed::draft(&facts, pool, &mut draft);
        }
    }
    facts.report(&mut draft.problems);
    damaged(&facts, &mut draft);
    let effect = predict::effect(&facts, &draft, pool.as_ref());
    predict::warn(&facts, &effect, &mut draft.problems);
    draft.finish(effect)
}

/// Tells which groups are damaged and stay so.
fn damaged(facts: &Facts<'_>, draft: &mut Draft) {
    let plans = [&draft.liveness, &draft.groups, &draft.closes];
    let plans = plans.into_iter().flatten().map(GroupPlan::group);
    let mended: BTreeSet<_> = plans.collect();
    for (&group, damage) in &facts.observed.damaged {
        if mended.contains(&group) {
            continue;
        }
        let class = facts.groups.get(&group).map(|known| known.class);
        draft.problems.push(Problem::Damaged {
            group,
            class,
            routes: facts.named.get(&group).map_or(0, Tally::len),
            why: damage.why.clone(),
            remedy: damage.remedy.filter(|_| class.is_none()),
        });
    }
}
