// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Events: what is told, how often, and that nothing depends on it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytemuck::Zeroable;
use guideway::abi::{self, EgressEventKind as K};
use guideway::kernel::map::Update;
use guideway::kernel::ring::Ring;

use crate::cpus::stay_here;
use crate::frames::*;
use crate::machine::*;
use crate::netns::{isolated, within};

const SOURCE6: &str = "2001:db8:aaaa::7";
const SOURCE4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

fn v6(bytes: usize) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let (from, to) = (address(SOURCE6), address("2001:db8:2::1"));
    ipv6(from, to, UDP, &ports(1000, 53, bytes))
}

fn v4(bytes: usize) -> Vec<u8> {
    let far = Ipv4Addr::new(198, 51, 100, 1);
    ipv4(SOURCE4, far, UDP, 0, &ports(1000, 53, bytes))
}

/// A machine that tells so much, and the reader of its events.
fn machine(rate: u32, burst: u32) -> (Machine, Ring<abi::EgressEvent>) {
    stay_here();
    let mut machine = Machine::with(&[("gw_pins", 16), ("gw_eg_events", 4096)]);
    let ring = Ring::new(machine.take_map("gw_eg_events")).expect("a ring");
    configure(&machine, rate, burst);
    (machine, ring)
}

fn configure(machine: &Machine, event_rate: u32, event_burst: u32) {
    machine.set_config(&abi::EgressConfig {
        node_sid: NODE.parse::<Ipv6Addr>().expect("a SID").octets(),
        hop_limit: 64,
        event_rate,
        event_burst,
        ..Zeroable::zeroed()
    });
}

fn read(ring: &mut Ring<abi::EgressEvent>) -> Vec<abi::EgressEvent> {
    let mut events = Vec::new();
    let each = |event: &abi::EgressEvent| events.push(*event);
    ring.poll(Duration::ZERO, usize::MAX, each)
        .expect("readable");
    events
}

/// The one event that there is, whose own fields are right.
fn only(machine: &Machine, ring: &mut Ring<abi::EgressEvent>, kind: K) -> abi::EgressEvent {
    let [event] = read(ring)[..] else {
        panic!("one event of {}", kind.0)
    };
    assert_eq!(u32::from(event.kind), kind.0);
    assert_eq!((event.bytes, event.suppressed), (48, 0));
    assert_eq!((event.ifindex, event.table_id), (machine.tenant, TABLE));
    assert!(event.time_ns > 0);
    event
}

fn mapped(source: Ipv4Addr) -> [u8; 16] {
    source.to_ipv6_mapped().octets()
}

#[test]
fn drops_are_told() {
    isolated("egress::events::drops", || {
        let (machine, mut ring) = machine(1_000_000, 1_000_000);
        let none = abi::Index::GW_INDEX_NONE.0;
        let far = SOURCE6.parse::<Ipv6Addr>().expect("an address").octets();
        let mut small = machine.to_shard(0x10);
        small.next_hop.mtu = 100;
        let bad = abi::Route { kind: 9, ..small };
        let empty = machine.group_of(&[]);
        machine.publish(1, &empty);
        for (route, kind, group, link) in [
            (small, K::GW_EGRESS_EVENT_TOO_BIG, none, machine.uplink),
            (bad, K::GW_EGRESS_EVENT_BAD_ROUTE, none, 0),
            (
                machine.to_group(0, 1),
                K::GW_EGRESS_EVENT_GROUP_ABSENT,
                0,
                0,
            ),
            (machine.to_group(1, 1), K::GW_EGRESS_EVENT_GROUP_EMPTY, 1, 0),
            (machine.to_group(1, 2), K::GW_EGRESS_EVENT_STALE_ROUTE, 1, 0),
        ] {
            machine.default_routes(&route);
            for (frame, source) in [(v6(72), far), (v4(92), mapped(SOURCE4))] {
                let (ran, counted) = machine.run(&frame);
                assert_eq!(ran.action, DROP);
                assert_eq!(counted, [(C(kind.0), 1), (C::GW_EGRESS_EVENT_SENT, 1)]);
                let event = only(&machine, &mut ring, kind);
                assert_eq!((event.group_id, event.detail), (group, link));
                assert_eq!(event.source, source);
            }
        }
        // What is asked for, and what goes on, is not.
        let block = abi::Route {
            kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
            ..Zeroable::zeroed()
        };
        for route in [block, machine.to_shard(0x10)] {
            machine.default_routes(&route);
            assert_eq!(machine.run(&v6(72)).1.len(), 1);
        }
        assert!(read(&mut ring).is_empty());
    });
}

/// A row that is another interface's does not say whose the packet was.
#[test]
fn nobodys_packet_is_told_as_nobodys() {
    isolated("egress::events::foreign", || {
        let (machine, mut ring) = machine(1_000_000, 1_000_000);
        let row = machine.tenants.get(&machine.tenant).expect("read");
        let row = abi::Tenant {
            ifindex: machine.tenant + 1000,
            ..row.expect("a row")
        };
        let updated = machine.tenants.update(&machine.tenant, &row, Update::Any);
        updated.expect("room");
        assert_eq!(machine.run(&v6(72)).0.action, DROP);
        let [event] = read(&mut ring)[..] else {
            panic!("one event")
        };
        assert_eq!(event.kind, K::GW_EGRESS_EVENT_BAD_SNAPSHOT.0 as u16);
        assert_eq!((event.ifindex, event.table_id), (machine.tenant, 0));
    });
}

#[test]
fn pins_that_cannot_be_made_and_old_ones_are_told() {
    isolated("egress::events::pins", || {
        let (machine, mut ring) = machine(1_000_000, 1_000_000);
        let mut group = machine.group_of(&[(0x10, 7), (0x11, 8)]);
        group.header.pin_idle_ticks = 1000;
        group.header.pin_refresh_ticks = 1;
        machine.publish(2, &group);
        machine.default_routes(&machine.to_group(2, 1));
        let served = |counted: &[(C, u64)]| counted.contains(&(C::GW_EGRESS_GROUP, 1));
        assert!(served(&machine.run(&v4(92)).1));
        assert!(read(&mut ring).is_empty());
        // Both slots have new tenants.
        for member in &mut group.members {
            member.generation += 10;
        }
        machine.publish(2, &group);
        let (ran, counted) = machine.run(&v4(92));
        assert!(served(&counted));
        let event = only(&machine, &mut ring, K::GW_EGRESS_EVENT_PIN_REPLACED);
        let slot = if ran.frame[45] == 0x10 { 0 } else { 1 };
        assert_eq!((event.group_id, event.detail), (2, slot));
        assert_eq!(event.source, mapped(SOURCE4));
        // A quota of one, which that pin has used up.
        machine.want_answers(|row| row.pin_quota = 1);
        assert!(served(&machine.run(&v6(72)).1));
        only(&machine, &mut ring, K::GW_EGRESS_EVENT_PIN_QUOTA);
        machine.want_answers(|row| row.pin_quota = u32::MAX);
        let full = |number: u32| {
            let source = Ipv4Addr::from(0x0a01_0000 + number);
            let far = Ipv4Addr::new(198, 51, 100, 1);
            let counted = machine.run(&ipv4(source, far, UDP, 0, &ports(1, 2, 20))).1;
            assert!(served(&counted));
            counted
                .contains(&(C::GW_EGRESS_PIN_FULL, 1))
                .then_some(source)
        };
        // Some elements wait at each processor.
        let refused = (0..1000).find_map(full).expect("a full map");
        let event = only(&machine, &mut ring, K::GW_EGRESS_EVENT_PIN_FULL);
        assert_eq!(event.source, mapped(refused));
    });
}

#[test]
fn what_is_too_much_is_counted_and_changes_nothing() {
    isolated("egress::events::limit", || {
        let (machine, mut ring) = machine(1, 5);
        machine.default_routes(&machine.to_group(0, 1));
        let drop = C::GW_EGRESS_DROP_GROUP_ABSENT;
        let sent = (drop, vec![(drop, 1), (C::GW_EGRESS_EVENT_SENT, 1)]);
        let suppressed = vec![(drop, 1), (C::GW_EGRESS_EVENT_SUPPRESSED, 1)];
        let told = || {
            let (ran, counted) = machine.run(&v6(72));
            assert_eq!(ran.action, DROP);
            assert!(counted == sent.1 || counted == suppressed, "{counted:?}");
            counted == sent.1
        };
        let count = (0..100).filter(|_| told()).count();
        // A second or two may have begun meanwhile.
        assert!((5..=7).contains(&count), "{count}");
        assert_eq!(read(&mut ring).len(), count);
        // Other kinds have buckets of their own.
        machine.default_routes(&machine.to_group(64, 1));
        let counted = machine.run(&v6(72)).1;
        assert!(
            counted.contains(&(C::GW_EGRESS_EVENT_SENT, 1)),
            "{counted:?}"
        );
        only(&machine, &mut ring, K::GW_EGRESS_EVENT_BAD_ROUTE);
        machine.default_routes(&machine.to_group(0, 1));
        let before = machine.counters()[C::GW_EGRESS_EVENT_SUPPRESSED.0 as usize];
        assert!(within(Duration::from_secs(10), told));
        let more = machine.counters()[C::GW_EGRESS_EVENT_SUPPRESSED.0 as usize] - before;
        let since: u32 = read(&mut ring).iter().map(|event| event.suppressed).sum();
        assert!(u64::from(since) > more, "{since} with {more} now");
        // A ring of a page is full before long.
        configure(&machine, 1_000_000, 1_000_000);
        let lost = (0..200).filter(|_| {
            let (ran, counted) = machine.run(&v6(72));
            assert_eq!(ran.action, DROP);
            counted == [(drop, 1), (C::GW_EGRESS_EVENT_LOST, 1)]
        });
        assert!(lost.count() > 100);
        // Nobody wants to hear of it.
        configure(&machine, 0, 100);
        assert_eq!(machine.run(&v6(72)).1, [(drop, 1)]);
    });
}
