// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Metrics of rounds that were made, on a node in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use guideway::control::fake::{Fake, FakeKernel};
use guideway::control::kernel::RouteWriters;
use guideway::control::machine::Trigger;
use guideway::control::metrics::{LoopCounters, Reading};
use guideway::control::sweep::{sweep, Swept};
use guideway::control::{Deadline, Desired, Known, Mode, Policy, Reachability, Shard, ShardList};
use guideway::encap::Encap;
use guideway::group::{Limits, Settings};
use guideway::route::TableId;
use guideway::srv6::{Argument, BaseSid};
use guideway::tenant::Tenant;

use crate::groups::*;
use crate::support::{hop, sid};

/// Hashed mode with these shards, which translate both classes.
fn desired(shards: &[u16]) -> Desired {
    let shard = |&number: &u16| {
        let mut shard = Shard::new(format!("edge/s{number}"), sid(number));
        shard.ipv6 = true;
        shard.ipv4 = true;
        shard.well_known_prefix = true;
        shard
    };
    Desired {
        mode: Mode::Hashed,
        classes: classes(),
        settings: Settings::default(),
        encap: Encap::standard("2001:db8:ff01:1:e000::".parse().expect("a SID")),
        shards: Known::Known(ShardList {
            shards: shards.iter().map(shard).collect(),
            faults: Vec::new(),
        }),
        static_sids: Vec::new(),
        policy: Policy::default(),
        overrides: BTreeMap::new(),
    }
}

/// Does a round, counts it as the daemon does, and expects these series to be these numbers and no
/// other to change.
#[track_caller]
fn check(
    kernel: &mut FakeKernel,
    wanted: &Desired,
    counters: &mut LoopCounters,
    expected: &[(&str, f64)],
) -> Swept {
    let before = exported(counters, &Reading::none());
    let deadline = Deadline::at(Duration::MAX).patient(Duration::from_secs(1));
    let mut reach = |sids: &BTreeSet<BaseSid>, _| {
        let ways = sids.iter().map(|of| (*of, Ok(hop(1))));
        Ok(Reachability(ways.collect()))
    };
    let swept = sweep(kernel, wanted, &mut reach, &deadline).expect("a round");
    let failed: Vec<_> = swept.failed_stages().into_iter().collect();
    let wall = Duration::from_secs(1_790_000_000);
    counters.swept(Trigger::Source, Duration::from_millis(40), &failed, wall);
    swept.count(&wanted.classes, counters);
    assert_changed(&before, &exported(counters, &Reading::none()), expected);
    swept
}

const SWEPT: &str = "sweeps_total{trigger=\"source\"}";
const TOOK: &str = "sweep_duration_seconds_count";
const LAST: &str = "last_successful_sweep_timestamp_seconds";

#[test]
fn a_round_moves_what_it_did_and_nothing_else() {
    let fake = Fake::new(Limits::default());
    let tenant = Tenant::new(TableId::new(42), Argument::new(7).expect("in range"));
    fake.put_tenant(3, tenant);
    let mut kernel = fake.kernel();
    let mut counters = counters(Mode::Hashed);
    check(
        &mut kernel,
        &desired(&[1]),
        &mut counters,
        &[
            ("barrier_wait_seconds_count{side=\"exclusive\"}", 1.0),
            ("group_routes{class=\"nat64:64:ff9b::/96\"}", 1.0),
            ("group_routes{class=\"nat66\"}", 1.0),
            (
                "last_publish_moved_slots_ratio{class=\"nat64:64:ff9b::/96\"}",
                0.0,
            ),
            ("last_publish_moved_slots_ratio{class=\"nat66\"}", 0.0),
            (LAST, 1_790_000_000.0),
            ("publication_duration_seconds_count", 2.0),
            ("publications_total{result=\"ok\"}", 2.0),
            ("routes_repaired_total{kind=\"missing\"}", 2.0),
            (TOOK, 1.0),
            (SWEPT, 1.0),
        ],
    );
    check(
        &mut kernel,
        &desired(&[1]),
        &mut counters,
        &[
            ("publications_total{result=\"unchanged\"}", 1.0),
            (TOOK, 2.0),
            (SWEPT, 2.0),
        ],
    );
    // A tenant without its routes, and somebody who holds the barrier.
    let second = Tenant::new(TableId::new(43), Argument::new(8).expect("in range"));
    fake.put_tenant(4, second);
    let routes = fake.routes();
    let guard = routes.shared(Duration::ZERO).expect("free");
    let swept = check(
        &mut kernel,
        &desired(&[1]),
        &mut counters,
        &[
            ("barrier_timeouts_total{side=\"exclusive\"}", 1.0),
            ("barrier_wait_seconds_count{side=\"exclusive\"}", 2.0),
            ("publications_total{result=\"unchanged\"}", 2.0),
            (TOOK, 3.0),
            ("sweep_errors_total{stage=\"refresh\"}", 1.0),
            (SWEPT, 3.0),
        ],
    );
    assert!(!swept.is_complete());
    drop(guard);
}
