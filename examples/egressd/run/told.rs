// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the loop says of itself to whoever looks at the instance.

use std::time::Duration;

use guideway::control::kernel::Failure;
use guideway::control::sweep::Swept;
use guideway::control::{Known, Mode};
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
    let failures: Vec<_> = match result {
        Ok(swept) => swept.errors().map(|(_, error)| error).collect(),
        Err(failure) => vec![failure.to_string()],
    };
    report.swept(nanoseconds(now()), failures);
    report
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
