// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What fits the link and the length field of the outer header.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::frames::*;
use crate::machine::*;
use crate::netns::isolated;

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let (from, to) = (address("2001:db8:aaaa::7"), address("2001:db8:2::1"));
    ipv6(from, to, next, payload)
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
    ipv4(from, to, protocol, 0, payload)
}

/// A segment of TCP with a header of so many bytes.
fn tcp(header_bytes: usize, bytes: usize) -> Vec<u8> {
    let mut segment = ports(1000, 443, bytes);
    segment[12] = (header_bytes as u8 / 4) << 4;
    segment
}

/// Of a link whose MTU is `fits`, and of one that carries a byte less.
fn machine_of_mtu(machine: &Machine, mtu: usize) {
    let mut route = machine.to_shard(0x10);
    route.next_hop.mtu = mtu as u32;
    machine.default_routes(&route);
}

#[test]
fn what_does_not_fit_the_link_is_dropped() {
    isolated("egress::lengths::mtu", || {
        let machine = Machine::new();
        for frame in [v6(UDP, &ports(1, 2, 72)), v4(TCP, &ports(1, 2, 92))] {
            // The frame may be longer than its packet.
            for more_bytes in [0, 9] {
                let mut frame = frame.clone();
                frame.resize(frame.len() + more_bytes, 0);
                let bytes = 112 + more_bytes;
                for (mtu, fits) in [(0, true), (bytes + 40, true), (bytes + 39, false)] {
                    machine_of_mtu(&machine, mtu);
                    let (ran, counted) = machine.run(&frame);
                    let expected = if fits {
                        (REDIRECT, vec![(C::GW_EGRESS_SHARD, 1)])
                    } else {
                        (DROP, vec![(C::GW_EGRESS_DROP_TOO_BIG, 1)])
                    };
                    assert_eq!((ran.action, counted), expected);
                }
            }
        }
    });
}

/// What the device cuts up fits if its segments do. The kernel gives such a frame no room here, which
/// comes after the check.
#[test]
fn segments_count_with_their_own_headers() {
    isolated("egress::lengths::segments", || {
        let machine = Machine::new();
        let hop_by_hop = |next: u8| [&[next, 1][..], &[0; 14]].concat();
        let routing = |next: u8| [&[next, 2, 4, 0][..], &[0; 20]].concat();
        let authentication = |next: u8| [&[next, 4][..], &[0; 22]].concat();
        let first_fragment = |next: u8| vec![next, 0, 0, 1, 0, 0, 0, 9];
        let behind = |headers: &[Vec<u8>], payload: &[u8]| [&headers.concat(), payload].concat();
        // As frame, and the bytes of a segment's headers behind Ethernet.
        let whole = |frame: &Vec<u8>| frame.len() - 14 - 1000;
        let unknown = v6(132, &ports(1, 2, 2000));
        let unknown4 = v4(47, &ports(1, 2, 2000));
        let six = [vec![hop_by_hop(60); 5], vec![hop_by_hop(TCP)]].concat();
        let deep = behind(&vec![hop_by_hop(60); 7], &tcp(20, 2000));
        let deep = v6(60, &deep);
        let later = behind(&[vec![6, 0, 0, 8, 0, 0, 0, 9]], &tcp(20, 2000));
        let later = v6(44, &later);
        let cases = [
            (v6(TCP, &tcp(20, 2000)), 60),
            (v6(TCP, &tcp(60, 2000)), 100),
            (v4(TCP, &tcp(32, 2000)), 52),
            (v6(UDP, &ports(1, 2, 2000)), 48),
            (v4(UDP, &ports(1, 2, 2000)), 28),
            (
                v6(0, &behind(&[hop_by_hop(TCP)], &tcp(32, 2000))),
                40 + 16 + 32,
            ),
            (
                v6(
                    0,
                    &behind(
                        &[
                            hop_by_hop(43),
                            routing(44),
                            first_fragment(51),
                            authentication(60),
                            hop_by_hop(UDP),
                        ],
                        &ports(1, 2, 2000),
                    ),
                ),
                40 + 16 + 24 + 8 + 24 + 16 + 8,
            ),
            // As many headers as may be.
            (v6(60, &behind(&six, &tcp(20, 2000))), 40 + 6 * 16 + 20),
            // Nobody knows where their headers end: all of it counts.
            (unknown.clone(), whole(&unknown)),
            (unknown4.clone(), whole(&unknown4)),
            (deep.clone(), whole(&deep)),
            (later.clone(), whole(&later)),
        ];
        for (frame, headers) in cases {
            for (mtu, end) in [
                (headers + 1000 + 40, C::GW_EGRESS_DROP_ENCAP),
                (headers + 1000 + 39, C::GW_EGRESS_DROP_TOO_BIG),
            ] {
                machine_of_mtu(&machine, mtu);
                let (ran, counted) = machine.run_segmented(&frame, 1000);
                assert_eq!((ran.action, counted), (DROP, vec![(end, 1)]), "{headers}");
            }
        }
    });
}

#[test]
fn what_the_outer_length_cannot_say_is_dropped() {
    isolated("egress::lengths::field", || {
        let machine = Machine::new();
        machine_of_mtu(&machine, 0);
        // 65,496 bytes behind a header of 40.
        let mut frame = v6(TCP, &tcp(20, 2000));
        for (said, end) in [
            (65_496_u16, C::GW_EGRESS_DROP_TOO_LONG),
            // This far it comes: the kernel gives such a frame no room here.
            (65_495, C::GW_EGRESS_DROP_ENCAP),
            (0, C::GW_EGRESS_DROP_ENCAP),
        ] {
            frame[18..20].copy_from_slice(&said.to_be_bytes());
            let (ran, counted) = machine.run_segmented(&frame, 1000);
            assert_eq!((ran.action, counted), (DROP, vec![(end, 1)]), "{said}");
        }
    });
}

/// The outer header would say the same, beyond the end of its packet.
#[test]
fn what_says_a_length_that_it_cannot_have_is_dropped() {
    isolated("egress::lengths::lies", || {
        let machine = Machine::new();
        machine_of_mtu(&machine, 0);
        let parse = (DROP, vec![(C::GW_EGRESS_DROP_PARSE, 1)]);
        let sent = (REDIRECT, vec![(C::GW_EGRESS_SHARD, 1)]);
        let says = |mut frame: Vec<u8>, bytes: u16| {
            let at = if frame[14] >> 4 == 4 { 16 } else { 18 };
            frame[at..at + 2].copy_from_slice(&bytes.to_be_bytes());
            frame
        };
        let with_options = |bytes| {
            let mut frame = says(v4(UDP, &ports(1, 2, 80)), bytes);
            frame[14] = 0x4f;
            frame
        };
        // Behind its own end the frame may go on, also where nothing is in the packet.
        for (frame, whole) in [
            (says(v6(UDP, &ports(1, 2, 72)), 72), true),
            (says(v6(UDP, &ports(1, 2, 72)), 73), false),
            (says(v6(UDP, &ports(1, 2, 72)), 65_535), false),
            (says(v6(59, &[0; 6]), 0), true),
            (says(v4(UDP, &ports(1, 2, 72)), 92), true),
            (says(v4(UDP, &ports(1, 2, 72)), 93), false),
            (says(v4(UDP, &ports(1, 2, 72)), 65_535), false),
            (says(v4(UDP, &ports(1, 2, 72)), 20), true),
            (says(v4(UDP, &ports(1, 2, 72)), 19), false),
            (says(v4(UDP, &ports(1, 2, 72)), 0), false),
            (with_options(60), true),
            (with_options(59), false),
            // A jumbogram (RFC 2675); IPv4 has none.
            (says(v6(0, &[17, 0, 0xc2, 4, 0, 1, 0, 0]), 0), false),
            (says(v4(0, &[0; 40]), 40), true),
        ] {
            let (ran, counted) = machine.run(&frame);
            let expected = if whole { &sent } else { &parse };
            assert_eq!(&(ran.action, counted), expected, "{frame:x?}");
        }
    });
}
