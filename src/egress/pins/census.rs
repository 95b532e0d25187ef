// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many pins there are, and whom they hold against the table.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use super::{Held, Holder, Rules, Standing, Tick};
use crate::egress::{Egress, InstanceError};
use crate::group::{GroupId, Snapshot};
use crate::placement::{HashTable, Scope};
use crate::tenant::Tenant;

/// The pins of an instance in a few numbers. None of them names a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Census {
    /// Pins of addresses.
    pub by_source: u64,
    /// How many of these there is room for.
    pub source_capacity: u32,
    /// Pins of flows.
    pub by_flow: u64,
    /// How many of these there is room for.
    pub flow_capacity: u32,
    /// Pins in use whose member is not the one that the group's table names, or whose tenant has no
    /// interface any more: who would go elsewhere if all pins vanished. By group; each that has pins in
    /// use is there.
    pub at_risk: BTreeMap<GroupId, u64>,
    /// Tenants that have as many pins as they may have, of those that may have any.
    pub tenants_at_quota: u64,
    /// Rows that no program of this library writes; none of the other numbers has them.
    pub unreadable: u64,
}

impl Egress {
    /// Counts all pins in one pass, by what `groups` are published. Packets make pins meanwhile, and
    /// what is published meanwhile is not taken into account.
    ///
    /// Takes about half a microsecond for each pin, and nobody waits for it.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn pin_census(&self, groups: &[&Snapshot], now: Tick) -> Result<Census, InstanceError> {
        let pins = self.pins()?;
        let (source_capacity, flow_capacity) = pins.capacity();
        let mut tenants = HashMap::new();
        self.maps.tenants.for_each(|&ifindex, row| {
            if let Ok(tenant) = Tenant::from_row(ifindex, row) {
                tenants.insert(tenant.table, tenant);
            }
            ControlFlow::Continue(())
        })?;
        let mut census = Census {
            source_capacity,
            flow_capacity,
            ..Census::default()
        };
        pins.for_each_use(|table, counted| {
            let quota = tenants.get(&table).map_or(0, |tenant| tenant.pin_quota.0);
            let full = quota > 0 && counted.pins >= u64::from(quota);
            census.tenants_at_quota += u64::from(full);
        })?;
        let rules = Rules::new(groups.iter().copied());
        let groups: BTreeMap<_, _> = groups.iter().map(|group| (group.group, *group)).collect();
        pins.for_each(|pin| {
            let Ok(pin) = pin else {
                census.unreadable += 1;
                return ControlFlow::Continue(());
            };
            match pin.holder.flow {
                None => census.by_source += 1,
                Some(_) => census.by_flow += 1,
            }
            let group = groups.get(&pin.holder.group);
            let live = rules.standing(&pin, now) == Standing::Live;
            if let Some(group) = group.filter(|_| live) {
                let tenant = tenants.get(&pin.holder.table);
                let placed = tenant.and_then(|of| placed(group, &pin.holder, of.hash_table));
                *census.at_risk.entry(pin.holder.group).or_default() +=
                    u64::from(placed != Some(pin.held));
            }
            ControlFlow::Continue(())
        })?;
        Ok(census)
    }
}

/// The member that the table names for a holder.
fn placed(group: &Snapshot, holder: &Holder, table: HashTable) -> Option<Held> {
    let scope = Scope {
        table,
        group: group.hash_group,
    };
    let member = group.place(holder.hash(scope)?)?;
    Some(Held {
        slot: member.slot,
        generation: member.generation,
    })
}
