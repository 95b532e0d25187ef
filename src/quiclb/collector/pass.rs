// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! One pass in the kernel over both tables.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bytemuck::Zeroable;

use super::rules::Rules;
use super::tools::Passes;
use super::CollectError;
use crate::abi;
use crate::affinity::SlotSet;
use crate::kernel::map::Update;
use crate::service::Tracking;

/// Slots whose bits share a word: those of a cell.
pub(super) const CELL_SLOTS: u32 = abi::Limit::GW_CELL_SLOTS.0;

/// The id of none: what a pass begins with.
const NO_SERVICE: u32 = 0;

/// What a sweep found.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// In the order of the rules.
    pub(super) services: Vec<FoundService>,
    /// Entries of services that are gone.
    pub(super) strangers: abi::SweepCounts,
    /// Entries of each backend, by the index of its counters.
    pub(super) bound: Vec<abi::Bound>,
    pub(super) duration: Duration,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FoundService {
    pub(super) flows: abi::SweepCounts,
    pub(super) cids: abi::SweepCounts,
    /// Slots with an entry that differs from the owner; empty where all flows are tracked.
    pub(super) differing: SlotSet,
}

impl Found {
    /// Entries of connection IDs by origin, and what would break without this machine, as they are
    /// kept for `status`.
    pub(super) fn fill(&self, collection: &mut abi::Collection) {
        let sum = |of: fn(&FoundService) -> u64| self.services.iter().map(of).sum::<u64>();
        collection.flows = sum(|service| service.flows.entries);
        collection.learned = sum(|service| super::report::learned(&service.cids));
        collection.registered = sum(|service| service.cids.registered);
        collection.imported = sum(|service| service.cids.imported);
        collection.blast_radius = sum(|service| service.flows.differing + service.cids.differing);
    }
}

/// Takes the bits of the slots of each service out of those of all cells.
pub(super) fn differing(
    rules: &Rules,
    bits: impl Fn(u32) -> Result<u64, CollectError>,
) -> Result<Vec<SlotSet>, CollectError> {
    let services = rules.services.iter().map(|service| {
        if service.tracking == Tracking::All {
            return Ok(SlotSet::default());
        }
        let cells = service.record.slots.div_ceil(CELL_SLOTS);
        let words = (0..cells).map(|cell| bits(service.record.slots_at + cell));
        Ok(SlotSet::from_words(words.collect::<Result<_, _>>()?))
    });
    services.collect()
}

/// Goes over both tables. The lock on the state directory is held, and the generation of the rules
/// is live.
pub(super) fn sweep(
    passes: &Passes,
    rules: &Rules,
    now_ns: u64,
    cid_seed: u64,
) -> Result<Found, CollectError> {
    prepare(passes, rules)?;
    let started = Instant::now();
    let mut context = abi::Sweep {
        generation: rules.generation,
        now_ns,
        cid_seed,
        strangers: Zeroable::zeroed(),
    };
    for routine in [&passes.flows, &passes.cids] {
        let result = routine.call(&mut context)?;
        if result != abi::SweepResult::GW_SWEEP_DONE.0 {
            return Err(CollectError::Refused {
                program: routine.program().name().to_owned(),
                generation: rules.generation,
                result,
            });
        }
    }
    let duration = started.elapsed();
    let all_bits = passes.differ.first(rules.cells)?;
    let differing = differing(rules, |cell| {
        Ok(all_bits.get(cell as usize).copied().unwrap_or(0))
    })?;
    let services = rules.services.iter().zip(differing);
    let services = services.map(|(service, differing)| {
        let found = passes.rules.get(&service.id)?;
        let found = found.unwrap_or_else(Zeroable::zeroed);
        Ok(FoundService {
            flows: found.flows,
            cids: found.cids,
            differing,
        })
    });
    Ok(Found {
        services: services.collect::<Result<_, CollectError>>()?,
        strangers: context.strangers,
        bound: passes.tally.first(rules.incarnations.len() as u32)?,
        duration,
    })
}

/// Fills the maps of the programs: rules and backends with all counts at zero, and no slot that
/// differs.
fn prepare(passes: &Passes, rules: &Rules) -> Result<(), CollectError> {
    let mut former = Vec::new();
    passes.rules.for_each(|&id, _| {
        former.push(id);
        ControlFlow::Continue(())
    })?;
    for id in former.into_iter().filter(|&id| rules.find(id).is_none()) {
        passes.rules.remove(&id)?;
    }
    let none: abi::SweepService = Zeroable::zeroed();
    passes.rules.update(&NO_SERVICE, &none, Update::Any)?;
    for service in &rules.services {
        let value = abi::SweepService {
            service_at: service.cell,
            flow_idle_ns: service.patience.flow_ns,
            closed_ns: service.patience.closed_ns,
            cid_idle_ns: service.patience.cid_ns,
            ..Zeroable::zeroed()
        };
        passes.rules.update(&service.id, &value, Update::Any)?;
    }
    passes.tally.set_first(&rules.none_bound())?;
    Ok(passes.differ.clear(rules.cells)?)
}
