// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random packets: the program, the library and the transcription of the definition place each on the
//! same shard, and every packet has one end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::maglev::TableSize;
use guideway::placement::{
    Family, FlowFields, Fnv12, Fnv5, HashGroup, HashKey, HashTable, Ports, Scope, Shard, ShardTable,
};
use guideway::srv6::BaseSid;

use crate::chance::Random;
use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;
use crate::reference::{maglev, Placed};

/// A packet, and what its hash is of by the definition: source, destination, protocol and ports.
struct Packet {
    frame: Vec<u8>,
    source: IpAddr,
    flow: (IpAddr, u8, [u16; 2]),
    fields: FlowFields,
}

fn packet(random: &mut Random) -> Packet {
    let [from, to] = [random.next() as u16, random.next() as u16];
    let protocols = [TCP, UDP, 1, 44, 50, 132, random.next() as u8];
    let protocol = protocols[random.below(7)];
    let bytes = 4 + random.below(60);
    let payload = ports(from, to, bytes);
    let has_ports = [TCP, UDP].contains(&protocol);
    let whole = Ports {
        source: from,
        destination: to,
    };
    if random.below(2) == 0 {
        let source = Ipv4Addr::from(random.next() as u32);
        // Not multicast, nor the broadcast address.
        let destination = Ipv4Addr::from(random.below(0xe000_0000) as u32);
        let fragment = [0, 0x4000, 0x2000, 1 + random.below(0x1fff) as u16];
        let fragment = fragment[random.below(4)];
        let cut = fragment & 0x3fff != 0;
        let hashed = if has_ports && !cut {
            [from, to]
        } else {
            [0; 2]
        };
        return Packet {
            frame: ipv4(source, destination, protocol, fragment, &payload),
            source: source.into(),
            flow: (destination.into(), protocol, hashed),
            fields: if cut {
                FlowFields::ipv4_fragment(source, destination, protocol)
            } else {
                FlowFields::ipv4(source, destination, protocol, whole)
            },
        };
    }
    let mut address =
        || Ipv6Addr::from(u128::from(random.next()) << 64 | u128::from(random.next()));
    let source = address();
    let mut destination = address().octets();
    destination[0] = 0x20;
    let destination = Ipv6Addr::from(destination);
    // Neighbour discovery would stay on the link.
    let protocol = if protocol == ICMPV6 { 0 } else { protocol };
    let hashed = if has_ports { [from, to] } else { [0; 2] };
    Packet {
        frame: ipv6(source, destination, protocol, &payload),
        source: source.into(),
        flow: (destination.into(), protocol, hashed),
        fields: if protocol == 44 {
            FlowFields::ipv6_fragment(source, destination)
        } else {
            FlowFields::ipv6(source, destination, protocol, whole)
        },
    }
}

#[test]
fn all_place_random_packets_alike() {
    isolated("egress::random::placement", || {
        let long = std::env::var_os("GW_LONG").is_some();
        let packets = if long { 1_000_000 } else { 10_000 };
        let shards: Vec<(u16, u32)> = (0x10..0x1b).map(|number| (number, 1)).collect();
        let sids: Vec<_> = shards.iter().map(|&(number, _)| shard(number)).collect();
        let owners = maglev(&sids, 1021);
        let members: Vec<_> = sids
            .iter()
            .map(|&sid| Shard::new(BaseSid::new(sid).expect("a SID")))
            .collect();
        let table = ShardTable::build(TableSize::new(1021).expect("a prime"), &members);
        let table = table.expect("a table");
        let mut random = Random::new(0x5eed);
        let machine = Machine::new();
        for by_flow in [false, true] {
            let mut group = machine.group_of(&shards);
            group.header.hash_group = 9;
            if by_flow {
                group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
            }
            machine.publish(0, &group);
            let scope = Scope {
                table: HashTable(TABLE),
                group: HashGroup(9),
            };
            for (prefix, family) in [("::", Family::Ipv6), ("0.0.0.0", Family::Ipv4)] {
                let route = abi::Route {
                    fnv12: Fnv12::new(scope, family).get(),
                    fnv5: Fnv5::new(scope.table, family).get(),
                    ..machine.to_group(0, 1)
                };
                machine.route(TABLE, prefix.parse().expect("an address"), 0, &route);
            }
            let before: u64 = machine.counters()[..64].iter().sum();
            for _ in 0..packets {
                let packet = packet(&mut random);
                let placed = Placed {
                    table: TABLE,
                    group: 9,
                    source: packet.source,
                    flow: by_flow.then_some(packet.flow),
                };
                let key = match by_flow {
                    true => HashKey::flow(scope, &packet.fields),
                    false => HashKey::source(scope, packet.source),
                };
                let out = machine.classify(&packet.frame);
                assert_eq!(out.action, REDIRECT, "{:x?}", packet.frame);
                let mut segments = [0; 8];
                for (segment, bytes) in segments.iter_mut().zip(out.frame[38..54].chunks(2)) {
                    *segment = u16::from_be_bytes([bytes[0], bytes[1]]);
                }
                segments[4] &= 0xf000;
                let expected = owners[(placed.hash() % 1021) as usize];
                assert_eq!(Ipv6Addr::from(segments), expected, "{:x?}", packet.frame);
                assert_eq!(
                    table.place(&key).shard.map(BaseSid::address),
                    Some(expected)
                );
            }
            let after: u64 = machine.counters()[..64].iter().sum();
            assert_eq!(after - before, packets);
        }
    });
}

/// Why a frame is not for a tenant's routes, which know every address.
fn foreign(frame: &[u8]) -> Option<C> {
    let ip = &frame[14..];
    let local = match (u16::from_be_bytes([frame[12], frame[13]]), ip[0] >> 4) {
        (0x0800, 4) => ip[16] >> 4 == 14 || ip[16..20] == [255; 4],
        (0x86dd, 6) => {
            let discovers = ip[6] == ICMPV6 && (133..=137).contains(&ip[40]);
            ip[24] == 0xff || (ip[24] == 0xfe && ip[25] >> 6 == 2) || discovers
        }
        (0x0800 | 0x86dd, _) => return Some(C::GW_EGRESS_SKIP_SHORT),
        _ => return Some(C::GW_EGRESS_SKIP_NOT_IP),
    };
    local.then_some(C::GW_EGRESS_SKIP_LOCAL)
}

/// What the frames of one part of the test meet: a route, and what it leads to.
fn meet(machine: &Machine, part: usize) {
    let mut group = machine.group_of(&[(0x10, 7), (0x11, 8)]);
    group.header.pin_idle_ticks = 100;
    let route = match part {
        // Members that some packets are too big for, by flow and by source.
        0 | 1 => {
            for member in &mut group.members {
                member.next_hop.mtu = 110;
            }
            if part == 0 {
                group.header.flags |= abi::GroupFlag::GW_GROUP_HASH_FLOW.0;
            }
            machine.to_group(0, 1)
        }
        2 => {
            group.members.clear();
            group.header.flags |= abi::GroupFlag::GW_GROUP_REJECT.0;
            group.fill_table(1021);
            machine.to_group(0, 1)
        }
        3 => abi::Route {
            kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
            action: abi::BlockAction::GW_BLOCK_UNREACHABLE.0 as u8,
            ..Zeroable::zeroed()
        },
        _ => {
            let mut route = machine.to_shard(0x10);
            route.next_hop.mtu = 110;
            route
        }
    };
    machine.publish(0, &group);
    machine.default_routes(&route);
}

/// Whatever the bytes are, each frame has one end, and what was a tenant's with a route never goes on to
/// the next program. Everything that can be switched on is.
#[test]
fn random_frames_have_one_end() {
    isolated("egress::random::frames", || {
        let long = std::env::var_os("GW_LONG").is_some();
        let frames = if long { 1_000_000 } else { 20_000 };
        let machine = Machine::new();
        let flags = abi::TenantFlag::GW_TENANT_ENABLED.0
            | abi::TenantFlag::GW_TENANT_ICMP.0
            | abi::TenantFlag::GW_TENANT_MSS.0;
        machine.want_answers(|row| row.flags = flags as u16);
        machine.set_config(&abi::EgressConfig {
            node_sid: NODE.parse::<Ipv6Addr>().expect("a SID").octets(),
            profile: 31,
            hop_limit: 64,
            mss6: 100,
            mss4: 100,
            icmp_rate: 100,
            icmp_burst: 100,
            event_rate: 1_000,
            event_burst: 100,
            ..Zeroable::zeroed()
        });
        let mut random = Random::new(0xf00d);
        let mut ends = std::collections::BTreeMap::new();
        for number in 0..frames {
            if number % (frames / 5) == 0 {
                meet(&machine, number / (frames / 5));
            }
            let mut frame = packet(&mut random).frame;
            if random.percent(10) {
                // The kernel runs no frame that is cut off in the IPv6 header.
                frame.resize(14 + random.between(40, 3000), random.byte());
            }
            // SYNs, with options of all sorts.
            if random.percent(10) && frame.len() > 70 {
                let (protocol, header) = if frame[12] == 8 { (23, 34) } else { (20, 54) };
                frame[protocol] = TCP;
                (frame[header + 12], frame[header + 13]) = (random.byte(), 2);
            }
            for _ in 0..random.below(4) {
                let at = random.below(frame.len());
                frame[at] = random.byte();
            }
            let segment = [0, 0, 0, 40, 70][random.below(5)];
            let (ran, counted) = machine.run_segmented(&frame, segment);
            let ended: Vec<_> = counted.iter().filter(|(end, _)| end.0 < 64).collect();
            let [(end, 1)] = ended[..] else {
                panic!("{counted:?}: {frame:x?}");
            };
            let verdict = match (foreign(&frame), end.0) {
                (None, 1..=4) => REDIRECT,
                (None, 32..64) => DROP,
                (Some(skip), _) if *end == skip => SKIP,
                _ => panic!("{counted:?}: {frame:x?}"),
            };
            assert_eq!(ran.action, verdict, "{counted:?}: {frame:x?}");
            // What does not leave is as it was, but for what the kernel did not do to the end.
            if verdict != REDIRECT && *end != C::GW_EGRESS_DROP_ENCAP {
                assert!(ran.frame == frame, "{counted:?}: {frame:x?}");
            }
            *ends.entry(end.0).or_insert(0) += 1;
        }
        println!("{ends:?}");
        // Shards, groups, answers of both kinds, skips, and drops of as many kinds.
        assert!(ends.len() >= 11, "{ends:?}");
    });
}
