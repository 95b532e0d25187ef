// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many addresses each shard gets.

use std::net::{IpAddr, Ipv6Addr};

use guideway::maglev::TableSize;
use guideway::placement::{FlowFields, HashKey, HashTable, Ports, Scope, ShardTable};

use crate::fleet::shards;

/// How many of `keys` each of three shards gets.
fn counts(keys: impl Iterator<Item = HashKey>) -> [usize; 3] {
    let shards = shards(0x10..0x13);
    let table = ShardTable::build(TableSize::SHARD, &shards).expect("shards");
    let mut counts = [0; 3];
    for key in keys {
        let shard = table.place(&key).shard;
        let at = shards.iter().position(|member| Some(member.sid) == shard);
        counts[at.expect("a shard")] += 1;
    }
    counts
}

fn address(last: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, last).into()
}

#[test]
fn consecutive_addresses() {
    let keys = (1..=600).map(|last| HashKey::source(Scope::of(HashTable(42)), address(last)));
    assert_eq!(counts(keys), [204, 194, 202]);
}

#[test]
fn one_address_in_consecutive_tables() {
    let keys = (1000..1600).map(|table| HashKey::source(Scope::of(HashTable(table)), address(7)));
    assert_eq!(counts(keys), [201, 212, 187]);
}

#[test]
fn flows_of_one_address() {
    let (source, destination) = (
        Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 0, 7),
        Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1),
    );
    let keys = (40_000..40_600).map(|port| {
        let ports = Ports {
            source: port,
            destination: 443,
        };
        let flow = FlowFields::ipv6(source, destination, 6, ports);
        HashKey::flow(Scope::of(HashTable(42)), &flow)
    });
    let counts = counts(keys);
    assert!(
        counts.iter().all(|count| (150..=250).contains(count)),
        "{counts:?}"
    );
}

/// With up to 32 shards of equal weight, shares of the usual table differ by one slot.
#[test]
fn equal_weights_have_equal_shares() {
    for count in 2..=32 {
        let table = ShardTable::build(TableSize::SHARD, &shards(1..=count)).expect("shards");
        let shares = table.table().shares();
        let least = 1021 / u32::from(count);
        let fair = |slots: u32| slots == least || slots == least + 1;
        assert!(shares.members.iter().all(|share| fair(share.slots)));
    }
}
