// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How much memory of the kernel an instance takes.

use serde::Serialize;

use super::spec::Limits;
use crate::abi;
use crate::group;

/// What the kernel adds to an entry of a hash table, and to each of its buckets; a table has as many
/// buckets as entries, rounded up to a power of two.
const HASH_ENTRY_BYTES: u64 = 48;
const BUCKET_BYTES: u64 = 16;
/// What it adds to an entry that is not there before it is used.
const LIST_BYTES: u64 = 8;
/// What it adds to a route.
const TRIE_NODE_BYTES: u64 = 24;
/// The length of a prefix, which is no part of its data.
const PREFIX_LENGTH_BYTES: u64 = 4;
/// What an array takes that has no entries.
const ARRAY_BYTES: u64 = 312;
const POINTER_BYTES: u64 = 8;
/// What a ring takes beside its bytes: its own pages, and two pointers to each of the others, which are
/// mapped twice.
const PAGE_BYTES: u64 = 4096;
const RING_PAGES: u64 = 3;

/// Memory of the kernel in bytes, as it accounts for it (`memlock` of a map's `fdinfo`).
///
/// Pins, counters and the ring are there from the beginning. Tenants and routes take theirs one by
/// one: these are the numbers of full maps. Where routes part, the kernel keeps nodes that it does not
/// account for, at most as many as there are routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Memory {
    /// Interfaces of tenants, and the counts of their pins.
    pub tenants: u64,
    /// Routes.
    pub routes: u64,
    /// Groups as they are published. While one is replaced it is there twice.
    pub groups: u64,
    /// Pins of addresses.
    pub pins: u64,
    /// Pins of flows.
    pub flow_pins: u64,
    /// Counters, of each possible CPU.
    pub counters: u64,
    /// The ring of events.
    pub ring: u64,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.tenants
            + self.routes
            + self.groups
            + self.pins
            + self.flow_pins
            + self.counters
            + self.ring
    }

    /// What one group takes as it is published, with maps of these sizes.
    #[must_use]
    pub const fn of_snapshot(groups: group::Limits) -> u64 {
        ARRAY_BYTES + groups.snapshot_bytes() as u64
    }
}

impl Limits {
    /// How much memory maps of these sizes take when they are full, on a machine of so many possible
    /// CPUs.
    #[must_use]
    pub fn memory(&self, cpus: u32) -> Memory {
        let cpus = u64::from(cpus);
        let groups = u64::from(self.groups.groups());
        let slots = groups * u64::from(self.groups.members());
        let snapshot = Memory::of_snapshot(self.groups);
        let per_cpu =
            |entries: u64, value: u64| ARRAY_BYTES + entries * (POINTER_BYTES + value * cpus);
        Memory {
            tenants: hash::<u32, abi::Tenant>(self.tenants, LIST_BYTES)
                + hash::<u32, abi::PinUse>(self.tenants, LIST_BYTES),
            routes: u64::from(self.routes)
                * (TRIE_NODE_BYTES + bytes::<abi::RouteKey>() - PREFIX_LENGTH_BYTES
                    + bytes::<abi::Route>()),
            groups: ARRAY_BYTES + groups * (POINTER_BYTES + snapshot),
            pins: hash::<abi::PinKey, abi::Pin>(self.pins, 0),
            flow_pins: hash::<abi::FlowPinKey, abi::Pin>(self.flow_pins, 0),
            counters: per_cpu(slots, bytes::<abi::ShardStats>())
                + per_cpu(
                    abi::EgressCounter::GW_EGRESS_COUNTERS.0.into(),
                    bytes::<u64>(),
                ),
            ring: ring(self.ring_bytes.into()),
        }
    }
}

const fn bytes<T>() -> u64 {
    size_of::<T>() as u64
}

/// A full hash table.
fn hash<K, V>(entries: u32, more: u64) -> u64 {
    let buckets = u64::from(entries).next_power_of_two();
    let [key, value] = [bytes::<K>(), bytes::<V>()].map(|bytes| bytes.next_multiple_of(8));
    buckets * BUCKET_BYTES + u64::from(entries) * (HASH_ENTRY_BYTES + key + value + more)
}

fn ring(bytes: u64) -> u64 {
    bytes + RING_PAGES * PAGE_BYTES + bytes / PAGE_BYTES * 2 * POINTER_BYTES
}
