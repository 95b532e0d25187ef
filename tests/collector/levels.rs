// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Who is admitted to tables that fill up.

use std::time::Duration;

use guideway::abi;
use guideway::affinity::level::LevelRules;
use guideway::plan::CheckCode;
use guideway::quiclb::collector::StateTable;
use guideway::quiclb::{
    apply, ApplyOptions, Collector, CollectorOptions, FindingCode, Options, StateRoot, Status,
    Wanted,
};

use crate::harness::*;
use crate::netns::isolated;

fn services() -> guideway::quiclb::Spec {
    let mut all = service("all", "udp", 53, &[1, 1]);
    all["tracking"] = "all".into();
    spec(&[all, service("tcp", "tcp", 443, &[1, 1])])
}

fn findings() -> Vec<FindingCode> {
    let status = Status::of(&dir()).expect("a status");
    let codes = status.findings.iter().map(|finding| finding.code);
    use FindingCode::{NoCollector, Refusing, StateFills};
    codes
        .filter(|code| matches!(code, NoCollector | Refusing | StateFills))
        .collect()
}

#[test]
fn levels_follow_the_tables() {
    if !kernel_counts("levels_follow_the_tables") {
        return;
    }
    isolated("collector::levels", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let row = placed(&spec, 0)[0];
        let mut collector = Collector::new(&dir(), CollectorOptions::default());
        let mut step = || collector.step(now()).expect("a step");
        let level = |service: u32| {
            let admission = levels().get(service).expect("levels");
            (admission.flows, admission.cids)
        };
        let now_ns = now();
        // 4096 entries: the alert at 72 %, the marks at 85, 90 and 99 %.
        insert(&spec, 0, 0..2949, row, now_ns);
        assert!(step().levels.is_empty());
        assert!(findings().is_empty());
        insert(&spec, 0, 2949..2950, row, now_ns);
        assert!(step().levels.is_empty());
        assert_eq!(findings(), [FindingCode::StateFills]);
        insert(&spec, 0, 2950..3687, row, now_ns);
        let changes = step().levels;
        assert_eq!(changes.len(), 2, "every service: {changes:?}");
        assert!(changes
            .iter()
            .all(|change| { (change.table, change.from, change.to) == (StateTable::Flows, 0, 1) }));
        assert_eq!((level(0), level(1)), ((1, 0), (1, 0)));
        assert_eq!(
            findings(),
            [
                FindingCode::Refusing,
                FindingCode::Refusing,
                FindingCode::StateFills
            ]
        );
        insert(&spec, 0, 3687..4056, row, now_ns);
        step();
        assert_eq!(level(0), (2, 0));
        let status = Status::of(&dir()).expect("a status").affinity;
        assert_eq!((status.flows.used, status.flows.capacity), (4056, 4096));
        assert_eq!((status.flows.level, status.cids.level), (Some(2), Some(0)));

        let flows = flows();
        let remove = |numbers: std::ops::Range<u16>| {
            for number in numbers {
                let (key, _) = entry(&spec, 0, number, row, now_ns);
                assert!(flows.remove(&key).expect("removed"));
            }
        };
        // Down to 85 %, and below it.
        remove(0..574);
        assert!(step().levels.is_empty());
        assert_eq!(level(0), (2, 0));
        remove(574..575);
        assert_eq!(step().levels.len(), 2);
        assert_eq!((level(0), level(1)), ((0, 0), (0, 0)));
    });
}

#[test]
fn a_level_that_the_program_raised_falls_and_what_it_noted_stays() {
    if !kernel_counts("a_level_that_the_program_raised_falls_and_what_it_noted_stays") {
        return;
    }
    isolated("collector::raised", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let noted = abi::Admission {
            flows: 2,
            cids: 2,
            refused_ns: 12345,
        };
        levels().set(1, &noted).expect("written");
        let stepped = step(CollectorOptions::default(), now());
        let changes: Vec<_> = stepped
            .levels
            .iter()
            .map(|change| {
                (
                    change.service.as_str(),
                    change.table,
                    change.from,
                    change.to,
                )
            })
            .collect();
        let expected = [StateTable::Flows, StateTable::Cids].map(|table| ("tcp", table, 2, 0));
        assert_eq!(changes, expected);
        let after = levels().get(1).expect("levels");
        assert_eq!((after.flows, after.cids, after.refused_ns), (0, 0, 12345));
    });
}

#[test]
fn a_service_over_its_quota_refuses_its_own_newcomers() {
    isolated("collector::quota", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let row = placed(&spec, 0)[0];
        let mut options = eager();
        options.quotas.insert(spec.services()[0].id, 100);
        let mut collector = Collector::new(&dir(), options);
        insert(&spec, 0, 0..101, row, now());
        let mut step = || collector.step(now()).expect("a step").levels;
        // Held against what a sweep has counted.
        assert!(step().is_empty());
        assert_eq!(step().len(), 1);
        let flows_level = |service: u32| levels().get(service).expect("levels").flows;
        assert_eq!((flows_level(0), flows_level(1)), (1, 0));
        let flows = flows();
        for number in 0..10 {
            flows
                .remove(&entry(&spec, 0, number, row, 0).0)
                .expect("removed");
        }
        // 91 of 100 would not be enough: 85 of 90 are 94, and the count is a sweep old.
        step();
        step();
        assert_eq!(flows_level(0), 0);

        // One that begins anew has counted nothing yet, and admits nobody for that.
        levels()
            .set(
                0,
                &abi::Admission {
                    flows: 1,
                    ..Default::default()
                },
            )
            .expect("written");
        let mut options = eager();
        options.quotas.insert(spec.services()[0].id, 50);
        assert!(crate::harness::step(options, now()).levels.is_empty());
        assert_eq!(flows_level(0), 1);
    });
}

#[test]
fn marks_can_be_chosen() {
    isolated("collector::marks", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let row = placed(&spec, 0)[0];
        insert(&spec, 0, 0..2100, row, now());
        assert!(step(CollectorOptions::default(), now()).levels.is_empty());
        let mut options = CollectorOptions::default();
        options.levels = LevelRules::new(50, 40).expect("in order");
        assert_eq!(step(options, now()).levels.len(), 2);
    });
}

#[test]
fn what_apply_collects_is_not_its_own_affair_while_somebody_collects() {
    if !kernel_counts("what_apply_collects_is_not_its_own_affair_while_somebody_collects") {
        return;
    }
    isolated("collector::guest", || {
        interfaces();
        let wanted = |port: u16| {
            let all = service("all", "udp", 53, &[1, 1]);
            spec(&[all, service("tcp", "tcp", port, &[1, 1])])
        };
        let apply = |port| {
            let root = StateRoot::new(crate::netns::BPFFS);
            let wanted = Wanted::Spec {
                spec: wanted(port),
                options: Options::default(),
            };
            let mut options = ApplyOptions::default();
            options.force.insert(CheckCode::TargetNapi);
            apply(&root, &wanted, &options).unwrap_or_else(|error| panic!("{error}"))
        };
        apply(443);
        let row = placed(&wanted(443), 0)[0];
        insert(&wanted(443), 0, 0..2100, row, now());
        let mut options = CollectorOptions::default();
        options.levels = LevelRules::new(50, 40).expect("in order");
        options.period = Some(Duration::from_secs(3_000));
        let mut collector = Collector::new(&dir(), options);
        // The first sweep is the one that apply has made.
        assert!(!collector.step(now()).expect("a step").levels.is_empty());
        collector.step(now() + 4_000 * SECOND).expect("a step");
        let kept = collection();
        assert_eq!(kept.sweep_period_ns, 3_000 * SECOND);
        apply(444);
        let level = || levels().get(0).expect("levels").flows;
        assert_eq!(level(), 1, "2100 of 4096 are above the mark of 50 %");
        let after = collection();
        assert_eq!(after.sweep_period_ns, kept.sweep_period_ns);
        assert_eq!(after.swept_ns, kept.swept_ns, "none is due");

        // Nobody has swept for more than four of its periods.
        let mut gone = collection();
        gone.sweep_period_ns = 1;
        gone.swept_ns = 1;
        set_collection(&gone);
        apply(443);
        assert_eq!(level(), 0);
        assert_eq!(collection().sweep_period_ns, 15 * SECOND);
    });
}

#[test]
fn nobody_sweeping_is_found_out() {
    if !kernel_counts("nobody_sweeping_is_found_out") {
        return;
    }
    isolated("collector::nobody", || {
        interfaces();
        let spec = services();
        publish(&spec);
        let row = placed(&spec, 0)[0];
        // A sweep long ago for one that is due so often, of an instance without state.
        let mut often = CollectorOptions::default();
        often.period = Some(Duration::from_millis(1));
        step(often, now());
        std::thread::sleep(Duration::from_millis(1100));
        assert!(findings().is_empty(), "there is nothing to sweep");
        insert(&spec, 0, 0..1, row, now());
        assert_eq!(findings(), [FindingCode::NoCollector]);
        let status = Status::of(&dir()).expect("a status");
        let sweep = status.affinity.last_sweep.expect("there was one");
        assert!((1..100).contains(&sweep.age_seconds), "{sweep:?}");
        let mut in_time = CollectorOptions::default();
        in_time.period = Some(Duration::from_secs(1));
        assert!(step(in_time, now()).sweep.is_some());
        assert!(findings().is_empty());
        let status = Status::of(&dir()).expect("a status");
        assert_eq!(status.affinity.last_sweep.expect("a sweep").age_seconds, 0);
    });
}
