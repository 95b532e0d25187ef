// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads pins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Holder, Pin, ReadError};
use crate::abi;
use crate::kernel::map::{Map, ShapeError};
use crate::kernel::typed::Hash;
use crate::kernel::SysError;
use crate::route::{RowError, TableId};

/// The pins of an instance, to look at: nothing here changes one.
#[derive(Debug)]
pub struct Pins {
    pub(super) sources: Hash<abi::PinKey, abi::Pin>,
    pub(super) flows: Hash<abi::FlowPinKey, abi::Pin>,
    usage: Hash<u32, abi::PinUse>,
}

/// What the packet path counts of a tenant's pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// Pins, of both kinds.
    pub pins: u64,
    /// Pins that were refused for want of quota, ever.
    pub refused: u64,
}

impl Pins {
    /// The pins in these maps: `gw_pins`, `gw_flow_pins` and `gw_pin_use`.
    ///
    /// # Errors
    /// A map of another kind, or whose keys or values have another size.
    pub fn new(sources: Map, flows: Map, usage: Map) -> Result<Self, ShapeError> {
        Ok(Self {
            sources: Hash::new(sources)?,
            flows: Hash::new(flows)?,
            usage: Hash::new(usage)?,
        })
    }

    /// The pin of a holder.
    ///
    /// # Errors
    /// The kernel refuses, or there is a row that no program of this library writes.
    pub fn find(&self, holder: &Holder) -> Result<Option<Pin>, ReadError> {
        let row = match &holder.flow {
            None => self.sources.get(&holder.source_key())?,
            Some(flow) => match holder.flow_key(flow) {
                Some(key) => self.flows.get(&key)?,
                None => None,
            },
        };
        Ok(row.map(|row| Pin::new(*holder, &row)).transpose()?)
    }

    /// Calls `each` with every pin of both kinds until it breaks off, in no order. Those that stay are
    /// seen once. A row that no program of this library writes is an error of its own.
    ///
    /// Takes about 0.3 µs a pin, and a short lock of each part of the table after the other, during
    /// which packets that would insert into that part wait.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn for_each(
        &self,
        mut each: impl FnMut(Result<Pin, RowError>) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        let mut flow = ControlFlow::Continue(());
        self.sources.for_each(|key, row| {
            flow = each(Holder::of_source(key).and_then(|holder| Pin::new(holder, row)));
            flow
        })?;
        if flow.is_break() {
            return Ok(());
        }
        self.flows.for_each(|key, row| {
            each(Holder::of_flow(key).and_then(|holder| Pin::new(holder, row)))
        })
    }

    /// What is counted of each tenant's pins.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn usage(&self) -> Result<BTreeMap<TableId, Use>, SysError> {
        let mut usage = BTreeMap::new();
        self.for_each_use(|table, counted| {
            usage.insert(table, counted);
        })?;
        Ok(usage)
    }

    /// The same, one tenant after the other, in no order.
    pub(super) fn for_each_use(&self, mut each: impl FnMut(TableId, Use)) -> Result<(), SysError> {
        self.usage.for_each(|table, row| {
            let abi::PinUse { pins, refused } = *row;
            each(TableId::new(*table), Use { pins, refused });
            ControlFlow::Continue(())
        })
    }

    /// How many pins of addresses there is room for, and of flows.
    #[must_use]
    pub fn capacity(&self) -> (u32, u32) {
        (
            self.sources.map().shape().max_entries,
            self.flows.map().shape().max_entries,
        )
    }
}
