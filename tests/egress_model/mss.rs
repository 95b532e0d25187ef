// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The segment sizes that the model lets tenants announce.

use std::net::{Ipv4Addr, Ipv6Addr};

use guideway::encap::{Encap, Mss};

use crate::frames::*;
use crate::scene::*;

fn scene() -> Scene {
    let mut scene = Scene::new(|_| to_shard(0));
    scene.world.tenants.get_mut(&TENANT).expect("a tenant").mss = true;
    let mss = Mss {
        ipv6: 1220,
        ipv4: 1240,
    };
    scene.world.encap = scene.world.encap.map(|encap| Encap {
        mss: Some(mss),
        ..encap
    });
    scene
}

/// A TCP header with these flags and options, whose checksum is right for these addresses.
fn segment(flags: u8, options: &[u8], addresses: &[u8]) -> Vec<u8> {
    let mut tcp = ports(1000, 443, 20);
    tcp.extend(options);
    tcp[12] = (tcp.len() as u8 / 4) << 4;
    tcp[13] = flags;
    tcp[16..18].fill(0);
    let checksum = !whole(&tcp, addresses);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    tcp
}

/// The sum of a segment and its pseudo header.
fn whole(tcp: &[u8], addresses: &[u8]) -> u16 {
    let words = addresses.chunks(2).chain(tcp.chunks(2));
    let words = words.map(|word| u64::from(word[0]) << 8 | u64::from(word[1]));
    let mut sum = words.sum::<u64>() + tcp.len() as u64 + u64::from(TCP);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn over_ipv6(flags: u8, options: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let (from, to) = (address("2001:db8:aaaa::7"), address("2001:db8:2::1"));
    let addresses = [from.octets(), to.octets()].concat();
    ipv6(from, to, TCP, &segment(flags, options, &addresses))
}

fn over_ipv4(flags: u8, fragment: u16, options: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
    let addresses = [from.octets(), to.octets()].concat();
    ipv4(
        from,
        to,
        TCP,
        fragment,
        &segment(flags, options, &addresses),
    )
}

/// The TCP header that leaves, whose checksum must be right.
fn sent(scene: &mut Scene, frame: &[u8]) -> Vec<u8> {
    let inner = scene.send(frame).output[54..].to_vec();
    let (addresses, tcp) = match frame[12] {
        0x08 => (12..20, 20),
        _ => (8..40, 40),
    };
    assert_eq!(whole(&inner[tcp..], &inner[addresses]), 0xffff);
    assert_eq!(inner[..tcp], frame[14..14 + tcp]);
    inner[tcp..].to_vec()
}

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;

#[test]
fn a_greater_size_is_lowered_wherever_it_stands() {
    let mut scene = scene();
    for flags in [SYN, SYN_ACK] {
        for (options, at) in [
            (&[2, 4, 0x05, 0xb4][..], 0),
            (&[1, 2, 4, 0x05, 0xb4, 1, 1, 1], 1),
            (&[4, 2, 2, 4, 0xff, 0xff, 1, 0], 2),
            (&[3, 3, 7, 2, 4, 0x05, 0xb4, 0], 3),
            // Behind one that is small enough, and one of another length.
            (&[2, 4, 0x02, 0x18, 2, 4, 0x05, 0xb4], 4),
            (&[2, 3, 0x05, 2, 4, 0x05, 0xb4, 0], 3),
        ] {
            for (frame, most) in [
                (over_ipv6(flags, options), 1220_u16),
                (over_ipv4(flags, 0x4000, options), 1240),
            ] {
                let mut expected = options.to_vec();
                expected[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                assert_eq!(sent(&mut scene, &frame)[20..], expected, "{options:?}");
            }
        }
    }
}

#[test]
fn nothing_else_is_changed() {
    let mut scene = scene();
    let options = [2, 4, 0x05, 0xb4];
    let check = |scene: &mut Scene, frame: &[u8]| {
        assert_eq!(scene.send(frame).output[54..], frame[14..], "{frame:x?}");
    };
    // As great as may be, and smaller.
    check(&mut scene, &over_ipv6(SYN, &[2, 4, 0x04, 0xc4]));
    check(&mut scene, &over_ipv6(SYN, &[2, 4, 0x02, 0x18]));
    check(&mut scene, &over_ipv6(0x10, &options));
    check(&mut scene, &over_ipv6(SYN, &[]));
    // Behind the end of the options, one of another length, one that makes no sense.
    check(&mut scene, &over_ipv6(SYN, &[0, 0, 0, 0, 2, 4, 0x05, 0xb4]));
    check(&mut scene, &over_ipv6(SYN, &[2, 3, 0x05, 0xb4]));
    check(&mut scene, &over_ipv6(SYN, &[9, 1, 1, 1, 2, 4, 0x05, 0xb4]));
    let padded = [&[1; 20][..], &options].concat();
    check(&mut scene, &over_ipv6(SYN, &padded));
    for fragment in [0x2000, 1] {
        check(&mut scene, &over_ipv4(SYN, fragment, &options));
    }
    // Of another protocol, and in a packet that ends before.
    let mut other = over_ipv6(SYN, &options);
    other[20] = 132;
    check(&mut scene, &other);
    let mut short = over_ipv6(SYN, &options);
    short[19] -= 1;
    check(&mut scene, &short);

    let frame = over_ipv6(SYN, &options);
    let mss = scene
        .world
        .encap
        .as_mut()
        .and_then(|encap| encap.mss.as_mut());
    mss.expect("a limit").ipv6 = 0;
    check(&mut scene, &frame);
    scene = self::scene();
    scene.world.tenants.get_mut(&TENANT).expect("a tenant").mss = false;
    check(&mut scene, &frame);
}
