// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! UDP and TCP.

use guideway::flow::{parse, L4};
use guideway::reason::Reason;
use guideway::service::Protocol;

use crate::build::*;
use crate::check::*;

#[test]
fn plain_packets() {
    assert_request(&ipv4(UDP, &request()), 14, 34);
    assert_request(&ipv6(&[], UDP, &request()), 14, 54);
    for frame in [
        ipv4(TCP, &tcp(50000, 443, 0x12)),
        ipv6(&[], TCP, &tcp(50000, 443, 0x12)),
    ] {
        let parsed = read(&frame);
        let L4::Tcp(tcp) = &parsed.l4 else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            (tcp.source_port, tcp.destination_port, tcp.flags.0),
            (50000, 443, 0x12)
        );
        assert_eq!(parsed.protocol, TCP);
        assert_eq!(parsed.flow().protocol, Protocol::Tcp);
    }
}

#[test]
fn tcp_connections_start_with_syn_alone() {
    for flags in 0..=u8::MAX {
        let parsed = read(&ipv4(TCP, &tcp(1, 2, flags)));
        let L4::Tcp(tcp) = parsed.l4 else {
            panic!("{parsed:?}")
        };
        assert_eq!(tcp.flags.starts_flow(), flags & 0x12 == 0x02, "{flags:02x}");
    }
}

/// The data of a segment begins behind the options and ends with the packet, not with the frame.
#[test]
fn tcp_data() {
    for (words, behind_header, data) in [
        (5, 0, 0),
        (5, 1, 1),
        (5, 40, 40),
        (6, 3, 0),
        (6, 4, 0),
        (6, 5, 1),
        (15, 39, 0),
        (15, 41, 1),
    ] {
        let mut segment = tcp(50000, 443, 0x10);
        segment[12] = words << 4;
        segment.resize(20 + behind_header, 0x5a);
        for (mut frame, l4_offset) in [(ipv4(TCP, &segment), 34), (ipv6(&[], TCP, &segment), 54)] {
            let end = frame.len();
            frame.extend([0; 7]);
            let parsed = read(&frame);
            let L4::Tcp(tcp) = parsed.l4 else {
                panic!("{parsed:?}")
            };
            assert_eq!(parsed.l4_offset, l4_offset);
            assert_eq!(
                tcp.payload,
                end - data..end,
                "{words} words, {behind_header} bytes"
            );
        }
    }
}

#[test]
fn udp_lengths() {
    let frames = |datagram: &[u8]| [ipv4(UDP, datagram), ipv6(&[], UDP, datagram)];
    for len in 0..8 {
        for frame in frames(&request()[..len]) {
            refused(&frame, Reason::BadL4);
        }
    }
    for (udp_len, payload) in [
        (0u16, None),
        (1, None),
        (7, None),
        (8, Some(0)),
        (9, Some(1)),
        (14, Some(6)),
        (15, None),
        (0x400e, None),
        (0x4000, None),
        (0x3fff, None),
        (0x4001, None),
        (0xffff, None),
    ] {
        let [high, low] = udp_len.to_be_bytes();
        for mut frame in frames(&with(request(), &[(4, high), (5, low)])) {
            // Padding must not count.
            frame.extend([0; 20]);
            match payload {
                Some(len) => match read(&frame).l4 {
                    L4::Udp(udp) => assert_eq!(udp.payload.len(), len),
                    other => panic!("{other:?}"),
                },
                None => refused(&frame, Reason::BadL4),
            }
        }
    }
    // A length with its top bits set, in a datagram that has it.
    for len in [16_376, 16_377, 40_000, 65_507] {
        let frame = ipv4(UDP, &udp(1, 2, &vec![0; len]));
        let L4::Udp(udp) = read(&frame).l4 else {
            panic!("{len}")
        };
        assert_eq!(udp.payload, 42..42 + len);
    }
}

#[test]
fn tcp_headers() {
    let segment = tcp(50000, 443, 0x02);
    for frames in [|s: &[u8]| ipv4(TCP, s), |s: &[u8]| ipv6(&[], TCP, s)] {
        for len in 0..20 {
            refused(&frames(&segment[..len]), Reason::BadL4);
        }
        for offset in 0..16u8 {
            // The low bits beside the data offset count for nothing.
            let frame = frames(&with(segment.clone(), &[(12, offset << 4 | 0x0f)]));
            match parse(&frame) {
                Ok(_) => assert!(offset >= 5),
                Err(reason) => assert!(offset < 5 && reason == Reason::BadL4, "{offset} {reason}"),
            }
        }
    }
}

#[test]
fn ports_of_0_are_read_like_others() {
    let parsed = read(&ipv4(UDP, &udp(0, 0, b"")));
    assert_eq!((parsed.flow().client_port, parsed.flow().vip_port), (0, 0));
    assert!(matches!(parsed.l4, L4::Udp(_)));
}
