// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What holds for every packet and every set of shards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use guideway::maglev::TableSize;
use guideway::placement::{
    member_key, place, Family, FlowFields, Fnv12, Fnv5, HashGroup, HashKey, HashTable, Ports,
    Scope, Shard, ShardTable,
};
use guideway::srv6::BaseSid;
use proptest::prelude::*;

use crate::reference::{self, Packet};
use crate::tables;

/// A number of cases, a hundred times as many in the long run.
fn cases(count: u32) -> ProptestConfig {
    let long = std::env::var_os("GW_LONG").is_some();
    ProptestConfig::with_cases(if long { 100 * count } else { count })
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    // Zeros are what folding is about.
    let sparse = prop_oneof![
        any::<u128>(),
        any::<u8>().prop_map(u128::from),
        (0u32..128).prop_map(|bit| 1 << bit)
    ];
    prop_oneof![
        (sparse.clone(), sparse)
            .prop_map(|(from, to)| (Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into())),
        any::<(u32, u32)>()
            .prop_map(|(from, to)| (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into())),
    ]
}

fn packets() -> impl Strategy<Value = Packet> {
    let protocol = prop_oneof![
        Just(6u8),
        Just(17),
        Just(1),
        Just(58),
        Just(132),
        Just(0),
        Just(44),
        any::<u8>()
    ];
    let port = || prop_oneof![Just(0u16), any::<u16>()];
    let number = prop_oneof![any::<u32>(), 0u32..300];
    let scope = (number, any::<u8>());
    (addresses(), scope, protocol, port(), port(), any::<bool>()).prop_map(
        |((source, destination), (hash_table, hash_group), protocol, from, to, is_fragment)| {
            Packet {
                hash_table,
                hash_group,
                source,
                destination,
                protocol,
                source_port: from,
                destination_port: to,
                // IPv6 says so in the first next header.
                is_fragment: is_fragment && source.is_ipv4(),
            }
        },
    )
}

fn scope(packet: &Packet) -> Scope {
    Scope {
        table: HashTable(packet.hash_table),
        group: HashGroup(packet.hash_group),
    }
}

fn flow(packet: &Packet) -> FlowFields {
    let ports = Ports {
        source: packet.source_port,
        destination: packet.destination_port,
    };
    let protocol = packet.protocol;
    match (packet.source, packet.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) if packet.is_fragment => {
            FlowFields::ipv4_fragment(from, to, protocol)
        }
        (IpAddr::V4(from), IpAddr::V4(to)) => FlowFields::ipv4(from, to, protocol, ports),
        (IpAddr::V6(from), IpAddr::V6(to)) if protocol == 44 => FlowFields::ipv6_fragment(from, to),
        (IpAddr::V6(from), IpAddr::V6(to)) => FlowFields::ipv6(from, to, protocol, ports),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// Plain, folded and transcribed computation agree, in both modes.
    #[test]
    fn all_ways_to_hash_agree(packet in packets()) {
        let (scope, family) = (scope(&packet), Family::of(packet.source));
        let (fnv5, fnv12) = (Fnv5::new(scope.table, family), Fnv12::new(scope, family));

        let key = HashKey::source(scope, packet.source);
        let bytes = reference::source_key(&packet);
        prop_assert_eq!(&key.as_bytes()[..], &bytes[..]);
        prop_assert_eq!(key.hash32(), reference::hash(&bytes));
        prop_assert_eq!(fnv12.source(packet.source), key.hash32());
        prop_assert_eq!(Fnv12::from_raw(fnv12.get()), fnv12);
        prop_assert_eq!(fnv12.get(), reference::hash(&bytes[..12]));

        let key = HashKey::flow(scope, &flow(&packet));
        let bytes = reference::flow_key(&packet);
        prop_assert_eq!(&key.as_bytes()[..], &bytes[..]);
        prop_assert_eq!(key.hash32(), reference::hash(&bytes));
        prop_assert_eq!(fnv5.flow(scope.group, &flow(&packet)), key.hash32());
        prop_assert_eq!(Fnv5::from_raw(fnv5.get()), fnv5);
        prop_assert_eq!(fnv5.get(), reference::hash(&bytes[..5]));

        for size in TableSize::LISTED {
            prop_assert_eq!(key.slot(size), reference::hash(&bytes) % size.get());
        }
    }

    /// Ports and protocols that no fragment of a datagram can tell do not separate them.
    #[test]
    fn fragments_stay_together(packet in packets(), ports in any::<(u16, u16)>()) {
        let other = Packet { source_port: ports.0, destination_port: ports.1, ..packet };
        let of = |packet: &Packet| HashKey::flow(scope(packet), &flow(packet));
        let first = Packet { is_fragment: packet.source.is_ipv4(), ..packet };
        let later = Packet { is_fragment: packet.source.is_ipv4(), ..other };
        if packet.source.is_ipv4() || packet.protocol == 44 {
            prop_assert_eq!(of(&first), of(&later));
        }
    }

    /// What a shard is called in the table.
    #[test]
    fn keys_of_shards_are_canonical(fields in prop::array::uniform5(prop_oneof![Just(0u16), any::<u16>()])) {
        // Whatever the fields are, these are those of a SID.
        let [a, b, c, node, function] = fields;
        let node = node % 0xdfff + 1;
        let address = Ipv6Addr::new(0x2000 | a >> 4, b, c, node, function & 0xf000, 0, 0, 0);
        let sid = BaseSid::new(address).unwrap();
        prop_assert_eq!(member_key(sid), reference::text(address));
    }
}

/// Shards of one block, in no order; `m` is at least their number.
fn groups() -> impl Strategy<Value = (u32, Vec<Shard>)> {
    let sizes = prop_oneof![Just(1021u32), Just(4093), Just(61), Just(251)];
    let shard = (1u16..0xe000, 0u16..16, 0u32..5).prop_map(|(node, function, weight)| Shard {
        sid: BaseSid::new(Ipv6Addr::new(
            0x2001,
            0xdb8,
            0xff09,
            node,
            function << 12,
            0,
            0,
            0,
        ))
        .expect("a SID"),
        weight,
    });
    (sizes, prop::collection::vec(shard, 0..40)).prop_map(|(size, mut shards)| {
        let mut seen = std::collections::HashSet::new();
        shards.retain(|shard| seen.insert(shard.sid));
        (size, shards)
    })
}

proptest! {
    #![proptest_config(cases(300))]

    /// Hash, slot and shard are those of the transcription, whatever the order of shards.
    #[test]
    fn placements_are_those_of_the_rules(
        (m, shards) in groups(),
        packets in prop::collection::vec(packets(), 20),
        turn in any::<prop::sample::Index>(),
    ) {
        let size = TableSize::new(m).unwrap();
        let texts: Vec<_> = shards.iter().map(|shard| reference::text(shard.sid.address())).collect();
        let weighted: Vec<_> =
            texts.iter().zip(&shards).map(|(text, shard)| (text.as_bytes(), shard.weight)).collect();
        let slots = tables::build(m, &weighted);

        let table = ShardTable::build(size, &shards).unwrap();
        let mut turned = shards.clone();
        turned.rotate_left(turn.index(shards.len() + 1));
        turned.reverse();
        // A second copy changes nothing.
        turned.extend(shards.first());
        prop_assert_eq!(&ShardTable::build(size, &turned).unwrap(), &table);
        prop_assert_eq!(format!("{:016x}", tables::digest(&slots)), table.table().digest().to_string());

        for packet in packets {
            let key = HashKey::flow(scope(&packet), &flow(&packet));
            let placement = table.place(&key);
            let hash = reference::hash(&reference::flow_key(&packet));
            prop_assert_eq!(placement.hash, hash);
            prop_assert_eq!(placement.slot, hash % m);
            let shard = placement.shard.map(|sid| reference::text(sid.address()).into_bytes());
            prop_assert_eq!(shard.as_deref(), slots[(hash % m) as usize]);
            prop_assert_eq!(place(size, &turned, &key).unwrap(), placement);
        }
    }
}
