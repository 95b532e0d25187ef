// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Placement in a group as the definition says, and groups that cannot serve.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::abi;

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::reference::{maglev, Placed};

const SHARDS: [(u16, u32); 3] = [(0x10, 7), (0x11, 8), (0x12, 9)];

fn sids() -> Vec<Ipv6Addr> {
    SHARDS.map(|(number, _)| shard(number)).to_vec()
}

/// Who serves it by the definition.
fn expected(placed: Placed) -> Ipv6Addr {
    maglev(&sids(), 1021)[(placed.hash() % 1021) as usize]
}

fn by_source(source: IpAddr) -> Placed {
    Placed {
        table: TABLE,
        group: 0,
        source,
        flow: None,
    }
}

fn machine(flags: u32) -> (Machine, Group) {
    let machine = Machine::new();
    let mut group = machine.group_of(&SHARDS);
    group.header.flags |= flags;
    machine.publish(0, &group);
    machine.default_routes(&machine.to_group(0, 1));
    (machine, group)
}

fn far() -> Ipv6Addr {
    "2001:db8:2::1".parse().expect("an address")
}

#[test]
fn the_specifications_addresses_go_where_it_says() {
    isolated("egress::groups::vectors", || {
        let v6 = "2001:db8:aaaa::7".parse().expect("an address");
        let v4 = Ipv4Addr::new(10, 0, 0, 7);
        assert_eq!(by_source(IpAddr::V6(v6)).hash(), 0x0c29_e964);
        assert_eq!(by_source(IpAddr::V4(v4)).hash(), 0x193a_19b1);
        let (machine, _) = machine(0);
        let payload = ports(1000, 53, 72);
        assert_eq!(
            machine.shard_of(&ipv6(v6, far(), UDP, &payload)),
            shard(0x10)
        );
        let frame = ipv4(v4, Ipv4Addr::new(198, 51, 100, 1), UDP, 0, &payload);
        assert_eq!(machine.shard_of(&frame), maglev(&sids(), 1021)[893]);
    });
}

/// One address has one shard whatever its ports, and many have all.
#[test]
fn sources_are_placed_and_spread() {
    isolated("egress::groups::source", || {
        let (machine, _) = machine(0);
        let mut served = [0; 3];
        for number in 0..600_u16 {
            let source = Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, number);
            let expected = expected(by_source(source.into()));
            for port in 0..2 {
                let frame = ipv6(source, far(), UDP, &ports(1000 + port, 53, 12));
                assert_eq!(machine.shard_of(&frame), expected);
            }
            let slot = sids().iter().position(|sid| *sid == expected);
            served[slot.expect("one of them")] += 1;
            let source = Ipv4Addr::from(0x0a00_0000 + u32::from(number));
            let frame = ipv4(source, Ipv4Addr::new(9, 9, 9, 9), TCP, 0, &ports(1, 2, 20));
            let placed = by_source(source.into());
            assert_eq!(machine.shard_of(&frame), self::expected(placed));
        }
        assert!(
            served.iter().all(|count| (150..=250).contains(count)),
            "{served:?}"
        );
    });
}

#[test]
fn flows_are_placed_by_their_first_header() {
    isolated("egress::groups::flow", || {
        let flow = abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
        let (machine, mut group) = machine(flow);
        group.header.hash_group = 5;
        machine.publish(0, &group);
        let source: Ipv6Addr = "2001:db8:aaaa::7".parse().expect("an address");
        let mut seen = std::collections::BTreeSet::new();
        for port in 2000..2060_u16 {
            // Hop-by-hop, routing, fragment, ESP, AH, ICMPv6, destination options, SCTP: no ports.
            for next in [TCP, UDP, 0, 43, 44, 50, 51, ICMPV6, 60, 132] {
                let hashed = if [TCP, UDP].contains(&next) {
                    [port, 443]
                } else {
                    [0, 0]
                };
                let placed = Placed {
                    group: 5,
                    flow: Some((far().into(), next, hashed)),
                    ..by_source(source.into())
                };
                let mut payload = ports(port, 443, 24);
                if next == ICMPV6 {
                    payload[0] = 128;
                }
                let frame = ipv6(source, far(), next, &payload);
                let shard = machine.shard_of(&frame);
                assert_eq!(shard, expected(placed), "next header {next}");
                seen.insert(shard);
            }
        }
        assert_eq!(seen.len(), 3);
    });
}

#[test]
fn all_fragments_of_a_datagram_go_together() {
    isolated("egress::groups::fragments", || {
        let (machine, _) = machine(abi::GroupFlag::GW_GROUP_HASH_FLOW.0);
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
        for port in 0..40 {
            let payload = ports(port, 53, 24);
            let placed = |hashed| Placed {
                flow: Some((to.into(), UDP, hashed)),
                ..by_source(from.into())
            };
            // MF, an offset, both; DF alone makes no fragment.
            for fragment in [0x2000, 0x0001, 0x2005, 0x1fff] {
                let frame = ipv4(from, to, UDP, fragment, &payload);
                assert_eq!(machine.shard_of(&frame), expected(placed([0, 0])));
            }
            for whole in [0, 0x4000] {
                let frame = ipv4(from, to, UDP, whole, &payload);
                assert_eq!(machine.shard_of(&frame), expected(placed([port, 53])));
            }
            let frame = ipv4(from, to, 1, 0, &payload);
            let icmp = Placed {
                flow: Some((to.into(), 1, [0, 0])),
                ..by_source(from.into())
            };
            assert_eq!(machine.shard_of(&frame), expected(icmp));
        }
    });
}

#[test]
fn options_are_stepped_over_and_what_is_cut_off_drops() {
    isolated("egress::groups::parse", || {
        let (machine, _) = machine(abi::GroupFlag::GW_GROUP_HASH_FLOW.0);
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
        let mut payload = vec![1; 40];
        payload.extend(ports(777, 53, 12));
        let mut frame = ipv4(from, to, UDP, 0, &payload);
        frame[14] = 0x4f;
        let placed = Placed {
            flow: Some((to.into(), UDP, [777, 53])),
            ..by_source(from.into())
        };
        assert_eq!(machine.shard_of(&frame), expected(placed));
        let drops = |frame: &[u8]| {
            let (ran, counted) = machine.run(frame);
            assert_eq!(ran.action, DROP);
            assert_eq!(counted, [(C::GW_EGRESS_DROP_PARSE, 1)]);
        };
        for ihl in 0..5 {
            frame[14] = 0x40 | ihl;
            drops(&frame);
        }
        for bytes in 0..4 {
            drops(&ipv4(from, to, TCP, 0, &ports(1, 2, 4)[..bytes]));
            let source = "2001:db8:aaaa::7".parse().expect("an address");
            let mut frame = ipv6(source, far(), UDP, &ports(1, 2, 4)[..bytes]);
            drops(&frame);
            // What fills the frame up is none of the packet.
            frame.resize(80, 0x5a);
            drops(&frame);
        }
    });
}

#[test]
fn groups_that_cannot_serve_drop() {
    isolated("egress::groups::refused", || {
        let (machine, group) = machine(0);
        let source = "2001:db8:aaaa::7".parse().expect("an address");
        let frame = ipv6(source, far(), UDP, &ports(1000, 53, 72));
        let check = |change: &dyn Fn(&mut Group), end: C| {
            let mut changed = group.clone();
            change(&mut changed);
            machine.publish(0, &changed);
            let (ran, counted) = machine.run(&frame);
            assert_eq!((ran.action, counted), (DROP, vec![(end, 1)]));
            assert_eq!(ran.frame, frame);
        };
        use C as E;
        check(
            &|group| group.header.flags = 0,
            E::GW_EGRESS_DROP_GROUP_DISABLED,
        );
        check(
            &|group| group.header.incarnation = 2,
            E::GW_EGRESS_DROP_STALE_ROUTE,
        );
        // Another class has the id: the route means neither it nor its end.
        check(
            &|group| (group.header.incarnation, group.header.flags) = (2, 0),
            E::GW_EGRESS_DROP_STALE_ROUTE,
        );
        check(
            &|group| group.header.layout = 2,
            E::GW_EGRESS_DROP_BAD_SNAPSHOT,
        );
        check(
            &|group| group.header.table_size = 1019,
            E::GW_EGRESS_DROP_BAD_SNAPSHOT,
        );
        check(
            &|group| group.table = vec![64; 1021],
            E::GW_EGRESS_DROP_BAD_SNAPSHOT,
        );
        check(
            &|group| {
                group.members.iter_mut().for_each(|member| member.flags = 0);
                group.fill_table(1021);
            },
            E::GW_EGRESS_DROP_GROUP_EMPTY,
        );
        check(
            &|group| group.members.iter_mut().for_each(|member| member.flags = 0),
            E::GW_EGRESS_DROP_MEMBER_DEAD,
        );
        // Closing is not closed.
        let mut closing = group.clone();
        closing.header.flags |= abi::GroupFlag::GW_GROUP_CLOSING.0;
        machine.publish(0, &closing);
        assert_eq!(machine.shard_of(&frame), shard(0x10));
    });
}
