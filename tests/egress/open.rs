// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is not ours is left to the next program, and nothing else counts it.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::map::Update;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

fn v6() -> Vec<u8> {
    let (from, to) = ("2001:db8:aaaa::7", "2001:db8:2::1");
    let address = |text: &str| text.parse().expect("an address");
    ipv6(address(from), address(to), UDP, &ports(1000, 53, 72))
}

fn v4() -> Vec<u8> {
    let to = Ipv4Addr::new(198, 51, 100, 1);
    ipv4(Ipv4Addr::new(10, 0, 0, 7), to, UDP, 0, &ports(1000, 53, 72))
}

/// A machine on which every packet of the tenant would be pinned and sent.
fn machine() -> Machine {
    let machine = Machine::new();
    let mut group = machine.group_of(&[(0x10, 7)]);
    group.header.pin_idle_ticks = 100;
    machine.publish(0, &group);
    machine.default_routes(&machine.to_group(0, 1));
    machine
}

/// Sends a frame that must end like this with no other trace.
fn passes(machine: &Machine, frame: &[u8], skip: C) {
    let (ran, counted) = machine.run(frame);
    assert_eq!((ran.action, counted), (SKIP, vec![(skip, 1)]), "{frame:x?}");
    assert_eq!(ran.frame, frame);
    let mut pins = 0;
    machine
        .pins
        .for_each(|_, _| {
            pins += 1;
            std::ops::ControlFlow::Continue(())
        })
        .expect("read");
    assert_eq!((pins, machine.slot_counters(0, 0)), (0, (0, 0)));
}

#[test]
fn what_is_not_ip_passes() {
    isolated("egress::open::not_ip", || {
        let machine = machine();
        for kind in [0x0806_u16, 0x8100, 0x88a8, 0x8847, 0x1234] {
            let mut frame = v6();
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            passes(&machine, &frame, C::GW_EGRESS_SKIP_NOT_IP);
        }
    });
}

/// The kernel runs no program on a frame without a whole IP header; a version can be anything.
#[test]
fn what_says_to_be_something_else_passes() {
    isolated("egress::open::version", || {
        let machine = machine();
        for (mut frame, version) in [(v6(), 0x40), (v4(), 0x65)] {
            frame[14] = version;
            passes(&machine, &frame, C::GW_EGRESS_SKIP_SHORT);
        }
    });
}

#[test]
fn nobodys_packets_pass() {
    isolated("egress::open::no_tenant", || {
        let machine = machine();
        let (ran, counted) = machine.run_from(machine.uplink, &v6());
        assert_eq!(ran.action, SKIP);
        assert_eq!(counted, [(C::GW_EGRESS_SKIP_NO_TENANT, 1)]);
        // A tenant that is being removed.
        let row = machine.tenants.get(&machine.tenant).expect("read");
        let row = abi::Tenant {
            flags: 0,
            ..row.expect("a row")
        };
        let updated = machine.tenants.update(&machine.tenant, &row, Update::Any);
        updated.expect("room");
        passes(&machine, &v6(), C::GW_EGRESS_SKIP_NO_TENANT);
    });
}

#[test]
fn a_row_of_another_interface_is_nobodys_to_follow() {
    isolated("egress::open::foreign", || {
        let machine = machine();
        let row = machine.tenants.get(&machine.tenant).expect("read");
        let row = abi::Tenant {
            ifindex: machine.tenant + 1000,
            ..row.expect("a row")
        };
        let updated = machine.tenants.update(&machine.tenant, &row, Update::Any);
        updated.expect("room");
        let (ran, counted) = machine.run(&v6());
        assert_eq!(ran.action, DROP);
        assert_eq!(counted, [(C::GW_EGRESS_DROP_BAD_SNAPSHOT, 1)]);
    });
}

#[test]
fn what_stays_on_the_link_passes() {
    isolated("egress::open::local", || {
        let machine = machine();
        let from = "2001:db8:aaaa::7".parse().expect("an address");
        let payload = ports(1000, 53, 72);
        for to in ["ff02::1", "ff0e::1234", "fe80::1", "febf::1"] {
            let frame = ipv6(from, to.parse().expect("an address"), UDP, &payload);
            passes(&machine, &frame, C::GW_EGRESS_SKIP_LOCAL);
        }
        let far = "2001:db8:2::1".parse().expect("an address");
        for kind in 133..=137 {
            let frame = ipv6(from, far, ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
            passes(&machine, &frame, C::GW_EGRESS_SKIP_LOCAL);
        }
        let from = Ipv4Addr::new(10, 0, 0, 7);
        for to in [[224, 0, 0, 1], [239, 1, 2, 3], [255, 255, 255, 255]] {
            let frame = ipv4(from, to.into(), UDP, 0, &payload);
            passes(&machine, &frame, C::GW_EGRESS_SKIP_LOCAL);
        }
        // Neighbours of those. IPv4's link-local addresses are not left to the host, whose metadata
        // a tenant could read otherwise.
        let from: Ipv6Addr = "2001:db8:aaaa::7".parse().expect("an address");
        for to in ["fec0::1", "fe7f::1"] {
            let frame = ipv6(from, to.parse().expect("an address"), UDP, &payload);
            assert_eq!(machine.run(&frame).0.action, REDIRECT);
        }
        for kind in [132, 138] {
            let frame = ipv6(from, far, ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(machine.run(&frame).0.action, REDIRECT);
        }
        for to in [[169, 254, 169, 254], [240, 0, 0, 1]] {
            let frame = ipv4(Ipv4Addr::new(10, 0, 0, 7), to.into(), UDP, 0, &payload);
            assert_eq!(machine.run(&frame).0.action, REDIRECT);
        }
    });
}

#[test]
fn without_a_node_sid_nothing_is_ours() {
    isolated("egress::open::no_source", || {
        let machine = machine();
        machine.set_config(&abi::EgressConfig::zeroed());
        for frame in [v6(), v4()] {
            passes(&machine, &frame, C::GW_EGRESS_SKIP_NO_SOURCE);
        }
    });
}

#[test]
fn without_a_route_nothing_is_ours() {
    isolated("egress::open::no_route", || {
        let machine = Machine::new();
        for frame in [v6(), v4()] {
            passes(&machine, &frame, C::GW_EGRESS_SKIP_NO_ROUTE);
        }
        // Another tenant's.
        let route = machine.to_shard(0x10);
        for prefix in ["::", "0.0.0.0"] {
            machine.route(TABLE + 1, prefix.parse().expect("an address"), 0, &route);
        }
        for frame in [v6(), v4()] {
            passes(&machine, &frame, C::GW_EGRESS_SKIP_NO_ROUTE);
        }
    });
}

#[test]
fn a_route_may_say_that_packets_pass() {
    isolated("egress::open::pass", || {
        let machine = machine();
        let route = abi::Route {
            kind: abi::RouteKind::GW_ROUTE_PASS.0 as u8,
            ..Zeroable::zeroed()
        };
        let prefix = |text: &str| text.parse().expect("an address");
        machine.route(TABLE, prefix("2001:db8:2::"), 48, &route);
        machine.route(TABLE, prefix("198.51.100.0"), 24, &route);
        for frame in [v6(), v4()] {
            passes(&machine, &frame, C::GW_EGRESS_PASS);
        }
    });
}
