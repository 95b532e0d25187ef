// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Properties of any frame.

use guideway::flow::{parse, L4};
use guideway::reason::Reason;
use proptest::prelude::*;

use crate::build::*;

/// Frames of every kind that is read to the end.
fn readable() -> Vec<Vec<u8>> {
    let exts = [
        options(0, 8),
        routing(8, 0),
        options(60, 16),
        authentication(12),
    ];
    vec![
        ipv4(UDP, &request()),
        ipv4(TCP, &tcp(50000, 443, 0x02)),
        ethernet(&[(0x88a8, 7)], 0x0800, &ipv4_options(UDP, 12, &request())),
        ethernet(
            &[(0x88a8, 7), (0x8100, 8)],
            0x86dd,
            &ipv6_between(CLIENT6, VIP6, &exts, TCP, &tcp(50000, 443, 0x10)),
        ),
        ipv6(&exts, UDP, &request()),
        ipv6(&[fragment(0, false)], UDP, &request()),
        ipv6(&[fragment(0, true)], UDP, &request()),
        with(ipv4(UDP, &request()), &[(20, 0x20)]),
        error4(&quoted4(UDP, &reply())),
        error4(&ipv4_between(VIP4, CLIENT4, TCP, 8, &tcp(443, 50000, 0x10))),
        error6(&quoted6(&exts, UDP, &reply())),
    ]
}

/// A readable frame with some bytes changed, and cut or padded.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let padding = prop::collection::vec(any::<u8>(), 0..40);
    let cut = prop::option::weighted(0.3, any::<prop::sample::Index>());
    (prop::sample::select(readable()), changes, padding, cut).prop_map(
        |(mut frame, changes, padding, cut)| {
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame.extend(padding);
            if let Some(cut) = cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}

fn random() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let ethertype = prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x88a8, 0x0806]);
    (bytes, ethertype).prop_map(|(mut frame, ethertype)| {
        if let Some(field) = frame.get_mut(12..14) {
            field.copy_from_slice(&ethertype.to_be_bytes());
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn parsing_is_total_and_stays_inside_the_frame(
        frame in prop_oneof![3 => mutated(), 1 => random()],
    ) {
        match parse(&frame) {
            Ok(parsed) => {
                prop_assert_eq!(parsed.source.is_ipv4(), parsed.destination.is_ipv4());
                prop_assert!(14 <= parsed.l3_offset && parsed.l3_offset + 20 <= parsed.l4_offset);
                prop_assert!(parsed.l4_offset <= frame.len());
                match parsed.l4 {
                    L4::Udp(udp) => {
                        prop_assert_eq!(udp.payload.start, parsed.l4_offset + 8);
                        prop_assert!(frame.get(udp.payload).is_some());
                    }
                    L4::Tcp(tcp) => {
                        prop_assert!(parsed.l4_offset + 20 <= tcp.payload.start);
                        prop_assert!(frame.get(tcp.payload).is_some());
                    }
                    L4::IcmpError(icmp) => {
                        prop_assert_eq!(icmp.l3_offset, parsed.l4_offset + 8);
                        prop_assert_eq!(icmp.payload.start, icmp.l4_offset + 8);
                        prop_assert!(frame.get(icmp.payload).is_some());
                    }
                    L4::Fragment(_) => {}
                }
            }
            // What needs no service is settled here, and nothing else.
            Err(reason) => prop_assert!(matches!(
                reason,
                Reason::NotIp | Reason::VlanDepth | Reason::ShortFrame | Reason::BadIpv4
                    | Reason::BadIpv6 | Reason::ExtHeaders | Reason::RoutingHeader
                    | Reason::L4Other | Reason::BadL4 | Reason::IcmpOther | Reason::IcmpBad
            ), "{}", reason),
        }
    }

    #[test]
    fn bytes_that_decide_nothing_change_nothing(
        frame in prop::sample::select(readable()), noise: [u8; 12], padding in 0usize..64,
    ) {
        let parsed = parse(&frame);
        let l3 = parsed.as_ref().unwrap().l3_offset;
        let mut other = frame.clone();
        // Addresses of the link; type of service, identification, TTL and checksum of IPv4, or
        // flow label and hop limit of IPv6.
        other[..12].copy_from_slice(&noise);
        let ignored: &[usize] = match frame[l3] >> 4 {
            4 => &[1, 4, 5, 8, 10, 11],
            _ => &[1, 2, 3, 7],
        };
        for (&at, byte) in ignored.iter().zip(noise) {
            other[l3 + at] = byte;
        }
        other.resize(frame.len() + padding, noise[0]);
        prop_assert_eq!(parse(&other), parsed);
    }

    #[test]
    fn a_cut_frame_is_never_read(
        frame in prop::sample::select(readable()), cut: prop::sample::Index,
    ) {
        let whole = parse(&frame).unwrap();
        let len = cut.index(frame.len());
        let expected = match whole.ethertype {
            _ if len < whole.l3_offset => Reason::ShortFrame,
            0x0800 => Reason::BadIpv4,
            _ => Reason::BadIpv6,
        };
        prop_assert_eq!(parse(&frame[..len]), Err(expected));
    }
}
