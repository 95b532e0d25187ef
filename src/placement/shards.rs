// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Shards, their table, and where a key lands in it.

use serde::{Serialize, Serializer};

use super::error::ShardError;
use super::key::HashKey;
use crate::abi;
use crate::maglev::{Member, Table, TableSize};
use crate::srv6::BaseSid;

/// A shard that takes new addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    /// What identifies it.
    pub sid: BaseSid,
    /// Its share in relation to the others. Zero: no slot.
    pub weight: u32,
}

impl Shard {
    /// A shard of weight 1.
    #[must_use]
    pub const fn new(sid: BaseSid) -> Self {
        Self { sid, weight: 1 }
    }
}

/// The key of a shard in the table: the canonical text (RFC 5952) of its base SID.
#[must_use]
pub fn member_key(sid: BaseSid) -> String {
    sid.to_string()
}

/// Whether a group's table is the one that shard groups of datum-cloud/galactic have for the same
/// shards: 1,021 slots, at most 32 candidates, no weights. `weights` are those of all candidates, also
/// of those that drain or cannot be reached.
#[must_use]
pub fn upstream_compatible(size: TableSize, weights: impl IntoIterator<Item = u32>) -> bool {
    const MOST_CANDIDATES: usize = 32;
    let mut weights = weights.into_iter();
    let Some(first) = weights.next() else {
        return size == TableSize::SHARD;
    };
    // A weight of zero, even if all have it, takes slots away.
    let (mut count, mut equal) = (1, first > 0);
    for weight in weights {
        count += 1;
        equal &= weight == first;
    }
    size == TableSize::SHARD && equal && count <= MOST_CANDIDATES
}

/// Where a packet without a pin goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The hash of its key; eight hexadecimal digits in documents.
    #[serde(serialize_with = "eight_digits")]
    pub hash: u32,
    /// The hash's slot.
    pub slot: u32,
    /// The slot's owner; `None` if no shard takes new addresses.
    pub shard: Option<BaseSid>,
}

// The form of the function is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn eight_digits<S: Serializer>(hash: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{hash:08x}"))
}

/// The table of a group's active shards.
///
/// The order in which shards are given does not matter, and one that is given twice counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardTable {
    /// Slots hold positions in `shards`.
    table: Table<u16>,
    shards: Box<[Shard]>,
}

impl ShardTable {
    /// The largest table of a group.
    pub const MAX_SLOTS: u32 = abi::EgressLimit::GW_EGRESS_MAX_SLOTS.0;
    /// The most shards of a group.
    pub const MAX_SHARDS: usize = abi::EgressLimit::GW_EGRESS_MAX_MEMBERS.0 as usize;

    /// Builds the table of these shards; without any, nobody owns a slot.
    ///
    /// # Errors
    /// One shard with two weights, too many shards or slots, and fewer slots than shards.
    pub fn build(size: TableSize, shards: &[Shard]) -> Result<Self, ShardError> {
        if size.get() > Self::MAX_SLOTS {
            return Err(ShardError::TableTooLarge {
                requested: size.get(),
                max: Self::MAX_SLOTS,
            });
        }
        let shards = merged(shards)?;
        let keys: Vec<_> = shards.iter().map(|shard| member_key(shard.sid)).collect();
        let members: Vec<_> = (0..)
            .zip(keys.iter().zip(&shards))
            .map(|(index, (key, shard))| Member::new(key.as_bytes(), index, shard.weight))
            .collect();
        let table = Table::build(size, &members)?;
        Ok(Self { table, shards })
    }

    /// The table; its slots hold positions in [`ShardTable::shards`].
    #[must_use]
    pub const fn table(&self) -> &Table<u16> {
        &self.table
    }

    /// The shards, each once, in ascending order of addresses.
    #[must_use]
    pub const fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Where a packet with this key goes.
    #[must_use]
    pub fn place(&self, key: &HashKey) -> Placement {
        self.place_hash(key.hash32())
    }

    /// Where a packet with this hash goes.
    #[must_use]
    pub fn place_hash(&self, hash: u32) -> Placement {
        let owner = self.table.by_modulo(hash);
        let shard = owner.and_then(|index| self.shards.get(usize::from(index)));
        Placement {
            hash,
            slot: self.table.size().slot_by_modulo(hash),
            shard: shard.map(|shard| shard.sid),
        }
    }
}

/// The shards in ascending order, each once.
fn merged(shards: &[Shard]) -> Result<Box<[Shard]>, ShardError> {
    let mut shards = shards.to_vec();
    shards.sort_unstable();
    shards.dedup();
    if let Some(pair) = shards.windows(2).find(|pair| pair[0].sid == pair[1].sid) {
        return Err(ShardError::Weights {
            sid: pair[0].sid,
            first: pair[0].weight,
            second: pair[1].weight,
        });
    }
    if shards.len() > ShardTable::MAX_SHARDS {
        return Err(ShardError::TooMany {
            given: shards.len(),
            max: ShardTable::MAX_SHARDS,
        });
    }
    Ok(shards.into())
}

/// Where a packet with this key goes, among the active shards of a group. Whoever has more than one
/// packet builds the [`ShardTable`] once.
///
/// # Errors
/// See [`ShardTable::build`].
pub fn place(size: TableSize, shards: &[Shard], key: &HashKey) -> Result<Placement, ShardError> {
    Ok(ShardTable::build(size, shards)?.place(key))
}
