// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The published vectors, against the crate and against the transcription.

use guideway::maglev::{Digest, Table};
use serde::Deserialize;

use crate::reference;
use crate::support::{backends, borrowed, members, size, table, Weighted};

#[derive(Deserialize)]
struct Vectors {
    permutations: Vec<Permutation>,
    tables: Vec<TableVector>,
    diffs: Vec<DiffVector>,
}

#[derive(Deserialize)]
struct Permutation {
    size: u32,
    key: String,
    offset: u64,
    skip: u64,
}

#[derive(Deserialize)]
struct NamedMember {
    key: String,
    weight: u32,
}

#[derive(Deserialize)]
struct Backends {
    count: usize,
    weights: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableVector {
    name: String,
    size: u32,
    members: Option<Vec<NamedMember>>,
    backends: Option<Backends>,
    slots: Option<Vec<u32>>,
    slots_range: Option<[u32; 2]>,
    ranks: Option<Vec<u32>>,
    ranks_fnv1a_32: Option<String>,
    digest: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiffVector {
    name: String,
    size: u32,
    old: Vec<NamedMember>,
    new: Vec<NamedMember>,
    moved: u32,
    forced: u32,
    extra: u32,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../vectors/maglev.json")).expect("the vector file")
}

/// Whether a table is small enough to be built under an interpreter, if this is one.
fn in_reach(vector: &TableVector) -> bool {
    !cfg!(miri) || vector.size < 10_000
}

fn named(members: &[NamedMember]) -> Weighted {
    members
        .iter()
        .map(|member| (member.key.clone().into_bytes(), member.weight))
        .collect()
}

impl TableVector {
    fn weighted(&self) -> Weighted {
        match (&self.members, &self.backends) {
            (Some(members), None) => named(members),
            (None, Some(Backends { count, weights })) => {
                let keys = backends(*count).into_iter().map(|(key, _)| key);
                keys.zip(weights.iter().copied().cycle()).collect()
            }
            _ => panic!("{}: either members or backends", self.name),
        }
    }
}

fn fnv1a_32(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(2_166_136_261, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(16_777_619)
    })
}

#[test]
fn permutations() {
    for Permutation {
        size,
        key,
        offset,
        skip,
    } in vectors().permutations
    {
        let found = reference::offset_and_skip(key.as_bytes(), size.into());
        assert_eq!(found, (offset, skip), "{key} at {size}");
        // A lone pair of members: the first claims its offset before the other has a turn.
        let pair: [(&[u8], u32); 2] = [(key.as_bytes(), 1), (b"~", 1)];
        let table = table(size, &pair);
        assert_eq!(
            table.owner(offset as u32),
            Some(key.as_bytes()),
            "{key} at {size}"
        );
    }
}

#[test]
fn tables() {
    let tables = vectors().tables;
    assert_eq!(tables.len(), 24);
    for vector in tables.into_iter().filter(in_reach) {
        let name = &vector.name;
        let weighted = vector.weighted();
        let weighted = borrowed(&weighted);
        let table = table(vector.size, &weighted);
        let mut sorted = weighted.clone();
        sorted.sort_unstable();

        let count = |index| table.slots().iter().filter(|&&slot| slot == index).count() as u32;
        if let Some(slots) = &vector.slots {
            let counts: Vec<_> = (0..)
                .zip(&weighted)
                .map(|(index, _)| count(index))
                .collect();
            assert_eq!(&counts, slots, "{name}");
        }
        if let Some([min, max]) = vector.slots_range {
            let shares = table.shares();
            let slots = || shares.members.iter().map(|share| share.slots);
            assert_eq!(
                (slots().min(), slots().max()),
                (Some(min), Some(max)),
                "{name}"
            );
            assert_eq!(slots().sum::<u32>(), vector.size, "{name}");
        }
        let rank = |slot: u32| {
            let owner = table.owner(slot).expect("an owner");
            sorted
                .binary_search_by_key(&owner, |&(key, _)| key)
                .expect("a member")
        };
        if let Some(ranks) = &vector.ranks {
            let found: Vec<_> = (0..vector.size).map(|slot| rank(slot) as u32).collect();
            assert_eq!(&found, ranks, "{name}");
        }
        if let Some(expected) = &vector.ranks_fnv1a_32 {
            let hash = fnv1a_32((0..vector.size).map(|slot| rank(slot) as u8));
            assert_eq!(&format!("{hash:08x}"), expected, "{name}");
        }
        if let Some(digest) = &vector.digest {
            assert_eq!(&table.digest().to_string(), digest, "{name}");
            assert_eq!(
                digest.parse::<Digest>().as_ref(),
                Ok(&table.digest()),
                "{name}"
            );
        }
    }
}

/// The transcription that other tests compare with is held to the same digests. It is the same on
/// every target, and too slow for an interpreter.
#[cfg(not(miri))]
#[test]
fn transcription() {
    // The largest are left out: they take many seconds without optimization.
    for vector in vectors()
        .tables
        .iter()
        .filter(|vector| vector.size < 500_000)
    {
        if let Some(digest) = &vector.digest {
            let weighted = vector.weighted();
            let slots = reference::build(vector.size, &borrowed(&weighted));
            let found = format!("{:016x}", reference::digest(&slots));
            assert_eq!(&found, digest, "{}", vector.name);
        }
    }
}

#[test]
fn diffs() {
    let diffs = vectors().diffs;
    assert_eq!(diffs.len(), 4);
    for vector in diffs {
        let build = |list| {
            let weighted = named(list);
            Table::build(size(vector.size), &members(&borrowed(&weighted))).expect("valid members")
        };
        let diff = build(&vector.old)
            .diff(&build(&vector.new))
            .expect("equal sizes");
        let found = (diff.moved(), diff.forced(), diff.extra());
        assert_eq!(
            found,
            (vector.moved, vector.forced, vector.extra),
            "{}",
            vector.name
        );
    }
}
