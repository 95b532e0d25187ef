// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the program finds in its maps, apart from pins.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::encap::Encap;
use crate::group::{GroupId, Incarnation, Limits, Member, Slot, Snapshot};
use crate::maglev::SlotIndex;
use crate::reason::egress::End;
use crate::route::{Key, Route, TableId};
use crate::tenant::Tenant;

/// What the program finds in its maps, apart from pins.
#[derive(Clone, Debug)]
pub struct World {
    /// What the program was loaded for.
    pub limits: Limits,
    /// Tenants by the index of their interface.
    pub tenants: BTreeMap<u32, Tenant>,
    /// Their routes.
    pub routes: BTreeMap<Key, Route>,
    /// Groups as they are published.
    pub groups: BTreeMap<GroupId, Snapshot>,
    /// How packets are encapsulated; without it nothing is.
    pub encap: Option<Encap>,
}

impl World {
    /// The enabled tenant at an interface.
    pub(super) fn tenant(&self, ifindex: u32) -> Option<&Tenant> {
        self.tenants.get(&ifindex).filter(|tenant| tenant.enabled)
    }

    /// The route with the longest prefix.
    pub(super) fn route(&self, table: TableId, to: IpAddr) -> Option<(&Key, &Route)> {
        self.routes
            .iter()
            .filter(|(key, _)| key.table == table && key.prefix.contains(to))
            .max_by_key(|(key, _)| key.prefix.bits())
    }

    /// A group that forwards, if it is the one that the route means.
    pub(super) fn group(&self, id: GroupId, incarnation: Incarnation) -> Result<&Snapshot, End> {
        if id.get() >= self.limits.groups() {
            return Err(End::BadRoute);
        }
        let group = self.groups.get(&id).ok_or(End::GroupAbsent)?;
        if group.table.len() != self.limits.table_size().slots() {
            return Err(End::BadSnapshot);
        }
        if group.incarnation != incarnation {
            return Err(End::StaleRoute);
        }
        if !group.forwards() {
            return Err(End::GroupDisabled);
        }
        Ok(group)
    }

    /// The member that a word of a group's table names.
    pub(super) fn member_by_table<'a>(
        &self,
        group: &'a Snapshot,
        word: u32,
    ) -> Result<&'a Member, End> {
        let slot = *group.table.get(word as usize).ok_or(End::BadSnapshot)?;
        if slot == u16::NONE {
            return Err(End::GroupEmpty);
        }
        if slot >= self.limits.members() {
            return Err(End::BadSnapshot);
        }
        reachable(group, slot).ok_or(End::MemberDead)
    }
}

/// The member in a slot, if there is a way to it.
pub(super) fn reachable(group: &Snapshot, slot: u16) -> Option<&Member> {
    let member = group.member(Slot::new(slot.into())?)?;
    member.next_hop.is_some().then_some(member)
}
