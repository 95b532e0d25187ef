// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Keys and targets of routes.

use std::net::Ipv6Addr;

use bytemuck::{bytes_of, pod_read_unaligned};
use guideway::abi;
use guideway::addr::MacAddr;
use guideway::group::{GroupId, Incarnation};
use guideway::placement::{Fnv12, Fnv5};
use guideway::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::{Mtu, NextHop};

use crate::{argument, half, read_whole, row, word};

fn next_hop() -> NextHop {
    let mac = |last| MacAddr::new([2, 0, 0, 0, 0, last]);
    NextHop::new(9, mac(8), mac(7), Mtu::new(1500).expect("an MTU")).expect("a next hop")
}

/// The same as in the kernel, from offset 24 of a route on.
fn hop_parts() -> [u8; 20] {
    row(&[
        (0, &word(9)),
        (4, &word(1500)),
        (8, &[2, 0, 0, 0, 0, 7]),
        (14, &[2, 0, 0, 0, 0, 8]),
    ])
}

const SID: [u8; 16] = [
    0x20, 0x01, 0x0d, 0xb8, 0xff, 0x09, 0, 0x10, 0xe0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn keys_of_routes() {
    let ipv6: Ipv6Addr = "64:ff9b::".parse().expect("an address");
    let ipv4 = [198, 51, 100, 0];
    let cases: [(&str, [u8; 28]); 3] = [
        (
            "64:ff9b::/96",
            row(&[(0, &word(160)), (4, &word(42)), (12, &ipv6.octets())]),
        ),
        ("::/0", row(&[(0, &word(64)), (4, &word(42))])),
        (
            "198.51.100.0/24",
            row(&[(0, &word(88)), (4, &word(42)), (8, &[1]), (12, &ipv4)]),
        ),
    ];
    for (prefix, bytes) in cases {
        let key = Key::new(TableId::new(42), prefix.parse().expect("a prefix"));
        assert_eq!(bytes_of(&key.to_row()), bytes, "{prefix}");
        read_whole(&bytes, Key::from_row, |key| key.to_row(), &[(9, 12)]);
    }
    let refused: [(&str, [u8; 28]); 6] = [
        ("prefixlen", row(&[(0, &word(63))])),
        ("prefixlen", row(&[(0, &word(64 + 129))])),
        ("prefixlen", row(&[(0, &word(64 + 33)), (8, &[1])])),
        ("prefixlen", row(&[(0, &word(64 + 8)), (13, &[1])])),
        ("family", row(&[(0, &word(64)), (8, &[2])])),
        (
            "address",
            row(&[(0, &word(64 + 32)), (8, &[1]), (16, &[1])]),
        ),
    ];
    for (field, bytes) in refused {
        let error = Key::from_row(&pod_read_unaligned(&bytes)).expect_err(field);
        assert_eq!(error.field, field);
    }
}

fn routes() -> [(Target, [u8; 64]); 5] {
    let blocked = |block| Target::Block(block);
    [
        (Target::Pass, row(&[(0, &[1])])),
        (blocked(Block::Drop), row(&[(0, &[4])])),
        (blocked(Block::Unreachable), row(&[(0, &[4, 1])])),
        (
            Target::Shard {
                argument: argument(),
                sid: Ipv6Addr::from(SID).try_into().expect("a SID"),
                next_hop: next_hop(),
            },
            row(&[(0, &[2]), (4, &half(0x2a5)), (24, &hop_parts()), (48, &SID)]),
        ),
        (
            Target::Group {
                argument: argument(),
                group: GroupId::new(5).expect("a group"),
                incarnation: Incarnation::new(0x0102_0304).expect("a number"),
                fnv5: Fnv5::from_raw(0xa982_960d),
                fnv12: Fnv12::from_raw(0x9746_cabf),
            },
            row(&[
                (0, &[3]),
                (4, &half(0x2a5)),
                (8, &word(5)),
                (12, &word(0x0102_0304)),
                (16, &word(0x9746_cabf)),
                (20, &word(0xa982_960d)),
            ]),
        ),
    ]
}

fn some_key() -> Key {
    Key::new(TableId::new(42), Prefix::DEFAULT_IPV6)
}

#[test]
fn targets_of_routes() {
    for (target, mut bytes) in routes() {
        for origin in [0, 0x1234] {
            bytes[2..4].copy_from_slice(&half(origin));
            let route = Route {
                origin: Origin(origin),
                target,
            };
            assert_eq!(bytes_of(&route.to_row()), bytes, "{route:?}");
            let read = |row: &abi::Route| Route::from_row(&some_key(), row);
            assert_eq!(read(&pod_read_unaligned(&bytes)), Ok(route));
            read_whole(&bytes, read, |route| route.to_row(), &[(6, 8), (44, 48)]);
        }
    }
}

/// What a route of one kind has no meaning for, another one's parts included.
#[test]
fn parts_of_other_kinds_are_refused() {
    let [(_, pass), (_, block), _, (_, shard), (_, group)] = routes();
    let strange = [
        (pass, 1, 1_u8),
        (pass, 4, 1),
        (pass, 24, 1),
        (pass, 63, 1),
        (block, 4, 1),
        (block, 12, 1),
        (shard, 1, 1),
        (shard, 8, 1),
        (shard, 16, 1),
        (group, 1, 1),
        (group, 24, 1),
        (group, 48, 0x20),
    ];
    for (mut bytes, at, value) in strange {
        bytes[at] = value;
        let read = Route::from_row(&some_key(), &pod_read_unaligned(&bytes));
        assert!(read.is_err(), "byte {at}: {read:?}");
    }
}

#[test]
fn routes_that_make_no_sense_say_where() {
    let [_, _, (_, unreachable), (_, shard), (_, group)] = routes();
    let with = |mut bytes: [u8; 64], at: usize, part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        bytes
    };
    let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().expect("an address");
    for (field, bytes) in [
        ("kind", with(shard, 0, &[0])),
        ("kind", with(shard, 0, &[5])),
        ("action", with(unreachable, 1, &[2])),
        ("argument", with(shard, 4, &half(0))),
        ("argument", with(group, 4, &half(0x1000))),
        ("next_hop", with(shard, 24, &word(0))),
        ("mtu", with(shard, 28, &word(1319))),
        ("next_hop", with(shard, 32, &[0; 6])),
        ("next_hop", with(shard, 38, &[0; 6])),
        ("sid", with(shard, 48, &[0; 16])),
        ("sid", with(shard, 48, &mapped.octets())),
        ("group_id", with(group, 8, &word(64))),
        ("incarnation", with(group, 12, &word(0))),
        ("zero", with(group, 44, &word(1))),
    ] {
        let error = Route::from_row(&some_key(), &pod_read_unaligned(&bytes)).expect_err(field);
        assert_eq!(error.field, field, "{error}");
        assert!(
            error.to_string().starts_with("route ::/0 of table 42: "),
            "{error}"
        );
    }
    // A SID with an Argument would be completed with a second one.
    let with_argument = with(shard, 57, &[1]);
    assert!(Route::from_row(&some_key(), &pod_read_unaligned(&with_argument)).is_err());
}
