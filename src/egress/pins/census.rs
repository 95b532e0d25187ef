// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many pins there are, and whom they hold against the table.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::status::put;
use super::{Held, Holder, Rules, Standing, Tick};
use crate::egress::{Egress, InstanceError};
use crate::group::{GroupId, Snapshot};
use crate::placement::{HashTable, Scope};
use crate::route::TableId;
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
        // In order, so that each pin finds its own without a hash that withstands attackers.
        let mut tenants = Vec::new();
        self.maps.tenants.for_each(|&ifindex, row| {
            tenants.extend(Tenant::from_row(ifindex, row));
            ControlFlow::Continue(())
        })?;
        tenants.sort_unstable_by_key(|tenant| tenant.table);
        let tenant = |table: TableId| {
            let at = tenants.binary_search_by_key(&table, |tenant| tenant.table);
            at.ok().and_then(|at| tenants.get(at))
        };
        let mut census = Census {
            source_capacity,
            flow_capacity,
            ..Census::default()
        };
        pins.for_each_use(|table, counted| {
            let quota = tenant(table).map_or(0, |tenant| tenant.pin_quota.0);
            let full = quota > 0 && counted.pins >= u64::from(quota);
            census.tenants_at_quota += u64::from(full);
        })?;
        let rules = Rules::new(groups.iter().copied());
        // By group: who is published, and of whom how many pins are at risk.
        let mut published = Vec::new();
        for &group in groups {
            put(&mut published, group.group.get().into(), (group, None));
        }
        pins.for_each(|pin| {
            let Ok(pin) = pin else {
                census.unreadable += 1;
                return ControlFlow::Continue(());
            };
            match pin.holder.flow {
                None => census.by_source += 1,
                Some(_) => census.by_flow += 1,
            }
            let group = published.get_mut(usize::from(pin.holder.group.get()));
            let live = rules.standing(&pin, now) == Standing::Live;
            if let Some(Some((group, at_risk))) = group.filter(|_| live) {
                let tenant = tenant(pin.holder.table);
                let placed = tenant.and_then(|of| placed(group, &pin.holder, of.hash_table));
                *at_risk.get_or_insert(0) += u64::from(placed != Some(pin.held));
            }
            ControlFlow::Continue(())
        })?;
        let at_risk = published.into_iter().flatten();
        census.at_risk = at_risk
            .filter_map(|(group, at_risk)| Some((group.group, at_risk?)))
            .collect();
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
