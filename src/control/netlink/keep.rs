// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Next hops that are kept alive.
//!
//! Packets that are sent with a stored address do not pass through the kernel's neighbour table, and
//! an entry that nobody uses ages and is collected. So the kernel is told to keep the entries of the
//! next hops itself. They are marked as ours, so that a process that comes later lets go of those
//! that it does not need.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use crate::kernel::routing::{self, NeighbourEntry, NeighbourKey};
use crate::kernel::SysError;

/// The number by which the entries that are kept are known (`NDA_PROTOCOL`, `proto` of `ip neigh`).
pub const NEIGHBOUR_PROTOCOL: u8 = 103;

/// A next hop that the kernel did not agree to keep or to let go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("next hop {address} at interface {ifindex} is not kept: {error}")]
#[non_exhaustive]
pub struct Unkept {
    /// Index of the interface.
    pub ifindex: u32,
    /// Its address.
    pub address: Ipv6Addr,
    /// What the kernel said.
    pub error: SysError,
}

/// The entries that this process keeps.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// None before it was looked what an earlier process kept.
    kept: Option<BTreeSet<NeighbourKey>>,
}

/// What is to be done about one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Somebody else keeps it, or wrote it down.
    None,
    /// It is ours and well.
    Kept,
    /// It is to be ours, or to be looked for again.
    Order,
}

fn need(entry: Option<&NeighbourEntry>) -> Need {
    match entry {
        Some(entry) if entry.is_fixed() => Need::None,
        Some(entry) if entry.managed && entry.protocol != NEIGHBOUR_PROTOCOL => Need::None,
        Some(entry) if entry.managed && entry.usable().is_some() => Need::Kept,
        _ => Need::Order,
    }
}

fn is_ours(entry: &NeighbourEntry) -> bool {
    entry.managed && entry.protocol == NEIGHBOUR_PROTOCOL
}

impl Keeper {
    /// Keeps these next hops, and lets go of all others that were kept. `hops` is what the kernel
    /// just said of each, `idle` are next hops on links without a carrier, of which nothing is
    /// asked now.
    pub(super) fn keep(
        &mut self,
        hops: &BTreeMap<NeighbourKey, Option<NeighbourEntry>>,
        idle: &BTreeSet<NeighbourKey>,
    ) -> Result<Vec<Unkept>, SysError> {
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            None => (routing::all_neighbours()?.iter())
                .filter(|entry| is_ours(entry))
                .map(NeighbourEntry::key)
                .collect(),
        };
        let (mut orders, mut others) = (Vec::new(), Vec::new());
        for (&key, entry) in hops {
            match need(entry.as_ref()) {
                Need::None => others.push(key),
                Need::Kept => drop(kept.insert(key)),
                Need::Order => orders.push(key),
            }
        }
        kept.retain(|key| !others.contains(key));
        let surplus: Vec<_> = (kept.iter().copied())
            .filter(|key| !hops.contains_key(key) && !idle.contains(key))
            .collect();
        // What failed is tried again by the next sweep.
        self.kept = Some(kept);
        let mut unkept = self.order(&orders)?;
        unkept.extend(self.release(&surplus)?);
        Ok(unkept)
    }

    fn order(&mut self, keys: &[NeighbourKey]) -> Result<Vec<Unkept>, SysError> {
        let outcomes = routing::manage(keys, NEIGHBOUR_PROTOCOL)?;
        let mut unkept = Vec::new();
        for (&key, outcome) in keys.iter().zip(outcomes) {
            match outcome {
                Ok(()) => drop(self.kept.get_or_insert_default().insert(key)),
                Err(errno) => unkept.push(Unkept::new(key, errno)),
            }
        }
        Ok(unkept)
    }

    fn release(&mut self, keys: &[NeighbourKey]) -> Result<Vec<Unkept>, SysError> {
        // Whoever changed an entry since keeps it as it is.
        let entries = routing::neighbours(keys)?;
        let ours: Vec<_> = (entries.iter().flatten())
            .filter(|entry| is_ours(entry) && !entry.is_fixed())
            .map(NeighbourEntry::key)
            .collect();
        let outcomes = routing::release(&ours)?;
        let failed: BTreeMap<_, _> = (ours.iter().zip(outcomes))
            .filter_map(|(&key, outcome)| Some((key, outcome.err()?)))
            .collect();
        let kept = self.kept.get_or_insert_default();
        kept.retain(|key| !keys.contains(key) || failed.contains_key(key));
        let unkept = failed.into_iter();
        Ok(unkept.map(|(key, errno)| Unkept::new(key, errno)).collect())
    }
}

impl Unkept {
    fn new((ifindex, address): NeighbourKey, errno: i32) -> Self {
        let error = SysError::new("keep", "the neighbour", errno);
        Self {
            ifindex,
            address,
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of linux/neighbour.h.
    const REACHABLE: u16 = 0x02;
    const FAILED: u16 = 0x20;
    const PERMANENT: u16 = 0x80;

    fn entry(state: u16, managed: bool, protocol: u8) -> NeighbourEntry {
        NeighbourEntry {
            ifindex: 2,
            address: "fe80::2".parse().unwrap(),
            mac: (state != FAILED).then_some([2, 0, 0, 0, 0, 2]),
            state,
            learned: false,
            managed,
            protocol,
        }
    }

    #[test]
    fn an_order_is_given_for_what_is_not_kept_and_well() {
        const OURS: u8 = NEIGHBOUR_PROTOCOL;
        assert_eq!(need(None), Need::Order);
        for (entry, expected) in [
            (entry(REACHABLE, true, OURS), Need::Kept),
            // It is looked for again by each round.
            (entry(FAILED, true, OURS), Need::Order),
            // As all are where the kernel cannot keep them.
            (entry(REACHABLE, false, OURS), Need::Order),
            (entry(REACHABLE, false, 0), Need::Order),
            (entry(FAILED, false, 0), Need::Order),
            (entry(REACHABLE, true, 0), Need::None),
            (entry(FAILED, true, 77), Need::None),
            (entry(PERMANENT, false, OURS), Need::None),
        ] {
            assert_eq!(need(Some(&entry)), expected, "{entry:?}");
        }
        let learned = NeighbourEntry {
            learned: true,
            ..entry(REACHABLE, false, 0)
        };
        assert_eq!(need(Some(&learned)), Need::None);
    }
}
