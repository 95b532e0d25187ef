// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants' counts of pins, made right.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytemuck::Pod;

use crate::abi;
use crate::egress::adjust::Adjuster;
use crate::egress::{Egress, InstanceError, Writer};
use crate::kernel::typed::Hash;
use crate::kernel::SysError;
use crate::route::TableId;

/// How often pins are counted until their tenants' counts are known to be right.
const COUNTS: usize = 5;

/// What became of tenants' counts of pins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recounted {
    /// Tenants whose count was wrong, and by how many pins it was raised or lowered.
    pub mended: BTreeMap<TableId, i64>,
    /// Tenants whose count may be wrong still: packets changed it whenever it was looked at.
    pub uncertain: u64,
}

impl Writer {
    /// Makes the count of each tenant's pins, which its quota is held against, what the number of its
    /// pins is. It differs after one of the maps was lost and made anew, or after whoever removed pins
    /// was killed. Packets go on, and nothing that they count is lost. Looks at all pins, up to five
    /// times where packets make new ones. Minimum kernel: 6.1; takes CAP_BPF.
    ///
    /// # Errors
    /// The kernel refuses to read, or the program that adds.
    pub fn recount_pins(&mut self) -> Result<Recounted, InstanceError> {
        let mut loaded = None;
        self.recount(|table, more| {
            let adjuster = match loaded.take() {
                Some(adjuster) => adjuster,
                None => Adjuster::load(self)?,
            };
            Ok(loaded.insert(adjuster).add_pins(table, more)?)
        })
    }
}

impl Egress {
    /// Has `add` called with what each tenant's count of pins lacks, modulo 2^64. Nobody else may remove
    /// pins meanwhile.
    pub(in crate::egress) fn recount<E: From<SysError>>(
        &self,
        mut add: impl FnMut(u32, u64) -> Result<(), E>,
    ) -> Result<Recounted, E> {
        let maps = &self.maps;
        let mut recounted = Recounted::default();
        for _ in 0..COUNTS {
            recounted.uncertain = 0;
            let before = usage(&maps.pin_use)?;
            let mut counts = BTreeMap::<u32, u64>::new();
            count(&maps.pins, |key| key.table_id, &mut counts)?;
            count(&maps.flow_pins, |key| key.table_id, &mut counts)?;
            for (table, after) in usage(&maps.pin_use)? {
                let counted = counts.get(&table).copied().unwrap_or(0);
                let Some(before) = before.get(&table) else {
                    continue;
                };
                let (least, most) = (before.pins.min(after.pins), before.pins.max(after.pins));
                if (least..=most).contains(&counted) {
                    continue;
                }
                if least != most {
                    recounted.uncertain += 1;
                    continue;
                }
                let more = counted.wrapping_sub(after.pins);
                add(table, more)?;
                *recounted.mended.entry(TableId::new(table)).or_default() += more as i64;
            }
            if recounted.uncertain == 0 {
                break;
            }
        }
        Ok(recounted)
    }
}

fn usage(map: &Hash<u32, abi::PinUse>) -> Result<BTreeMap<u32, abi::PinUse>, SysError> {
    let mut usage = BTreeMap::new();
    map.for_each(|table, row| {
        usage.insert(*table, *row);
        ControlFlow::Continue(())
    })?;
    Ok(usage)
}

fn count<K: Pod>(
    pins: &Hash<K, abi::Pin>,
    table_of: fn(&K) -> u32,
    counts: &mut BTreeMap<u32, u64>,
) -> Result<(), SysError> {
    pins.for_each(|key, _| {
        *counts.entry(table_of(key)).or_default() += 1;
        ControlFlow::Continue(())
    })
}
