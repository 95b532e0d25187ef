// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Whom the model tells that a packet was dropped, and how.

use std::net::{Ipv4Addr, Ipv6Addr};

use guideway::encap::{Encap, Rate};
use guideway::group::Settings;
use guideway::oracle::egress::{decide, Action, Packet};
use guideway::reason::egress::End;
use guideway::route::{Block, Target};

use crate::frames::*;
use crate::scene::*;

const GATEWAY4: [u8; 4] = [10, 0, 0, 1];

fn gateway6() -> Ipv6Addr {
    "2001:db8:aaaa::1".parse().expect("an address")
}

/// A tenant that is told, over both families.
fn told(mut scene: Scene) -> Scene {
    let tenant = scene.world.tenants.get_mut(&TENANT).expect("a tenant");
    tenant.icmp = true;
    tenant.gateway6 = Some(gateway6());
    tenant.gateway4 = Some(GATEWAY4.into());
    scene
}

fn unreachable() -> Scene {
    told(Scene::new(|_| Target::Block(Block::Unreachable)))
}

fn big(bytes: usize) -> [Vec<u8>; 2] {
    let payload = ports(1000, 53, bytes);
    let to = Ipv4Addr::new(198, 51, 100, 1);
    [
        v6_from("2001:db8:aaaa::7", UDP, &payload),
        ipv4(Ipv4Addr::new(10, 0, 0, 7), to, UDP, 0x4000, &payload),
    ]
}

/// The sum that is all ones if the checksum in it is right.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let words = words.map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn what_is_too_big_is_told_what_fits() {
    let mut scene = told(Scene::new(|_| to_shard(1400)));
    let [frame, _] = big(1400);
    let decision = scene.send(&frame);
    assert_eq!(
        (decision.action, decision.end),
        (Action::Answer, End::IcmpSent)
    );
    let out = decision.output;
    // The MAC addresses the other way round.
    assert_eq!((&out[..6], &out[6..12]), (&frame[6..12], &frame[..6]));
    assert_eq!(out[12..16], [0x86, 0xdd, 0x60, 0]);
    // As much as fits 1,280 bytes.
    assert_eq!(out.len(), 14 + 1280);
    assert_eq!(out[18..20], 1240_u16.to_be_bytes());
    assert_eq!(out[20..22], [ICMPV6, 64]);
    assert_eq!(
        (&out[22..38], &out[38..54]),
        (&gateway6().octets()[..], &frame[22..38])
    );
    assert_eq!(out[54..56], [2, 0]);
    assert_eq!(out[58..62], 1360_u32.to_be_bytes());
    assert_eq!(out[62..], frame[14..14 + 1232]);
    assert_eq!(
        sum(&[&out[22..54], &[0, 0, 4, 0xd8, 0, 0, 0, 58], &out[54..]]),
        0xffff
    );

    let [_, frame] = big(1400);
    let decision = scene.send(&frame);
    assert_eq!(
        (decision.action, decision.end),
        (Action::Answer, End::IcmpSent)
    );
    let out = decision.output;
    assert_eq!(out.len(), 14 + 576);
    assert_eq!(out[12..16], [0x08, 0, 0x45, 0xc0]);
    assert_eq!(out[16..18], 576_u16.to_be_bytes());
    assert_eq!(out[22..24], [64, 1]);
    assert_eq!(
        (&out[26..30], &out[30..34]),
        (&GATEWAY4[..], &frame[26..30])
    );
    assert_eq!(out[34..36], [3, 4]);
    assert_eq!(out[38..42], 1360_u32.to_be_bytes());
    assert_eq!(out[42..], frame[14..14 + 548]);
    assert_eq!((sum(&[&out[14..34]]), sum(&[&out[34..]])), (0xffff, 0xffff));

    // A packet that may be cut up asked for no word.
    let mut may_be_cut = frame;
    may_be_cut[20] = 0;
    scene.drops(&may_be_cut, End::TooBig);
    // Nor is anybody told while the node tells nobody.
    let encap = scene.world.encap.as_mut().expect("an encapsulation");
    encap.too_big = false;
    scene.drops(&big(1400)[0], End::TooBig);
}

#[test]
fn what_may_go_nowhere_is_told() {
    let mut scene = unreachable();
    for (frame, icmp) in big(64).iter().zip([54..62, 34..42]) {
        let decision = scene.send(frame);
        assert_eq!(
            (decision.action, decision.end),
            (Action::Answer, End::UnreachSent)
        );
        let icmp = &decision.output[icmp];
        let kind = if frame[12] == 0x08 { 3 } else { 1 };
        assert_eq!((&icmp[..2], &icmp[4..]), (&[kind, 0][..], &[0; 4][..]));
    }
    let mut scene = told(Scene::new(|_| Target::Block(Block::Drop)));
    scene.drops(&v6(), End::Blocked);

    for reject in [false, true] {
        let group = group(Settings { reject, ..off() });
        let mut scene = told(Scene::of_group(group));
        scene.group().table.fill(0xffff);
        let expected = if reject {
            (Action::Answer, End::UnreachSent)
        } else {
            (Action::Drop, End::GroupEmpty)
        };
        let decision = scene.send(&v6());
        assert_eq!((decision.action, decision.end), expected);
    }
}

#[test]
fn nobody_is_told_who_must_not_be() {
    let mut scene = unreachable();
    let with = |mut frame: Vec<u8>, at: usize, bytes: &[u8]| {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    // It came to many.
    scene.drops(&with(v6(), 0, &[0x33, 0x33]), End::Blocked);
    scene.drops(&with(v4(), 0, &[0xff; 6]), End::Blocked);
    // Its source is not one host.
    for source in ["::", "::1", "ff02::1"] {
        scene.drops(&v6_from(source, UDP, &ports(1, 2, 12)), End::Blocked);
    }
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        scene.drops(&with(v4(), 26, &source), End::Blocked);
    }
    // A part of what is told of at its beginning.
    scene.drops(&with(v4(), 20, &[0, 1]), End::Blocked);
    let fragment = |offset| [&[UDP, 0, 0, offset, 0, 0, 0, 1][..], &ports(1, 2, 12)].concat();
    let later = v6_from("2001:db8:aaaa::7", 44, &fragment(8));
    scene.drops(&later, End::Blocked);
    // Errors, also those behind an extension header, and what is cut off before its type.
    for kind in [1, 2, 3, 4, 100, 127] {
        scene.drops(
            &v6_from("2001:db8:aaaa::7", ICMPV6, &[kind, 0, 0, 0]),
            End::Blocked,
        );
    }
    for kind in [1, 137] {
        let behind = [ICMPV6, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0];
        scene.drops(&v6_from("2001:db8:aaaa::7", 60, &behind), End::Blocked);
    }
    scene.drops(&v6_from("2001:db8:aaaa::7", ICMPV6, &[]), End::Blocked);
    for kind in [3, 4, 5, 11, 12] {
        let frame = with(with(v4(), 23, &[1]), 34, &[kind]);
        scene.drops(&frame, End::Blocked);
    }
    // What goes on to another address first.
    let routed = |left| [&[UDP, 0, 4, left, 0, 0, 0, 0][..], &ports(1, 2, 12)].concat();
    let routed = |left| v6_from("2001:db8:aaaa::7", 43, &routed(left));
    scene.drops(&routed(1), End::Blocked);
    assert_eq!(scene.send(&routed(0)).end, End::UnreachSent);
    // Others are told: a first fragment, an echo request of either family.
    let first = v6_from("2001:db8:aaaa::7", 44, &fragment(1));
    let echo6 = v6_from("2001:db8:aaaa::7", ICMPV6, &[128, 0, 0, 0]);
    let echo4 = with(with(v4(), 23, &[1]), 34, &[8]);
    for frame in [first, echo6, echo4] {
        assert_eq!(scene.send(&frame).end, End::UnreachSent);
    }

    let tenant = scene.world.tenants.get_mut(&TENANT).expect("a tenant");
    (tenant.gateway6, tenant.gateway4) = (None, None);
    scene.drops(&v6(), End::Blocked);
    scene.drops(&v4(), End::Blocked);
    let mut scene = unreachable();
    let encap = scene.world.encap.expect("an encapsulation");
    for (per_second, burst) in [(0, 100), (100, 0)] {
        scene.world.encap = Some(Encap {
            icmp: Rate { per_second, burst },
            ..encap
        });
        scene.drops(&v6(), End::IcmpLimited);
    }
    scene = unreachable();
    scene.world.tenants.get_mut(&TENANT).expect("a tenant").icmp = false;
    scene.drops(&v6(), End::Blocked);
}

/// A checksum that a device is to make counts as made; what is quoted stays as it is.
#[test]
fn a_checksum_to_be_made_counts_as_made() {
    let mut scene = unreachable();
    let mut frame = v6();
    let length = (frame.len() - 54) as u8;
    let pseudo = sum(&[&frame[22..54], &[0, 0, 0, length, 0, 0, 0, UDP]]);
    frame[60..62].copy_from_slice(&pseudo.to_be_bytes());
    let packet = Packet::new(TENANT, &frame, 0);
    let out = decide(&scene.world, &mut scene.pins, &packet).output;
    assert_eq!(out[62..], frame[14..]);
    // As the device makes it.
    let mut quoted = out[62..].to_vec();
    let made = !sum(&[&frame[54..]]);
    quoted[46..48].copy_from_slice(&made.to_be_bytes());
    let bytes = (8 + quoted.len()) as u8;
    let whole = sum(&[
        &out[22..54],
        &[0, 0, 0, bytes, 0, 0, 0, ICMPV6],
        &out[54..62],
        &quoted,
    ]);
    assert_eq!(whole, 0xffff);
}
