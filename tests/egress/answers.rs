// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! ICMP errors to tenants: which packets get one, its bytes, and how many there are.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytemuck::Zeroable;
use guideway::abi;

use crate::cpus::stay_here;
use crate::frames::*;
use crate::machine::*;
use crate::netns::{isolated, within};

const LINK_MTU: u32 = 1400;

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    v6_from("2001:db8:aaaa::7", next, payload)
}

fn v6_from(source: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    ipv6(address(source), address("2001:db8:2::1"), next, payload)
}

fn v4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    v4_from(Ipv4Addr::new(10, 0, 0, 7), protocol, fragment, payload)
}

fn v4_from(source: Ipv4Addr, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let far = Ipv4Addr::new(198, 51, 100, 1);
    ipv4(source, far, protocol, fragment, payload)
}

/// A machine that answers, whose link is too small for the frames that tests send.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.want_answers(|_| ());
    machine.configure_answers(1_000_000, 1_000_000);
    let mut route = machine.to_shard(0x10);
    route.next_hop.mtu = LINK_MTU;
    machine.default_routes(&route);
    machine
}

/// The answer to a frame by the RFCs: the MACs the other way round, and as much of the packet as fits.
fn answer(frame: &[u8], [kind, code]: [u8; 2], rest: u32) -> Vec<u8> {
    let packet = &frame[14..];
    let mut icmp = vec![kind, code, 0, 0];
    icmp.extend(rest.to_be_bytes());
    let [to, from] = [&frame[..6], &frame[6..12]].map(|mac| mac.try_into().expect("a MAC"));
    let mut out;
    if packet[0] >> 4 == 4 {
        icmp.extend(&packet[..packet.len().min(548)]);
        out = ethernet(from, to, 0x0800);
        out.extend([0x45, 0xc0]);
        out.extend((20 + icmp.len() as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 1, 0, 0]);
        out.extend(GATEWAY4.octets());
        out.extend(&packet[12..16]);
    } else {
        icmp.extend(&packet[..packet.len().min(1232)]);
        out = ethernet(from, to, 0x86dd);
        out.extend([0x60, 0, 0, 0]);
        out.extend((icmp.len() as u16).to_be_bytes());
        out.extend([58, 64]);
        out.extend(GATEWAY6.parse::<Ipv6Addr>().expect("an address").octets());
        out.extend(&packet[8..24]);
    }
    out.extend(icmp);
    icmp_checksums(out)
}

/// The same frame with the checksums of IPv4, ICMP and ICMPv6, the last with a pseudo header.
fn icmp_checksums(mut frame: Vec<u8>) -> Vec<u8> {
    let sum = if frame[14] >> 4 == 4 {
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        (36, checksum(&frame[34..]))
    } else {
        (56, transport_checksum(&frame))
    };
    frame[sum.0..sum.0 + 2].copy_from_slice(&sum.1.to_be_bytes());
    frame
}

fn answers(machine: &Machine, frame: &[u8], end: C, expected: &[u8]) {
    let (ran, counted) = machine.run(frame);
    let ended: Vec<_> = counted.into_iter().filter(|(end, _)| end.0 < 64).collect();
    assert_eq!((ran.action, ended), (REDIRECT, vec![(end, 1)]));
    assert_eq!(ran.frame, expected);
}

fn drops(machine: &Machine, frame: &[u8], end: C) {
    let (ran, counted) = machine.run(frame);
    let ended: Vec<_> = counted.into_iter().filter(|(end, _)| end.0 < 64).collect();
    assert_eq!((ran.action, ended), (DROP, vec![(end, 1)]), "{frame:x?}");
    assert_eq!(ran.frame, frame);
}

/// Packets that are too big by one byte, by some, and by much.
const TOO_MANY_BYTES: [usize; 4] = [1361, 1400, 1407, 3000];

#[test]
fn the_sender_of_what_is_too_big_learns_what_fits() {
    isolated("egress::answers::too_big", || {
        let machine = machine();
        for bytes in TOO_MANY_BYTES {
            let frame = v6(UDP, &ports(1000, 53, bytes - 40));
            let expected = answer(&frame, [2, 0], LINK_MTU - 40);
            answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
            let frame = v4(TCP, 0x4000, &ports(1000, 53, bytes - 20));
            let expected = answer(&frame, [3, 4], LINK_MTU - 40);
            answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
        }
        // A frame may be longer than its packet, and no filler is quoted.
        let mut frame = v4(UDP, 0x4000, &ports(1, 2, 100));
        let expected = answer(&frame, [3, 4], LINK_MTU - 40);
        frame.resize(2000, 0);
        answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
        // Every link of IPv6 carries so much.
        let mut route = machine.to_shard(0x10);
        route.next_hop.mtu = 1290;
        machine.default_routes(&route);
        let frame = v6(UDP, &ports(1000, 53, 1300));
        let expected = answer(&frame, [2, 0], 1280);
        answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
    });
}

/// The answer tells of headers that come before the transport's, and of first fragments.
#[test]
fn extension_headers_and_first_fragments_are_answered() {
    isolated("egress::answers::extensions", || {
        let machine = machine();
        let hop_by_hop = [&[17, 0][..], &[0; 6], &ports(1, 2, 1400)].concat();
        let first = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &ports(1, 2, 1400)].concat();
        let echo = [&[58, 0][..], &[0; 6], &[128], &[7; 1400]].concat();
        for (next, payload) in [
            (0, hop_by_hop),
            (44, first),
            (60, echo),
            (59, vec![1; 1400]),
        ] {
            let frame = v6(next, &payload);
            let expected = answer(&frame, [2, 0], LINK_MTU - 40);
            answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
        }
        let mut frame = v4(UDP, 0x6000, &[vec![1; 40], ports(1, 2, 1400)].concat());
        frame[14] = 0x4f;
        let expected = answer(&frame, [3, 4], LINK_MTU - 40);
        answers(&machine, &frame, C::GW_EGRESS_ICMP_SENT, &expected);
    });
}

/// A checksum that a device is yet to make counts as what the device will make of it.
#[test]
fn a_checksum_to_come_is_counted_as_if_it_were_there() {
    isolated("egress::answers::partial", || {
        let machine = machine();
        for (transport, at) in [(TCP, 16), (UDP, 6)] {
            for bytes in [1400, 1401] {
                for frame in [
                    v6(transport, &ports(1000, 53, bytes)),
                    v4(transport, 0x4000, &ports(1000, 53, bytes)),
                ] {
                    let four = frame[14] >> 4 == 4;
                    let inner = if four { 34 } else { 54 };
                    // The sum of the pseudo header alone: of a packet whose transport is all zeros.
                    let mut bare = frame.clone();
                    bare[inner..].fill(0);
                    let pseudo = !transport_checksum(&bare);
                    let mut sent = frame.clone();
                    sent[inner + at..inner + at + 2].copy_from_slice(&pseudo.to_be_bytes());
                    let told = if four { [3, 4] } else { [2, 0] };
                    let ran = machine.run(&sent).0;
                    // What the device does: the sum of all from the transport header to the end.
                    let mut out = ran.frame.clone();
                    let quoted = if four { 14 + 28 } else { 14 + 48 };
                    let from = quoted + inner - 14;
                    let made = checksum(&out[from..]);
                    out[from + at..from + at + 2].copy_from_slice(&made.to_be_bytes());
                    let mut expected = answer(&sent, told, LINK_MTU - 40);
                    expected[from + at..from + at + 2].copy_from_slice(&made.to_be_bytes());
                    let field = if four { 36 } else { 56 };
                    expected[field..field + 2].fill(0);
                    if four {
                        expected[24..26].fill(0);
                    }
                    assert_eq!(out, icmp_checksums(expected));
                }
            }
        }
    });
}

#[test]
fn nobody_is_answered_who_did_not_ask_for_it() {
    isolated("egress::answers::off", || {
        let machine = machine();
        let frames = [
            v6(UDP, &ports(1, 2, 1400)),
            v4(UDP, 0x4000, &ports(1, 2, 1400)),
        ];
        let silent = || {
            for frame in &frames {
                drops(&machine, frame, C::GW_EGRESS_DROP_TOO_BIG);
            }
        };
        machine.want_answers(|row| row.flags = 1);
        silent();
        machine.want_answers(|row| (row.gateway6, row.gateway4) = Zeroable::zeroed());
        silent();
        machine.want_answers(|_| ());
        machine.configure(0);
        silent();
        machine.configure_answers(1000, 100);
        for frame in &frames {
            assert_eq!(machine.run(frame).0.action, REDIRECT);
        }
        // It may be cut up, though not here.
        let frame = v4(UDP, 0, &ports(1, 2, 1400));
        drops(&machine, &frame, C::GW_EGRESS_DROP_TOO_BIG);
    });
}

#[test]
fn some_packets_are_never_answered() {
    isolated("egress::answers::never", || {
        let machine = machine();
        let payload = ports(1, 2, 1400);
        let icmp = |kind: u8| [&[kind][..], &[0; 1400]].concat();
        let mut frames = Vec::new();
        let behind = |kind| [&[58, 0, 0, 0, 0, 0, 0, 0], &icmp(kind)[..]].concat();
        for kind in [1, 2, 3, 4, 100, 127] {
            frames.push(v6(ICMPV6, &icmp(kind)));
            // Behind other headers.
            frames.push(v6(60, &behind(kind)));
        }
        // A redirect, which without them stays on the link.
        frames.push(v6(60, &behind(137)));
        for kind in [3, 4, 5, 11, 12] {
            frames.push(v4(1, 0x4000, &icmp(kind)));
        }
        for source in ["::", "::1", "ff02::1", "ff0e::7"] {
            frames.push(v6_from(source, UDP, &payload));
        }
        for source in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "239.1.2.3",
            "255.255.255.255",
        ] {
            let source = source.parse().expect("an address");
            frames.push(v4_from(source, UDP, 0x4000, &payload));
        }
        // Later fragments, one behind another header.
        let later = [&[17, 0, 0, 8, 0, 0, 0, 9], &payload[..]].concat();
        frames.push(v6(44, &later));
        frames.push(v6(0, &[&[44, 0, 0, 0, 0, 0, 0, 0], &later[..]].concat()));
        for fragment in [0x4001, 0x5fff] {
            frames.push(v4(UDP, fragment, &payload));
        }
        // What cannot be told from an error: the type is behind too many headers, or cut off.
        let mut deep = icmp(1);
        for next in [58, 60, 60, 60, 60, 60, 60] {
            deep.splice(..0, [next, 0, 0, 0, 0, 0, 0, 0]);
        }
        frames.push(v6(60, &deep));
        // What goes on to another address first, with which its checksum may be yet to be made.
        let routing = [&[17, 0, 4, 1, 0, 0, 0, 0], &payload[..]].concat();
        frames.push(v6(43, &routing));
        frames.push(v6(0, &[&[43, 0, 0, 0, 0, 0, 0, 0], &routing[..]].concat()));
        // For many.
        for mac in [[0xff; 6], [0x33, 0x33, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 1]] {
            for mut frame in [v6(UDP, &payload), v4(UDP, 0x4000, &payload)] {
                frame[..6].copy_from_slice(&mac);
                frames.push(frame);
            }
        }
        for frame in &frames {
            drops(&machine, frame, C::GW_EGRESS_DROP_TOO_BIG);
        }
        for frame in [
            v6(ICMPV6, &icmp(128)),
            v6(ICMPV6, &icmp(129)),
            v6(43, &[&[17, 0, 4, 0, 0, 0, 0, 0], &payload[..]].concat()),
            v6(60, &behind(136)),
            v6(60, &behind(138)),
            v4(1, 0x4000, &icmp(8)),
            v4(1, 0x4000, &icmp(0)),
            v6_from("::2", UDP, &payload),
            v4_from(Ipv4Addr::new(126, 1, 1, 1), UDP, 0x4000, &payload),
            v4_from(Ipv4Addr::new(223, 1, 1, 1), UDP, 0x4000, &payload),
        ] {
            let (ran, counted) = machine.run(&frame);
            assert_eq!(ran.action, REDIRECT, "{frame:x?}");
            assert_eq!(counted, [(C::GW_EGRESS_ICMP_SENT, 1)]);
        }
    });
}

/// Segments are as long as their sender was told, and the headers of other than TCP and UDP unknown.
#[test]
fn what_no_mtu_would_change_is_not_answered() {
    isolated("egress::answers::segments", || {
        let machine = machine();
        for (protocol, end) in [
            (132, C::GW_EGRESS_DROP_TOO_BIG),
            (47, C::GW_EGRESS_DROP_TOO_BIG),
            (UDP, C::GW_EGRESS_ICMP_SENT),
            (TCP, C::GW_EGRESS_ICMP_SENT),
        ] {
            let payload = ports(1000, 53, 3000);
            for frame in [v6(protocol, &payload), v4(protocol, 0x4000, &payload)] {
                let counted = machine.run_segmented(&frame, 1390).1;
                assert_eq!(counted, [(end, 1)], "{protocol}");
            }
        }
    });
}

#[test]
fn blocked_destinations_and_empty_groups_are_unreachable() {
    isolated("egress::answers::unreachable", || {
        let machine = machine();
        // Too big for no link: this asks for nothing of the profile.
        machine.configure_answers(1000, 100);
        let frames = [
            v6(UDP, &ports(1000, 53, 33)),
            v6(TCP, &ports(1000, 53, 3000)),
            v4(UDP, 0, &ports(1000, 53, 33)),
            v4(TCP, 0x4000, &ports(1000, 53, 3000)),
        ];
        let told = |frame: &[u8]| {
            let told = if frame[14] >> 4 == 4 { [3, 0] } else { [1, 0] };
            answer(frame, told, 0)
        };
        let answered = || {
            for frame in &frames {
                answers(&machine, frame, C::GW_EGRESS_UNREACH_SENT, &told(frame));
            }
        };
        let silent = |end: C| {
            for frame in &frames {
                drops(&machine, frame, end);
            }
        };
        let block = |action: abi::BlockAction| abi::Route {
            kind: abi::RouteKind::GW_ROUTE_BLOCK.0 as u8,
            action: action.0 as u8,
            ..Zeroable::zeroed()
        };
        machine.default_routes(&block(abi::BlockAction::GW_BLOCK_DROP));
        silent(C::GW_EGRESS_DROP_BLOCKED);
        machine.default_routes(&block(abi::BlockAction::GW_BLOCK_UNREACHABLE));
        answered();
        // A header that says to be longer than its packet.
        let mut long = v4(UDP, 0x4000, &ports(1000, 53, 80));
        (long[14], long[17]) = (0x4f, 59);
        drops(&machine, &long, C::GW_EGRESS_DROP_BLOCKED);
        machine.want_answers(|row| row.flags = 1);
        silent(C::GW_EGRESS_DROP_BLOCKED);
        machine.want_answers(|_| ());
        let mut group = machine.group_of(&[]);
        machine.publish(0, &group);
        machine.default_routes(&machine.to_group(0, 1));
        silent(C::GW_EGRESS_DROP_GROUP_EMPTY);
        group.header.flags |= abi::GroupFlag::GW_GROUP_REJECT.0;
        machine.publish(0, &group);
        answered();
        // Not for other reasons of the same group.
        group.header.incarnation = 2;
        machine.publish(0, &group);
        silent(C::GW_EGRESS_DROP_STALE_ROUTE);
    });
}

/// So many at once and no more, until some time has passed.
#[test]
fn answers_are_limited() {
    isolated("egress::answers::limit", || {
        stay_here();
        let machine = machine();
        machine.configure_answers(1, 5);
        let frame = v6(UDP, &ports(1000, 53, 1400));
        let ended = || match machine.run(&frame) {
            (ran, counted) if ran.action == REDIRECT => {
                assert_eq!(counted, [(C::GW_EGRESS_ICMP_SENT, 1)]);
                true
            }
            (ran, counted) => {
                assert_eq!(counted, [(C::GW_EGRESS_DROP_ICMP_LIMITED, 1)]);
                assert_eq!((ran.action, ran.frame), (DROP, frame.clone()));
                false
            }
        };
        // What is never answered takes nothing away.
        let taboo = v6_from("::", UDP, &ports(1000, 53, 1400));
        for _ in 0..100 {
            drops(&machine, &taboo, C::GW_EGRESS_DROP_TOO_BIG);
        }
        // One more than the burst may pass if a second begins meanwhile.
        let sent = (0..100).filter(|_| ended()).count();
        assert!((5..=7).contains(&sent), "{sent}");
        assert!(within(std::time::Duration::from_secs(10), ended));
        // Without a rate, nothing.
        machine.configure_answers(0, 5);
        assert_eq!((0..10).filter(|_| ended()).count(), 0);
    });
}
