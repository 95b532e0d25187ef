// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! IPv6: the header, extension headers and fragments.

use guideway::flow::{parse, L4};
use guideway::reason::Reason;
use guideway::service::Protocol;

use crate::build::*;
use crate::check::*;

#[test]
fn ipv6_headers() {
    let frame = ipv6(&[], UDP, &request());
    for len in 14..frame.len() {
        refused(&frame[..len], Reason::BadIpv6);
    }
    let mut padded = frame.clone();
    padded.extend([0x5a; 32]);
    assert_eq!(parse(&padded), parse(&frame));
    for version in (0..16).filter(|&version| version != 6) {
        refused(&with(frame.clone(), &[(14, version << 4)]), Reason::BadIpv6);
    }
    for (payload_len, reason) in [
        (0, Reason::BadL4),
        (7, Reason::BadL4),
        (13, Reason::BadL4),
        (15, Reason::BadIpv6),
    ] {
        refused(&with(frame.clone(), &[(19, payload_len)]), reason);
    }
    refused(&with(frame.clone(), &[(18, 1)]), Reason::BadIpv6);
    let walked = [0, 43, 44, 51, 60];
    for next in (0..=u8::MAX).filter(|n| !walked.contains(n) && ![TCP, UDP, ICMPV6].contains(n)) {
        let expected = match next {
            135 | 139 | 140 => Reason::ExtHeaders,
            _ => Reason::L4Other,
        };
        refused(&ipv6(&[], next, &request()), expected);
        refused(&ipv6(&[options(60, 8)], next, &request()), expected);
    }
}

#[test]
fn ipv6_extension_headers_are_walked() {
    for exts in [
        vec![options(0, 8)],
        vec![options(60, 24)],
        vec![routing(8, 0)],
        vec![routing(40, 0)],
        vec![authentication(8)],
        vec![authentication(12)],
        vec![authentication(24)],
        vec![fragment(0, false)],
        vec![
            options(0, 16),
            options(60, 8),
            routing(24, 0),
            fragment(0, false),
            authentication(20),
        ],
        vec![
            options(60, 8),
            options(0, 8),
            options(60, 8),
            options(60, 8),
            options(0, 8),
            options(0, 8),
        ],
        vec![options(60, 512)],
        vec![options(0, 256), authentication(248), fragment(0, false)],
    ] {
        let frame = ipv6(&exts, UDP, &request());
        let len: usize = exts.iter().map(|(_, bytes)| 1 + bytes.len()).sum();
        assert_request(&frame, 14, 54 + len);
    }
}

#[test]
fn ipv6_extension_headers_are_bounded() {
    let six = vec![options(60, 8); 6];
    let seven = vec![options(60, 8); 7];
    assert_request(&ipv6(&six, UDP, &request()), 14, 102);
    refused(&ipv6(&seven, UDP, &request()), Reason::ExtHeaders);
    // The seventh is one too many even where it is not there at all.
    refused(&ipv6(&six, 60, &[]), Reason::ExtHeaders);

    refused(
        &ipv6(&[options(60, 520)], UDP, &request()),
        Reason::ExtHeaders,
    );
    refused(
        &ipv6(&[options(60, 2048)], UDP, &request()),
        Reason::ExtHeaders,
    );
    refused(
        &ipv6(&[options(0, 256), options(60, 264)], UDP, &request()),
        Reason::ExtHeaders,
    );
    refused(
        &ipv6(&[options(60, 504), authentication(12)], UDP, &request()),
        Reason::ExtHeaders,
    );
    refused(
        &ipv6(&[options(60, 512), fragment(0, false)], UDP, &request()),
        Reason::ExtHeaders,
    );
    // Too long comes before cut.
    let declared = |units: u8| ipv6(&[], 60, &[UDP, units, 0, 0, 0, 0, 0, 0]);
    refused(&declared(64), Reason::ExtHeaders);
    refused(&declared(63), Reason::BadIpv6);
    refused(&declared(1), Reason::BadIpv6);
    // The header ends with the packet: it is whole, and UDP is missing.
    refused(&declared(0), Reason::BadL4);
}

#[test]
fn ipv6_extension_headers_that_are_cut() {
    for next in [0, 43, 44, 51, 60] {
        for len in 0..8 {
            refused(&ipv6(&[], next, &vec![0; len]), Reason::BadIpv6);
            // Padding of the frame does not make it whole.
            let mut frame = ipv6(&[], next, &vec![0; len]);
            frame.extend([0; 64]);
            refused(&frame, Reason::BadIpv6);
        }
    }
    for ext in [
        options(0, 16),
        options(60, 64),
        routing(24, 0),
        authentication(12),
    ] {
        let whole = ipv6(std::slice::from_ref(&ext), UDP, &[]);
        refused(&whole, Reason::BadL4);
        let len = 1 + ext.1.len();
        for payload_len in 0..len {
            refused(
                &with(whole.clone(), &[(19, payload_len as u8)]),
                Reason::BadIpv6,
            );
        }
    }
}

#[test]
fn ipv6_routing_headers_with_segments_left() {
    for segments_left in [1, 2, 255] {
        refused(
            &ipv6(&[routing(24, segments_left)], UDP, &request()),
            Reason::RoutingHeader,
        );
        // It is told from the first eight bytes, whatever length they declare.
        refused(
            &ipv6(&[], 43, &[UDP, 200, 4, segments_left, 0, 0, 0, 0]),
            Reason::RoutingHeader,
        );
        refused(
            &ipv6(&[], 43, &[UDP, 200, 4, segments_left, 0, 0, 0]),
            Reason::BadIpv6,
        );
    }
    let mut seven = vec![options(60, 8); 6];
    seven.push(routing(8, 1));
    refused(&ipv6(&seven, UDP, &request()), Reason::ExtHeaders);
}

#[test]
fn ipv6_fragments() {
    for ext in [
        fragment(0, true),
        fragment(1, false),
        fragment(1, true),
        fragment(0x1000, false),
        fragment(0x1fff, false),
    ] {
        for before in [
            vec![],
            vec![options(60, 8)],
            vec![options(0, 8), routing(8, 0)],
        ] {
            let mut exts = before.clone();
            exts.push(ext.clone());
            for (protocol, expected) in [(UDP, Protocol::Udp), (TCP, Protocol::Tcp)] {
                for payload in [&[][..], &[0x55; 3], &request()] {
                    let parsed = read(&ipv6(&exts, protocol, payload));
                    assert_eq!(parsed.l4, L4::Fragment(expected));
                    assert_eq!(parsed.l4_offset, 62 + 8 * before.len());
                    assert_eq!((parsed.flow().client_port, parsed.flow().vip_port), (0, 0));
                }
            }
            // What is behind the header that makes it a fragment is not walked, bad or not.
            for next in [ICMPV6, 60, 43, 44, 51, 59, 135] {
                refused(&ipv6(&exts, next, &request()), Reason::L4Other);
            }
        }
    }
    // The reserved bits between offset and flag make no fragment.
    let frame = with(ipv6(&[fragment(0, false)], UDP, &request()), &[(57, 0x06)]);
    assert_request(&frame, 14, 62);
    refused(&ipv6(&[], 44, &[UDP, 0, 0, 1, 0, 0, 0]), Reason::BadIpv6);
}
