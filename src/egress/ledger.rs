// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writing rows of tenants and routes, for whoever holds the write barrier.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use nix::libc;

use super::error::InstanceError;
use super::instance::Egress;
use super::ticket::To;
use crate::abi;
use crate::error::ErrorKind;
use crate::group::{GroupId, Incarnation};
use crate::kernel::map::Update;
use crate::kernel::SysError;
use crate::placement::{Fnv12, Fnv5, HashTable, Scope};
use crate::route::{Key, Origin, Prefix, Route, TableId, Target};
use crate::srv6::Argument;
use crate::tenant::Tenant;

/// Why a row is not written. Nothing is changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The interface's index is none.
    #[error("ifindex 0 is no interface")]
    Ifindex,
    /// The interface is another tenant's.
    #[error("ifindex {ifindex} is an interface of table {found}, not {wanted}; remove it first")]
    #[non_exhaustive]
    OtherTenant {
        /// The interface.
        ifindex: u32,
        /// Whose it is.
        found: TableId,
        /// Whose it was to be.
        wanted: TableId,
    },
    /// Rows of one tenant would disagree.
    #[error("{field} {wanted} of table {table} is {found} at ifindex {ifindex}")]
    #[non_exhaustive]
    Contradiction {
        /// The tenant.
        table: TableId,
        /// In what, by its name in the ABI.
        field: &'static str,
        /// What was asked for.
        wanted: u32,
        /// What another interface has.
        found: u32,
        /// That interface.
        ifindex: u32,
    },
    /// The ticket is of another instance.
    #[error("the ticket for group {group} is of another instance")]
    #[non_exhaustive]
    OtherInstance {
        /// The group.
        group: GroupId,
    },
    /// The table is full.
    #[error("there is no room for more than {max} {what}")]
    #[non_exhaustive]
    Full {
        /// Of what.
        what: &'static str,
        /// How many there can be.
        max: u32,
    },
    /// What is there cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl RouteError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Ifindex | Self::OtherInstance { .. } => ErrorKind::Invalid,
            Self::OtherTenant { .. } | Self::Contradiction { .. } => ErrorKind::Conflict,
            // The object is full, whatever the kernel calls it.
            Self::Full { .. } => ErrorKind::Kernel,
            Self::Instance(error) => error.kind(),
            Self::Sys(error) => error.kind(),
        }
    }
}

/// A route that a group is named in.
type Named = (GroupId, Incarnation);

/// What a guard has written, and what it knows of tenants.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) origin: Cell<Origin>,
    /// What each route was made; none: it was removed.
    written: RefCell<BTreeMap<Key, Option<Route>>>,
    tenants: RefCell<Option<BTreeMap<u32, Tenant>>>,
}

impl Ledger {
    /// Calls `work` with the tenants, which are read once.
    fn with_tenants<T>(
        &self,
        egress: &Egress,
        work: impl FnOnce(&mut BTreeMap<u32, Tenant>) -> T,
    ) -> Result<T, InstanceError> {
        let mut tenants = self.tenants.borrow_mut();
        let known = match tenants.take() {
            Some(known) => known,
            None => egress.tenants()?,
        };
        Ok(work(tenants.insert(known)))
    }

    /// Has them read again.
    pub(super) fn forget_tenants(&self) {
        self.tenants.take();
    }

    /// The tenant of a table as one of its interfaces has it.
    pub(super) fn tenant(
        &self,
        egress: &Egress,
        table: TableId,
    ) -> Result<Option<Tenant>, InstanceError> {
        self.with_tenants(egress, |tenants| {
            let mut tenants = tenants.values();
            tenants.find(|tenant| tenant.table == table).copied()
        })
    }

    /// Lets packets from interfaces be looked at as their tenants'. Rows of a table that are written
    /// together may change in what they must agree.
    pub(super) fn put_interfaces(
        &self,
        egress: &Egress,
        rows: &BTreeMap<u32, Tenant>,
        may_move: bool,
    ) -> Result<(), RouteError> {
        self.check_interfaces(egress, rows, may_move)?;
        let mut done = Vec::with_capacity(rows.len());
        for (&ifindex, tenant) in rows {
            if let Err(error) = self.put_interface(egress, ifindex, tenant, &mut done) {
                for undo in done.into_iter().rev() {
                    undo.run(egress)?;
                }
                self.forget_tenants();
                return Err(error);
            }
        }
        self.with_tenants(egress, |tenants| tenants.extend(rows))?;
        Ok(())
    }

    fn check_interfaces(
        &self,
        egress: &Egress,
        rows: &BTreeMap<u32, Tenant>,
        may_move: bool,
    ) -> Result<(), RouteError> {
        if rows.contains_key(&0) {
            return Err(RouteError::Ifindex);
        }
        let after = self.with_tenants(egress, |tenants| {
            let mut after = tenants.clone();
            for (&ifindex, wanted) in rows {
                let found = after.insert(ifindex, *wanted);
                let found = found.filter(|found| found.table != wanted.table && !may_move);
                if let Some(found) = found {
                    return Err(RouteError::OtherTenant {
                        ifindex,
                        found: found.table,
                        wanted: wanted.table,
                    });
                }
            }
            Ok(after)
        })??;
        let tables: BTreeMap<_, _> = rows.values().map(|tenant| (tenant.table, tenant)).collect();
        tables
            .into_values()
            .try_for_each(|tenant| agree(tenant, &after))
    }

    fn put_interface(
        &self,
        egress: &Egress,
        ifindex: u32,
        tenant: &Tenant,
        done: &mut Vec<Undo>,
    ) -> Result<(), RouteError> {
        let full = |error: SysError| match error.errno {
            libc::E2BIG => RouteError::Full {
                what: "interfaces of tenants",
                max: egress.limits.tenants(),
            },
            _ => error.into(),
        };
        // Without this row no packet of the tenant gets a pin, so it comes first.
        let table = tenant.table.get();
        let pins = abi::PinUse::default();
        match egress.maps.pin_use.update(&table, &pins, Update::Insert) {
            Ok(()) => done.push(Undo::PinUse(table)),
            Err(error) if error.errno == libc::EEXIST => {}
            Err(error) => return Err(full(error)),
        }
        let before = egress.maps.tenants.get(&ifindex)?;
        let row = tenant.to_row(ifindex);
        let put = egress.maps.tenants.update(&ifindex, &row, Update::Any);
        put.map_err(full)?;
        done.push(Undo::Tenant(ifindex, before));
        Ok(())
    }

    /// The route of a tenant to there.
    pub(super) fn route(
        &self,
        egress: &Egress,
        hash_table: HashTable,
        argument: Argument,
        prefix: Prefix,
        to: To<'_>,
    ) -> Result<Route, RouteError> {
        let target = match to {
            To::Pass => Target::Pass,
            To::Block(block) => Target::Block(block),
            To::Shard { sid, next_hop } => Target::Shard {
                argument,
                sid,
                next_hop,
            },
            To::Group(ticket) if !ticket.is_of(egress) => {
                let group = ticket.group();
                return Err(RouteError::OtherInstance { group });
            }
            To::Group(ticket) => {
                let scope = Scope {
                    table: hash_table,
                    group: ticket.hash_group(),
                };
                Target::Group {
                    argument,
                    group: ticket.group(),
                    incarnation: ticket.incarnation(),
                    fnv5: Fnv5::new(hash_table, prefix.family()),
                    fnv12: Fnv12::new(scope, prefix.family()),
                }
            }
        };
        let origin = self.origin.get();
        Ok(Route { origin, target })
    }

    /// Writes a route of a tenant, whatever was there; what was there.
    pub(super) fn put(
        &self,
        egress: &Egress,
        tenant: &Tenant,
        argument: Argument,
        prefix: Prefix,
        to: To<'_>,
    ) -> Result<Before, RouteError> {
        self.with_tenants(egress, |tenants| agree(tenant, tenants))??;
        let route = self.route(egress, tenant.hash_table, argument, prefix, to)?;
        self.write(egress, Key::new(tenant.table, prefix), route)
    }

    fn write(&self, egress: &Egress, key: Key, route: Route) -> Result<Before, RouteError> {
        let (name, row) = (key.to_row(), route.to_row());
        let routes = &egress.maps.routes;
        let before = match routes.update(&name, &row, Update::Insert) {
            Ok(()) => None,
            Err(error) if error.errno == libc::EEXIST => {
                // It exists, so the longest prefix is the route itself.
                let before = routes.longest(&name)?;
                routes.update(&name, &row, Update::Any)?;
                before
            }
            Err(error) if error.errno == libc::ENOSPC => {
                return Err(RouteError::Full {
                    what: "routes",
                    max: egress.limits.routes(),
                })
            }
            Err(error) => return Err(error.into()),
        };
        let noted = self.written.borrow_mut().insert(key, Some(route));
        Ok(Before {
            key,
            row: before,
            noted,
        })
    }

    /// Undoes writes, the last one first.
    pub(super) fn undo(&self, egress: &Egress, writes: Vec<Before>) -> Result<(), SysError> {
        for Before { key, row, noted } in writes.into_iter().rev() {
            match row {
                Some(row) => egress
                    .maps
                    .routes
                    .update(&key.to_row(), &row, Update::Any)?,
                None => egress.maps.routes.remove(&key.to_row()).map(drop)?,
            }
            let mut written = self.written.borrow_mut();
            match noted {
                Some(noted) => written.insert(key, noted),
                None => written.remove(&key),
            };
        }
        Ok(())
    }

    /// Removes a route; whether there was one.
    pub(super) fn remove(&self, egress: &Egress, key: Key) -> Result<bool, SysError> {
        let removed = egress.maps.routes.remove(&key.to_row())?;
        self.written.borrow_mut().insert(key, None);
        Ok(removed)
    }

    /// Exchanges a route if it is what it was: whether it was.
    pub(super) fn exchange(
        &self,
        egress: &Egress,
        key: Key,
        before: &Route,
        route: &Route,
    ) -> Result<bool, SysError> {
        let name = key.to_row();
        let there = egress.maps.routes.longest(&name)?;
        let expected = before.to_row();
        if there.is_none_or(|there| bytemuck::bytes_of(&there) != bytemuck::bytes_of(&expected)) {
            return Ok(false);
        }
        // A route that a program without the barrier removed is not brought back.
        match egress
            .maps
            .routes
            .update(&name, &route.to_row(), Update::Replace)
        {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The groups that routes written here name.
    pub(super) fn named(&self) -> Vec<Named> {
        let written = self.written.borrow();
        let mut named: Vec<_> = written
            .values()
            .flatten()
            .filter_map(Route::group)
            .collect();
        named.sort_by_key(|(group, incarnation)| (*group, incarnation.get()));
        named.dedup();
        named
    }

    /// The first route that is not what was written.
    pub(super) fn differing(&self, egress: &Egress) -> Result<Option<Key>, SysError> {
        for (key, route) in self.written.borrow().iter() {
            let Some(route) = route else { continue };
            let there = egress.maps.routes.longest(&key.to_row())?;
            let row = route.to_row();
            if there.is_none_or(|there| bytemuck::bytes_of(&there) != bytemuck::bytes_of(&row)) {
                return Ok(Some(*key));
            }
        }
        Ok(None)
    }
}

/// Whether what must be one for all of a tenant is so at its interfaces.
fn agree(tenant: &Tenant, interfaces: &BTreeMap<u32, Tenant>) -> Result<(), RouteError> {
    let mut others = interfaces
        .iter()
        .filter(|(_, other)| other.table == tenant.table);
    let contradiction = others.find_map(|(&ifindex, other)| {
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

/// A row of interfaces that was written.
#[derive(Debug)]
enum Undo {
    PinUse(u32),
    Tenant(u32, Option<abi::Tenant>),
}

impl Undo {
    fn run(self, egress: &Egress) -> Result<(), SysError> {
        match self {
            Self::PinUse(table) => egress.maps.pin_use.remove(&table).map(drop),
            Self::Tenant(ifindex, None) => egress.maps.tenants.remove(&ifindex).map(drop),
            Self::Tenant(ifindex, Some(row)) => {
                egress.maps.tenants.update(&ifindex, &row, Update::Any)
            }
        }
    }
}

/// What a write changed.
#[derive(Debug)]
pub(super) struct Before {
    key: Key,
    /// As it was found: undone even if it makes no sense.
    row: Option<abi::Route>,
    noted: Option<Option<Route>>,
}
