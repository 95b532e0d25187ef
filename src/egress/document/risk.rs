// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a change does to those whom pins hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;

use crate::egress::apply::Changes;
use crate::egress::pins::{Pin, Rules, Standing, Tick};
use crate::egress::{Egress, InstanceError};
use crate::egress_spec::Resolved;
use crate::group::{GroupId, GroupPlan, HashMode, MemberState, Slot, Snapshot};
use crate::placement::{HashTable, Scope};
use crate::route::TableId;
use crate::tenant::Tenant;

/// What becomes of the pins of a group that are in use. Each is counted under `stay` or under one
/// reason to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PinsAtRisk {
    /// Pins in use.
    pub live: u64,
    /// They hold on.
    pub stay: u64,
    /// Of these, held to another shard than the table names: without their pins they would move.
    pub off_table: u64,
    /// Held to a member that leaves: they move.
    pub leaving: u64,
    /// Held to a member that nothing reaches any more: they move.
    pub unreachable: u64,
    /// Not looked at any more, as the group hashes something else or has no pins: those move whom
    /// the table sends elsewhere.
    pub released: u64,
    /// They go with their tenant or class.
    pub removed: u64,
}

impl PinsAtRisk {
    /// Those that may go to another shard at their next packet, or nowhere.
    #[must_use]
    pub const fn moving(&self) -> u64 {
        self.leaving + self.unreachable + self.released + self.removed
    }
}

/// The pins that are in use, by what becomes of them.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    pub(super) groups: BTreeMap<GroupId, PinsAtRisk>,
    /// By the slot that holds them now.
    pub(super) members: BTreeMap<(GroupId, Slot), u64>,
    /// Pins of tenants that go, in use or not.
    pub(super) tenants: BTreeMap<TableId, u64>,
}

impl Forecast {
    /// Looks at each pin once.
    pub(super) fn of(
        egress: &Egress,
        changes: &Changes,
        wanted: &Resolved,
    ) -> Result<Self, InstanceError> {
        let groups = changes.groups.iter();
        let tenants = wanted.tenants.iter().map(|tenant| tenant.tenant);
        Self::of_plans(egress, groups, &changes.tenants_removed, tenants)
    }

    /// The same of plans of groups, tenants that go, and what tenants are afterwards where that is
    /// something else.
    pub(super) fn of_plans<'p>(
        egress: &Egress,
        plans: impl Iterator<Item = &'p GroupPlan>,
        removed: &BTreeSet<TableId>,
        after: impl Iterator<Item = Tenant>,
    ) -> Result<Self, InstanceError> {
        let rules = Rules::new(&egress.groups_as_they_are()?.known);
        let tenants = egress.tenants()?;
        let known = tenants
            .values()
            .map(|tenant| (tenant.table, tenant.hash_table));
        let mut hash_tables: BTreeMap<_, _> = known.collect();
        hash_tables.extend(after.map(|tenant| (tenant.table, tenant.hash_table)));
        let after = plans.map(GroupPlan::snapshot);
        let after: BTreeMap<_, _> = after.map(|after| (after.group, after)).collect();
        let mut forecast = Self::default();
        let now = Tick::now();
        egress.pins()?.for_each(|pin| {
            if let Ok(pin) = pin {
                let table = pin.holder.table;
                let goes = removed.contains(&table);
                if goes {
                    *forecast.tenants.entry(table).or_default() += 1;
                }
                if rules.standing(&pin, now) == Standing::Live {
                    let group = pin.holder.group;
                    let after = after.get(&group).filter(|_| !goes).copied();
                    let hash_table = hash_tables.get(&table).copied();
                    let counts = forecast.groups.entry(group).or_default();
                    counts.count(&pin, after, hash_table);
                    let slot = (group, pin.held.slot);
                    *forecast.members.entry(slot).or_default() += 1;
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(forecast)
    }
}

impl PinsAtRisk {
    fn count(&mut self, pin: &Pin, after: Option<&Snapshot>, hash_table: Option<HashTable>) {
        self.live += 1;
        let Some(after) = after else {
            self.removed += 1;
            return;
        };
        let mode = match pin.holder.flow {
            None => HashMode::Source,
            Some(_) => HashMode::Flow,
        };
        if after.settings.hash_mode != mode || after.settings.pin_idle.is_off() {
            self.released += 1;
            return;
        }
        let member = after.member(pin.held.slot);
        let Some(member) = member.filter(|member| member.generation == pin.held.generation) else {
            self.leaving += 1;
            return;
        };
        if member.state() == MemberState::Unreachable {
            self.unreachable += 1;
            return;
        }
        self.stay += 1;
        let group = after.hash_group;
        let hash = hash_table.and_then(|table| pin.holder.hash(Scope { table, group }));
        let named = hash.and_then(|hash| after.place(hash));
        self.off_table += u64::from(named.is_some_and(|named| named.sid != member.sid));
    }
}
