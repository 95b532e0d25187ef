// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is a shard, what is none, and which tables other implementations have too.

use std::net::Ipv6Addr;

use guideway::maglev::{BuildError, TableSize};
use guideway::placement::{
    base_sid, member_key, upstream_compatible, Shard, ShardError, ShardTable, SidError,
};

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn shard(text: &str) -> Shard {
    Shard::new(address(text))
}

fn build(size: u32, shards: &[Shard]) -> Result<ShardTable, ShardError> {
    ShardTable::build(TableSize::new(size).expect("a prime"), shards)
}

/// So many shards that differ.
fn many(count: u16) -> Vec<Shard> {
    let sid = |node| Ipv6Addr::new(0x2001, 0xdb8, 0xff09, node, 0xe000, 0, 0, 0);
    (1..=count).map(|node| Shard::new(sid(node))).collect()
}

#[test]
fn argument_and_slot_are_no_part_of_a_base_sid() {
    for (sid, base) in [
        ("2001:db8:ff09:10:e000::", "2001:db8:ff09:10:e000::"),
        ("2001:db8:ff09:10:e2a5::", "2001:db8:ff09:10:e000::"),
        ("2001:db8:ff09:10:efff:ffff::", "2001:db8:ff09:10:e000::"),
        ("2001:db8:ff09:10:0:1::", "2001:db8:ff09:10::"),
        ("2001:db8:ff09:1:f001::", "2001:db8:ff09:1:f000::"),
        ("fc00:0:1:dfff:1234::", "fc00:0:1:dfff:1000::"),
    ] {
        assert_eq!(base_sid(address(sid)), Ok(address(base)), "{sid}");
    }
    assert_eq!(
        member_key(address("2001:DB8:FF09:0010:E000:0:0:0")),
        "2001:db8:ff09:10:e000::"
    );
}

#[test]
fn what_is_no_sid_is_refused_with_the_reason() {
    for (sid, message) in [
        ("::", "SID :: is the unspecified address"),
        (
            "::ffff:192.0.2.1",
            "SID ::ffff:192.0.2.1 is a mapped IPv4 address",
        ),
        ("ff02::1", "SID ff02::1 is a multicast address"),
        (
            "ff0e:0:0:10:e000::",
            "SID ff0e:0:0:10:e000:: is a multicast address",
        ),
        ("fe80::1", "SID fe80::1 is a link-local address"),
        (
            "febf:0:0:10:e000::",
            "SID febf:0:0:10:e000:: is a link-local address",
        ),
        (
            "2001:db8:ff09:0:e000::",
            "SID 2001:db8:ff09:0:e000:: has Node-ID 0x0000, allowed are 0x0001 to 0xdfff",
        ),
        (
            "2001:db8:ff09:e000:e000::",
            "SID 2001:db8:ff09:e000:e000:: has Node-ID 0xe000, allowed are 0x0001 to 0xdfff",
        ),
        (
            "2001:db8:ff09:10:e000::1",
            "SID 2001:db8:ff09:10:e000::1 has bits set in its last four bytes, which are padding",
        ),
        (
            "2001:db8:ff09:10:e000:0:8000:0",
            "SID 2001:db8:ff09:10:e000:0:8000:0 has bits set in its last four bytes, which are padding",
        ),
    ] {
        let error = base_sid(address(sid)).expect_err(sid);
        assert_eq!(error.to_string(), message);
        let error = build(1021, &[shard(sid)]).expect_err(sid);
        assert_eq!(error.to_string(), message);
    }
    // The neighbours of what is refused.
    for sid in ["fec0:0:0:10:e000::", "fe7f:0:0:1::", "fc00:0:0:dfff::"] {
        assert!(base_sid(address(sid)).is_ok(), "{sid}");
    }
}

#[test]
fn shards_go_by_their_base_sid() {
    let error = build(1021, &[shard("2001:db8:ff09:10:e2a5::")]).expect_err("an Argument");
    assert_eq!(
        error,
        ShardError::NotBase {
            sid: address("2001:db8:ff09:10:e2a5::"),
            base: address("2001:db8:ff09:10:e000::"),
        }
    );
    assert_eq!(
        error.to_string(),
        "shard 2001:db8:ff09:10:e2a5:: has an Argument or Slot; its base SID is \
         2001:db8:ff09:10:e000::"
    );
    let error = build(1021, &[shard("::")]).expect_err("no SID");
    assert_eq!(error, ShardError::Sid(SidError::Unspecified));
}

#[test]
fn equal_copies_count_once_and_others_are_refused() {
    let [a, b] = ["2001:db8:ff09:10:e000::", "2001:db8:ff09:11:e000::"].map(shard);
    let table = build(1021, &[b, a, b, a]).expect("shards");
    assert_eq!(table.shards(), [a, b]);
    assert_eq!(Ok(table), build(1021, &[a, b]));

    let heavy = Shard { weight: 3, ..a };
    let error = build(1021, &[heavy, b, a]).expect_err("two weights");
    assert_eq!(
        error.to_string(),
        "shard 2001:db8:ff09:10:e000:: is given with weight 1 and with weight 3"
    );
}

#[test]
fn groups_have_limits() {
    assert!(build(1021, &many(256)).is_ok());
    assert_eq!(
        build(1021, &many(257)),
        Err(ShardError::TooMany {
            given: 257,
            max: 256
        })
    );
    assert!(build(65_537, &many(3)).is_ok());
    let error = build(65_539, &many(3)).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "table size 65539 is too large for a group; the largest is 65537"
    );
    assert_eq!(
        build(2, &many(3)),
        Err(BuildError::SizeTooSmall { size: 2, placed: 3 }.into())
    );
    // A shard without a weight needs no slot.
    let mut shards = many(3);
    shards[1].weight = 0;
    assert!(build(2, &shards).is_ok());
}

#[test]
fn without_active_shards_nobody_gets_a_packet() {
    let idle = many(2)
        .into_iter()
        .map(|shard| Shard { weight: 0, ..shard });
    for shards in [vec![], idle.collect()] {
        let table = build(1021, &shards).expect("an empty table");
        assert!(table.table().is_empty());
        let placement = table.place_hash(0x0c29_e964);
        assert_eq!((placement.slot, placement.shard), (941, None));
        assert_eq!(
            serde_json::to_string(&placement).expect("JSON"),
            r#"{"hash":"0c29e964","slot":941,"shard":null}"#
        );
    }
}

#[test]
fn upstream_has_no_weights_other_sizes_or_more_members() {
    let shard = TableSize::SHARD;
    for (size, weights, is_compatible) in [
        (shard, vec![1; 3], true),
        (shard, vec![7; 32], true),
        (shard, vec![], true),
        (shard, vec![1; 33], false),
        (shard, vec![1, 1, 2], false),
        (shard, vec![0, 0], false),
        (shard, vec![1, 0], false),
        (TableSize::LISTED[1], vec![1; 3], false),
        (TableSize::LISTED[1], vec![], false),
    ] {
        let found = upstream_compatible(size, weights.iter().copied());
        assert_eq!(found, is_compatible, "{size} {weights:?}");
    }
}
