// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writing tenants and their routes, beside other writers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::error::{GuardError, InstanceError};
use super::instance::Egress;
use super::ledger::{Ledger, RouteError};
use super::ticket::{GroupTicket, TicketError, To};
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, State};
use crate::kernel::write_barrier::SharedGuard;
use crate::kernel::SysError;
use crate::route::{Key, Origin, Prefix, TableId};
use crate::srv6::Argument;
use crate::tenant::Tenant;

/// The right to write tenants and their routes, beside others who have it. While it is held no group
/// is retired, so it is to be held shortly: find next hops before, publish afterwards.
///
/// A route to a group takes a [ticket](Self::ticket), which does not outlive the guard:
///
/// ```compile_fail,E0505
/// # use guideway::egress::{Egress, GuardError, TicketError};
/// # use guideway::group::Class;
/// # use std::time::Duration;
/// # fn late(egress: &Egress) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = egress.write_routes(Duration::from_secs(5))?;
/// let ticket = guard.ticket(Class::Nat66)?;
/// drop(guard);
/// println!("{}", ticket.group());
/// # Ok(())
/// # }
/// ```
///
/// and nobody else makes one:
///
/// ```compile_fail,E0451
/// # use guideway::egress::GroupTicket;
/// # use guideway::group::{Class, GroupId, Incarnation};
/// # fn forged(group: GroupId) -> GroupTicket<'static> {
/// GroupTicket { class: Class::Nat66, group, incarnation: Incarnation::FIRST }
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the barrier is held as long as the guard exists"]
pub struct RouteWriteGuard<'e> {
    egress: &'e Egress,
    ledger: Ledger,
    _lock: SharedGuard,
}

/// What became of what was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A group closed after its ticket was given. The routes to it stand, and who retires it moves
    /// them.
    #[error("group {group} is {} since routes to it were written", text(*state))]
    #[non_exhaustive]
    Closed {
        /// The group.
        group: GroupId,
        /// What it is.
        state: State,
    },
    /// A program that does not keep the barrier changed a route.
    #[error("route {key} is not what was written")]
    #[non_exhaustive]
    Changed {
        /// The route.
        key: Key,
    },
    /// What is there cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

fn text(state: State) -> &'static str {
    match state {
        State::Open => "in another incarnation",
        State::Closing => "closing",
        State::Disabled => "disabled",
    }
}

impl VerifyError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Closed { .. } | Self::Changed { .. } => ErrorKind::Conflict,
            Self::Instance(error) => error.kind(),
        }
    }
}

impl Egress {
    /// Takes the right to write tenants and routes, for which it waits as long as that for who
    /// retires a group or refreshes routes. Others may have it at the same time.
    ///
    /// # Errors
    /// The wait was too long, or the barrier cannot be locked.
    pub fn write_routes(&self, patience: Duration) -> Result<RouteWriteGuard<'_>, GuardError> {
        Ok(RouteWriteGuard {
            _lock: self.barrier.shared(patience)?,
            egress: self,
            ledger: Ledger::default(),
        })
    }
}

impl RouteWriteGuard<'_> {
    pub(super) fn egress(&self) -> &Egress {
        self.egress
    }

    /// Tenants are read again before the next of them is written.
    pub(super) fn forget_tenants(&self) {
        self.ledger.forget_tenants();
    }

    /// Routes that are written from now on belong to another writer than the node's control loop,
    /// which leaves them alone.
    pub fn set_origin(&self, origin: Origin) {
        self.ledger.origin.set(origin);
    }

    /// The right to write routes to the class's group.
    ///
    /// # Errors
    /// The class has no open group: write a route to a shard, or a block, under this guard.
    pub fn ticket(&self, class: Class) -> Result<GroupTicket<'_>, TicketError> {
        GroupTicket::new(self.egress, class)
    }

    /// Lets packets from interface `ifindex` be looked at as the tenant's, or changes how. For no gap
    /// to open, [`install`](Self::install) the tenant's routes first.
    ///
    /// # Errors
    /// The interface is another tenant's, other interfaces of the tenant disagree, or there is no
    /// room.
    pub fn add_interface(&self, ifindex: u32, tenant: &Tenant) -> Result<(), RouteError> {
        self.add_interfaces(&BTreeMap::from([(ifindex, *tenant)]))
    }

    /// As [`add_interface`](Self::add_interface) for several, all or none. Rows of one tenant that
    /// are written together may change in what they must agree.
    ///
    /// # Errors
    /// As there.
    pub fn add_interfaces(&self, interfaces: &BTreeMap<u32, Tenant>) -> Result<(), RouteError> {
        self.ledger.put_interfaces(self.egress, interfaces, false)
    }

    /// As [`add_interfaces`](Self::add_interfaces), also of those that are other tenants' until then:
    /// packets go from one tenant to the other by one update.
    ///
    /// # Errors
    /// As there, but for the interface of another tenant.
    pub fn take_interfaces(&self, interfaces: &BTreeMap<u32, Tenant>) -> Result<(), RouteError> {
        self.ledger.put_interfaces(self.egress, interfaces, true)
    }

    /// Writes one route of a tenant by one update, whatever was there.
    ///
    /// # Errors
    /// Interfaces of the tenant disagree with `tenant`, the ticket is of another instance, or there
    /// is no room.
    pub fn put(&self, tenant: &Tenant, prefix: Prefix, to: To<'_>) -> Result<(), RouteError> {
        self.put_foreign(tenant, tenant.argument, prefix, to)
    }

    /// As [`put`](Self::put), with another Argument in the outer destination address than the
    /// tenant's: the shard takes the packets for another tenant's.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_foreign(
        &self,
        tenant: &Tenant,
        argument: Argument,
        prefix: Prefix,
        to: To<'_>,
    ) -> Result<(), RouteError> {
        let put = self.ledger.put(self.egress, tenant, argument, prefix, to);
        put.map(drop)
    }

    /// Writes the routes of a tenant, all or none: long prefixes before short ones, so that at no
    /// time a default route catches what has a route of its own.
    ///
    /// # Errors
    /// As [`put`](Self::put); what was there is there again.
    pub fn install(&self, tenant: &Tenant, routes: &[(Prefix, To<'_>)]) -> Result<(), RouteError> {
        let mut routes = routes.to_vec();
        routes.sort_by_key(|(prefix, _)| Reverse(prefix.bits()));
        let mut done = Vec::with_capacity(routes.len());
        for (prefix, to) in routes {
            match self
                .ledger
                .put(self.egress, tenant, tenant.argument, prefix, to)
            {
                Ok(before) => done.push(before),
                Err(error) => {
                    self.ledger.undo(self.egress, done)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Removes one route; whether there was one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self, table: TableId, prefix: Prefix) -> Result<bool, SysError> {
        self.ledger.remove(self.egress, Key::new(table, prefix))
    }

    /// Removes all routes of a tenant, short prefixes before long ones; how many there were.
    ///
    /// # Errors
    /// The table cannot be read, or the kernel refuses.
    pub fn remove_all(&self, table: TableId) -> Result<usize, InstanceError> {
        let routes = self.egress.routes(table)?;
        let mut keys: Vec<_> = routes.into_keys().collect();
        keys.sort_by_key(|key| key.prefix.bits());
        for key in &keys {
            self.ledger.remove(self.egress, *key)?;
        }
        Ok(keys.len())
    }

    /// Looks again at what was written, and gives the barrier back.
    ///
    /// # Errors
    /// [`VerifyError`] says what is otherwise than it was written.
    pub fn verify(self) -> Result<(), VerifyError> {
        let changed = self.ledger.differing(self.egress);
        if let Some(key) = changed.map_err(InstanceError::from)? {
            return Err(VerifyError::Changed { key });
        }
        for (group, incarnation) in self.ledger.named() {
            let live = self.egress.group(group)?;
            let state = live.as_ref().map_or(State::Disabled, |live| live.state);
            let same = live.is_some_and(|live| live.incarnation == incarnation);
            if state != State::Open || !same {
                return Err(VerifyError::Closed { group, state });
            }
        }
        Ok(())
    }
}
