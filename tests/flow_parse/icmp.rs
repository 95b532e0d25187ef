// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! ICMP errors and the packets they quote.

use std::net::IpAddr;

use guideway::flow::{parse, Flow, L4};
use guideway::reason::Reason;
use guideway::service::Protocol;

use crate::build::*;
use crate::check::*;

#[track_caller]
fn assert_error(frame: &[u8], protocol: Protocol, quoted_at: usize, l4_at: usize, payload: &[u8]) {
    let parsed = read(frame);
    let (client, vip): (IpAddr, IpAddr) = match parsed.ethertype {
        0x0800 => (CLIENT4.into(), VIP4.into()),
        _ => (CLIENT6.into(), VIP6.into()),
    };
    let flow = Flow {
        protocol,
        client,
        client_port: 50000,
        vip,
        vip_port: 443,
    };
    assert_eq!(parsed.flow(), flow);
    let L4::IcmpError(icmp) = parsed.l4 else {
        panic!("{parsed:?}")
    };
    assert_eq!((icmp.l3_offset, icmp.l4_offset), (quoted_at, l4_at));
    assert_eq!(frame[icmp.payload], *payload);
}

#[test]
fn icmp_errors_name_the_flow_of_the_packet_they_quote() {
    use Protocol::{Tcp, Udp};
    assert_error(&error4(&quoted4(UDP, &reply())), Udp, 42, 62, b"world!");
    assert_error(
        &error6(&quoted6(&[], UDP, &reply())),
        Udp,
        62,
        102,
        b"world!",
    );
    assert_error(
        &error4(&quoted4(TCP, &tcp(443, 50000, 0x10))),
        Tcp,
        42,
        62,
        b"",
    );
    // The least that must be quoted: eight bytes behind the IP header.
    assert_error(
        &error4(&quoted4(TCP, &tcp(443, 50000, 0x10))[..28]),
        Tcp,
        42,
        62,
        b"",
    );
    assert_error(&error4(&quoted4(UDP, &reply())[..28]), Udp, 42, 62, b"");
    assert_error(
        &error6(&quoted6(&[], UDP, &reply())[..50]),
        Udp,
        62,
        102,
        b"wo",
    );
    // Options and extension headers of the quoted packet.
    let quoted = ipv4_between(VIP4, CLIENT4, UDP, 24, &reply());
    assert_error(&error4(&quoted), Udp, 42, 86, b"world!");
    let exts = [
        options(0, 8),
        routing(24, 0),
        authentication(12),
        fragment(0, false),
    ];
    assert_error(
        &error6(&quoted6(&exts, UDP, &reply())),
        Udp,
        62,
        154,
        b"world!",
    );
    // Those of the outer packet count apart.
    let six = vec![options(60, 8); 6];
    let message = icmp(1, 4, &quoted6(&six, UDP, &reply()));
    assert_error(&ipv6(&six, ICMPV6, &message), Udp, 110, 198, b"world!");
    // What follows the quoted packet, such as extensions of the message, is no payload.
    let mut longer = quoted4(UDP, &reply());
    longer.extend([0x20, 0, 0, 0]);
    assert_error(&error4(&longer), Udp, 42, 62, b"world!");
    let shorter = with(reply(), &[(5, 11)]);
    assert_error(&error4(&quoted4(UDP, &shorter)), Udp, 42, 62, b"wor");
    // A first fragment: the UDP length is that of the whole.
    let first = with(quoted4(UDP, &with(reply(), &[(4, 4)])), &[(6, 0x20)]);
    assert_error(&error4(&first), Udp, 42, 62, b"world!");
    let first = quoted6(&[fragment(0, true)], UDP, &with(reply(), &[(4, 4)]));
    assert_error(&error6(&first), Udp, 62, 110, b"world!");
}

#[test]
fn icmp_messages_that_are_no_errors() {
    let body = quoted4(UDP, &reply());
    for icmp_type in 0..=u8::MAX {
        for code in [0, 1, 255] {
            let found = parse(&ipv4(ICMP, &icmp(icmp_type, code, &body)));
            match icmp_type {
                3 | 11 => assert!(matches!(found.unwrap().l4, L4::IcmpError(_))),
                _ => assert_eq!(found, Err(Reason::IcmpOther), "{icmp_type}"),
            }
            let body = quoted6(&[], UDP, &reply());
            let found = parse(&ipv6(&[], ICMPV6, &icmp(icmp_type, code, &body)));
            match icmp_type {
                1..=3 => assert!(matches!(found.unwrap().l4, L4::IcmpError(_))),
                _ => assert_eq!(found, Err(Reason::IcmpOther), "{icmp_type}"),
            }
        }
    }
    for len in 0..8 {
        refused(&ipv4(ICMP, &icmp(8, 0, &[])[..len]), Reason::IcmpBad);
        refused(
            &ipv6(&[], ICMPV6, &icmp(135, 0, &[])[..len]),
            Reason::IcmpBad,
        );
    }
    refused(&ipv4(ICMP, &icmp(8, 0, &[])), Reason::IcmpOther);
    // The other family's protocol.
    refused(&ipv4(ICMPV6, &icmp(1, 0, &body)), Reason::L4Other);
    refused(&ipv6(&[], ICMP, &icmp(3, 0, &body)), Reason::L4Other);
}

#[test]
fn icmp_errors_that_quote_nothing_useful() {
    let bad4 = |quoted: Vec<u8>| refused(&error4(&quoted), Reason::IcmpBad);
    let bad6 = |quoted: Vec<u8>| refused(&error6(&quoted), Reason::IcmpBad);
    for len in 0..28 {
        bad4(quoted4(UDP, &reply())[..len].to_vec());
        bad4(quoted4(TCP, &tcp(443, 50000, 0))[..len].to_vec());
    }
    for len in 0..48 {
        bad6(quoted6(&[], UDP, &reply())[..len].to_vec());
    }
    // The other family's packet.
    bad4(quoted6(&[], UDP, &reply()));
    bad6(quoted4(UDP, &reply()));
    // Not from the VIP.
    bad4(ipv4_between(CLIENT4, VIP4, UDP, 0, &reply()));
    bad6(ipv6_between(CLIENT6, VIP6, &[], UDP, &reply()));
    // Another protocol.
    bad4(quoted4(ICMP, &icmp(8, 0, &[])));
    bad6(quoted6(&[], ICMPV6, &icmp(128, 0, &[])));
    bad6(quoted6(&[], 59, &reply()));
    // A later fragment.
    bad4(with(quoted4(UDP, &reply()), &[(7, 1)]));
    bad4(with(quoted4(UDP, &reply()), &[(6, 0x1f)]));
    bad6(quoted6(&[fragment(1, false)], UDP, &reply()));
    bad6(quoted6(&[fragment(1, true)], UDP, &reply()));
    // A header that reaches beyond what is quoted, or beyond what it declares.
    bad4(with(quoted4(UDP, &reply()), &[(0, 0x4f)]));
    bad4(with(quoted4(UDP, &reply()), &[(0, 0x44)]));
    bad4(with(quoted4(UDP, &reply()), &[(3, 27)]));
    bad4(with(quoted4(UDP, &reply()), &[(3, 19)]));
    bad6(with(quoted6(&[], UDP, &reply()), &[(5, 7)]));
    // A UDP length below that of its header.
    for len in 0..8 {
        bad4(quoted4(UDP, &with(reply(), &[(5, len)])));
    }
    // Extension headers beyond the bounds, and those that are not walked.
    bad6(quoted6(&vec![options(60, 8); 7], UDP, &reply()));
    bad6(quoted6(&[options(60, 520)], UDP, &reply()));
    bad6(quoted6(&[routing(24, 1)], UDP, &reply()));
    bad6(quoted6(&[options(60, 8)], 135, &reply()));
    bad6(quoted6(&[options(60, 64)], UDP, &reply())[..100].to_vec());
}
