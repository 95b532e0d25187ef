// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The published vectors, against the crate and against the transcription.

use std::net::IpAddr;

use guideway::maglev::TableSize;
use guideway::placement::{
    Family, FlowFields, Fnv12, Fnv5, HashGroup, HashKey, HashTable, Ports, Scope, Shard, ShardTable,
};
use serde::Deserialize;

use crate::fleet;
use crate::reference::{self, Packet};
use crate::tables;

#[derive(Deserialize)]
struct Vectors {
    hash_vectors: Vec<HashVector>,
    #[serde(default)]
    maglev_vectors: Vec<TableVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HashVector {
    name: String,
    mode: String,
    table_id: u32,
    family: String,
    protocol: u8,
    group: u8,
    source_port: u16,
    destination_port: u16,
    source_address: IpAddr,
    destination_address: Option<IpAddr>,
    #[serde(default)]
    fragment: bool,
    key_hex: String,
    hash: String,
    slot: u32,
}

#[derive(Deserialize)]
struct TableVector {
    table_size: u32,
    members: Vec<MemberVector>,
    table_digest: Checksum,
}

#[derive(Deserialize)]
struct MemberVector {
    key: String,
    rank: u32,
    offset: u64,
    skip: u64,
    slots: usize,
}

#[derive(Deserialize)]
struct Checksum {
    value: String,
}

fn given() -> Vectors {
    serde_json::from_str(include_str!("../vectors/egress.json")).expect("the vector file")
}

fn all() -> Vec<HashVector> {
    let more = include_str!("../vectors/egress_flows.json");
    let more: Vectors = serde_json::from_str(more).expect("the vector file");
    let mut vectors = given().hash_vectors;
    assert_eq!((vectors.len(), more.hash_vectors.len()), (2, 17));
    vectors.extend(more.hash_vectors);
    vectors
}

impl HashVector {
    fn scope(&self) -> Scope {
        Scope {
            table: HashTable(self.table_id),
            group: HashGroup(self.group),
        }
    }

    fn family(&self) -> Family {
        match self.family.as_str() {
            "ipv6" => Family::Ipv6,
            "ipv4" => Family::Ipv4,
            other => panic!("{other}"),
        }
    }

    /// The fields of flow mode, with ports that do not count where the vector has none.
    fn flow(&self) -> FlowFields {
        let is_hashed = (self.source_port, self.destination_port) != (0, 0);
        let has_ports = matches!(self.protocol, 6 | 17);
        let (source, destination) = match is_hashed || has_ports {
            true => (self.source_port, self.destination_port),
            false => (1234, 4321),
        };
        let ports = Ports {
            source,
            destination,
        };
        let protocol = self.protocol;
        match (self.source_address, self.destination_address.expect("one")) {
            (IpAddr::V4(from), IpAddr::V4(to)) if self.fragment => {
                FlowFields::ipv4_fragment(from, to, protocol)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) if self.fragment => {
                FlowFields::ipv6_fragment(from, to)
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => FlowFields::ipv4(from, to, protocol, ports),
            (IpAddr::V6(from), IpAddr::V6(to)) => FlowFields::ipv6(from, to, protocol, ports),
            _ => panic!("{}: two families", self.name),
        }
    }

    fn packet(&self) -> Packet {
        Packet {
            hash_table: self.table_id,
            hash_group: self.group,
            source: self.source_address,
            destination: self.destination_address.unwrap_or(self.source_address),
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
            is_fragment: self.fragment,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn keys_and_hashes() {
    for vector in all() {
        let name = &vector.name;
        let (key, transcribed, folded) = match vector.mode.as_str() {
            "source" => (
                HashKey::source(vector.scope(), vector.source_address),
                reference::source_key(&vector.packet()),
                Fnv12::new(vector.scope(), vector.family()).source(vector.source_address),
            ),
            "flow" => (
                HashKey::flow(vector.scope(), &vector.flow()),
                reference::flow_key(&vector.packet()),
                Fnv5::new(vector.scope().table, vector.family())
                    .flow(vector.scope().group, &vector.flow()),
            ),
            other => panic!("{name}: mode {other}"),
        };
        assert_eq!(Family::of(vector.source_address), vector.family(), "{name}");
        assert_eq!(hex(key.as_bytes()), vector.key_hex, "{name}");
        assert_eq!(hex(&transcribed), vector.key_hex, "{name}");
        assert_eq!(format!("{key:?}"), format!("HashKey({})", vector.key_hex));
        for hash in [key.hash32(), folded, reference::hash(&transcribed)] {
            assert_eq!(format!("{hash:#010x}"), vector.hash, "{name}");
        }
        assert_eq!(key.slot(TableSize::SHARD), vector.slot, "{name}");
    }
}

/// The states of the specification's table, at every byte where a route's part may end.
#[test]
fn states_of_routes() {
    for (family, source, fnv5, fnv12, hash) in [
        (
            Family::Ipv6,
            "2001:db8:aaaa::7",
            0xa982_960d,
            0x9746_cabf,
            0x0c29_e964,
        ),
        (
            Family::Ipv4,
            "10.0.0.7",
            0xa882_947a,
            0x39e5_6b9e,
            0x193a_19b1,
        ),
    ] {
        let scope = Scope::of(HashTable(42));
        assert_eq!(Fnv5::new(scope.table, family).get(), fnv5);
        assert_eq!(Fnv12::new(scope, family).get(), fnv12);
        let source = source.parse().expect("an address");
        assert_eq!(Fnv12::from_raw(fnv12).source(source), hash);
        let bytes = reference::source_key(&Packet {
            hash_table: 42,
            hash_group: 0,
            source,
            destination: source,
            protocol: 6,
            source_port: 1,
            destination_port: 2,
            is_fragment: false,
        });
        assert_eq!(reference::hash(&bytes[..5]), fnv5);
        assert_eq!(reference::hash(&bytes[..12]), fnv12);
        assert_eq!(reference::hash(&bytes), hash);
    }
}

/// The powers of the prime that stand for runs of zeros.
#[test]
fn runs_of_zeros() {
    use guideway::hash::Fnv1a32;
    for (count, power) in [
        (5, 0x46a7_47c3),
        (12, 0xd38c_7031),
        (16, 0x345b_8241),
        (28, 0xdd0c_5e71),
    ] {
        assert_eq!(Fnv1a32::resume(1).zeros(count).finish(), power, "{count}");
    }
}

#[test]
fn tables_of_shards() {
    let vectors = given().maglev_vectors;
    assert_eq!(vectors.len(), 1);
    for vector in vectors {
        let size = TableSize::new(vector.table_size).expect("a prime");
        // In no order.
        let shards: Vec<_> = vector.members.iter().rev().collect();
        let shards: Vec<_> = shards
            .iter()
            .map(|member| Shard::new(member.key.parse().expect("a SID")))
            .collect();
        let table = ShardTable::build(size, &shards).expect("shards");
        let weighted: Vec<_> = vector
            .members
            .iter()
            .map(|member| (member.key.as_bytes(), 1))
            .collect();
        let transcribed = tables::build(vector.table_size, &weighted);
        for member in &vector.members {
            let key = member.key.as_bytes();
            let preference = tables::offset_and_skip(key, vector.table_size.into());
            assert_eq!(preference, (member.offset, member.skip), "{}", member.key);
            let owns = |slot: &u32| table.table().owner(*slot) == Some(key);
            let slots = (0..vector.table_size).filter(owns).count();
            assert_eq!(slots, member.slots, "{}", member.key);
        }
        let rank = |slot: u32| {
            let owner = table.place_hash(slot).shard.expect("an owner");
            let text = owner.to_string();
            let mut members = vector.members.iter();
            let member = members.find(|member| member.key == text).expect("a member");
            assert_eq!(transcribed[slot as usize], Some(member.key.as_bytes()));
            member.rank as u8
        };
        let ranks: Vec<_> = (0..vector.table_size).map(rank).collect();
        let checksum = format!("{:#010x}", reference::hash(&ranks));
        assert_eq!(checksum, vector.table_digest.value);
        assert_eq!(table.table().digest().to_string(), "966625a83b6df9cd");
    }
}

/// Weighted and empty tables of the same three shards.
#[test]
fn tables_with_weights() {
    for (weights, slots, digest) in [
        ([3, 1, 2], [511, 170, 340], "b6d8fe40151de8dd"),
        ([100, 1, 1], [1001, 10, 10], "c5644856b6c1635d"),
        ([1, 0, 1], [511, 0, 510], "76e8caf23bd7194c"),
        ([0, 0, 0], [0, 0, 0], "8b2bafb95b9d7322"),
    ] {
        let shards: Vec<_> = (0x10..)
            .zip(weights)
            .map(|(node, weight)| Shard {
                sid: fleet::sid(node),
                weight,
            })
            .collect();
        let table = ShardTable::build(TableSize::SHARD, &shards).expect("shards");
        let owned = |shard: &Shard| {
            (0..1021)
                .filter(|slot| table.place_hash(*slot).shard == Some(shard.sid))
                .count()
        };
        assert_eq!(shards.iter().map(owned).collect::<Vec<_>>(), slots);
        assert_eq!(table.table().digest().to_string(), digest);
    }
}

/// The whole way of the specification's example.
#[test]
fn the_first_vector_lands_on_the_first_shard() {
    let shards = fleet::shards(0x10..0x13);
    let source = "2001:db8:aaaa::7".parse().expect("an address");
    let key = HashKey::source(Scope::of(HashTable(42)), source);
    let placement = guideway::placement::place(TableSize::SHARD, &shards, &key).expect("shards");
    assert_eq!((placement.hash, placement.slot), (0x0c29_e964, 941));
    assert_eq!(placement.shard, Some(shards[0].sid));
}
