// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames that end for what their headers say.

use guideway::reason::{Reason, Rule};

use super::case::End::*;
use super::case::*;
use crate::build::*;
use crate::generations::*;

pub(super) fn headers() -> Vec<Case> {
    use Reason::*;
    let short = short(&READY);
    let by_id = Redirected([1, 1], Rule::ServerId);
    let segment = tcp(50000, 8080, ACK);
    vec![
        case(
            "ARP",
            ethernet(&[], 0x0806, &[0; 28]),
            None,
            Passed(NotIp),
            &[],
        ),
        case(
            "a length for an EtherType",
            ethernet(&[], 46, &[0; 46]),
            None,
            Passed(NotIp),
            &[],
        ),
        case("no tag", tagged(&[]), "quic", by_id, &[SHORT]),
        case(
            "one tag",
            tagged(&[(0x8100, 0xe00a)]),
            "quic",
            by_id,
            &[SHORT],
        ),
        case(
            "two tags",
            tagged(&[(0x88a8, 10), (0x8100, 20)]),
            "quic",
            by_id,
            &[SHORT],
        ),
        case(
            "three tags",
            tagged(&[(0x88a8, 1), (0x8100, 2), (0x8100, 3)]),
            None,
            Passed(VlanDepth),
            &[],
        ),
        case(
            "a cut tag",
            ethernet(&[], 0x8100, &[0, 1, 8]),
            None,
            Passed(ShortFrame),
            &[],
        ),
        case(
            "a cut IPv4 header",
            quic(&[])[..33].to_vec(),
            None,
            Passed(BadIpv4),
            &[],
        ),
        case(
            "version 5",
            with(quic(&short), &[(14, 0x55)]),
            None,
            Passed(BadIpv4),
            &[],
        ),
        case(
            "a header of 16 bytes",
            with(quic(&short), &[(14, 0x44)]),
            None,
            Passed(BadIpv4),
            &[],
        ),
        case(
            "a total length beyond the frame",
            with(quic(&short), &[(17, 54)]),
            None,
            Passed(BadIpv4),
            &[],
        ),
        case(
            "a total length in the header",
            with(quic(&short), &[(17, 19)]),
            None,
            Passed(BadIpv4),
            &[],
        ),
        case(
            "IPv4 options",
            ethernet(
                &[],
                0x0800,
                &ipv4_options(UDP, 40, &udp(50000, 443, &short)),
            ),
            "quic",
            by_id,
            &[SHORT],
        ),
        case(
            "a cut IPv6 header",
            ipv6(&[], TCP, &segment)[..53].to_vec(),
            None,
            Passed(BadIpv6),
            &[],
        ),
        case(
            "a payload length beyond the frame",
            with(ipv6(&[], TCP, &segment), &[(19, 21)]),
            None,
            Passed(BadIpv6),
            &[],
        ),
        case(
            "six extension headers",
            ipv6(
                &[
                    options(0, 8),
                    options(60, 24),
                    routing(8, 0),
                    authentication(24),
                    fragment(0, false),
                    options(60, 8),
                ],
                TCP,
                &segment,
            ),
            "tcp6",
            Redirected([11, 1], Rule::Table),
            &[PLAIN],
        ),
        case(
            "seven extension headers",
            ipv6(&vec![options(60, 8); 7], TCP, &segment),
            None,
            Passed(ExtHeaders),
            &[],
        ),
        case(
            "extension headers of 520 bytes",
            ipv6(&[options(60, 512), options(60, 8)], TCP, &segment),
            None,
            Passed(ExtHeaders),
            &[],
        ),
        case(
            "a mobility header",
            ipv6(&[], 135, &segment),
            None,
            Passed(ExtHeaders),
            &[],
        ),
        case(
            "a way still to go",
            ipv6(&[routing(24, 1)], TCP, &segment),
            None,
            Passed(RoutingHeader),
            &[],
        ),
        case("GRE", ipv4(47, &segment), None, Passed(L4Other), &[]),
        case("ESP", ipv6(&[], 50, &segment), None, Passed(L4Other), &[]),
        case(
            "ICMPv6 in IPv4",
            ipv4(ICMPV6, &icmp(1, 0, &segment)),
            None,
            Passed(L4Other),
            &[],
        ),
        case(
            "a cut UDP header",
            ipv4(UDP, &[0xc3, 0x50, 1, 0xbb, 0, 8, 0]),
            None,
            Passed(BadL4),
            &[],
        ),
        case(
            "a cut TCP header",
            ipv4(TCP, &segment[..19]),
            None,
            Passed(BadL4),
            &[],
        ),
        case(
            "a TCP header of 16 bytes",
            ipv4(TCP, &with(segment, &[(12, 0x40)])),
            None,
            Passed(BadL4),
            &[],
        ),
        case(
            "another port",
            to(445, &short),
            None,
            Passed(NoService),
            &[],
        ),
        case(
            "another protocol",
            to_tcp(443, SYN),
            None,
            Passed(NoService),
            &[],
        ),
        case("port 0", to(0, &short), None, Passed(NoService), &[]),
        case(
            "another address",
            routed(&udp(50000, 444, b"x")),
            None,
            Passed(NoService),
            &[],
        ),
    ]
}
