// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What packets of one interface find in an instance.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::abi;
use crate::egress::instance::Egress;
use crate::egress::InstanceError;
use crate::kernel::typed::Hash;
use crate::kernel::SysError;
use crate::oracle::egress::{Pin, PinUse, Pins, Room, World};
use crate::pin::Holder;
use crate::route::{Route, TableId};
use crate::tenant::Tenant;

impl Egress {
    /// What packets of an interface find, apart from pins: its tenant, the tenant's routes, and the
    /// groups that these name.
    pub(in crate::egress) fn world_at(&self, ifindex: u32) -> Result<World, InstanceError> {
        let row = self.maps.tenants.get(&ifindex)?;
        let tenant = row.map(|row| Tenant::from_row(ifindex, &row)).transpose()?;
        let routes = match &tenant {
            Some(tenant) => self.routes(tenant.table)?,
            None => BTreeMap::new(),
        };
        let mut groups = BTreeMap::new();
        for (id, _) in routes.values().filter_map(Route::group) {
            if !groups.contains_key(&id) {
                groups.extend(self.group(id)?.map(|group| (id, group)));
            }
        }
        Ok(World {
            limits: self.limits.groups(),
            tenants: tenant.map(|tenant| (ifindex, tenant)).into_iter().collect(),
            routes,
            groups,
            encap: self.encap()?,
        })
    }

    /// The instance's pins.
    pub(in crate::egress) fn pin_sight(&self) -> Result<PinSight<'_>, SysError> {
        let (sources, flows, usage) = (&self.maps.pins, &self.maps.flow_pins, &self.maps.pin_use);
        let mut known = 0;
        usage.for_each(|_, row| {
            known += row.pins;
            ControlFlow::Continue(())
        })?;
        Ok(PinSight {
            free: Free {
                sources: free(sources, known)?,
                flows: free(flows, known)?,
            },
            sources,
            flows,
            usage,
        })
    }
}

/// How many more pins there is room for, by what all tenants have of both kinds; counted one by one
/// only where that leaves a doubt.
fn free<K: bytemuck::Pod>(pins: &Hash<K, abi::Pin>, known: u64) -> Result<usize, SysError> {
    let room = u64::from(pins.map().shape().max_entries);
    let taken = if known < room {
        known
    } else {
        let mut counted = 0;
        pins.for_each(|_, _| {
            counted += 1;
            ControlFlow::Continue(())
        })?;
        counted
    };
    Ok(usize::try_from(room.saturating_sub(taken)).unwrap_or(usize::MAX))
}

/// Places that no pin has.
#[derive(Debug, Clone, Copy)]
pub(in crate::egress) struct Free {
    pub(in crate::egress) sources: usize,
    pub(in crate::egress) flows: usize,
}

impl Free {
    /// No more than so many of each.
    pub(in crate::egress) fn at_most(self, most: usize) -> Self {
        Self {
            sources: self.sources.min(most),
            flows: self.flows.min(most),
        }
    }
}

/// Pins of an instance, or of a private copy of its program.
#[derive(Debug, Clone, Copy)]
pub(in crate::egress) struct PinSight<'a> {
    pub(in crate::egress) sources: &'a Hash<abi::PinKey, abi::Pin>,
    pub(in crate::egress) flows: &'a Hash<abi::FlowPinKey, abi::Pin>,
    pub(in crate::egress) usage: &'a Hash<u32, abi::PinUse>,
    pub(in crate::egress) free: Free,
}

impl PinSight<'_> {
    /// The pin of a holder.
    pub(in crate::egress) fn find(&self, holder: &Holder) -> Result<Option<Pin>, SysError> {
        let row = match &holder.flow {
            None => self.sources.get(&holder.source_key())?,
            Some(flow) => match holder.flow_key(flow) {
                Some(key) => self.flows.get(&key)?,
                None => None,
            },
        };
        Ok(row.as_ref().map(Pin::from_row))
    }

    /// What is counted of a tenant's pins.
    pub(in crate::egress) fn used(&self, table: TableId) -> Result<Option<PinUse>, SysError> {
        let row = self.usage.get(&table.get())?;
        Ok(row.map(|row| PinUse {
            pins: row.pins,
            refused: row.refused,
        }))
    }

    /// All that one packet can meet: the pin of its holder, the tenant's count, and as much room as
    /// there is beside what is not copied.
    pub(in crate::egress) fn around(
        &self,
        table: TableId,
        holder: Option<&Holder>,
    ) -> Result<Pins, SysError> {
        let mut pins = Pins::with_capacity(0, 0);
        pins.source = Room::new(self.free.sources);
        pins.flow = Room::new(self.free.flows);
        pins.used
            .extend(self.used(table)?.map(|used| (table, used)));
        if let Some(holder) = holder {
            pins.pins
                .extend(self.find(holder)?.map(|pin| (*holder, pin)));
        }
        Ok(pins)
    }
}
