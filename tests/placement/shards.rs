// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is a shard, what is none, and which tables other implementations have too.

use guideway::maglev::{BuildError, TableSize};
use guideway::placement::{member_key, upstream_compatible, Shard, ShardError, ShardTable};

use crate::fleet::{shards, sid};

fn build(size: u32, shards: &[Shard]) -> Result<ShardTable, ShardError> {
    ShardTable::build(TableSize::new(size).expect("a prime"), shards)
}

#[test]
fn shards_go_by_the_text_of_their_base_sid() {
    let sid = "2001:DB8:FF09:0010:E2a5:0:0:0".parse().expect("a SID");
    assert_eq!(member_key(sid), "2001:db8:ff09:10:e000::");
}

#[test]
fn equal_copies_count_once_and_others_are_refused() {
    let [a, b] = [0x10, 0x11].map(|node| Shard::new(sid(node)));
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
    assert!(build(1021, &shards(1..=256)).is_ok());
    assert_eq!(
        build(1021, &shards(1..=257)),
        Err(ShardError::TooMany {
            given: 257,
            max: 256
        })
    );
    assert!(build(65_537, &shards(1..=3)).is_ok());
    let error = build(65_539, &shards(1..=3)).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "table size 65539 is too large for a group; the largest is 65537"
    );
    assert_eq!(
        build(2, &shards(1..=3)),
        Err(BuildError::SizeTooSmall { size: 2, placed: 3 }.into())
    );
    // A shard without a weight needs no slot.
    let mut given = shards(1..=3);
    given[1].weight = 0;
    assert!(build(2, &given).is_ok());
}

#[test]
fn without_active_shards_nobody_gets_a_packet() {
    let idle = shards(1..=2)
        .into_iter()
        .map(|shard| Shard { weight: 0, ..shard });
    for given in [vec![], idle.collect()] {
        let table = build(1021, &given).expect("an empty table");
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
