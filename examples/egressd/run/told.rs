// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop says of itself to whoever looks at the instance.

use std::collections::BTreeMap;
use std::time::Duration;

use guideway::control::kernel::Failure;
use guideway::control::sweep::Swept;
use guideway::control::{Known, Mode, Problem};
use guideway::egress::{LoopMode, LoopReport};

use super::worker::{now, Order};

/// What there is to say behind a sweep that was ordered so and began at `start`; `before` is what was
/// said last, by this process or the one before.
pub(crate) fn report(
    order: &Order,
    start: Duration,
    result: &Result<Swept, Failure>,
    before: Option<&LoopReport>,
) -> LoopReport {
    let desired = &order.desired;
    let mode = match desired.mode {
        Mode::Ordered => LoopMode::Ordered,
        Mode::Hashed => LoopMode::Hashed,
    };
    let mut report = LoopReport::new(mode, nanoseconds(start));
    if let Some(before) = before {
        report.succeeds(before);
    }
    let classes = desired.classes.iter();
    report.classes = classes.map(|entry| entry.class.to_string()).collect();
    report.pool_min_active = desired.policy.pool_min_active;
    report.interval_ns = order.interval.map(nanoseconds);
    // Nobody reads the list in the other mode.
    report.unsynced = match (desired.mode, &desired.shards) {
        (Mode::Ordered, _) | (_, Known::Known(_)) => None,
        (_, Known::Unknown) => Some("no complete list of shards yet".to_owned()),
        (_, Known::Stale { why, .. }) => Some(why.clone()),
    };
    report.unserved = match result {
        Ok(swept) => unserved(swept),
        // Nothing was looked at: it is as it was.
        Err(_) => before
            .filter(|before| before.mode == mode)
            .map_or_else(BTreeMap::new, |before| before.unserved.clone()),
    };
    let failures: Vec<_> = match result {
        Ok(swept) => swept.errors().map(|(_, error)| error).collect(),
        Err(failure) => vec![failure.to_string()],
    };
    report.swept(nanoseconds(now()), failures);
    report
}

/// Classes without a shard in ordered mode, and why.
fn unserved(swept: &Swept) -> BTreeMap<String, String> {
    let problems = swept.plan.problems.iter();
    let unserved = problems.filter_map(|problem| match problem {
        Problem::Unresolved { class, .. } => {
            let (class, why) = (class.to_string(), problem.to_string());
            let why = why.strip_prefix(&format!("{class}: ")).map(str::to_owned);
            Some((class, why.unwrap_or_else(|| problem.to_string())))
        }
        _ => None,
    });
    unserved.collect()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
