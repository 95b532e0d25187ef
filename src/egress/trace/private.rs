// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The very program, loaded once more for itself: nothing is pinned, nothing attached, and all of
//! it goes away with its handles.

use bytemuck::bytes_of;

use super::TraceError;
use crate::abi;
use crate::egress::explain::{Free, PinSight};
use crate::egress::Limits;
use crate::kernel::egress_object::Options;
use crate::kernel::map::{MapShape, Update};
use crate::kernel::program::Program;
use crate::kernel::snapshot::{Slots, Snapshot};
use crate::kernel::typed::{Hash, PerCpuArray, Trie};
use crate::kernel::SysError;
use crate::oracle::egress::{Decision, Pin, PinUse, World};
use crate::pin::Holder;
use crate::reason::egress::Selection;

/// Counters behind those of packets are of events, which a trace does not tell of.
const COUNTERS: u32 = abi::EgressCounter::GW_EGRESS_EVENT_SENT.0;

/// What the program finds.
pub(super) struct Contents<'a> {
    pub(super) limits: Limits,
    pub(super) world: &'a World,
    pub(super) pins: &'a [(Holder, Pin)],
    /// Of the one tenant.
    pub(super) used: Option<PinUse>,
    /// For pins beside these.
    pub(super) room: Free,
}

/// A program of our own and what it sees.
#[derive(Debug)]
pub(super) struct Private {
    /// It keeps all the maps that it uses.
    program: Program,
    pins: Hash<abi::PinKey, abi::Pin>,
    flow_pins: Hash<abi::FlowPinKey, abi::Pin>,
    pin_use: Hash<u32, abi::PinUse>,
    slots: PerCpuArray<abi::ShardStats>,
    counters: PerCpuArray<u64>,
    members: u32,
    /// Places for pins that are left.
    free: Free,
    /// What the counters showed last.
    counts: Vec<u64>,
}

impl Private {
    pub(super) fn load(contents: &Contents<'_>) -> Result<Self, TraceError> {
        let Contents {
            limits,
            world,
            pins,
            used,
            room,
        } = contents;
        let by_flow = pins.iter().filter(|(holder, _)| holder.flow.is_some());
        let flows = by_flow.count();
        let sources = pins.len() - flows;
        let most = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let sizes = limits.sizes();
        let mut object = Options {
            sizes,
            entries: &[
                ("gw_tenants", most(world.tenants.len())),
                ("gw_pin_use", most(world.tenants.len())),
                ("gw_routes", most(world.routes.len())),
                ("gw_pins", most(sources + room.sources)),
                ("gw_flow_pins", most(flows + room.flows)),
                ("gw_eg_events", 4096),
            ],
            ..Options::default()
        }
        .load()?;
        let mut take = |name| object.take_map(name);
        let tenants = Hash::<u32, abi::Tenant>::new(take("gw_tenants")?)?;
        let routes = Trie::<abi::RouteKey, abi::Route>::new(take("gw_routes")?)?;
        let groups = Slots::new(take("gw_groups")?)?;
        let config = Slots::new(take("gw_eg_config")?)?;
        let private = Self {
            pins: Hash::new(take("gw_pins")?)?,
            flow_pins: Hash::new(take("gw_flow_pins")?)?,
            pin_use: Hash::new(take("gw_pin_use")?)?,
            slots: PerCpuArray::new(take("gw_shardstat")?)?,
            counters: PerCpuArray::new(take("gw_eg_stat")?)?,
            members: sizes.members,
            free: *room,
            counts: vec![0; COUNTERS as usize],
            program: object.program,
        };
        let shape = sizes.snapshot_shape();
        let images = world.groups.iter().map(|(id, group)| {
            let image = group.to_bytes(world.limits)?;
            Ok((u32::from(id.get()), snapshot(&shape, &image)?))
        });
        let images = images.collect::<Result<Vec<_>, TraceError>>()?;
        for (index, image) in &images {
            groups.swap(*index, image)?;
        }
        if let Some(encap) = &world.encap {
            let row = encap.to_row();
            let shape = MapShape {
                value_size: size_of::<abi::EgressConfig>() as u32,
                ..shape
            };
            config.swap(0, &snapshot(&shape, bytes_of(&row))?)?;
        }
        for (key, route) in &world.routes {
            routes.update(&key.to_row(), &route.to_row(), Update::Insert)?;
        }
        for (ifindex, tenant) in &world.tenants {
            if let Some(PinUse { pins, refused }) = *used {
                let row = abi::PinUse { pins, refused };
                let table = tenant.table.get();
                private.pin_use.update(&table, &row, Update::Insert)?;
            }
            tenants.update(ifindex, &tenant.to_row(*ifindex), Update::Insert)?;
        }
        private.put_pins(pins)?;
        private.fill_up(sources, flows)?;
        Ok(private)
    }

    fn put_pins(&self, pins: &[(Holder, Pin)]) -> Result<(), SysError> {
        for (holder, pin) in pins {
            let row = pin.to_row();
            match &holder.flow {
                None => {
                    let key = holder.source_key();
                    self.pins.update(&key, &row, Update::Insert)?;
                }
                Some(flow) => {
                    if let Some(key) = holder.flow_key(flow) {
                        self.flow_pins.update(&key, &row, Update::Insert)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// No map is of no size: where there shall be no room, a key that no packet has takes it.
    fn fill_up(&self, sources: usize, flows: usize) -> Result<(), SysError> {
        let row = abi::Pin::default();
        if sources + self.free.sources == 0 {
            let zero = 1;
            let key = abi::PinKey {
                zero,
                ..Default::default()
            };
            self.pins.update(&key, &row, Update::Insert)?;
        }
        if flows + self.free.flows == 0 {
            let zero = 1;
            let key = abi::FlowPinKey {
                zero,
                ..Default::default()
            };
            self.flow_pins.update(&key, &row, Update::Insert)?;
        }
        Ok(())
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    pub(super) fn sight(&self) -> PinSight<'_> {
        PinSight {
            sources: &self.pins,
            flows: &self.flow_pins,
            usage: &self.pin_use,
            free: self.free,
        }
    }

    pub(super) fn pin_of(&self, decision: &Decision) -> Result<Option<Pin>, SysError> {
        let holder = decision.choice.and_then(|choice| choice.holder);
        match holder {
            Some(holder) => self.sight().find(&holder),
            None => Ok(None),
        }
    }

    pub(super) fn used_of(&self, decision: &Decision) -> Result<Option<PinUse>, SysError> {
        match &decision.tenant {
            Some(tenant) => self.sight().used(tenant.table),
            None => Ok(None),
        }
    }

    /// Packets and bytes of the slot that a decision counts.
    pub(super) fn slot_of(&self, decision: &Decision) -> Result<Option<(u64, u64)>, SysError> {
        let Some((group, slot)) = decision.slot else {
            return Ok(None);
        };
        let index = u32::from(group.get()) * self.members + u32::from(slot.get());
        let counts = self.slots.fold(index, (0, 0), |sum, of| {
            (sum.0 + of.packets, sum.1 + of.bytes)
        })?;
        Ok(Some(counts))
    }

    /// The counters that went up since the last look, and by how much.
    pub(super) fn counted(&mut self) -> Result<Vec<(u32, u64)>, SysError> {
        let mut counted = Vec::new();
        let counts = &mut self.counts;
        self.counters.for_each(|index, cpus| {
            let sum = cpus.iter().sum();
            if let Some(last) = counts.get_mut(index as usize).filter(|last| **last != sum) {
                counted.push((index, sum - *last));
                *last = sum;
            }
        })?;
        Ok(counted)
    }

    /// Takes into account that a pin was made.
    pub(super) fn note_new(&mut self, decision: &Decision, selections: &[Selection]) {
        if selections.contains(&Selection::PinNew) {
            let holder = decision.choice.and_then(|choice| choice.holder);
            let free = match holder.and_then(|holder| holder.flow) {
                Some(_) => &mut self.free.flows,
                None => &mut self.free.sources,
            };
            *free = free.saturating_sub(1);
        }
    }
}

fn snapshot(shape: &MapShape, value: &[u8]) -> Result<Snapshot, SysError> {
    let snapshot = Snapshot::create(shape)?;
    snapshot.fill(value)?;
    snapshot.freeze()?;
    Ok(snapshot)
}
