// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes to one shard: the bytes that leave, and what is dropped.

use std::net::{IpAddr, Ipv4Addr};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::egress_object::Options;
use guideway::kernel::run::ClassifierRun;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

/// An IPv6 packet of 112 bytes, and one of IPv4, each in its frame.
fn frames() -> [Vec<u8>; 2] {
    let address = |text: &str| text.parse().expect("an address");
    let to = Ipv4Addr::new(198, 51, 100, 1);
    [
        ipv6(
            address("2001:db8:aaaa::7"),
            address("2001:db8:2::1"),
            UDP,
            &ports(1000, 53, 72),
        ),
        ipv4(
            Ipv4Addr::new(10, 0, 0, 7),
            to,
            TCP,
            0x4000,
            &ports(1, 2, 92),
        ),
    ]
}

fn hex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits"))
        .collect()
}

#[test]
fn the_specifications_packet_comes_out() {
    isolated("egress::ordinary::vector", || {
        let machine = Machine::new();
        machine.default_routes(&machine.to_shard(0x10));
        let [frame, _] = frames();
        assert_eq!(frame.len(), 126);
        let (ran, counted) = machine.run(&frame);
        assert_eq!(ran.action, REDIRECT);
        assert_eq!(counted, [(C::GW_EGRESS_SHARD, 1)]);
        // Section 8.1, after the Ethernet header.
        let outer = "60000000007029402001\
                     0db8ff010001e2a500000000000020010db8ff090010e2a5000000000000";
        let outer = hex(outer);
        assert_eq!(ran.frame.len(), 166);
        assert_eq!(ran.frame[14..54], outer[..]);
        assert_eq!(ran.frame[54..], frame[14..]);
    });
}

#[test]
fn both_families_come_out_whole_by_either_kind_of_route() {
    isolated("egress::ordinary::bytes", || {
        let machine = Machine::new();
        let to = completed(shard(0x10), ARGUMENT);
        let expected = frames().map(|frame| encapsulated(&frame, (DMAC, SMAC), FROM, &to));
        machine.default_routes(&machine.to_shard(0x10));
        for (frame, expected) in frames().iter().zip(&expected) {
            let (ran, counted) = machine.run(frame);
            assert_eq!((ran.action, &ran.frame), (REDIRECT, expected));
            assert_eq!(counted, [(C::GW_EGRESS_SHARD, 1)]);
        }
        machine.publish(3, &machine.group_of(&[(0x10, 7)]));
        machine.default_routes(&machine.to_group(3, 1));
        let mut bytes = 0;
        for (number, (frame, expected)) in (1..).zip(frames().iter().zip(&expected)) {
            let (ran, counted) = machine.run(frame);
            assert_eq!((ran.action, &ran.frame), (REDIRECT, expected));
            let group = [(C::GW_EGRESS_GROUP, 1), (C::GW_EGRESS_MAGLEV, 1)];
            assert_eq!(counted, group);
            bytes += frame.len() as u64;
            assert_eq!(machine.slot_counters(3, 0), (number, bytes));
        }
    });
}

#[test]
fn a_route_has_an_argument_of_its_own() {
    isolated("egress::ordinary::argument", || {
        let machine = Machine::new();
        for argument in [1, 0x0ff, 0x100, 0xfff] {
            machine.default_routes(&abi::Route {
                argument,
                ..machine.to_shard(0x10)
            });
            let [frame, _] = frames();
            let to = completed(shard(0x10), argument);
            let expected = encapsulated(&frame, (DMAC, SMAC), FROM, &to);
            assert_eq!(machine.run(&frame).0.frame, expected);
        }
    });
}

#[test]
fn the_longest_prefix_decides() {
    isolated("egress::ordinary::longest", || {
        let machine = Machine::new();
        machine.default_routes(&machine.to_shard(0x10));
        let prefix = |text: &str| text.parse::<IpAddr>().expect("an address");
        machine.route(TABLE, prefix("2001:db8:2::"), 96, &machine.to_shard(0x11));
        machine.route(TABLE, prefix("198.51.100.1"), 32, &machine.to_shard(0x12));
        let [v6, v4] = frames();
        assert_eq!(machine.shard_of(&v6), shard(0x11));
        assert_eq!(machine.shard_of(&v4), shard(0x12));
        let mut other = v6.clone();
        other[14 + 35] ^= 1;
        assert_eq!(machine.shard_of(&other), shard(0x10));
    });
}

#[test]
fn what_others_told_about_a_packet_stays() {
    isolated("egress::ordinary::metadata", || {
        let machine = Machine::new();
        machine.default_routes(&machine.to_shard(0x10));
        for mut frame in frames() {
            let hops = if frame[14] >> 4 == 4 { 22 } else { 21 };
            frame[hops] = 1;
            let (ran, _) = machine.run_as(ClassifierRun {
                mark: 0xfeed_0042,
                priority: 7,
                ..machine.from(machine.tenant, &frame)
            });
            assert_eq!(
                (ran.action, ran.mark, ran.priority),
                (REDIRECT, 0xfeed_0042, 7)
            );
            // No router was passed: that comes behind the shard.
            assert_eq!(ran.frame[54..], frame[14..]);
        }
    });
}

#[test]
fn routes_that_make_no_sense_drop() {
    isolated("egress::ordinary::bad", || {
        let machine = Machine::new();
        let kind = |number: u8| abi::Route {
            kind: number,
            ..machine.to_shard(0x10)
        };
        let nowhere = abi::Route {
            next_hop: Zeroable::zeroed(),
            ..machine.to_shard(0x10)
        };
        for (route, end) in [
            (kind(0), C::GW_EGRESS_DROP_BAD_ROUTE),
            (kind(5), C::GW_EGRESS_DROP_BAD_ROUTE),
            (kind(255), C::GW_EGRESS_DROP_BAD_ROUTE),
            (nowhere, C::GW_EGRESS_DROP_BAD_ROUTE),
            (kind(4), C::GW_EGRESS_DROP_BLOCKED),
            (machine.to_group(7, 1), C::GW_EGRESS_DROP_GROUP_ABSENT),
            (machine.to_group(64, 1), C::GW_EGRESS_DROP_BAD_ROUTE),
            (machine.to_group(u32::MAX, 1), C::GW_EGRESS_DROP_BAD_ROUTE),
        ] {
            machine.default_routes(&route);
            for frame in frames() {
                let (ran, counted) = machine.run(&frame);
                assert_eq!((ran.action, counted), (DROP, vec![(end, 1)]));
                assert_eq!(ran.frame, frame);
            }
        }
    });
}

/// The first 4 bytes of the outer header, whose traffic class is that of the profile.
#[test]
fn the_traffic_class_is_that_of_the_profile() {
    isolated("egress::ordinary::class", || {
        use abi::EgressProfile as P;
        let machine = Machine::new();
        machine.default_routes(&machine.to_shard(0x10));
        // The tenants' frames have 0xba: DSCP 46, ECT(0).
        for (profile, class) in [
            (0, 0),
            (P::GW_PROFILE_DSCP_COPY.0, 0xb8),
            (P::GW_PROFILE_DSCP_FIXED.0, 0x28),
            (P::GW_PROFILE_ECN_NORMAL.0, 0x02),
            (P::GW_PROFILE_DSCP_COPY.0 | P::GW_PROFILE_ECN_NORMAL.0, 0xba),
        ] {
            machine.set_config(&abi::EgressConfig {
                node_sid: NODE.parse::<std::net::Ipv6Addr>().expect("a SID").octets(),
                profile,
                hop_limit: 17,
                dscp: 10,
                ..Zeroable::zeroed()
            });
            for frame in frames() {
                let out = machine.run(&frame).0.frame;
                let word = u32::from_be_bytes(out[14..18].try_into().expect("four bytes"));
                assert_eq!(word, 0x6000_0000 | class << 20, "{profile:#x}");
                assert_eq!(out[14 + 7], 17);
            }
        }
    });
}

#[test]
fn the_verifier_has_little_to_do() {
    isolated("egress::ordinary::verifier", || {
        let options = Options {
            verifier_report: true,
            ..Options::default()
        };
        let object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let verified = object.program.verified_instructions();
        println!("{verified} instructions verified");
        assert!(verified > 100 && verified <= 20_000, "{verified}");
        // Of the program, and of each function that it calls. Linux refuses more along any way.
        let report = object.verifier_report();
        let depths = report
            .lines()
            .find_map(|line| line.strip_prefix("stack depth "))
            .expect("stack depths");
        let depths: Vec<u32> = depths
            .split('+')
            .map(|depth| depth.parse().expect("a number"))
            .collect();
        println!("{depths:?} bytes of stack");
        let deepest = depths[0] + depths[1..].iter().max().copied().unwrap_or(0);
        assert!(deepest <= 512, "{depths:?}");
    });
}
