// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How many pins there are, and whom they hold against the table.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

use super::{Flow, Held, Holder, Rules, Standing, Tick};
use crate::egress::known::Known;
use crate::egress::{Egress, InstanceError};
use crate::group::{GroupId, Snapshot};
use crate::placement::{FlowFields, HashKey, HashTable, Ports, Scope};
use crate::route::TableId;

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
        let known = Known::read(self)?;
        let mut census = Census {
            source_capacity,
            flow_capacity,
            tenants_at_quota: at_quota(&known, pins.usage()?.into_iter()),
            ..Census::default()
        };
        let rules = Rules::new(groups.iter().copied());
        let groups: BTreeMap<_, _> = groups.iter().map(|group| (group.group, *group)).collect();
        // Rows of one tenant are no neighbours, but one tenant has most of them.
        let mut last: Option<(TableId, Option<HashTable>)> = None;
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
                let table = pin.holder.table;
                let hash_table = match last {
                    Some((of, hash_table)) if of == table => hash_table,
                    _ => known.of(table).next().map(|(_, tenant)| tenant.hash_table),
                };
                last = Some((table, hash_table));
                let placed = hash_table.and_then(|of| placed(group, &pin.holder, of));
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
    let key = match &holder.flow {
        None => HashKey::source(scope, holder.source),
        Some(flow) => HashKey::flow(scope, &fields(holder.source, flow)?),
    };
    let member = group.place(key.hash32())?;
    Some(Held {
        slot: member.slot,
        generation: member.generation,
    })
}

/// What of a flow is hashed. A pin carries what was hashed when it was made: fragments have no ports.
fn fields(source: IpAddr, flow: &Flow) -> Option<FlowFields> {
    let ports = Ports {
        source: flow.source_port,
        destination: flow.destination_port,
    };
    match (source, flow.destination) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            Some(FlowFields::ipv6(from, to, flow.protocol, ports))
        }
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            Some(FlowFields::ipv4(from, to, flow.protocol, ports))
        }
        _ => None,
    }
}

fn at_quota(known: &Known, usage: impl Iterator<Item = (TableId, super::Use)>) -> u64 {
    let full = usage.filter(|(table, counted)| {
        let quota = known.of(*table).next().map(|(_, tenant)| tenant.pin_quota);
        quota.is_some_and(|quota| quota.0 > 0 && counted.pins >= u64::from(quota.0))
    });
    full.count() as u64
}
