// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A slot's way through a change of the table, with packets: open, held, plain.

use std::collections::BTreeMap;

use guideway::abi;
use guideway::plan::plan;
use guideway::quiclb::collector::Cause;
use guideway::quiclb::{observe, Collector, CollectorOptions, Options, QuicLb, Step, Writer};

use crate::harness::*;
use crate::netns::isolated;

const CONNECTIONS: u16 = 400;
/// The window of a service with a flow_idle of 60 s.
const WINDOW: u64 = 62 * SECOND;

fn services(weights: &[u16]) -> guideway::quiclb::Spec {
    spec(&[service("tcp", "tcp", 443, weights)])
}

/// Open and held slots.
fn marks() -> (u32, u32) {
    let live = QuicLb::open(&dir()).expect("open").live_record();
    let marks = live.expect("readable").expect("live").all_marks();
    (marks.open, marks.held)
}

#[test]
fn slots_are_open_then_held_then_plain_and_no_connection_moves() {
    isolated("collector::transition", || {
        interfaces();
        publish(&services(&[1, 1, 1]));
        let client = Client::new(443);
        let backends: BTreeMap<u16, u8> = (0..CONNECTIONS)
            .map(|number| (number, client.begin(number)))
            .collect();
        let stay = |what: &str| {
            for (&number, &backend) in &backends {
                assert_eq!(client.go_on(number), backend, "{what}, connection {number}");
            }
        };
        assert_eq!(marks(), (0, 0));
        assert_eq!(collection().flows, 0);

        let changed = publish(&services(&[1, 1, 1, 1]));
        let (open, held) = marks();
        assert!(open > 40 && held == 0, "{open} {held}");
        stay("open");
        let begin = now();

        let mut collector = Collector::new(&dir(), eager());
        // Sweeps in the window change nothing about it.
        let early = collector.step(begin + WINDOW / 2).expect("a step");
        assert_eq!(early.followed, None);
        assert_eq!(marks(), (open, 0));
        stay("in the middle");
        let disagree = early.sweep.expect("a sweep").services[0].disagree;
        assert!(disagree > 0, "connections of changed slots");

        // The window is rounded up by a 64th.
        let over = begin + WINDOW + WINDOW / 32;
        let closed = collector
            .step(over)
            .expect("a step")
            .followed
            .expect("closed");
        assert_eq!(closed.causes, [Cause::Windows]);
        assert_eq!(closed.open_slots, [u64::from(open), 0]);
        assert_eq!(closed.held_slots, [0, u64::from(open)]);
        assert!(closed.generation > changed);
        assert_eq!(marks(), (0, open));
        stay("held");

        // The sweep begins after that publication: slots whose connections are all the owner's go.
        let swept = collector.step(now()).expect("a step");
        let released = swept.followed.expect("some slots were released");
        assert_eq!(released.causes, [Cause::Released]);
        let report = swept.sweep.expect("a sweep");
        let differing = report.services[0].slots;
        assert!(differing > 0 && differing < open);
        assert_eq!(released.held_slots, [u64::from(open), u64::from(differing)]);
        stay("partly plain");

        // Nothing more goes as long as the connections live.
        for _ in 0..3 {
            assert_eq!(collector.step(now()).expect("a step").followed, None);
        }
        stay("still held");

        // The second sweep after they have fallen silent forgets them, and the next finds nobody.
        let silent = now() + WINDOW;
        collector.step(silent).expect("a step");
        assert_eq!(marks(), (0, differing), "marked only");
        let forgotten = collector.step(silent + SECOND).expect("a step");
        assert_eq!(forgotten.sweep.expect("a sweep").live, 0);
        assert_eq!(marks(), (0, differing), "a packet may have come");
        let last = collector.step(silent + 2 * SECOND).expect("a step");
        assert_eq!(
            last.followed.expect("the last").held_slots,
            [u64::from(differing), 0]
        );
        assert_eq!(marks(), (0, 0));
        assert_eq!(collection().blast_radius, 0);
    });
}

/// A control plane that deletes a service and makes it anew.
#[test]
fn connections_outlive_a_service_that_is_removed_and_comes_back() {
    isolated("collector::back", || {
        interfaces();
        let other = || service("other", "tcp", 8443, &[1]);
        let both = |weights: &[u16]| spec(&[service("tcp", "tcp", 443, weights), other()]);
        publish(&both(&[1, 1, 1]));
        let client = Client::new(443);
        let backends: Vec<u8> = (0..CONNECTIONS)
            .map(|number| client.begin(number))
            .collect();
        publish(&both(&[1, 1, 1, 1]));
        let stay = |what: &str| {
            for (number, &backend) in (0..).zip(&backends) {
                assert_eq!(client.go_on(number), backend, "{what}, connection {number}");
            }
        };
        stay("open");
        publish(&spec(&[other()]));
        publish(&both(&[1, 1, 1, 1]));
        assert_eq!(marks(), (0, 251));
        stay("back");

        // Slots whose connections are all the owner's go with the first sweep, and no other.
        let mut collector = Collector::new(&dir(), eager());
        let swept = collector.step(now()).expect("a step");
        let differing = swept.sweep.expect("a sweep").services[0].slots;
        assert!(differing > 10 && differing < 200, "{differing}");
        assert_eq!(marks(), (0, differing));
        stay("swept");
        collector.step(now()).expect("a step");
        stay("swept again");
        let found = collection();
        assert_eq!(found.flows, found.blast_radius);
    });
}

#[test]
fn a_refused_insert_keeps_the_window_open() {
    isolated("collector::refused", || {
        interfaces();
        publish(&services(&[1, 1, 1]));
        publish(&services(&[1, 1, 1, 1]));
        let (open, _) = marks();
        let begin = now();
        let refused = begin + WINDOW / 2;
        let levels = levels();
        let mut admission = levels.get(0).expect("levels");
        admission.refused_ns = refused;
        levels.set(0, &admission).expect("written");
        let mut collector = Collector::new(&dir(), CollectorOptions::default());
        let over = begin + WINDOW + WINDOW / 32;
        assert_eq!(collector.step(over).expect("a step").followed, None);
        assert_eq!(marks(), (open, 0));
        // Nor while the clock of the kernel has not come that far: the publisher asks it once more.
        let later = refused + WINDOW + 3 * SECOND;
        assert_eq!(collector.step(later).expect("a step").followed, None);
        assert_eq!(marks(), (open, 0));
        admission.refused_ns = 0;
        levels.set(0, &admission).expect("written");
        let closed = collector.step(later + 2 * SECOND).expect("a step");
        assert_eq!(
            closed.followed.expect("closed").open_slots,
            [u64::from(open), 0]
        );
    });
}

/// The last look for refusals comes before the swap. Whoever is refused behind it goes to the base,
/// like those who keep the window open, and moves.
#[test]
fn connections_that_are_refused_while_their_slots_close_are_counted_as_they_move() {
    isolated("collector::closing", || {
        interfaces();
        publish(&services(&[1, 1, 1]));
        publish(&services(&[1, 1, 1, 1]));
        let mut writer = Writer::open(&dir()).expect("open");
        let live = writer.live_record().expect("readable").expect("live");
        let mut world = observe().expect("interfaces");
        world.monotonic_ns = now() + WINDOW + WINDOW / 32;
        let closing = plan(Some(&live), live.spec(), &world, Options::default()).expect("a plan");
        let client = Client::new(443);
        let mut begun = Vec::new();
        let published = writer.publish_observed(&closing, 2, |step| {
            if step == Step::Swap {
                let mut admission = levels().get(0).expect("levels");
                admission.flows = abi::Level::GW_LEVEL_RESERVE.0;
                levels().set(0, &admission).expect("written");
                begun.extend((0..CONNECTIONS).map(|number| client.begin(number)));
            }
            Ok(())
        });
        published.expect("published");
        assert_eq!(marks().0, 0);
        let at_risk = counter("at_risk");
        let connections = (0..CONNECTIONS).zip(&begun);
        let moved = connections.filter(|&(number, &backend)| client.go_on(number) != backend);
        let moved = moved.count() as u64;
        assert!(moved > 40, "{moved}");
        assert_eq!(at_risk, moved);
    });
}

#[test]
fn a_publication_that_never_noted_its_return_begins_its_windows_with_the_first_step() {
    isolated("collector::returned", || {
        interfaces();
        publish(&services(&[1, 1, 1]));
        publish(&services(&[1, 1, 1, 1]));
        let map = dir().path().join("maps/gw_ql_collect2");
        let map = guideway::kernel::map::Map::open_any(&map).expect("the map");
        let map = guideway::kernel::typed::Array::<abi::Collection>::new(map).expect("the map");
        let mut collection = map.get(0).expect("readable");
        collection.returned_generation = 0;
        map.set(0, &collection).expect("written");
        let before = now();
        step(CollectorOptions::default(), before);
        let noted = map.get(0).expect("readable");
        assert_eq!(noted.returned_generation, 2);
        assert!((before..=now()).contains(&noted.returned_ns));
        let closed = step(
            CollectorOptions::default(),
            noted.returned_ns + WINDOW + WINDOW / 32,
        );
        assert!(closed.followed.is_some());
    });
}

#[test]
fn a_service_that_tracked_all_keeps_its_connections_when_it_no_longer_does() {
    isolated("collector::switch", || {
        interfaces();
        let tracking = |tracking: &str, weights: &[u16]| {
            let mut document = service("tcp", "tcp", 443, weights);
            document["tracking"] = tracking.into();
            spec(&[document])
        };
        publish(&tracking("all", &[1, 1, 1]));
        let client = Client::new(443);
        let backends: Vec<u8> = (0..CONNECTIONS)
            .map(|number| client.begin(number))
            .collect();
        // A table that every fourth connection is elsewhere in.
        publish(&tracking("all", &[1, 1, 1, 1]));
        publish(&tracking("exceptions", &[1, 1, 1, 1]));
        assert_eq!(marks(), (0, 251));
        let mut collector = Collector::new(&dir(), eager());
        for _ in 0..3 {
            collector.step(now()).expect("a step");
            for (number, &backend) in (0..).zip(&backends) {
                assert_eq!(client.go_on(number), backend, "connection {number}");
            }
        }
        let (open, held) = marks();
        assert!(open == 0 && held > 10 && held < 200, "{open} {held}");
        // Entries that say what the table says are gone: state is that of the disruption.
        let differing = collection();
        assert_eq!(differing.flows, differing.blast_radius);
        assert!(differing.flows < u64::from(CONNECTIONS) / 2);
    });
}
