// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sweeps through the collector: when, by which method, how much at once, and what is kept of them.

use std::time::Duration;

use guideway::abi;
use guideway::affinity::{cid_tag, CidKey};
use guideway::kernel::map::Update;
use guideway::kernel::probe;
use guideway::quic::Cid;
use guideway::quiclb::collector::{Budget, SweepMethod, SweepReport};
use guideway::quiclb::{Collector, CollectorOptions, QuicLb, Writer};

use crate::harness::*;
use crate::netns::isolated;

/// A service that remembers all flows, and one of exceptions.
fn services() -> guideway::quiclb::Spec {
    let mut all = service("all", "udp", 53, &[1, 1, 1]);
    all["tracking"] = "all".into();
    spec(&[all, service("tcp", "tcp", 443, &[1, 1, 1])])
}

/// Flows and connection IDs of every kind.
fn fill(spec: &guideway::quiclb::Spec, now_ns: u64) {
    let idle = now_ns - 62 * SECOND;
    let (all, tcp) = (placed(spec, 0), placed(spec, 1));
    insert(spec, 0, 0..300, all[0], now_ns);
    insert(spec, 0, 300..400, all[1], idle);
    insert(spec, 0, 400..450, (all[1].0, all[1].1 + 100), now_ns);
    insert(spec, 1, 0..200, tcp[2], now_ns);
    let (cids, seed) = (cids(), collection().cid_seed);
    for (number, state) in [
        (1_u8, 0),
        (2, 0),
        (3, 1 << 4),
        (4, 2 << 4),
        (5, 2 << 4),
        (6, 2 << 4),
    ] {
        let cid = Cid::new(&[number; 8]).expect("an ID");
        let key = CidKey::new(spec.services()[0].id, cid).to_abi();
        let value = abi::Binding {
            tag: cid_tag(&key, seed),
            row: all[0].0,
            incarnation: all[0].1,
            seen_ns: if state == 1 << 4 { 0 } else { now_ns },
            state,
            hash: 0,
        };
        cids.update(&key, &value, Update::Insert).expect("room");
    }
}

#[test]
fn a_sweep_is_due_after_its_period_and_leaves_what_status_needs() {
    isolated("collector::period", || {
        interfaces();
        let spec = services();
        publish(&spec);
        fill(&spec, later());
        let mut options = CollectorOptions::default();
        options.period = Some(Duration::from_secs(10));
        let mut collector = Collector::new(&dir(), options);
        let start = later();
        let first = collector.step(start).expect("a step");
        let report = first.sweep.expect("the first is due at once");
        assert!(report.complete);
        assert_eq!(first.next, Duration::from_secs(1));
        let kept = collection();
        assert_eq!((kept.swept_ns, kept.sweep_period_ns), (start, 10 * SECOND));
        assert_eq!(
            kept.flows,
            report
                .services
                .iter()
                .map(|service| service.flows)
                .sum::<u64>()
        );
        assert_eq!((kept.learned, kept.registered, kept.imported), (2, 1, 3));
        let disagree = report
            .services
            .iter()
            .map(|service| service.disagree)
            .sum::<u64>();
        assert_eq!(kept.blast_radius, disagree);
        assert!(disagree > 100);
        let swept = |now_ns: u64| {
            Collector::new(&dir(), {
                let mut options = CollectorOptions::default();
                options.period = Some(Duration::from_secs(10));
                options
            })
            .step(now_ns)
            .expect("a step")
            .sweep
            .is_some()
        };
        // Also by another collector, which goes by what the first has left.
        assert!(!swept(start + 10 * SECOND - 1));
        assert!(swept(start + 10 * SECOND));
        assert!(!swept(start + 11 * SECOND));
    });
}

/// What a report says apart from how long it took.
fn numbers(report: &SweepReport) -> impl PartialEq + std::fmt::Debug {
    let mut same = report.clone();
    same.method = SweepMethod::Kernel;
    same.duration_ms = 0.0;
    // A pass in the kernel marks first what batches delete at once.
    same.expiring = 0;
    same
}

#[test]
fn batches_find_and_delete_what_a_pass_in_the_kernel_does() {
    isolated("collector::methods", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let now_ns = later();
        let run = |method: SweepMethod| {
            fill(&spec, now_ns);
            let mut options = eager();
            options.method = Some(method);
            // Whatever the machine, each is made at once.
            options.budget = Budget::new(1_000_000, Duration::from_secs(600));
            let mut collector = Collector::new(&dir(), options);
            let mut reports: Vec<_> = (0..3)
                .map(|_| {
                    collector
                        .step(now_ns)
                        .expect("a step")
                        .sweep
                        .expect("a sweep")
                })
                .collect();
            let counters: Vec<_> = QuicLb::open(&dir())
                .expect("open")
                .stats()
                .expect("counters")
                .services
                .iter()
                .map(|service| {
                    [
                        "deleted_idle",
                        "deleted_backend_gone",
                        "deleted_redundant",
                        "resurrected",
                    ]
                    .map(|name| service.counters[name])
                })
                .collect();
            assert!(reports
                .iter()
                .all(|report| report.complete && report.method == method));
            // From here on both say the same: what was idle is gone.
            (numbers(&reports.pop().expect("the last")), counters)
        };
        let (kernel, counted) = run(SweepMethod::Kernel);
        assert_eq!(counted[0][..2], [100, 50]);
        for (table, left) in [(flows().map(), 300), (cids().map(), 6)] {
            let mut entries = 0;
            let mut keys = Vec::new();
            table
                .batches(64, |read, _| {
                    entries += read.len() / table.shape().key_size as usize;
                    keys.extend_from_slice(read);
                    std::ops::ControlFlow::Continue(())
                })
                .expect("readable");
            assert!(entries >= left, "{entries}");
            for key in keys.chunks(table.shape().key_size as usize) {
                assert!(table.delete(key).expect("deleted"));
            }
        }
        let (batch, counted_twice) = run(SweepMethod::Batch);
        assert_eq!(batch, kernel);
        for (once, twice) in counted.iter().zip(&counted_twice) {
            assert_eq!(once.map(|count| 2 * count), *twice);
        }
    });
}

#[test]
fn a_sweep_in_batches_goes_on_where_it_stopped() {
    isolated("collector::budget", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let now_ns = later();
        fill(&spec, now_ns);
        let mut options = eager();
        // More than the budget lets a pass in the kernel do, so nothing has to ask for batches.
        options.budget = Budget::new(100, Duration::from_secs(10));
        if !probe::release().at_least(6, 6) {
            // Unless nobody knows how many there are.
            options.method = Some(SweepMethod::Batch);
        }
        let mut collector = Collector::new(&dir(), options.clone());
        let mut scanned = 0;
        let mut steps = 0;
        let report = loop {
            let stepped = collector.step(now_ns).expect("a step");
            let report = stepped.sweep.expect("it is due until it is complete");
            assert_eq!(report.method, SweepMethod::Batch);
            // A batch ends with a bucket, and begins with one that no entry is left of.
            assert!(report.scanned - scanned <= 2 * 100, "{report:?}");
            (scanned, steps) = (report.scanned, steps + 1);
            if report.complete {
                break report;
            }
            // Soon, but not before others have found the lock free.
            let soon = Duration::from_millis(1)..Duration::from_millis(20);
            assert!(soon.contains(&stepped.next), "{:?}", stepped.next);
            assert_eq!(collection().swept_ns, 0, "not complete");
        };
        assert!(steps > 3, "{steps} steps");
        assert_eq!(report.scanned, 656);
        assert_eq!(report.deleted.idle + report.deleted.backend_gone, 150);
        assert_eq!(collection().swept_ns, now_ns);

        // What was found of another generation's slots says nothing.
        let begun = collector
            .step(now_ns)
            .expect("a step")
            .sweep
            .expect("a sweep");
        assert!(!begun.complete);
        let mut changed = service("tcp", "tcp", 443, &[1, 2, 3]);
        changed["tracking"] = "exceptions".into();
        let mut all = service("all", "udp", 53, &[1, 1, 1]);
        all["tracking"] = "all".into();
        let number = publish(&spec_of(&[all, changed]));
        let anew = collector
            .step(now_ns)
            .expect("a step")
            .sweep
            .expect("a sweep");
        assert_eq!(anew.generation, number);
        assert!(!anew.complete && anew.scanned <= 200);
    });
}

fn spec_of(services: &[serde_json::Value]) -> guideway::quiclb::Spec {
    spec(services)
}

#[test]
fn who_finds_the_lock_held_comes_again() {
    isolated("collector::locked", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let mut collector = Collector::new(&dir(), eager());
        let writer = Writer::open(&dir()).expect("the lock");
        let stepped = collector.step(now()).expect("no error");
        assert!(stepped.locked && stepped.sweep.is_none() && stepped.levels.is_empty());
        assert!(stepped.next <= Duration::from_millis(200));
        drop(writer);
        let stepped = collector.step(now()).expect("a step");
        assert!(!stepped.locked && stepped.sweep.is_some());
    });
}

#[test]
fn an_instance_made_anew_is_swept_as_one() {
    isolated("collector::anew", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let mut collector = Collector::new(&dir(), eager());
        let before = collector.step(now()).expect("a step");
        assert_eq!(before.sweep.expect("a sweep").scanned, 0);
        Writer::open(&dir())
            .expect("open")
            .purge()
            .expect("removed");
        let error = collector.step(now()).expect_err("gone");
        assert_eq!(
            error.kind(),
            guideway::error::ErrorKind::NotFound,
            "{error}"
        );
        publish(&spec);
        fill(&spec, later());
        let after = collector.step(later()).expect("a step");
        assert_eq!(after.sweep.expect("a sweep").scanned, 656);
    });
}
