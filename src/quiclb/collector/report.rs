// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a sweep found and did.

use serde::Serialize;

use super::pass::Found;
use super::rules::Rules;
use crate::abi;
use crate::affinity::collect::Reason;

/// How a sweep goes over the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SweepMethod {
    /// In the kernel, where entries are: one uninterrupted pass over each table.
    Kernel,
    /// In user space, which reads entries in batches: three times the work, in pieces of any size.
    Batch,
}

/// What a sweep found and did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SweepReport {
    /// How it was done.
    pub method: SweepMethod,
    /// Number of the generation that was live: entries are held against its slots and backends.
    pub generation: u64,
    /// Whether both tables were gone over to their ends; the numbers of a sweep under way say how
    /// far it is.
    pub complete: bool,
    /// Entries that were looked at.
    pub scanned: u64,
    /// Entries that stay.
    pub live: u64,
    /// Of these, entries that the next sweep will delete unless a packet comes first.
    pub expiring: u64,
    /// Entries that were deleted.
    pub deleted: Deleted,
    /// Entries that were deleted and put back, because a packet came meanwhile.
    pub resurrected: u64,
    /// Entries that should have been put back and found no room: their flows may move.
    pub lost: u64,
    /// Milliseconds that it took, pauses left out.
    pub duration_ms: f64,
    /// Services in the order of their ids.
    pub services: Vec<SweptService>,
}

/// Deleted entries by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Deleted {
    /// No packet came for too long.
    pub idle: u64,
    /// No packet came for long since the flow looked closed.
    pub closed: u64,
    /// The backend is gone.
    pub backend_gone: u64,
    /// The table says the same, or no packet finds them any more.
    pub redundant: u64,
}

/// What a sweep found of one service, without what it deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SweptService {
    /// Its name.
    pub name: String,
    /// Its number.
    pub service_id: u32,
    /// Entries of flows.
    pub flows: u64,
    /// Learned connection IDs.
    pub learned: u64,
    /// Registered connection IDs.
    pub registered: u64,
    /// Imported connection IDs.
    pub imported: u64,
    /// Live entries whose backend is another than the table alone would choose: what breaks if this
    /// machine disappears. Of registered and imported connection IDs nobody knows.
    pub disagree: u64,
    /// Slots with an entry that differs from their owner; 0 where all flows are tracked.
    pub slots: u32,
}

impl Deleted {
    fn add(&mut self, deleted: &[u64]) {
        let number = |reason: Reason| deleted.get(reason.index()).copied().unwrap_or(0);
        self.idle += number(Reason::Idle);
        self.closed += number(Reason::Closed);
        self.backend_gone += number(Reason::BackendGone);
        self.redundant += number(Reason::Redundant);
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.idle + self.closed + self.backend_gone + self.redundant
    }
}

impl SweepReport {
    pub(super) fn of(method: SweepMethod, complete: bool, rules: &Rules, found: &Found) -> Self {
        let mut report = Self {
            method,
            generation: rules.generation,
            complete,
            scanned: 0,
            live: 0,
            expiring: 0,
            deleted: Deleted::default(),
            resurrected: 0,
            lost: 0,
            duration_ms: found.duration.as_secs_f64() * 1_000.0,
            services: Vec::with_capacity(rules.services.len()),
        };
        report.add(&found.strangers);
        for (service, found) in rules.services.iter().zip(&found.services) {
            report.add(&found.flows);
            report.add(&found.cids);
            report.services.push(SweptService {
                name: service.name.clone(),
                service_id: service.id,
                flows: found.flows.entries,
                learned: learned(&found.cids),
                registered: found.cids.registered,
                imported: found.cids.imported,
                disagree: found.flows.differing + found.cids.differing,
                slots: found.differing.count(),
            });
        }
        report
    }

    fn add(&mut self, counts: &abi::SweepCounts) {
        self.live += counts.entries;
        self.expiring += counts.expiring;
        self.deleted.add(&counts.deleted);
        self.resurrected += counts.resurrected;
        self.lost += counts.lost;
        // What was put back was looked at once.
        let deleted: u64 = counts.deleted.iter().sum();
        self.scanned += counts.entries + deleted - counts.resurrected;
    }
}

/// Learned connection IDs: those of no other origin.
pub(super) fn learned(cids: &abi::SweepCounts) -> u64 {
    cids.entries
        .saturating_sub(cids.registered)
        .saturating_sub(cids.imported)
}
