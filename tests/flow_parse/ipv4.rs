// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! IPv4: the header and fragments.

use guideway::flow::{parse, Flow, L4};
use guideway::reason::Reason;
use guideway::service::Protocol;

use crate::build::*;
use crate::check::*;

#[test]
fn ipv4_headers() {
    for options in (0..=40).step_by(4) {
        let frame = ethernet(&[], 0x0800, &ipv4_options(UDP, options, &request()));
        assert_request(&frame, 14, 34 + options);
        // What the packet says it has must be there; what follows it is padding.
        for len in 14..frame.len() {
            refused(&frame[..len], Reason::BadIpv4);
        }
        let mut padded = frame.clone();
        padded.extend([0x5a; 32]);
        assert_eq!(parse(&padded), parse(&frame));
    }
    let frame = ipv4(UDP, &request());
    for version in (0..16).filter(|&version| version != 4) {
        refused(
            &with(frame.clone(), &[(14, version << 4 | 5)]),
            Reason::BadIpv4,
        );
    }
    for ihl in 0..5 {
        refused(&with(frame.clone(), &[(14, 0x40 | ihl)]), Reason::BadIpv4);
    }
    // 34 bytes of packet are the whole frame; a header of 36 would reach beyond.
    refused(&with(frame.clone(), &[(14, 0x49)]), Reason::BadIpv4);
    for (total_len, reason) in [
        (0, Reason::BadIpv4),
        (19, Reason::BadIpv4),
        (20, Reason::BadL4),
        (27, Reason::BadL4),
        (33, Reason::BadL4),
        (35, Reason::BadIpv4),
        (255, Reason::BadIpv4),
    ] {
        refused(&with(frame.clone(), &[(17, total_len)]), reason);
    }
    // The high byte counts.
    refused(&with(frame.clone(), &[(16, 1)]), Reason::BadIpv4);
    for protocol in (0..=u8::MAX).filter(|p| ![ICMP, TCP, UDP].contains(p)) {
        refused(&ipv4(protocol, &request()), Reason::L4Other);
    }
}

#[test]
fn ipv4_fragments() {
    // Flags and offset: more fragments, offsets, and both; the reserved bit and "don't fragment"
    // make none.
    for (high, low) in [
        (0x20, 0),
        (0x00, 1),
        (0x1f, 0xff),
        (0x10, 0),
        (0x20, 0x10),
        (0x01, 0),
        (0xe0, 0),
    ] {
        let change = [(20, high), (21, low)];
        for (protocol, expected) in [(UDP, Protocol::Udp), (TCP, Protocol::Tcp)] {
            // Too short for a header of either protocol.
            for payload in [&[][..], &[0x55; 3], &request()] {
                let frame = with(ipv4(protocol, payload), &change);
                let parsed = read(&frame);
                assert_eq!(parsed.l4, L4::Fragment(expected));
                assert_eq!(parsed.l4_offset, 34);
                let flow = Flow {
                    protocol: expected,
                    client: CLIENT4.into(),
                    client_port: 0,
                    vip: VIP4.into(),
                    vip_port: 0,
                };
                assert_eq!(parsed.flow(), flow);
            }
        }
        let unreachable = icmp(3, 3, &quoted4(UDP, &reply()));
        refused(&with(ipv4(ICMP, &unreachable), &change), Reason::L4Other);
        refused(&with(ipv4(50, &request()), &change), Reason::L4Other);
        // A bad header is that before it is a fragment.
        refused(
            &with(ipv4(UDP, &request()), &[(20, high), (21, low), (17, 60)]),
            Reason::BadIpv4,
        );
    }
    for high in [0x00, 0x40, 0x80, 0xc0] {
        assert_request(&with(ipv4(UDP, &request()), &[(20, high)]), 14, 34);
    }
}
