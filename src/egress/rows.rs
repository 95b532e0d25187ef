// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tables of tenants and routes as they are.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::error::InstanceError;
use super::instance::Egress;
use crate::abi;
use crate::group::GroupId;
use crate::kernel::SysError;
use crate::route::{Key, Route, RowError, TableId};
use crate::tenant::Tenant;

/// A route, or why the row is none.
pub type RouteRow = Result<(Key, Route), RowError>;

impl Egress {
    /// The tenant at each interface, by its index.
    ///
    /// # Errors
    /// The table cannot be read, or a row makes no sense.
    pub fn tenants(&self) -> Result<BTreeMap<u32, Tenant>, InstanceError> {
        let mut tenants = BTreeMap::new();
        let mut fault = None;
        self.maps.tenants.for_each(|&ifindex, row| {
            match Tenant::from_row(ifindex, row) {
                Ok(tenant) => tenants.insert(ifindex, tenant),
                Err(error) => {
                    fault = Some(error);
                    return ControlFlow::Break(());
                }
            };
            ControlFlow::Continue(())
        })?;
        match fault {
            Some(error) => Err(error.into()),
            None => Ok(tenants),
        }
    }

    /// Calls `each` with every route of all tenants, in no order, until it breaks off. A row that
    /// makes no sense comes as an error, and the others behind it.
    ///
    /// While others write routes some may be missed; under [`retire`](super::Writer::retire) nobody
    /// who keeps the write barrier does.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn for_each_route(
        &self,
        mut each: impl FnMut(RouteRow) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        self.maps.routes.for_each(|key, row| {
            let route = Key::from_row(key);
            each(route.and_then(|key| Ok((key, Route::from_row(&key, row)?))))
        })
    }

    /// As [`for_each_route`](Self::for_each_route), whether or not the rows make sense.
    pub(crate) fn for_each_route_as_it_is(
        &self,
        each: impl FnMut(&abi::RouteKey, &abi::Route) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        self.maps.routes.for_each(each)
    }

    /// Calls `each` with the row of every interface, whether or not it makes sense.
    pub(crate) fn for_each_interface(
        &self,
        mut each: impl FnMut(u32, &abi::Tenant) -> ControlFlow<()>,
    ) -> Result<(), SysError> {
        self.maps
            .tenants
            .for_each(|&ifindex, row| each(ifindex, row))
    }

    /// The routes of a tenant, in order.
    ///
    /// # Errors
    /// The table cannot be read, or a row of the tenant makes no sense.
    pub fn routes(&self, table: TableId) -> Result<BTreeMap<Key, Route>, InstanceError> {
        let mut routes = BTreeMap::new();
        let mut fault = None;
        self.maps.routes.for_each(|key, row| {
            if key.table_id != table.get() {
                return ControlFlow::Continue(());
            }
            let route = Key::from_row(key).and_then(|key| Ok((key, Route::from_row(&key, row)?)));
            match route {
                Ok((key, route)) => routes.insert(key, route),
                Err(error) => {
                    fault = Some(error);
                    return ControlFlow::Break(());
                }
            };
            ControlFlow::Continue(())
        })?;
        match fault {
            Some(error) => Err(error.into()),
            None => Ok(routes),
        }
    }

    /// How many routes name each group, whichever tenure of it.
    pub(super) fn named(&self) -> Result<BTreeMap<GroupId, u64>, SysError> {
        let mut named = BTreeMap::new();
        self.for_each_route(|row| {
            let group = row.ok().and_then(|(_, route)| route.group());
            if let Some((group, _)) = group {
                *named.entry(group).or_default() += 1;
            }
            ControlFlow::Continue(())
        })?;
        Ok(named)
    }
}
