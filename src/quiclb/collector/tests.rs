// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is done where the kernel refuses the programs.

use super::*;
use crate::hash::{hash32, tag16, FlowHashKey, FlowKey};
use crate::kernel::map::Update;
use crate::kernel::netns;
use crate::kernel::routine::Source;
use crate::kernel::statedir::StateRoot;
use crate::plan::{plan, Device, Options, World};
use crate::quiclb::Loader;

const SECOND: u64 = 1_000_000_000;

/// An instance with one service that remembers all flows.
fn instance() -> Writer {
    let spec = Spec::from_json(
        br#"{"instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
             "limits": {"flows": 1024},
             "services": [{"name": "dns", "vip": "203.0.113.80", "port": 53, "protocol": "udp",
                           "quic_only": false, "tracking": "all", "maglev_table_size": 251,
                           "flow_idle": "60s",
                           "backends": [{"id": 1, "interface": "lo", "mac": "02:00:00:00:00:01"}]}]}"#,
    );
    let spec = spec.expect("valid");
    let dir = StateRoot::new(netns::BPFFS).quiclb(spec.instance_id());
    let mut writer = Loader::new(&dir, spec.limits())
        .load()
        .expect("an instance");
    let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1500);
    let world = World::new(vec![device("edge0", 77), device("lo", 1)], Vec::new(), 1);
    let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
    writer.publish(&plan).expect("published");
    writer
}

/// Inserts flows of the service; those with even numbers have been silent for too long.
fn fill(writer: &Writer, count: u16, now_ns: u64) {
    let live = writer.live_record().expect("readable").expect("live");
    let service = &live.spec().services()[0];
    let hasher = FlowHashKey::new(live.spec().hash_seed());
    for number in 0..count {
        let client = std::net::Ipv4Addr::new(10, 0, 0, 1).into();
        let key = FlowKey::new(service.id, number, 53, client);
        let hash = hasher.h64(&key, false);
        let value = abi::Binding {
            tag: tag16(hash),
            row: 0,
            incarnation: live.record.services[0].backends[0].incarnation,
            seen_ns: if number % 2 == 0 {
                now_ns - 62 * SECOND
            } else {
                now_ns
            },
            state: 0,
            hash: hash32(hash),
        };
        let key = bytemuck::pod_read_unaligned(key.as_bytes());
        writer
            .maps
            .flows
            .update(&key, &value, Update::Insert)
            .expect("room");
    }
}

fn refused() -> LoadError {
    LoadError::Verifier {
        missing: Vec::new(),
        program: "gw_sweep",
        cause: "Permission denied".into(),
        log: "too complex".into(),
    }
}

#[test]
fn what_the_kernel_refuses_is_done_in_batches() {
    netns::isolated("collector::refused", || {
        let mut writer = instance();
        let now_ns = monotonic_ns() + 1000 * SECOND;
        fill(&writer, 1000, now_ns);
        let meta = writer.maps.meta.get(0).expect("readable");
        let sizes = super::super::instance::entries(&meta);
        let reuse = [
            writer.maps.flows.map(),
            writer.maps.levels.map(),
            writer.maps.services.map(),
        ]
        .map(|map| map.try_clone().expect("a handle"));
        let tools = Tools::load_by(&writer, |only| match only {
            None => Err(refused()),
            Some(_) => crate::kernel::routine::Options {
                entries: &sizes,
                reuse: &reuse,
                only,
                ..Default::default()
            }
            .load(Source::Sweep),
        });
        let mut collector = Collector::new(&writer.dir, CollectorOptions::default());
        collector.tools = Some(tools.expect("the rest"));
        let stepped = collector.step_with(&mut writer, now_ns).expect("a step");
        let report = stepped.sweep.expect("a sweep");
        assert_eq!((report.method, report.complete), (SweepMethod::Batch, true));
        assert_eq!(
            (report.scanned, report.live, report.deleted.idle),
            (1000, 500, 500)
        );
        let stats = writer.stats().expect("counters");
        assert_eq!(stats.services[0].counters["deleted_idle"], 500);

        // Who insists on the kernel is told why not.
        collector.options = CollectorOptions {
            method: Some(SweepMethod::Kernel),
            period: Some(Duration::ZERO),
            ..Default::default()
        };
        let error = collector
            .step_with(&mut writer, now_ns)
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Verifier);
        assert!(error.to_string().contains("too complex"), "{error}");
    });
}

#[test]
fn without_any_program_windows_become_longer_and_never_shorter() {
    netns::isolated("collector::nothing", || {
        let mut writer = instance();
        let now_ns = monotonic_ns() + 1000 * SECOND;
        fill(&writer, 1000, now_ns);
        let mut tools = Tools::load_by(&writer, |_| Err(refused())).expect("nothing");
        tools.occupancy = None;
        let mut collector = Collector::new(&writer.dir, CollectorOptions::default());
        collector.tools = Some(tools);
        let admission = abi::Admission {
            flows: 2,
            cids: 0,
            refused_ns: 5,
        };
        writer.maps.levels.set(0, &admission).expect("written");
        // Nobody has counted, so nothing is known to have room.
        let stepped = collector.step_with(&mut writer, now_ns).expect("a step");
        assert!(stepped.levels.is_empty(), "{:?}", stepped.levels);
        assert_eq!(stepped.sweep.expect("a sweep").live, 500);
        let stepped = collector.step_with(&mut writer, now_ns).expect("a step");
        assert_eq!(stepped.levels.len(), 1, "500 of 1024");
        let after = writer.maps.levels.get(0).expect("readable");
        assert_eq!((after.flows, after.cids, after.refused_ns), (0, 0, now_ns));
        // Packets insert since: so counters say.
        let mut counted = writer.maps.services.get(0).expect("counters")[0];
        counted.counters[abi::Counter::GW_COUNTER_ALL_INSERTED.0 as usize] += 500;
        writer.maps.services.set(0, &counted).expect("written");
        let cpus = writer.maps.services.map().values_per_entry() as u64;
        let stepped = collector
            .step_with(&mut writer, now_ns + SECOND)
            .expect("a step");
        let expected = (500 + cpus * 500).min(1024);
        assert_eq!(stepped.occupancy.expect("an estimate").flows, expected);
        assert_eq!(stepped.levels.len(), 1, "{expected} of 1024");
        // Another one begins with what the last sweep counted, which is not enough to admit anybody.
        let mut other = Collector::new(&writer.dir, CollectorOptions::default());
        other.tools = collector.tools.take();
        let stepped = other
            .step_with(&mut writer, now_ns + SECOND)
            .expect("a step");
        assert_eq!(stepped.occupancy.expect("an estimate").flows, 500);
        assert!(stepped.levels.is_empty(), "{:?}", stepped.levels);
    });
}

#[test]
fn what_a_later_step_may_do_ends_no_collector() {
    let sys = |errno| CollectError::from(SysError::new("do", "something", errno));
    let other = CollectError::Refused {
        program: "gw_sweep_flows".into(),
        generation: 7,
        result: 1,
    };
    for error in [sys(nix::libc::ENOMEM), sys(nix::libc::ENODEV), other] {
        assert!(error.may_pass(), "{error}");
    }
    let dir = StateRoot::new("/nonexistent").quiclb(
        "1d9016f2-8957-42bc-9dd7-32d684d76446"
            .parse()
            .expect("an id"),
    );
    let gone = Collector::new(&dir, CollectorOptions::default()).step(0);
    let gone = gone.expect_err("no such instance");
    for error in [sys(nix::libc::EPERM), gone, CollectError::Load(refused())] {
        assert!(!error.may_pass(), "{error}");
    }
}
