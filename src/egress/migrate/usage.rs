// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! How much of its room an instance uses.

use std::ops::ControlFlow;

use bytemuck::Pod;

use crate::egress::{Egress, InstanceError};
use crate::kernel::typed::Hash;
use crate::kernel::SysError;

/// How much of each limit is in use; limits that have no least use are not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// One more than the highest group that was ever opened: its number of tenures is kept.
    pub groups: u32,
    /// One more than the highest slot in use of any group.
    pub members: u32,
    /// Interfaces of tenants, or tenants whose pins are counted, if there are more.
    pub tenants: u32,
    /// Routes.
    pub routes: u32,
    /// Pins of addresses.
    pub pins: u32,
    /// Pins of flows.
    pub flow_pins: u32,
}

impl Usage {
    /// What an instance uses at this moment.
    pub(super) fn of(egress: &Egress) -> Result<Self, InstanceError> {
        let maps = &egress.maps;
        let live = egress.groups()?;
        let groups = live.iter().map(|live| u32::from(live.group.get()) + 1);
        let members = live.iter().map(|live| u32::from(live.slots_used()));
        let mut routes = 0;
        maps.routes.for_each(|_, _| {
            routes += 1;
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            groups: groups.max().unwrap_or(0),
            members: members.max().unwrap_or(0),
            tenants: count(&maps.tenants)?.max(count(&maps.pin_use)?),
            routes,
            pins: count(&maps.pins)?,
            flow_pins: count(&maps.flow_pins)?,
        })
    }

    /// By the name of the limit.
    pub(super) fn named(&self, limit: &str) -> u32 {
        match limit {
            "groups" => self.groups,
            "members" => self.members,
            "tenants" => self.tenants,
            "routes" => self.routes,
            "pins" => self.pins,
            "flow pins" => self.flow_pins,
            _ => 0,
        }
    }
}

fn count<K: Pod, V: Pod>(map: &Hash<K, V>) -> Result<u32, SysError> {
    let mut count = 0;
    map.for_each(|_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}
