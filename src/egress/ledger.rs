// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writing rows of tenants and routes, for whoever holds the write barrier.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use nix::libc;

use super::error::InstanceError;
use super::instance::Egress;
use super::known::Known;
use super::ticket::To;
use crate::abi;
use crate::error::ErrorKind;
use crate::group::{GroupId, Incarnation};
use crate::kernel::map::Update;
use crate::kernel::SysError;
use crate::placement::{HashTable, Scope};
use crate::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use crate::srv6::Argument;
use crate::tenant::Tenant;

/// What a full table of tenants has too many of.
const INTERFACES: &str = "interfaces of tenants";

/// Why a row is not written. Nothing is changed then, unless it says so.
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
    /// The Argument is another tenant's: replies to one would come to the other.
    #[error("argument {argument} is already used by table {table} (ifindex {ifindex})")]
    #[non_exhaustive]
    ArgumentTaken {
        /// The Argument.
        argument: Argument,
        /// Whose it is.
        table: TableId,
        /// One of its interfaces.
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
    /// The caller's observer stopped it.
    #[error("stopped by the caller before route {key}")]
    #[non_exhaustive]
    Aborted {
        /// The route that was not written.
        key: Key,
    },
    /// What was written before the failure could not all be undone.
    #[error("{cause}; and what was written before could not be undone: {error}")]
    #[non_exhaustive]
    Partly {
        /// The failure.
        cause: Box<RouteError>,
        /// Why it was not undone.
        error: SysError,
    },
    /// What is there cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The kernel refused a call.
    #[error(transparent)]
    Sys(#[from] SysError),
}

impl RouteError {
    /// The failure, when all that can be is undone.
    fn after_undoing(cause: Self, undone: impl Iterator<Item = Result<(), SysError>>) -> Self {
        let failed: Vec<_> = undone.filter_map(Result::err).collect();
        match failed.into_iter().next() {
            Some(error) => Self::Partly {
                cause: Box::new(cause),
                error,
            },
            None => cause,
        }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Ifindex | Self::ArgumentTaken { .. } | Self::OtherInstance { .. } => {
                ErrorKind::Invalid
            }
            Self::OtherTenant { .. } | Self::Contradiction { .. } => ErrorKind::Conflict,
            // The object is full, whatever the kernel calls it.
            Self::Full { .. } => ErrorKind::Kernel,
            Self::Partly { .. } | Self::Aborted { .. } => ErrorKind::Partial,
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
    /// Interfaces that are about to be somebody else's or nobody's: what they say does not count.
    pub(super) leaving: RefCell<BTreeSet<u32>>,
    /// What each route was made; none: it was removed.
    written: RefCell<BTreeMap<Key, Option<Route>>>,
    /// Tenants whose interfaces were written.
    put: RefCell<BTreeSet<TableId>>,
    tenants: RefCell<Option<Known>>,
}

impl Ledger {
    /// Calls `work` with the tenants, which are read once.
    fn with_tenants<T>(
        &self,
        egress: &Egress,
        work: impl FnOnce(&mut Known) -> T,
    ) -> Result<T, SysError> {
        let mut tenants = self.tenants.borrow_mut();
        let known = match tenants.take() {
            Some(known) => known,
            None => Known::read(egress)?,
        };
        Ok(work(tenants.insert(known)))
    }

    /// The tenant of a table as one of its interfaces has it.
    pub(super) fn tenant(
        &self,
        egress: &Egress,
        table: TableId,
    ) -> Result<Option<Tenant>, SysError> {
        self.with_tenants(egress, |tenants| {
            let mut rows = tenants.of(table);
            rows.next().map(|(_, tenant)| *tenant)
        })
    }

    /// The tenant of a table as one of its enabled interfaces has it.
    pub(super) fn enabled(
        &self,
        egress: &Egress,
        table: TableId,
    ) -> Result<Option<Tenant>, SysError> {
        self.with_tenants(egress, |tenants| {
            let mut rows = tenants.of(table).map(|(_, tenant)| *tenant);
            rows.find(|tenant| tenant.enabled)
        })
    }

    fn agree(&self, egress: &Egress, tenant: &Tenant) -> Result<(), RouteError> {
        let leaving = self.leaving.borrow();
        self.with_tenants(egress, |tenants| tenants.agree(tenant, &leaving))?
    }

    /// Lets packets from interfaces be looked at as their tenants'. Rows of a table that are written
    /// together may change in what they must agree.
    pub(super) fn put_interfaces(
        &self,
        egress: &Egress,
        rows: &BTreeMap<u32, Tenant>,
        may_move: bool,
    ) -> Result<(), RouteError> {
        // What is known of all tenants is copied below.
        if rows.is_empty() {
            return Ok(());
        }
        let after = self.check_interfaces(egress, rows, may_move)?;
        let mut done = Vec::with_capacity(rows.len());
        for (&ifindex, tenant) in rows {
            if let Err(error) = put_interface(egress, ifindex, tenant, &mut done) {
                let undone = done
                    .into_iter()
                    .rev()
                    .map(|(ifindex, before)| match before {
                        None => egress.maps.tenants.remove(&ifindex).map(drop),
                        Some(row) => egress.maps.tenants.update(&ifindex, &row, Update::Any),
                    });
                return Err(RouteError::after_undoing(error, undone));
            }
        }
        let mut put = self.put.borrow_mut();
        put.extend(rows.values().map(|tenant| tenant.table));
        self.tenants.replace(Some(after));
        Ok(())
    }

    /// Whether routes of a tenant and the row of its interface can be written, and its Argument is
    /// its own.
    pub(super) fn check_interface(
        &self,
        egress: &Egress,
        ifindex: u32,
        tenant: &Tenant,
    ) -> Result<(), RouteError> {
        self.check_interfaces(egress, &BTreeMap::from([(ifindex, *tenant)]), false)?;
        // Who writes routes first has to agree with what this interface says until then, too.
        self.agree(egress, tenant)?;
        let taken = self.with_tenants(egress, |tenants| {
            let mut rows = tenants.rows().iter();
            let other = rows.find(|(_, other)| {
                other.argument == tenant.argument && other.table != tenant.table
            });
            other.map(|(&ifindex, other)| RouteError::ArgumentTaken {
                argument: other.argument,
                table: other.table,
                ifindex,
            })
        })?;
        taken.map_or(Ok(()), Err)?;
        // Those that make no sense take up room as well.
        let (mut rows, mut is_there) = (0, false);
        egress.maps.tenants.for_each(|&other, _| {
            rows += 1;
            is_there |= other == ifindex;
            ControlFlow::Continue(())
        })?;
        let max = egress.limits.tenants();
        if rows >= max && !is_there {
            let what = INTERFACES;
            return Err(RouteError::Full { what, max });
        }
        Ok(())
    }

    /// What is known of tenants when these rows are written.
    fn check_interfaces(
        &self,
        egress: &Egress,
        rows: &BTreeMap<u32, Tenant>,
        may_move: bool,
    ) -> Result<Known, RouteError> {
        if rows.contains_key(&0) {
            return Err(RouteError::Ifindex);
        }
        let mut after = self.with_tenants(egress, |tenants| tenants.clone())?;
        for (&ifindex, wanted) in rows {
            let found = after.at(ifindex).map(|found| found.table);
            if let Some(found) = found.filter(|found| *found != wanted.table && !may_move) {
                return Err(RouteError::OtherTenant {
                    ifindex,
                    found,
                    wanted: wanted.table,
                });
            }
            after.insert(ifindex, *wanted);
        }
        let leaving = self.leaving.borrow();
        rows.values()
            .try_for_each(|tenant| after.agree(tenant, &leaving))?;
        Ok(after)
    }

    /// Lets packets from an interface pass; whose it was.
    pub(super) fn remove_interface(
        &self,
        egress: &Egress,
        ifindex: u32,
    ) -> Result<Option<Tenant>, SysError> {
        let tenants = &egress.maps.tenants;
        let Some(row) = tenants.get(&ifindex)? else {
            return Ok(None);
        };
        let tenant = Tenant::from_row(ifindex, &row).ok();
        // A packet that finds the row's memory in other use must not take it for this one's.
        if let Some(tenant) = tenant {
            let enabled = false;
            let disabled = Tenant { enabled, ..tenant }.to_row(ifindex);
            match tenants.update(&ifindex, &disabled, Update::Replace) {
                // Somebody else removes it, too.
                Err(error) if error.is_not_found() => {}
                result => result?,
            }
        }
        tenants.remove(&ifindex)?;
        self.with_tenants(egress, |tenants| tenants.remove(ifindex))?;
        Ok(tenant)
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
                let (group, incarnation) = (ticket.group(), ticket.incarnation());
                Target::group(argument, group, incarnation, scope, prefix)
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
        self.agree(egress, tenant)?;
        let route = self.route(egress, tenant.hash_table, argument, prefix, to)?;
        self.write(egress, Key::new(tenant.table, prefix), route)
    }

    fn write(&self, egress: &Egress, key: Key, route: Route) -> Result<Before, RouteError> {
        let row = match write_row(egress, key, &route) {
            Ok(row) => row,
            // Whether it was written nobody said.
            Err(unwritten) => {
                let Unwritten { error, before } = *unwritten;
                let noted = None;
                let undone = before.map(|row| Before {
                    key,
                    route,
                    row,
                    noted,
                });
                let undone = undone.map(|before| before.undo(egress));
                return Err(RouteError::after_undoing(error, undone.into_iter()));
            }
        };
        let noted = self.written.borrow_mut().insert(key, Some(route));
        Ok(Before {
            key,
            route,
            row,
            noted,
        })
    }

    /// Writes a route of a tenant where there is none, or one that makes no sense; whether that was
    /// so. Nobody else may write meanwhile.
    pub(super) fn insert(
        &self,
        egress: &Egress,
        tenant: &Tenant,
        prefix: Prefix,
        to: To<'_>,
    ) -> Result<bool, RouteError> {
        let route = self.route(egress, tenant.hash_table, tenant.argument, prefix, to)?;
        let key = Key::new(tenant.table, prefix);
        let (name, row) = (key.to_row(), route.to_row());
        let routes = &egress.maps.routes;
        match routes.update(&name, &row, Update::Insert) {
            Err(error) if error.errno == libc::EEXIST => {
                // As it exists, it is the longest prefix of itself.
                let there = routes.longest(&name)?;
                if there.is_none_or(|there| Route::from_row(&key, &there).is_ok()) {
                    return Ok(false);
                }
                routes.update(&name, &row, Update::Replace)?;
            }
            Err(error) => return Err(no_room(egress, error)),
            Ok(()) => {}
        }
        self.written.borrow_mut().insert(key, Some(route));
        Ok(true)
    }

    /// Makes a row that makes no sense a block; whether there is one.
    pub(super) fn mend(&self, egress: &Egress, key: Key) -> Result<bool, SysError> {
        let (name, routes) = (key.to_row(), &egress.maps.routes);
        let there = routes.longest(&name)?;
        if there.is_none_or(|there| Route::from_row(&key, &there).is_ok()) {
            return Ok(false);
        }
        let route = Route::new(Target::Block(Block::Drop));
        match routes.update(&name, &route.to_row(), Update::Replace) {
            // What makes no sense is that of a shorter prefix.
            Err(error) if error.is_not_found() => return Ok(false),
            result => result?,
        }
        self.written.borrow_mut().insert(key, Some(route));
        Ok(true)
    }

    /// Removes a route that is what it was; whether it was.
    pub(super) fn remove_same(
        &self,
        egress: &Egress,
        key: Key,
        before: &Route,
    ) -> Result<bool, SysError> {
        if !is_there(egress, &key, &before.to_row())? {
            return Ok(false);
        }
        self.remove(egress, key)
    }

    /// Undoes writes, the last one first, and says why.
    pub(super) fn undo(
        &self,
        egress: &Egress,
        writes: Vec<Before>,
        cause: RouteError,
    ) -> RouteError {
        let undone = writes.into_iter().rev().map(|write| {
            let mut written = self.written.borrow_mut();
            match write.noted {
                Some(noted) => written.insert(write.key, noted),
                None => written.remove(&write.key),
            };
            write.undo(egress)
        });
        RouteError::after_undoing(cause, undone)
    }

    /// Removes a route; whether there was one.
    pub(super) fn remove(&self, egress: &Egress, key: Key) -> Result<bool, SysError> {
        let removed = egress.maps.routes.remove(&key.to_row())?;
        self.written.borrow_mut().insert(key, None);
        Ok(removed)
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
            if !is_there(egress, key, &route.to_row())? {
                return Ok(Some(*key));
            }
        }
        Ok(None)
    }

    /// Whether interfaces that were written here agree with those that others wrote meanwhile.
    pub(super) fn contradicted(&self, egress: &Egress) -> Result<(), RouteError> {
        let known = Known::read(egress)?;
        let none = BTreeSet::new();
        let tables = self.put.borrow();
        let mut tenants = tables.iter().filter_map(|table| known.of(*table).next());
        tenants.try_for_each(|(_, tenant)| known.agree(tenant, &none))
    }
}

/// Writes the row of an interface, and notes what was there.
fn put_interface(
    egress: &Egress,
    ifindex: u32,
    tenant: &Tenant,
    done: &mut Vec<(u32, Option<abi::Tenant>)>,
) -> Result<(), RouteError> {
    let full = |error: SysError| match error.errno {
        libc::E2BIG => RouteError::Full {
            what: INTERFACES,
            max: egress.limits.tenants(),
        },
        _ => error.into(),
    };
    // Without this row no packet of the tenant gets a pin, so it comes first. It stays whatever
    // happens: another process may have begun to rely on it.
    let pins = abi::PinUse::default();
    let table = tenant.table.get();
    match egress.maps.pin_use.update(&table, &pins, Update::Insert) {
        Err(error) if error.errno == libc::EEXIST => {}
        result => result.map_err(full)?,
    }
    let before = egress.maps.tenants.get(&ifindex)?;
    let row = tenant.to_row(ifindex);
    let put = egress.maps.tenants.update(&ifindex, &row, Update::Any);
    put.map_err(full)?;
    done.push((ifindex, before));
    Ok(())
}

/// Why a route is not written, where the kernel may have no room for it.
fn no_room(egress: &Egress, error: SysError) -> RouteError {
    match error.errno {
        libc::ENOSPC => RouteError::Full {
            what: "routes",
            max: egress.limits.routes(),
        },
        _ => error.into(),
    }
}

/// A route that the kernel did not say it has written.
struct Unwritten {
    error: RouteError,
    /// What was there, if the route may be written all the same.
    before: Option<Option<abi::Route>>,
}

/// Writes a route, and says what was there; also where that failed, if it may be written all the
/// same.
fn write_row(
    egress: &Egress,
    key: Key,
    route: &Route,
) -> Result<Option<abi::Route>, Box<Unwritten>> {
    let (name, row) = (key.to_row(), route.to_row());
    let routes = &egress.maps.routes;
    loop {
        match routes.update(&name, &row, Update::Insert) {
            Ok(()) => return Ok(None),
            Err(error) if error.errno == libc::EEXIST => {}
            Err(error) => {
                let full = error.errno == libc::ENOSPC;
                let before = (!full).then_some(None);
                let error = no_room(egress, error);
                return Err(Box::new(Unwritten { error, before }));
            }
        }
        // It exists, so the longest prefix is the route itself; unless it goes before it is
        // replaced.
        let before = routes.longest(&name);
        let before = before.map_err(|error| Unwritten {
            error: error.into(),
            before: None,
        })?;
        match routes.update(&name, &row, Update::Replace) {
            Ok(()) => return Ok(before),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let (error, before) = (error.into(), Some(before));
                return Err(Box::new(Unwritten { error, before }));
            }
        }
    }
}

/// Whether packets to a prefix find this row, its own or the same of a shorter prefix.
fn is_there(egress: &Egress, key: &Key, row: &abi::Route) -> Result<bool, SysError> {
    let there = egress.maps.routes.longest(&key.to_row())?;
    Ok(there.is_some_and(|there| bytemuck::bytes_of(&there) == bytemuck::bytes_of(row)))
}

/// Exchanges a route if it is what it was: whether it was.
pub(super) fn exchange(
    egress: &Egress,
    key: &Key,
    before: &abi::Route,
    row: &abi::Route,
) -> Result<bool, SysError> {
    if !is_there(egress, key, before)? {
        return Ok(false);
    }
    // A route that a program without the barrier removed is not brought back.
    match egress
        .maps
        .routes
        .update(&key.to_row(), row, Update::Replace)
    {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a write changed.
#[derive(Debug)]
pub(super) struct Before {
    key: Key,
    route: Route,
    /// As it was found: undone even if it makes no sense.
    row: Option<abi::Route>,
    noted: Option<Option<Route>>,
}

impl Before {
    /// Puts back what was there, unless it is somebody else's by now.
    fn undo(self, egress: &Egress) -> Result<(), SysError> {
        let ours = self.route.to_row();
        match self.row {
            Some(row) => exchange(egress, &self.key, &ours, &row).map(drop),
            None if is_there(egress, &self.key, &ours)? => {
                egress.maps.routes.remove(&self.key.to_row()).map(drop)
            }
            None => Ok(()),
        }
    }
}
