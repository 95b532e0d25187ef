// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How the pins stand: counts by group, member and tenant.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Pin, Pins, Standings, Tick};
use crate::group::{Generation, GroupId, Slot, Snapshot};
use crate::kernel::SysError;
use crate::route::TableId;

/// How a pin stands. How many do, and more of what it means: [`Standings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// In use, or not idle for long enough.
    Live,
    /// Without a packet for too long.
    Idle,
    /// Of a tenure that is over.
    Stale,
    /// About to be deleted.
    Dead,
    /// Of a group that is not published.
    Unjudged,
}

/// What says how pins stand: members and idle times of the published groups.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// By group: each pin is looked up here.
    groups: Vec<Option<GroupRules>>,
}

#[derive(Debug, Clone)]
struct GroupRules {
    /// Ticks after which a pin is idle; none: no pins.
    idle_after: Option<i32>,
    /// By slot.
    members: Vec<Option<Generation>>,
}

/// How the pins of one instance stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Status {
    /// All pins.
    pub pins: Standings,
    /// By group.
    pub groups: BTreeMap<GroupId, Standings>,
    /// By slot of each group: those of its present member, or of the last one if it is free.
    pub members: BTreeMap<(GroupId, Slot), MemberPins>,
    /// By tenant: each that has pins, or a count of them.
    pub tenants: BTreeMap<TableId, TenantPins>,
    /// Pins of addresses.
    pub by_source: u64,
    /// How many of these there is room for.
    pub source_capacity: u32,
    /// Pins of flows.
    pub by_flow: u64,
    /// How many of these there is room for.
    pub flow_capacity: u32,
    /// Rows that no program of this library writes; none of the numbers above has them.
    pub unreadable: u64,
}

/// Pins that name a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberPins {
    /// Of the tenure that is published: live or idle.
    pub current: u64,
    /// Of tenures that are over.
    pub former: u64,
}

/// A tenant's pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantPins {
    /// As they stand.
    pub pins: Standings,
    /// How many the packet path counts, against the quota; none: it has no count, and no new pins.
    pub counted: Option<u64>,
    /// Pins that were refused for want of quota, ever.
    pub refused: u64,
}

impl Rules {
    /// The rules of these groups.
    pub fn new<'a>(groups: impl IntoIterator<Item = &'a Snapshot>) -> Self {
        let mut rules = Self::default();
        for snapshot in groups {
            let idle = snapshot.settings.pin_idle;
            let mut members = Vec::new();
            for member in &snapshot.members {
                put(&mut members, member.slot.get().into(), member.generation);
            }
            let of = GroupRules {
                // Both are far below the half of all ticks.
                idle_after: (!idle.is_off())
                    .then(|| (idle.ticks() + 2 * idle.refresh_ticks()) as i32),
                members,
            };
            put(&mut rules.groups, snapshot.group.get().into(), of);
        }
        rules
    }

    /// How a pin stands at a time.
    #[must_use]
    pub fn standing(&self, pin: &Pin, now: Tick) -> Standing {
        if pin.dead {
            return Standing::Dead;
        }
        let Some(Some(group)) = self.groups.get(usize::from(pin.holder.group.get())) else {
            return Standing::Unjudged;
        };
        let member = group.members.get(usize::from(pin.held.slot.get()));
        if member != Some(&Some(pin.held.generation)) {
            return Standing::Stale;
        }
        match group.idle_after {
            Some(ticks) if now.since(pin.last_seen) <= ticks => Standing::Live,
            _ => Standing::Idle,
        }
    }
}

/// Puts something at its place in a list by small numbers.
pub(super) fn put<T>(list: &mut Vec<Option<T>>, at: usize, value: T) {
    if list.len() <= at {
        list.resize_with(at + 1, || None);
    }
    if let Some(place) = list.get_mut(at) {
        *place = Some(value);
    }
}

impl Standings {
    pub(in crate::egress) fn count(&mut self, standing: Standing) {
        *match standing {
            Standing::Live => &mut self.live,
            Standing::Idle => &mut self.idle,
            Standing::Stale => &mut self.stale,
            Standing::Dead => &mut self.dead,
            Standing::Unjudged => &mut self.unjudged,
        } += 1;
    }
}

impl Pins {
    /// Counts the pins as they stand. Packets make pins meanwhile: where numbers are to agree, see
    /// [`TenantPins::drift`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn status(&self, rules: &Rules, now: Tick) -> Result<Status, SysError> {
        let (source_capacity, flow_capacity) = self.capacity();
        let mut status = Status {
            source_capacity,
            flow_capacity,
            ..Status::default()
        };
        for (table, counts) in self.usage()? {
            let tenant = status.tenants.entry(table).or_default();
            tenant.counted = Some(counts.pins);
            tenant.refused = counts.refused;
        }
        self.for_each(|pin| {
            match pin {
                Ok(pin) => status.count(&pin, rules.standing(&pin, now)),
                Err(_) => status.unreadable += 1,
            }
            ControlFlow::Continue(())
        })?;
        Ok(status)
    }
}

impl Status {
    fn count(&mut self, pin: &Pin, standing: Standing) {
        let holder = &pin.holder;
        self.pins.count(standing);
        self.groups.entry(holder.group).or_default().count(standing);
        self.tenants
            .entry(holder.table)
            .or_default()
            .pins
            .count(standing);
        match holder.flow {
            None => self.by_source += 1,
            Some(_) => self.by_flow += 1,
        }
        let slot = (holder.group, pin.held.slot);
        match standing {
            Standing::Live | Standing::Idle => {
                self.members.entry(slot).or_default().current += 1;
            }
            Standing::Stale => self.members.entry(slot).or_default().former += 1,
            Standing::Dead | Standing::Unjudged => {}
        }
    }

    /// Tenants whose count is not that of their pins, and by how many it is higher.
    pub fn drifts(&self) -> impl Iterator<Item = (TableId, i64)> + '_ {
        let drifts = self
            .tenants
            .iter()
            .map(|(table, pins)| (*table, pins.drift()));
        drifts.filter(|(_, drift)| *drift != 0)
    }
}

impl TenantPins {
    /// By how many the count is higher than the pins that there are; negative: lower. It comes to
    /// nothing when no packet makes a pin and no sweep removes one at that moment, and stays when it
    /// is at fault: nobody corrects it.
    #[must_use]
    pub fn drift(&self) -> i64 {
        let counted = self.counted.unwrap_or(0);
        counted.wrapping_sub(self.pins.total()) as i64
    }
}
