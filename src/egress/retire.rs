// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Retiring groups, and bringing routes in line, while nobody writes routes.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::Duration;

use super::census::RouteCensus;
use super::error::{GroupError, GuardError, InstanceError, PublishError};
use super::instance::Writer;
use super::known::Known;
use super::ledger::{exchange, Ledger, RouteError};
use super::publish::{Published, Step};
use super::ticket::{GroupTicket, TicketError, To};
use super::Subject;
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, GroupPlan, State};
use crate::kernel::exchange::Aborted;
use crate::kernel::write_barrier::ExclusiveGuard;
use crate::kernel::SysError;
use crate::placement::Scope;
use crate::route::{Key, Route, Target};

/// The right to write routes while nobody else writes any. A group can be disabled only through it,
/// with a proof that no route names it.
///
/// ```no_run
/// use std::time::Duration;
/// use guideway::egress::{Move, To, Writer};
/// use guideway::route::Block;
///
/// # fn retire(writer: &mut Writer, group: guideway::group::GroupId)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let close = writer.plan_close(group)?;
/// writer.publish(&[close])?.remove(0)?;
/// let mut guard = writer.retire(Duration::from_secs(5))?;
/// guard.move_routes(|_, route| match route.group() {
///     Some((named, _)) if named == group => Move::To(To::Block(Block::Drop)),
///     _ => Move::Keep,
/// })?;
/// let proof = guard.prove_zero(group)?;
/// guard.disable(proof)?;
/// # Ok(())
/// # }
/// ```
///
/// Nothing else is a proof:
///
/// ```compile_fail,E0061
/// # use guideway::egress::RetireGuard;
/// # fn hasty(guard: &mut RetireGuard<'_>) {
/// let _ = guard.disable();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the barrier is held as long as the guard exists"]
pub struct RetireGuard<'w> {
    pub(super) writer: &'w mut Writer,
    pub(super) ledger: Ledger,
    _lock: ExclusiveGuard,
}

/// What shall become of a route.
#[derive(Debug, Clone, Copy)]
pub enum Move<'t> {
    /// It stays.
    Keep,
    /// It leads there, by one update.
    To(To<'t>),
    /// It goes away; what a shorter prefix has applies.
    Remove,
}

/// What became of routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveReport {
    /// Routes that lead elsewhere now.
    pub moved: u64,
    /// Routes that went away.
    pub removed: u64,
    /// Routes that a program without the barrier changed meanwhile: left alone.
    pub changed: u64,
    /// Routes that cannot be made to lead to a shard or group, as nothing is known of their tenant:
    /// left alone.
    pub orphaned: u64,
    /// Whether there are more: as many were changed as may be under one guard.
    pub more: bool,
}

/// Why a group cannot be disabled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StillReferenced {
    /// Routes name it.
    #[error(
        "group {group} is named by {routes} routes, {foreign} of them of other writers, the first is \
         {first}"
    )]
    #[non_exhaustive]
    Routes {
        /// The group.
        group: GroupId,
        /// How many.
        routes: u64,
        /// Of these, those that the control loop does not keep.
        foreign: u64,
        /// One of them.
        first: String,
    },
    /// It still takes routes, or was never there.
    #[error("group {group} is {}, only a closing one can be disabled", named(*state))]
    #[non_exhaustive]
    State {
        /// The group.
        group: GroupId,
        /// What it is.
        state: Option<State>,
    },
    /// The routes cannot be read.
    #[error(transparent)]
    Instance(#[from] InstanceError),
}

fn named(state: Option<State>) -> &'static str {
    match state {
        None => "absent",
        Some(State::Open) => "open",
        Some(State::Closing) => "closing",
        Some(State::Disabled) => "disabled",
    }
}

impl StillReferenced {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Routes { .. } | Self::State { .. } => ErrorKind::Conflict,
            Self::Instance(error) => error.kind(),
        }
    }
}

/// Why a group is not disabled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// The proof is of another instance.
    #[error("the proof that no route names group {group} is of another instance")]
    #[non_exhaustive]
    OtherInstance {
        /// The group.
        group: GroupId,
    },
    /// It cannot be planned.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// It cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl RetireError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OtherInstance { .. } => ErrorKind::Invalid,
            Self::Group(error) => error.kind(),
            Self::Publish(error) => error.kind(),
        }
    }
}

/// The proof that no route names a closing group, from a look at all of them while nobody writes
/// any.
#[derive(Debug)]
pub struct ZeroRoutes<'w> {
    group: GroupId,
    /// Id of the instance's array of groups.
    instance: u32,
    census: RouteCensus,
    guard: PhantomData<&'w ()>,
}

impl ZeroRoutes<'_> {
    /// The group.
    #[must_use]
    pub const fn group(&self) -> GroupId {
        self.group
    }

    /// What was seen.
    #[must_use]
    pub const fn census(&self) -> &RouteCensus {
        &self.census
    }
}

impl Writer {
    /// Takes the right to write routes while nobody else does, for which it waits as long as that for
    /// those who write some. From then on no new writer comes in between.
    ///
    /// # Errors
    /// The wait was too long, or the barrier cannot be locked.
    pub fn retire(&mut self, patience: Duration) -> Result<RetireGuard<'_>, GuardError> {
        Ok(RetireGuard {
            _lock: self.barrier.exclusive(patience)?,
            writer: self,
            ledger: Ledger::default(),
        })
    }
}

/// Most routes that are changed under one guard: others wait meanwhile.
pub const MOST_REFRESHED: usize = 1024;

impl<'w> RetireGuard<'w> {
    /// The right to write routes to the class's group.
    ///
    /// # Errors
    /// The class has no open group.
    pub fn ticket(&self, class: Class) -> Result<GroupTicket<'_>, TicketError> {
        GroupTicket::new(self.writer, class)
    }

    /// Looks at all routes.
    ///
    /// # Errors
    /// They cannot be read to the end, or the groups cannot.
    pub fn scan(&self) -> Result<RouteCensus, InstanceError> {
        self.writer.census()
    }

    /// Decides for every route whether it moves. Each move is one update, and no move brings back a
    /// route that is gone.
    ///
    /// # Errors
    /// The tables cannot be read, a ticket is of another instance, or the kernel refuses; some moves
    /// are made then.
    pub fn move_routes<'t>(
        &self,
        to: impl FnMut(&Key, &Route) -> Move<'t>,
    ) -> Result<MoveReport, RouteError> {
        self.move_some(usize::MAX, to)
    }

    /// As [`move_routes`](Self::move_routes), but changes at most so many.
    ///
    /// # Errors
    /// As there.
    pub fn move_some<'t>(
        &self,
        most: usize,
        mut to: impl FnMut(&Key, &Route) -> Move<'t>,
    ) -> Result<MoveReport, RouteError> {
        let mut report = MoveReport::default();
        let mut moves = Vec::new();
        self.writer.for_each_route(|row| {
            let Ok((key, route)) = row else {
                return ControlFlow::Continue(());
            };
            match to(&key, &route) {
                Move::Keep => {}
                action => moves.push((key, route, action)),
            }
            ControlFlow::Continue(())
        })?;
        // What goes away goes as a tenant's routes always do: short prefixes first.
        moves.sort_by_key(|(key, ..)| key.prefix.bits());
        report.more = moves.len() > most;
        moves.truncate(most);
        for (key, route, action) in moves {
            let to = match action {
                Move::Keep => continue,
                Move::Remove => {
                    self.ledger.remove(self.writer, key)?;
                    report.removed += 1;
                    continue;
                }
                Move::To(to) => to,
            };
            let Some(moved) = self.led(&key, &route, to)? else {
                report.orphaned += 1;
                continue;
            };
            let done = exchange(self.writer, &key, &route.to_row(), &moved.to_row())?;
            *if done {
                &mut report.moved
            } else {
                &mut report.changed
            } += 1;
        }
        Ok(report)
    }

    /// The route as it leads there, if enough is known of its tenant.
    pub(super) fn led(
        &self,
        key: &Key,
        route: &Route,
        to: To<'_>,
    ) -> Result<Option<Route>, RouteError> {
        let tenant = self.ledger.tenant(self.writer, key.table)?;
        let argument = route.argument().or(tenant.map(|tenant| tenant.argument));
        let target = match (to, tenant, argument) {
            (To::Pass, ..) => Target::Pass,
            (To::Block(block), ..) => Target::Block(block),
            (To::Shard { sid, next_hop }, _, Some(argument)) => Target::Shard {
                argument,
                sid,
                next_hop,
            },
            (To::Group(_), Some(tenant), Some(argument)) => {
                let hash_table = tenant.hash_table;
                let led = self
                    .ledger
                    .route(self.writer, hash_table, argument, key.prefix, to)?;
                led.target
            }
            _ => return Ok(None),
        };
        Ok(Some(Route {
            origin: route.origin,
            target,
        }))
    }

    /// Makes the hash states that routes to groups carry those of their tenant and group, after
    /// either has got another number to hash. At most 1,024 under one guard.
    ///
    /// # Errors
    /// As [`move_routes`](Self::move_routes).
    pub fn refresh(&self) -> Result<MoveReport, RouteError> {
        let known = Known::read(self.writer)?;
        let tenants = known.rows().values();
        let tenants: BTreeMap<_, _> = tenants
            .map(|tenant| (tenant.table, tenant.hash_table))
            .collect();
        let live = self.writer.groups_as_they_are()?.known;
        let mut report = MoveReport::default();
        let mut wrong = Vec::new();
        self.writer.for_each_route(|row| {
            let Ok((key, route)) = row else {
                return ControlFlow::Continue(());
            };
            let Some(right) = rehashed(&key, &route, &tenants, &live) else {
                return ControlFlow::Continue(());
            };
            if right != route {
                report.more = wrong.len() == MOST_REFRESHED;
                if report.more {
                    return ControlFlow::Break(());
                }
                wrong.push((key, route, right));
            }
            ControlFlow::Continue(())
        })?;
        for (key, route, right) in wrong {
            let done = exchange(self.writer, &key, &route.to_row(), &right.to_row())?;
            *if done {
                &mut report.moved
            } else {
                &mut report.changed
            } += 1;
        }
        Ok(report)
    }

    /// Proves that no route names a closing group.
    ///
    /// # Errors
    /// One does, also one of another writer; the group is not closing; or the routes cannot be read
    /// to the end.
    pub fn prove_zero(&self, group: GroupId) -> Result<ZeroRoutes<'w>, StillReferenced> {
        let state = self.writer.group(group)?.map(|live| live.state);
        if state != Some(State::Closing) {
            return Err(StillReferenced::State { group, state });
        }
        let census = self.scan()?;
        let (mut routes, mut foreign, mut first) = (0, 0, None);
        // As packets read them: a row that makes no sense otherwise may still name a group.
        let kind = crate::abi::RouteKind::GW_ROUTE_GROUP.0 as u8;
        self.writer
            .maps
            .routes
            .for_each(|key, row| {
                if row.kind == kind && row.group_id == u32::from(group.get()) {
                    routes += 1;
                    foreign += u64::from(row.origin != 0);
                    first.get_or_insert_with(|| match Key::from_row(key) {
                        Ok(key) => key.to_string(),
                        Err(error) => error.to_string(),
                    });
                }
                ControlFlow::Continue(())
            })
            .map_err(InstanceError::from)?;
        match first {
            Some(first) => Err(StillReferenced::Routes {
                group,
                routes,
                foreign,
                first,
            }),
            None => Ok(ZeroRoutes {
                group,
                instance: self.writer.maps.groups.map().id(),
                census,
                guard: PhantomData,
            }),
        }
    }

    /// Publishes that the group forwards nothing any more, and may be opened for another class.
    ///
    /// # Errors
    /// It cannot be planned or published; unless the error says otherwise it is still closing.
    pub fn disable(&mut self, proof: ZeroRoutes<'w>) -> Result<Published, RetireError> {
        self.disable_observed(proof, |_, _| Ok(()))
    }

    /// As [`disable`](Self::disable), asking `observer` before each step.
    ///
    /// # Errors
    /// As there, and the observer stopped it.
    pub fn disable_observed(
        &mut self,
        proof: ZeroRoutes<'w>,
        observer: impl FnMut(Subject, Step) -> Result<(), Aborted>,
    ) -> Result<Published, RetireError> {
        let plan = self.plan_disable(&proof)?;
        let results = self.writer.publish_any(&[plan], observer)?;
        let result = results.into_iter().next();
        // There is one result for each plan.
        let absent = || {
            let error = SysError::new("publish", Subject::Group(proof.group), nix::libc::EIO);
            Err(PublishError::Instance(error.into()))
        };
        Ok(result.unwrap_or_else(absent)?)
    }
}

impl RetireGuard<'_> {
    /// The plan that a proof allows.
    pub(super) fn plan_disable(&self, proof: &ZeroRoutes<'_>) -> Result<GroupPlan, RetireError> {
        let group = proof.group;
        if proof.instance != self.writer.maps.groups.map().id() {
            return Err(RetireError::OtherInstance { group });
        }
        Ok(self.writer.plan_disable(group)?)
    }
}

/// A route to a group with the states that belong there; none if it is no such route, or its tenant
/// or tenure is unknown.
fn rehashed(
    key: &Key,
    route: &Route,
    tenants: &BTreeMap<crate::route::TableId, crate::placement::HashTable>,
    live: &[crate::group::Snapshot],
) -> Option<Route> {
    let (group, incarnation) = route.group()?;
    let table = *tenants.get(&key.table)?;
    let live = live
        .iter()
        .find(|live| live.group == group && live.incarnation == incarnation)?;
    let scope = Scope {
        table,
        group: live.hash_group,
    };
    Some(Route {
        origin: route.origin,
        target: Target::group(route.argument()?, group, incarnation, scope, key.prefix),
    })
}
