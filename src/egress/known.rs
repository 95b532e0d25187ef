// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is known of tenants while the barrier is held.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::instance::Egress;
use super::ledger::RouteError;
use crate::kernel::SysError;
use crate::route::TableId;
use crate::tenant::Tenant;

/// The tenants at all interfaces. Rows that make no sense are nobody's.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    rows: BTreeMap<u32, Tenant>,
    tables: BTreeMap<TableId, BTreeSet<u32>>,
}

impl Known {
    pub(super) fn read(egress: &Egress) -> Result<Self, SysError> {
        let mut known = Self::default();
        egress.maps.tenants.for_each(|&ifindex, row| {
            if let Ok(tenant) = Tenant::from_row(ifindex, row) {
                known.insert(ifindex, tenant);
            }
            ControlFlow::Continue(())
        })?;
        Ok(known)
    }

    /// The tenant at an interface.
    pub(super) fn at(&self, ifindex: u32) -> Option<&Tenant> {
        self.rows.get(&ifindex)
    }

    /// The tenant of a table at each of its interfaces.
    pub(super) fn of(&self, table: TableId) -> impl Iterator<Item = (u32, &Tenant)> {
        let interfaces = self.tables.get(&table).into_iter().flatten();
        interfaces.filter_map(|ifindex| Some((*ifindex, self.rows.get(ifindex)?)))
    }

    pub(super) fn rows(&self) -> &BTreeMap<u32, Tenant> {
        &self.rows
    }

    pub(super) fn insert(&mut self, ifindex: u32, tenant: Tenant) {
        self.remove(ifindex);
        self.tables.entry(tenant.table).or_default().insert(ifindex);
        self.rows.insert(ifindex, tenant);
    }

    pub(super) fn remove(&mut self, ifindex: u32) {
        let Some(before) = self.rows.remove(&ifindex) else {
            return;
        };
        if let Some(interfaces) = self.tables.get_mut(&before.table) {
            interfaces.remove(&ifindex);
        }
    }

    /// Whether what must be one for all of a tenant is so at its interfaces, but for those that
    /// `leave` it.
    pub(super) fn agree(&self, tenant: &Tenant, leaving: &BTreeSet<u32>) -> Result<(), RouteError> {
        let others = self.of(tenant.table);
        let mut others = others.filter(|(ifindex, _)| !leaving.contains(ifindex));
        let contradiction = others.find_map(|(ifindex, other)| {
            let (field, wanted, found) = tenant.contradiction(other)?;
            Some(RouteError::Contradiction {
                table: tenant.table,
                field,
                wanted,
                found,
                ifindex,
            })
        });
        contradiction.map_or(Ok(()), Err)
    }
}
