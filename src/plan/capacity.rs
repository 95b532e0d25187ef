// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a generation takes of the instance's limits, and the faults where it takes too much.

use std::collections::BTreeSet;

use serde::Serialize;

use super::card::CardUse;
use super::contexts;
use super::document::ServicePlan;
use super::generation::Generation;
use super::image::Layout;
use super::live::Live;
use super::place::Placed;
use super::world::World;
use crate::abi;
use crate::id::InterfaceName;
use crate::service::{Fault, FaultCode, Limits, Warning, WarningCode};

/// Server IDs of one service, those in quarantine included.
const SERVER_IDS: u64 = 512;
const MIB: u64 = 1 << 20;
/// Kernel memory of one entry: 64 bytes for its bucket and header, then key and value, each a
/// multiple of 8.
const FLOW_BYTES: u64 = entry_bytes(size_of::<abi::FlowKey>());
const CID_BYTES: u64 = entry_bytes(size_of::<abi::CidKey>());

const fn entry_bytes(key: usize) -> u64 {
    (64 + key.next_multiple_of(8) + size_of::<abi::Binding>().next_multiple_of(8)) as u64
}

/// What a plan uses of each limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Capacity {
    /// Services of the instance.
    pub services: Use,
    /// Backends of all services together.
    pub backends: Use,
    /// Interfaces that frames are redirected to, those of the generation before included: both are
    /// admitted while one replaces the other.
    pub targets: Use,
    /// Server IDs of the service that has most, each counted once per config that carries it and
    /// those in quarantine included.
    pub server_ids: Use,
    /// Contexts for encrypted server IDs, one for each key, those of the generation before included:
    /// both exist while one replaces the other.
    pub crypto_contexts: Use,
    /// Entries of the flow map.
    pub flows: PredictedUse,
    /// Entries of the map of connection IDs.
    pub cids: PredictedUse,
    /// Kernel memory of generations and flow state, in bytes; none of it on a card, which has its own.
    pub memory_bytes: MemoryUse,
    /// Cells of 256 bytes that the generation uses of those that every generation of the instance
    /// has room for. Fixed when the instance is made, by `/limits/memory_mib`. None of them on a card.
    pub cells: Use,
    /// What is used of a card's tables, in mode `offload` alone.
    pub card: Option<CardUse>,
}

/// A number against its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Use {
    /// How many are used.
    pub used: u64,
    /// How many there can be.
    pub limit: u64,
}

/// A number now, the number expected later, and the limit of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PredictedUse {
    /// How many are used now.
    pub used: u64,
    /// How many there will be.
    pub predicted: u64,
    /// How many there can be.
    pub limit: u64,
}

/// Bytes of kernel memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemoryUse {
    /// The new generation.
    pub generation: u64,
    /// It and the one it replaces, which exist together for a moment.
    pub both_generations: u64,
    /// Flow state: all its entries, used or not, which exist from when the instance is made.
    pub affinity: u64,
    /// What the specification allows.
    pub limit: u64,
}

/// Cells of each generation for every MiB of memory that an instance may use: 3/64 of it, so that
/// both generations of a change take less than a tenth.
const CELLS_PER_MIB: u32 = 192;

/// Cells that every generation of an instance with these limits has room for, used or not: programs
/// look cells up fastest when all generations have the same number. Fixed when the instance is
/// made.
pub fn room_cells(limits: &Limits) -> u32 {
    limits.memory_mib.saturating_mul(CELLS_PER_MIB)
}

fn cell_bytes(cells: u32) -> u64 {
    u64::from(cells) * u64::from(abi::Limit::GW_CELL_BYTES.0)
}

/// The interfaces that frames are redirected to.
fn targets(generation: &Generation) -> impl Iterator<Item = &InterfaceName> {
    let services = generation.spec.services().iter();
    let backends = services.flat_map(|service| &service.backends);
    // What leaves where it came in is transmitted, not redirected.
    backends
        .map(|backend| &backend.interface)
        .filter(|name| *name != generation.spec.interface())
}

/// The lower bound of `/limits/flows` and `/limits/cids`.
const FEWEST: u64 = 1024;

/// Counts what `generation` uses of an instance whose generations have room for `room` cells;
/// `before` is the one that it replaces, `services` what becomes of either's.
pub(super) fn capacity(
    generation: &Generation,
    layout: &Layout,
    room: u32,
    live: Option<&Live>,
    before: Option<&Placed>,
    services: &[ServicePlan],
) -> Capacity {
    let before = before.map(|before| &before.generation);
    let limits = generation.spec.limits();
    let placed = || generation.services.iter();
    let card = CardUse::of(generation);
    // What the host holds; a card has neither.
    let (cells, new_bytes, affinity) = match card {
        None => (layout.cells, cell_bytes(room), affinity_bytes(limits)),
        Some(_) => (0, 0, 0),
    };
    let used = |used: usize, limit: u64| Use {
        used: used as u64,
        limit,
    };
    let known = live.map(|live| &live.flow_state);
    let flows = known.and_then(|known| known.flows).unwrap_or(0);
    let cids = known.and_then(|known| known.cids).unwrap_or(0);
    let expected = services
        .iter()
        .map(|service| service.disruption.entries_expected);
    Capacity {
        services: used(placed().count(), abi::Limit::GW_MAX_SERVICES.0.into()),
        backends: used(
            placed().flat_map(|service| &service.rows).flatten().count(),
            abi::Limit::GW_MAX_BACKEND_STATS.0.into(),
        ),
        targets: used(
            before
                .into_iter()
                .chain([generation])
                .flat_map(targets)
                .collect::<BTreeSet<_>>()
                .len(),
            abi::Limit::GW_MAX_TARGETS.0.into(),
        ),
        server_ids: used(
            placed()
                .map(|service| service.server_ids.len())
                .max()
                .unwrap_or(0),
            SERVER_IDS,
        ),
        crypto_contexts: used(
            contexts::used(live, &generation.spec),
            contexts::CONTEXTS.into(),
        ),
        flows: PredictedUse {
            used: flows,
            predicted: flows.saturating_add(expected.sum()),
            limit: limits.flows.into(),
        },
        cids: PredictedUse {
            used: cids,
            predicted: cids,
            limit: limits.cids.into(),
        },
        memory_bytes: MemoryUse {
            generation: new_bytes,
            both_generations: match before {
                Some(_) => 2 * new_bytes,
                None => new_bytes,
            },
            affinity,
            limit: u64::from(limits.memory_mib) * MIB,
        },
        cells: used(cells, room.into()),
        card,
    }
}

/// Kernel memory of both maps of flow state.
fn affinity_bytes(limits: &Limits) -> u64 {
    u64::from(limits.flows) * FLOW_BYTES + u64::from(limits.cids) * CID_BYTES
}

impl Capacity {
    /// The warning that the flow map may get full.
    pub(super) fn warning(&self) -> Option<Warning> {
        let flows = self.flows;
        let message = format!(
            "flows: {} entries now and {} expected, the limit is {}: those without an entry go \
             where they would without flow state, and windows stay open for longer",
            flows.used, flows.predicted, flows.limit,
        );
        (flows.predicted > flows.limit)
            .then(|| Warning::new("/limits/flows", WarningCode::FlowCapacity, message))
    }

    /// A fault for each limit that does not suffice, and for what the machine cannot hold.
    pub(super) fn faults(
        &self,
        generation: &Generation,
        live: Option<&Live>,
        world: &World,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (service, placed) in generation.services() {
            let used = placed.server_ids.len() as u64;
            if used > SERVER_IDS {
                faults.push(over(&service.pointer(), "server IDs", used, SERVER_IDS));
            }
        }
        for (what, count) in [
            ("backends", self.backends),
            ("interfaces of backends", self.targets),
            ("keys of encrypted server IDs", self.crypto_contexts),
        ] {
            if count.used > count.limit {
                faults.push(over("/services", what, count.used, count.limit));
            }
        }
        faults.extend(self.card.iter().flat_map(CardUse::faults));
        if self.cells.used > self.cells.limit {
            faults.push(Fault::new(
                "/limits/memory_mib",
                FaultCode::Capacity,
                cells_text(self.cells),
            ));
        }
        let memory = self.memory_bytes;
        let needed = memory.both_generations + memory.affinity;
        if needed > memory.limit {
            let mut fault = over(
                "/limits/memory_mib",
                "bytes of memory",
                needed,
                memory.limit,
            );
            fault.message.push_str(&self.fitting(memory.limit));
            faults.push(fault);
        }
        // What is live has its memory, and keeps it.
        let available = world.available_memory_bytes.filter(|_| live.is_none());
        if let Some(available) = available.filter(|available| needed > *available) {
            let message = format!(
                "bytes of memory: {needed} needed, the machine has {available}{}",
                self.fitting(available)
            );
            faults.push(Fault::new("/limits/flows", FaultCode::Capacity, message));
        }
        faults
    }

    /// What to say of smaller limits with which everything would fit into `bytes`.
    fn fitting(&self, bytes: u64) -> String {
        let memory = self.memory_bytes;
        let flows = self.flows.limit * FLOW_BYTES;
        let cids = memory.affinity - flows;
        let fit = |others: u64, each: u64| {
            let fit = bytes.saturating_sub(memory.both_generations + others) / each;
            (fit >= FEWEST).then_some(fit)
        };
        if let Some(fit) = fit(cids, FLOW_BYTES) {
            format!("; {fit} flows would fit")
        } else if let Some(fit) = fit(flows, CID_BYTES) {
            format!("; {fit} cids would fit")
        } else if let Some(fit) = fit(FEWEST * CID_BYTES, FLOW_BYTES) {
            format!("; {fit} flows would fit beside {FEWEST} cids")
        } else {
            format!(
                "; generations take {} of it, less with a smaller /limits/memory_mib",
                memory.both_generations
            )
        }
    }
}

/// What to say of a generation that needs more cells than there are.
pub(super) fn cells_text(Use { used, limit }: Use) -> String {
    let memory_mib = used.div_ceil(CELLS_PER_MIB.into());
    format!(
        "cells of 256 bytes for services, backends, server IDs and tables: {used} needed, the \
         limit is {limit}; an instance made with memory_mib {memory_mib} has room"
    )
}

fn over(pointer: &str, what: &str, needed: u64, limit: u64) -> Fault {
    Fault::new(
        pointer,
        FaultCode::Capacity,
        format!("{what}: {needed} needed, the limit is {limit}"),
    )
}
