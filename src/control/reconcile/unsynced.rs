// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hashed mode before any list of shards is known: nothing is published and nothing moved.

use super::draft::{Draft, NOWHERE};
use super::facts::Facts;
use super::write;
use crate::control::problem::Problem;

pub(super) fn draft(facts: &Facts<'_>, draft: &mut Draft) {
    draft.problems.push(Problem::ShardsUnknown);
    if facts.desired.policy.liveness_before_sync {
        let live = facts.groups.values().filter(|group| group.forwards());
        // To write a damaged one anew takes members away.
        let sound = live.filter(|live| !facts.observed.damaged.contains_key(&live.group));
        for live in sound {
            match facts.track(live) {
                Ok(plan) if plan.is_changed() => draft.liveness.push(plan),
                Ok(_) => {}
                Err(error) => draft.problems.push(Problem::Group {
                    class: live.class,
                    error,
                }),
            }
        }
    }
    // A row without sense is an entry, and packets may well be forwarded by it.
    write::missing(facts, draft, false, |_| NOWHERE);
}
