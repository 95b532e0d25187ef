// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants, and what rows of one share.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytemuck::{bytes_of, pod_read_unaligned};
use guideway::abi;
use guideway::placement::HashTable;
use guideway::route::TableId;
use guideway::srv6::Argument;
use guideway::tenant::{PinQuota, Tenant};

use crate::{argument, half, read_whole, row, word};

#[test]
fn tenants() {
    let gateway6: Ipv6Addr = "2001:db8:aaaa::1".parse().expect("an address");
    let gateway4 = Ipv4Addr::new(10, 0, 0, 1);
    let tenant = Tenant {
        hash_table: HashTable(43),
        icmp: true,
        mss: true,
        pin_quota: PinQuota(4096),
        gateway6: Some(gateway6),
        gateway4: Some(gateway4),
        ..Tenant::new(TableId::new(42), argument())
    };
    let bytes: [u8; 64] = row(&[
        (0, &word(7)),
        (4, &word(42)),
        (8, &word(43)),
        (16, &half(0x2a5)),
        (18, &half(7)),
        (20, &word(4096)),
        (32, &gateway6.octets()),
        (48, &gateway4.octets()),
    ]);
    assert_eq!(bytes_of(&tenant.to_row(7)), bytes);
    let read = |row: &abi::Tenant| Tenant::from_row(7, row);
    assert_eq!(read(&pod_read_unaligned(&bytes)), Ok(tenant));
    read_whole(
        &bytes,
        read,
        |tenant| tenant.to_row(7),
        &[(0, 4), (12, 16), (24, 32), (52, 64)],
    );

    // Each flag by itself, and nothing that is not said.
    let plain = Tenant::new(TableId::new(42), argument());
    for (flags, tenant) in [
        (
            0,
            Tenant {
                enabled: false,
                ..plain
            },
        ),
        (1, plain),
        (
            3,
            Tenant {
                icmp: true,
                ..plain
            },
        ),
        (5, Tenant { mss: true, ..plain }),
    ] {
        let expected: [u8; 64] = row(&[
            (0, &word(7)),
            (4, &word(42)),
            (8, &word(42)),
            (16, &half(0x2a5)),
            (18, &half(flags)),
            (20, &[0xff; 4]),
        ]);
        assert_eq!(bytes_of(&tenant.to_row(7)), expected);
        assert_eq!(read(&pod_read_unaligned(&expected)), Ok(tenant));
    }
    for (field, at, part) in [
        ("ifindex", 0, &word(8)[..]),
        ("argument", 16, &half(0)),
        ("argument", 16, &half(0x1000)),
        ("flags", 18, &half(8)),
        ("zero", 12, &word(1)),
    ] {
        let mut bytes = bytes;
        bytes[at..at + part.len()].copy_from_slice(part);
        let error = read(&pod_read_unaligned(&bytes)).expect_err(field);
        assert_eq!(error.field, field, "{error}");
        assert!(
            error.to_string().starts_with("tenant at ifindex 7: "),
            "{error}"
        );
    }
}

#[test]
fn rows_of_one_tenant_agree() {
    let tenant = Tenant {
        pin_quota: PinQuota(5),
        ..Tenant::new(TableId::new(42), argument())
    };
    let other = Tenant {
        enabled: false,
        icmp: true,
        gateway4: Some(Ipv4Addr::LOCALHOST),
        ..tenant
    };
    assert_eq!(tenant.contradiction(&other), None);
    for (changed, expected) in [
        (
            Tenant {
                argument: Argument::new(1).expect("an Argument"),
                ..tenant
            },
            ("argument", 0x2a5, 1),
        ),
        (
            Tenant {
                hash_table: HashTable(1),
                ..tenant
            },
            ("hash_table", 42, 1),
        ),
        (
            Tenant {
                pin_quota: PinQuota(1),
                ..tenant
            },
            ("pin_quota", 5, 1),
        ),
    ] {
        assert_eq!(tenant.contradiction(&changed), Some(expected));
    }
    for (pins, share) in [
        (65_536, 4096),
        (16_384, 1024),
        (1, 1024),
        (4_194_304, 262_144),
    ] {
        assert_eq!(PinQuota::share_of(pins), PinQuota(share));
    }
}
