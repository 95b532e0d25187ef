// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The instance's counters, by the names of its specification.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::InstanceError;
use super::instance::QuicLb;
use crate::abi;
use crate::kernel::SysError;
use crate::plan::Live;
use crate::reason::{Reason, Rule};

/// What an instance has counted since it was made. A number only rises, as long as what it is about
/// stays: a service or backend that comes again begins at zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Packets by what became of them; their sum is the packets seen.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The services of the live generation, in the order of their names.
    pub services: Vec<ServiceStats>,
    /// The event ring.
    pub events: EventStats,
}

/// What one service has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServiceStats {
    /// Its name.
    pub name: String,
    /// Forwarded packets by the rule that placed them.
    pub rules: BTreeMap<&'static str, u64>,
    /// `packets` and `bytes` (frame lengths) of everything that found the service,
    /// `removed_packets` that went to backends which are gone, and the named counters. What went to a
    /// backend may be twice in `removed_packets` if the process that removed it was killed just when
    /// it added that.
    pub counters: BTreeMap<&'static str, u64>,
    /// Its backends in the order of their ids.
    pub backends: Vec<BackendStats>,
}

/// What went to one backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BackendStats {
    /// Its number.
    pub id: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes: frame lengths.
    pub bytes: u64,
}

/// What became of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EventStats {
    /// Written to the ring.
    pub emitted: u64,
    /// Left out because their kind was over its rate.
    pub suppressed: u64,
    /// Left out because the ring was full.
    pub lost: u64,
}

impl QuicLb {
    /// Reads all counters. Costs one call per service and backend.
    ///
    /// # Errors
    /// The record of the live generation, which has the names, cannot be read.
    pub fn stats(&self) -> Result<Stats, InstanceError> {
        self.stats_of(self.live_record()?.as_ref())
    }

    /// The counters by the names in this record of the live generation.
    pub(super) fn stats_of(&self, live: Option<&Live>) -> Result<Stats, InstanceError> {
        let mut stats = Stats {
            reasons: self.reasons()?,
            events: self.event_stats()?,
            ..Default::default()
        };
        let Some(live) = live else {
            return Ok(stats);
        };
        for service in live.spec.services() {
            let Some(record) = live.record.service(service.id.get()) else {
                continue;
            };
            let zero: abi::ServiceStats = bytemuck::Zeroable::zeroed();
            let sum = self.maps.services.fold(record.stats, zero, add_service)?;
            let mut counters = BTreeMap::from([
                ("packets", sum.packets),
                ("bytes", sum.bytes),
                ("removed_packets", self.maps.removed.get(record.stats)?),
            ]);
            counters.extend(COUNTERS.iter().map(|(number, name)| {
                (
                    *name,
                    sum.counters.get(number.0 as usize).copied().unwrap_or(0),
                )
            }));
            let mut backends = Vec::with_capacity(service.backends.len());
            for backend in &service.backends {
                let Some(placed) = record.backend(backend.id.get()) else {
                    continue;
                };
                let id = backend.id.get();
                let start = BackendStats {
                    id,
                    ..Default::default()
                };
                backends.push(self.maps.backends.fold(placed.stats, start, |sum, cpu| {
                    BackendStats {
                        id,
                        packets: sum.packets.wrapping_add(cpu.packets),
                        bytes: sum.bytes.wrapping_add(cpu.bytes),
                    }
                })?);
            }
            stats.services.push(ServiceStats {
                name: service.name.clone(),
                rules: Rule::ALL
                    .iter()
                    .map(|rule| (rule.name(), sum.rules[usize::from(rule.number())]))
                    .collect(),
                counters,
                backends,
            });
        }
        Ok(stats)
    }

    fn reasons(&self) -> Result<BTreeMap<&'static str, u64>, InstanceError> {
        let zero: abi::ReasonStats = bytemuck::Zeroable::zeroed();
        let sum = self.maps.reasons.fold(0, zero, |mut sum, cpu| {
            add_each(&mut sum.packets, &cpu.packets);
            sum
        })?;
        Ok(Reason::ALL
            .iter()
            .map(|reason| (reason.name(), sum.packets[usize::from(reason.number())]))
            .collect())
    }

    /// All packets that the program has seen.
    pub(super) fn packets_seen(&self) -> Result<u64, SysError> {
        self.maps.reasons.fold(0, 0_u64, |sum, cpu| {
            let packets = cpu.packets.iter();
            packets.fold(sum, |sum, count| sum.wrapping_add(*count))
        })
    }

    pub(super) fn event_stats(&self) -> Result<EventStats, InstanceError> {
        let mut stats = EventStats::default();
        self.maps.buckets.for_each(|_, cpus| {
            for bucket in cpus {
                stats.emitted = stats.emitted.wrapping_add(bucket.emitted);
                stats.suppressed = stats.suppressed.wrapping_add(bucket.suppressed_total);
                stats.lost = stats.lost.wrapping_add(bucket.lost);
            }
        })?;
        Ok(stats)
    }
}

fn add_service(mut sum: abi::ServiceStats, cpu: &abi::ServiceStats) -> abi::ServiceStats {
    sum.packets = sum.packets.wrapping_add(cpu.packets);
    sum.bytes = sum.bytes.wrapping_add(cpu.bytes);
    add_each(&mut sum.rules, &cpu.rules);
    add_each(&mut sum.counters, &cpu.counters);
    sum
}

fn add_each(sums: &mut [u64], cpu: &[u64]) {
    for (sum, add) in sums.iter_mut().zip(cpu) {
        *sum = sum.wrapping_add(*add);
    }
}

/// Name of each counter of a service; the rest of the array is unused.
const COUNTERS: [(abi::Counter, &str); 45] = {
    use abi::Counter as C;
    [
        (C::GW_COUNTER_STARTS, "starts"),
        (C::GW_COUNTER_QUIC_LONG, "quic_long"),
        (C::GW_COUNTER_QUIC_SHORT, "quic_short"),
        (C::GW_COUNTER_FIXED_BIT_CLEAR, "fixed_bit_clear"),
        (C::GW_COUNTER_VERSION_NEGOTIATION, "version_negotiation"),
        (C::GW_COUNTER_RETRY, "retry"),
        (C::GW_COUNTER_UNKNOWN_VERSION, "unknown_version"),
        (C::GW_COUNTER_CID_ZERO, "cid_zero"),
        (C::GW_COUNTER_CID_LONG, "cid_long"),
        (C::GW_COUNTER_UNROUTABLE_RESERVED, "unroutable_reserved"),
        (C::GW_COUNTER_UNROUTABLE_CONFIG, "unroutable_config"),
        (C::GW_COUNTER_UNROUTABLE_SHORT, "unroutable_short"),
        (C::GW_COUNTER_UNROUTABLE_LENGTH, "unroutable_length"),
        (C::GW_COUNTER_UNKNOWN_SERVER_ID, "unknown_server_id"),
        (C::GW_COUNTER_QUARANTINED_SERVER_ID, "quarantined_server_id"),
        (C::GW_COUNTER_CID_LEARNED, "cid_learned"),
        (C::GW_COUNTER_CID_CONFLICT, "cid_conflict"),
        (C::GW_COUNTER_CID_LEN_MISMATCH, "cid_len_mismatch"),
        (C::GW_COUNTER_CID_REFUSED, "cid_refused"),
        (C::GW_COUNTER_REBIND, "rebind"),
        (C::GW_COUNTER_STALE, "stale"),
        (C::GW_COUNTER_ICMP, "icmp"),
        (C::GW_COUNTER_FRAGMENTS, "fragments"),
        (C::GW_COUNTER_DELETED_IDLE, "deleted_idle"),
        (C::GW_COUNTER_DELETED_CLOSED, "deleted_closed"),
        (C::GW_COUNTER_DELETED_BACKEND_GONE, "deleted_backend_gone"),
        (C::GW_COUNTER_DELETED_REDUNDANT, "deleted_redundant"),
        (C::GW_COUNTER_RESURRECTED, "resurrected"),
        (C::GW_COUNTER_IMPORTED, "imported"),
        (C::GW_COUNTER_PLAIN, "plain"),
        (C::GW_COUNTER_HIT, "hit"),
        (C::GW_COUNTER_RESELECTED, "reselected"),
        (C::GW_COUNTER_START_INSERTED, "start_inserted"),
        (C::GW_COUNTER_BASE_INSERTED, "base_inserted"),
        (C::GW_COUNTER_HELD_DEFAULT, "held_default"),
        (C::GW_COUNTER_ALL_INSERTED, "all_inserted"),
        (C::GW_COUNTER_RACED, "raced"),
        (C::GW_COUNTER_REFUSED_HIGH, "refused_high"),
        (C::GW_COUNTER_REFUSED_FULL, "refused_full"),
        (C::GW_COUNTER_REFUSED_BUSY, "refused_busy"),
        (C::GW_COUNTER_DEAD_USED, "dead_used"),
        (C::GW_COUNTER_NO_ENTRY, "no_entry"),
        (C::GW_COUNTER_NO_BACKEND, "no_backend"),
        (C::GW_COUNTER_TAG_MISMATCH, "tag_mismatch"),
        (C::GW_COUNTER_AT_RISK, "at_risk"),
    ]
};
