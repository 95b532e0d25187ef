// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Who is admitted to tables that fill up.

use std::time::Duration;

use guideway::abi;
use guideway::affinity::level::LevelRules;
use guideway::quiclb::collector::StateTable;
use guideway::quiclb::{Collector, CollectorOptions, FindingCode, Status};

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
fn nobody_sweeping_is_found_out() {
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
