// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writing tenants and their routes, beside other writers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use super::error::{GuardError, InstanceError};
use super::instance::Egress;
use super::ledger::{Ledger, RouteError};
use super::ticket::{GroupTicket, TicketError, To};
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, State};
use crate::kernel::exchange::Aborted;
use crate::kernel::write_barrier::{ExclusiveGuard, SharedGuard};
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
    _lock: Lock,
}

/// Maps that are written under a guard, or that tell what to write.
const WRITTEN: [&str; 4] = ["gw_tenants", "gw_routes", "gw_groups", "gw_pin_use"];

/// How a guard has the barrier.
#[derive(Debug)]
enum Lock {
    Shared { _guard: SharedGuard },
    Alone { _guard: ExclusiveGuard },
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
    /// Another process wrote interfaces of the same tenant that say something else.
    #[error(transparent)]
    Tenant(#[from] RouteError),
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
            Self::Tenant(error) => error.kind(),
            Self::Instance(error) => error.kind(),
        }
    }
}

impl Egress {
    /// Takes the right to write tenants and routes, for which it waits as long as that for who
    /// retires a group or refreshes routes. Others may have it at the same time.
    ///
    /// # Errors
    /// The wait was too long, the barrier cannot be locked, or the instance has other maps by now
    /// ([`InstanceError::Replaced`]): what is written in these would reach no packet.
    pub fn write_routes(&self, patience: Duration) -> Result<RouteWriteGuard<'_>, GuardError> {
        let _guard = self.barrier.shared(patience)?;
        self.check_current()?;
        Ok(self.guard(Lock::Shared { _guard }))
    }

    /// The same while nobody else has it, for who writes over what others may have written.
    pub(super) fn write_routes_alone(
        &self,
        patience: Duration,
    ) -> Result<RouteWriteGuard<'_>, GuardError> {
        let _guard = self.barrier.exclusive(patience)?;
        self.check_current()?;
        Ok(self.guard(Lock::Alone { _guard }))
    }

    /// Whether what is written reaches packets, and will; for who holds the barrier.
    fn check_current(&self) -> Result<(), GuardError> {
        if self.dir.is_taken_over().map_err(InstanceError::from)? {
            let path = self.dir.path().display().to_string();
            return Err(GuardError::Unfinished { path });
        }
        Ok(self.check_pinned(&WRITTEN)?)
    }

    fn guard(&self, lock: Lock) -> RouteWriteGuard<'_> {
        RouteWriteGuard {
            egress: self,
            ledger: Ledger::default(),
            _lock: lock,
        }
    }
}

impl RouteWriteGuard<'_> {
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

    /// Whether [`install`](Self::install) and then [`add_interface`](Self::add_interface) would refuse
    /// the tenant, as far as that is known before, and whether its Argument is its own; nothing is
    /// changed. For who attaches before.
    ///
    /// # Errors
    /// As there, or [`RouteError::ArgumentTaken`].
    pub fn check_interface(&self, ifindex: u32, tenant: &Tenant) -> Result<(), RouteError> {
        self.ledger.check_interface(self.egress, ifindex, tenant)
    }

    /// The tenant of a table as one of its interfaces has it; none if it has no interface.
    ///
    /// # Errors
    /// The table of tenants cannot be read.
    pub fn tenant(&self, table: TableId) -> Result<Option<Tenant>, SysError> {
        self.ledger.tenant(self.egress, table)
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
        self.install_observed(tenant, routes, |_| Ok(()))
    }

    /// As [`install`](Self::install), asking `observer` before each route is written.
    ///
    /// # Errors
    /// As there; where the observer stops it, it is undone as well.
    pub fn install_observed(
        &self,
        tenant: &Tenant,
        routes: &[(Prefix, To<'_>)],
        mut observer: impl FnMut(&Key) -> Result<(), Aborted>,
    ) -> Result<(), RouteError> {
        let mut routes = routes.to_vec();
        routes.sort_by_key(|(prefix, _)| Reverse(prefix.bits()));
        let mut done = Vec::with_capacity(routes.len());
        for (prefix, to) in routes {
            let key = Key::new(tenant.table, prefix);
            let asked = observer(&key).map_err(|Aborted| RouteError::Aborted { key });
            let put = |()| {
                let argument = tenant.argument;
                self.ledger.put(self.egress, tenant, argument, prefix, to)
            };
            match asked.and_then(put) {
                Ok(before) => done.push(before),
                Err(error) => return Err(self.ledger.undo(self.egress, done, error)),
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
    pub fn remove_all(&self, table: TableId) -> Result<usize, SysError> {
        remove_routes(self.egress, table)
    }

    /// Stops looking at packets from an interface; whose it was, if its row made sense. They pass
    /// untouched from then on, so the interface should be down. The tenant's routes and pins stay
    /// until [`remove_tenant`](super::Writer::remove_tenant).
    ///
    /// # Errors
    /// The row cannot be read, or the kernel refuses.
    pub fn remove_interface(&self, ifindex: u32) -> Result<Option<Tenant>, SysError> {
        self.ledger.remove_interface(self.egress, ifindex)
    }

    /// Those of the routes to these prefixes of a tenant that another writer than the node's control
    /// loop keeps.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn foreign(
        &self,
        table: TableId,
        prefixes: &BTreeSet<Prefix>,
    ) -> Result<BTreeSet<Prefix>, SysError> {
        // Mostly there is none, or one of the loop's own; to look through all routes takes long.
        let mut may_be = false;
        for prefix in prefixes {
            let there = self
                .egress
                .maps
                .routes
                .longest(&Key::new(table, *prefix).to_row())?;
            may_be |= there.is_some_and(|there| Origin(there.origin).is_foreign());
        }
        let mut foreign = BTreeSet::new();
        if may_be {
            self.egress.for_each_route(|row| {
                if let Ok((key, route)) = row {
                    let is_asked = key.table == table && prefixes.contains(&key.prefix);
                    if is_asked && route.origin.is_foreign() {
                        foreign.insert(key.prefix);
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(foreign)
    }

    /// Interfaces that are about to be removed or another tenant's: nobody has to agree with what
    /// they say.
    pub(super) fn set_leaving(&self, interfaces: BTreeSet<u32>) {
        self.ledger.leaving.replace(interfaces);
    }

    /// Looks again at what was written, and gives the barrier back.
    ///
    /// # Errors
    /// [`VerifyError`] says what is otherwise than it was written.
    pub fn verify(self) -> Result<(), VerifyError> {
        self.check()
    }

    /// Looks again at what was written, and keeps the barrier: what is otherwise than it should be
    /// can be written again before anybody retires a group.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    pub fn check(&self) -> Result<(), VerifyError> {
        let changed = self.ledger.differing(self.egress);
        if let Some(key) = changed.map_err(InstanceError::from)? {
            return Err(VerifyError::Changed { key });
        }
        self.ledger.contradicted(self.egress)?;
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

/// Removes the routes of a tenant, short prefixes first, also those that make no sense; how many
/// there were.
pub(super) fn remove_routes(egress: &Egress, table: TableId) -> Result<usize, SysError> {
    let mut keys = Vec::new();
    egress.maps.routes.for_each(|key, _| {
        if key.table_id == table.get() {
            keys.push(*key);
        }
        ControlFlow::Continue(())
    })?;
    keys.sort_by_key(|key| key.prefixlen);
    for key in &keys {
        egress.maps.routes.remove(key)?;
    }
    Ok(keys.len())
}
