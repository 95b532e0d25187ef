// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Interfaces that change under a live instance.

use std::time::Duration;

use guideway::kernel::statedir::Section;
use guideway::kernel::typed::DevMap;
use guideway::quiclb::collector::Cause;
use guideway::quiclb::{Collector, CollectorOptions, Loader, QuicLb, Writer};

use crate::harness::*;
use crate::netns::{ifindex, ip, isolated, veth};

fn publish_and_attach() -> guideway::quiclb::Spec {
    let spec = spec(&[service("tcp", "tcp", 443, &[1, 1])]);
    let mut writer = Loader::new(&dir(), spec.limits())
        .load()
        .expect("an instance");
    publish_with(&mut writer, &spec);
    let attached = writer.attach(spec.interface(), spec.mode().into());
    attached.expect("attached");
    spec
}

fn target_of_live() -> u32 {
    let instance = QuicLb::open(&dir()).expect("open");
    let live = instance.live_record().expect("readable").expect("live");
    let plan = instance
        .plan(live.spec(), Default::default())
        .expect("a plan");
    plan.document().services[0].backends[0]
        .ifindex
        .expect("an index")
}

fn targets() -> Vec<u32> {
    let map = dir().pin(Section::Maps, "gw_ql_dev");
    let map = guideway::kernel::map::Map::open_any(&map).expect("the map");
    DevMap::new(map)
        .expect("targets")
        .targets()
        .expect("readable")
}

#[test]
fn a_target_that_is_made_again_is_published_again() {
    isolated("collector::target", || {
        interfaces();
        publish_and_attach();
        let client = Client::new(443);
        client.begin(1);
        let before = ifindex(TARGET);
        let mut collector = Collector::new(&dir(), CollectorOptions::default());
        let mut step = |now_ns: u64| collector.step(now_ns).expect("a step");
        assert_eq!(step(now()).followed, None);

        ip(&["link", "del", TARGET]);
        // Nobody is there to send to; nothing can be done about it.
        let gone = step(now());
        assert_eq!(gone.followed, None);
        assert!(gone.problem.expect("said").contains(TARGET));
        // Another interface takes an index, so that the new one has another.
        veth("x0", "x1");
        veth(TARGET, "be1");
        assert_ne!(ifindex(TARGET), before);
        let followed = step(now() + 2 * SECOND).followed.expect("published");
        assert_eq!(followed.causes, [Cause::Interfaces]);
        assert_eq!(target_of_live(), ifindex(TARGET));
        assert_eq!(targets(), [ifindex(TARGET)]);
        client.begin(2);
        assert_eq!(step(now() + 4 * SECOND).followed, None);
    });
}

#[test]
fn a_target_that_is_gone_keeps_nobody_else_from_what_is_due() {
    isolated("collector::gone", || {
        let two = |weights: [u16; 2]| {
            let mut service = service("tcp", "tcp", 443, &weights);
            service["backends"][0]["interface"] = "vm0".into();
            spec(&[service])
        };
        interfaces();
        veth("vm0", "vm1");
        publish(&two([2, 1]));
        let client = Client::new(443);
        let stay: Vec<u16> = (0..200)
            .filter(|number| client.begin(*number) == 2)
            .collect();
        publish(&two([1, 1]));
        let begin = now();
        let (gone, before) = (ifindex("vm0"), ifindex(TARGET));
        ip(&["link", "del", "vm0"]);
        ip(&["link", "del", TARGET]);
        veth("x0", "x1");
        veth(TARGET, "be1");

        let mut collector = Collector::new(&dir(), CollectorOptions::default());
        let mut step = |now_ns: u64| collector.step(now_ns).expect("a step");
        let over = begin + 64 * SECOND;
        let stepped = step(over);
        let followed = stepped.followed.expect("published");
        assert_eq!(followed.causes, [Cause::Windows, Cause::Interfaces]);
        assert!(followed.open_slots[0] > 0 && followed.open_slots[1] == 0);
        let problem = stepped.problem.expect("one is missing");
        assert!(
            problem.contains("vm0") && !problem.contains(TARGET),
            "{problem}"
        );
        assert_ne!(ifindex(TARGET), before);
        assert_eq!(targets(), [ifindex(TARGET)]);
        assert!(!stay.is_empty());
        for number in stay {
            assert_eq!(client.go_on(number), 2);
        }

        // Who gets the index of the one that is gone gets none of its frames.
        ip(&[
            "link",
            "add",
            "y0",
            "index",
            &gone.to_string(),
            "type",
            "veth",
        ]);
        ip(&["link", "del", TARGET]);
        veth(TARGET, "be1");
        let stepped = step(over + SECOND);
        assert_eq!(stepped.followed.expect("again").causes, [Cause::Interfaces]);
        assert!(stepped.problem.is_some());
        assert_eq!(targets(), [ifindex(TARGET)]);
        assert_eq!(step(over + 2 * SECOND).followed, None);

        veth("vm0", "vm1");
        let stepped = step(over + 3 * SECOND);
        assert_eq!(stepped.followed.expect("back").causes, [Cause::Interfaces]);
        assert_eq!(stepped.problem, None);
        let mut both = [ifindex("vm0"), ifindex(TARGET)];
        both.sort_unstable();
        assert_eq!(targets(), both);
    });
}

#[test]
fn a_target_that_the_program_lost_is_given_back() {
    isolated("collector::lost", || {
        interfaces();
        publish_and_attach();
        let map = dir().pin(Section::Maps, "gw_ql_dev");
        let map = guideway::kernel::map::Map::open_any(&map).expect("the map");
        let map = DevMap::new(map).expect("targets");
        assert!(map.remove(ifindex(TARGET)).expect("removed"));
        let stepped = step(CollectorOptions::default(), now());
        let followed = stepped.followed.expect("repaired");
        assert_eq!(
            (followed.generation, followed.causes),
            (1, vec![Cause::Interfaces])
        );
        assert_eq!(targets(), [ifindex(TARGET)]);
    });
}

#[test]
fn from_another_namespace_nothing_is_published() {
    isolated("collector::elsewhere", || {
        interfaces();
        publish(&spec(&[service("tcp", "tcp", 443, &[1, 1, 1])]));
        publish_and_attach();
        let number = QuicLb::open(&dir())
            .expect("open")
            .live()
            .expect("readable");
        let over = now() + 100 * SECOND;
        let worker = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a namespace");
            // Interfaces of the same names and other indices.
            veth("x0", "x1");
            interfaces();
            let stepped = step(eager(), over);
            assert!(stepped.sweep.is_some_and(|sweep| sweep.complete));
            assert_eq!(stepped.followed, None);
            let problem = stepped.problem.expect("a problem");
            assert!(problem.contains("another network namespace"), "{problem}");
        });
        worker.join().expect("as it should be");
        let instance = QuicLb::open(&dir()).expect("open");
        assert_eq!(instance.live().expect("readable"), number);
        drop(instance);
        let stepped = step(eager(), over);
        assert!(stepped.followed.is_some() && stepped.problem.is_none());
        assert!(stepped.next <= Duration::from_secs(1));
        Writer::open(&dir())
            .expect("open")
            .detach()
            .expect("detached");
    });
}
