// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! TCP, fragments and ICMP.

use guideway::reason::{Reason, Rule};

use super::case::End::*;
use super::case::*;
use crate::build::*;
use crate::generations::*;

pub(super) fn others() -> Vec<Case> {
    use Reason::*;
    let hello = udp(50000, 443, b"hello");
    let by_source = Redirected([9, 1], Rule::Table);
    let by_flow = Redirected([1, 1], Rule::Table);
    let in_transit = icmp(11, 0, &quoted4(UDP, &udp(443, 50000, &[])));
    vec![
        case(
            "SYN",
            to_tcp(8080, SYN),
            "tcp",
            Redirected([4, 1], Rule::Table),
            &[STARTS, PLAIN],
        ),
        case(
            "SYN and ACK",
            to_tcp(8080, SYN | ACK),
            "tcp",
            Redirected([4, 1], Rule::Table),
            &[PLAIN],
        ),
        case(
            "a backend on the ingress",
            to_tcp(8081, ACK),
            "local",
            Transmitted([5, 1]),
            &[PLAIN],
        ),
        case(
            "all draining",
            to_tcp(8082, ACK),
            "drained",
            Dropped(Reason::NoBackend),
            &[NO_BACKEND],
        ),
        case(
            "no backends",
            to_tcp(8083, SYN),
            "empty",
            Dropped(Reason::NoBackend),
            &[STARTS, NO_BACKEND],
        ),
        case(
            "no way there",
            to_tcp(8084, ACK),
            "gone",
            Dropped(NoTarget),
            &[PLAIN],
        ),
        case(
            "a first fragment",
            fragment_of(quic(&short(&READY)), 0, true),
            None,
            Dropped(FragmentDrop),
            &[],
        ),
        case(
            "a later fragment",
            fragment_of(to_tcp(8080, ACK), 9, false),
            None,
            Passed(FragmentPass),
            &[],
        ),
        case(
            "a routed first fragment",
            fragment_of(routed(&hello), 0, true),
            "routed",
            by_source,
            &[FRAGMENTS, NO_ENTRY],
        ),
        case(
            "a routed later fragment",
            fragment_of(routed(&[0xff; 32]), 9, false),
            "routed",
            by_source,
            &[FRAGMENTS, NO_ENTRY],
        ),
        case(
            "its whole like",
            routed(&hello),
            "routed",
            by_source,
            &[ALL_INSERTED],
        ),
        case(
            "a fragment of IPv6",
            ipv6(&[fragment(3, true)], UDP, &[0xff; 16]),
            "quic6",
            Dropped(FragmentDrop),
            &[FRAGMENTS],
        ),
        case(
            "a fragment for nobody",
            ipv6(&[fragment(3, true)], TCP, &[0xff; 16]),
            "tcp6",
            Dropped(FragmentDrop),
            &[FRAGMENTS],
        ),
        case(
            "a fragment of ICMP",
            fragment_of(ipv4(ICMP, &in_transit), 0, true),
            None,
            Passed(L4Other),
            &[],
        ),
        case(
            "echo",
            ipv4(ICMP, &icmp(8, 0, &[0; 56])),
            None,
            Passed(IcmpOther),
            &[],
        ),
        case(
            "a cut ICMP header",
            ipv4(ICMP, &[3, 4, 0, 0, 0, 0, 0]),
            None,
            Passed(IcmpBad),
            &[],
        ),
        case(
            "an error about nothing",
            ipv4(ICMP, &icmp(3, 4, &[])),
            None,
            Passed(IcmpBad),
            &[],
        ),
        case(
            "an error about another's packet",
            error4(&ipv4_between(CLIENT4, VIP4, UDP, 0, &udp(443, 50000, &[]))),
            None,
            Passed(IcmpBad),
            &[],
        ),
        case(
            "an error about another port",
            about(445, &[]),
            None,
            Passed(IcmpNoService),
            &[],
        ),
        case(
            "an error with the server's connection ID",
            about(443, &long(0xe0, V1, &[9; 20], &DRAINING)),
            "quic",
            Redirected([1, 3], Rule::ServerId),
            &[ICMP_ERROR],
        ),
        case(
            "an error with a connection ID of nobody",
            about(443, &long(0xe0, V1, &READY, &NOBODY)),
            "quic",
            by_flow,
            &[ICMP_ERROR, PLAIN],
        ),
        case(
            "an error about a short header",
            about(443, &short(&READY)),
            "quic",
            by_flow,
            &[ICMP_ERROR, PLAIN],
        ),
        case(
            "an error that quotes 8 bytes",
            error4(&quoted4(TCP, &tcp(8080, 50000, ACK)[..8])),
            "tcp",
            Redirected([4, 1], Rule::Table),
            &[ICMP_ERROR, PLAIN],
        ),
        case(
            "an error in IPv6",
            error6(&quoted6(&[options(60, 8)], TCP, &tcp(8080, 50000, ACK))),
            "tcp6",
            Redirected([11, 1], Rule::Table),
            &[ICMP_ERROR, PLAIN],
        ),
        case(
            "an error in IPv6 with the server's connection ID",
            error6(&quoted6(
                &[],
                UDP,
                &udp(443, 50000, &long(0xe0, V1, &[9; 3], &READY)),
            )),
            "quic6",
            Redirected([10, 1], Rule::ServerId),
            &[ICMP_ERROR],
        ),
    ]
}
