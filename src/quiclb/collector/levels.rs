// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How full the tables are, and who is admitted.

use serde::Serialize;

use super::{tools, CollectError, Collector};
use crate::abi;
use crate::affinity::level::Fill;
use crate::affinity::rules::Level;
use crate::kernel::map::Map;
use crate::kernel::routine::Routine;
use crate::kernel::SysError;
use crate::plan::Live;
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::{QuicLb, Writer};

/// Entries of both tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Occupancy {
    /// Of flows.
    pub flows: u64,
    /// Of connection IDs.
    pub cids: u64,
}

impl Occupancy {
    /// Of both.
    pub(super) fn total(self) -> u64 {
        self.flows.saturating_add(self.cids)
    }
}

/// A table of flow state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StateTable {
    /// Entries of flows.
    Flows,
    /// Exact bindings of connection IDs.
    Cids,
}

/// A level that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LevelChange {
    /// Name of the service.
    pub service: String,
    /// Of which table.
    pub table: StateTable,
    /// The level before: 0 admits all, 1 what a change of the table needs, 2 nothing.
    pub from: u8,
    /// The level now.
    pub to: u8,
}

impl Collector {
    /// How many entries there are: the kernel's numbers, or an estimate where it has none.
    pub(super) fn occupancy(&self, instance: &QuicLb) -> Result<Occupancy, CollectError> {
        let counter = self
            .tools
            .as_ref()
            .and_then(|tools| tools.occupancy.as_ref());
        match counter {
            Some(counter) => Ok(count(counter)?),
            None => self.estimate(instance),
        }
    }

    /// What the last sweep counted, and what was inserted since this collector made it: no more than
    /// a lower bound before it has made one.
    fn estimate(&self, instance: &QuicLb) -> Result<Occupancy, CollectError> {
        let swept = last_sweep(instance)?;
        let Some(counted) = &self.counted else {
            return Ok(swept);
        };
        let now = inserted(instance)?;
        let add = |swept: u64, now: u64, then: u64, room: u32| {
            swept
                .saturating_add(now.saturating_sub(then))
                .min(room.into())
        };
        let room = |map: &Map| map.shape().max_entries;
        Ok(Occupancy {
            flows: add(
                swept.flows,
                now.flows,
                counted.inserted.flows,
                room(instance.maps.flows.map()),
            ),
            cids: add(
                swept.cids,
                now.cids,
                counted.inserted.cids,
                room(instance.maps.cids.map()),
            ),
        })
    }

    /// Sets the levels of all services for tables that are so full. Before this collector has made a
    /// complete sweep, an estimate says no more than that there are at least so many entries, and
    /// nothing tells those of a single service: levels that go by either only rise.
    pub(super) fn set_levels(
        &self,
        writer: &Writer,
        live: &Live,
        occupancy: Occupancy,
        now_ns: u64,
    ) -> Result<Vec<LevelChange>, CollectError> {
        let fill = |used, map: &Map| Fill {
            used,
            capacity: map.shape().max_entries.into(),
        };
        let flows = fill(occupancy.flows, writer.maps.flows.map());
        let cids = fill(occupancy.cids, writer.maps.cids.map());
        let rules = self.options.levels;
        let counts = self
            .tools
            .as_ref()
            .is_some_and(|tools| tools.occupancy.is_some());
        let knows_all = counts || self.counted.is_some();
        let mut changes = Vec::new();
        for (service, record) in live.placed() {
            let admission = writer.maps.levels.get(record.stats)?;
            let quota = self.options.quotas.get(&service.id).map(|&capacity| Fill {
                used: self.flows_of(service.id.get()),
                capacity,
            });
            let from = [admission.flows, admission.cids].map(Level::from_abi);
            let mut to = [
                rules.level(from[0], flows, quota),
                rules.level(from[1], cids, None),
            ];
            let knows = [quota.is_none() || self.counted.is_some(), true];
            for ((to, from), knows) in to.iter_mut().zip(from).zip(knows) {
                if !(knows && knows_all) {
                    *to = from.max(*to);
                }
            }
            if from == to {
                continue;
            }
            self.set_level(writer, record.stats, &admission, to, now_ns)?;
            let tables = [StateTable::Flows, StateTable::Cids].into_iter();
            changes.extend(
                tables
                    .zip(from.into_iter().zip(to))
                    .filter(|(_, (from, to))| from != to)
                    .map(|(table, (from, to))| LevelChange {
                        service: service.name.clone(),
                        table,
                        from: number(from),
                        to: number(to),
                    }),
            );
        }
        Ok(changes)
    }

    /// Entries of a service's flows, as the last sweep counted them.
    fn flows_of(&self, service: u32) -> u64 {
        let counted = self.counted.as_ref();
        let flows = counted.and_then(|counted| counted.flows.get(&service));
        flows.copied().unwrap_or(0)
    }

    fn set_level(
        &self,
        writer: &Writer,
        stats: u32,
        admission: &abi::Admission,
        to: [Level; 2],
        now_ns: u64,
    ) -> Result<(), CollectError> {
        let [flows, cids] = to.map(Level::to_abi);
        let program = self.tools.as_ref().and_then(|tools| tools.level.as_ref());
        if let Some(program) = program {
            program.call(&mut abi::SweepLevels {
                stats,
                flows_from: admission.flows,
                flows_to: flows,
                cids_from: admission.cids,
                cids_to: cids,
            })?;
            return Ok(());
        }
        // This undoes what the program notes at this moment. A refusal may be among it, so one is
        // noted in any case: windows last longer, never shorter.
        let value = abi::Admission {
            flows,
            cids,
            refused_ns: admission.refused_ns.max(now_ns),
        };
        Ok(writer.maps.levels.set(stats, &value)?)
    }
}

/// The level's number in documents.
pub(crate) fn number(level: Level) -> u8 {
    match level {
        Level::All => 0,
        Level::Reserve => 1,
        Level::None => 2,
    }
}

/// Asks the kernel.
fn count(counter: &Routine) -> Result<Occupancy, SysError> {
    let mut context = abi::Occupancy::default();
    counter.call(&mut context)?;
    Ok(Occupancy {
        flows: context.flows,
        cids: context.cids,
    })
}

/// How many entries an instance has: the kernel's numbers, or those of the last sweep where it has
/// none.
pub(crate) fn occupancy(instance: &QuicLb) -> Result<Occupancy, InstanceError> {
    match tools::occupancy(instance)? {
        Some(counter) => Ok(count(&counter)?),
        None => Ok(last_sweep(instance)?),
    }
}

/// What the last complete sweep counted.
fn last_sweep(instance: &QuicLb) -> Result<Occupancy, SysError> {
    let swept = instance.maps.collection.get(0)?;
    Ok(Occupancy {
        flows: swept.flows,
        cids: swept.learned + swept.registered + swept.imported,
    })
}

/// Inserts of packets and imports, as all services have counted them. Registrations, and inserts of
/// packets that found a dead entry, are few.
pub(super) fn inserted(instance: &QuicLb) -> Result<Occupancy, CollectError> {
    use abi::Counter as C;
    let mut sum = Occupancy::default();
    let flows = [
        C::GW_COUNTER_START_INSERTED,
        C::GW_COUNTER_BASE_INSERTED,
        C::GW_COUNTER_ALL_INSERTED,
        C::GW_COUNTER_REBIND,
    ];
    instance.maps.services.for_each(|_, cpus| {
        for stats in cpus {
            let count = |counter: C| stats.counters.get(counter.0 as usize).copied().unwrap_or(0);
            sum.flows += flows.into_iter().map(count).sum::<u64>();
            sum.cids += count(C::GW_COUNTER_CID_LEARNED) + count(C::GW_COUNTER_IMPORTED);
        }
    })?;
    Ok(sum)
}
