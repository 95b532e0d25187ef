// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The kernel's side: an instance in its state directory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use super::{
    ChangeReport, Checked, Exclusive, Failure, Groups, Kernel, KernelError, Look, PinCounts,
    RouteChange, RouteWriters, Routes, Shared, Stage, Tenants, Ticket,
};
use crate::abi::RouteKind;
use crate::control::observed::{Damage, GroupContext, SenselessRoute};
use crate::egress::pins::{Rules, Standing, Tick};
use crate::egress::{
    self, Egress, GroupTicket, Published, RetireGuard, RouteError, RouteWriteGuard, Step, Subject,
    TicketError, To, VerifyError, Writer,
};
use crate::egress_spec::RouteTarget;
use crate::encap::Encap;
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, GroupPlan, Limits, Snapshot};
use crate::kernel::clock;
use crate::kernel::write_barrier::Mode;
use crate::route::{Key, Origin, Prefix, Route, TableId};
use crate::tenant::Tenant;

/// One thing that is asked of the kernel. An observer is told before it is done, and may keep it
/// from being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Something is read to its end.
    Read(Part),
    /// The write barrier is taken.
    Lock(Mode),
    /// A step of a publication.
    Publish(Subject, Step),
    /// One route is written, or goes away.
    Write(Key),
    /// It is looked whether routes name a closing group.
    Prove(GroupId),
    /// What was written is looked at again.
    Check,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// How packets are encapsulated.
    Encap,
    /// The groups.
    Groups,
    /// What the slots of a group have counted.
    Counters,
    /// The routes.
    Routes,
    /// The interfaces of tenants.
    Tenants,
    /// The pins.
    Pins,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(part) => write!(f, "read {part:?}"),
            Self::Lock(mode) => write!(f, "take the barrier for {mode} use"),
            Self::Publish(subject, step) => write!(f, "{subject}: {step}"),
            Self::Write(key) => write!(f, "write route {key}"),
            Self::Prove(group) => write!(f, "prove that no route names group {group}"),
            Self::Check => f.write_str("look again at what was written"),
        }
    }
}

pub use crate::egress::Aborted;

/// Who is told of each operation.
type Observer = RefCell<Box<dyn FnMut(&Operation) -> Result<(), Aborted>>>;

fn ask(observer: &Observer, operation: Operation) -> Result<(), KernelError> {
    // An observer that asks for something itself is not asked about that.
    let Ok(mut observer) = observer.try_borrow_mut() else {
        return Ok(());
    };
    observer(&operation).map_err(|Aborted| {
        KernelError::new(
            ErrorKind::Partial,
            format!("stopped by the caller before: {operation}"),
        )
    })
}

macro_rules! from_egress {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for KernelError {
            fn from(error: $error) -> Self {
                Self::new(error.kind(), error)
            }
        }
    )+};
}

from_egress!(
    egress::GroupError,
    egress::GuardError,
    egress::InstanceError,
    egress::PublishError,
    egress::RetireError,
    RouteError,
    egress::StillReferenced,
    TicketError,
    VerifyError,
    crate::kernel::SysError,
);

/// What the loop needs, of an instance that this process publishes in.
pub struct Live<'w> {
    writer: &'w mut Writer,
    observer: Observer,
}

impl<'w> Live<'w> {
    /// Of this instance.
    pub fn new(writer: &'w mut Writer) -> Self {
        Self::observed(writer, |_| Ok(()))
    }

    /// The same, asking `observer` before each operation: to stop there, or to fail.
    pub fn observed(
        writer: &'w mut Writer,
        observer: impl FnMut(&Operation) -> Result<(), Aborted> + 'static,
    ) -> Self {
        let observer = RefCell::new(Box::new(observer) as Box<_>);
        Self { writer, observer }
    }
}

impl fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.writer.dir()).finish()
    }
}

/// What who sets up tenants needs, of an instance.
pub struct LiveRoutes<'e> {
    egress: &'e Egress,
    observer: Observer,
}

impl<'e> LiveRoutes<'e> {
    /// Of this instance.
    pub fn new(egress: &'e Egress) -> Self {
        Self::observed(egress, |_| Ok(()))
    }

    /// The same, asking `observer` before each operation: to stop there, or to fail.
    pub fn observed(
        egress: &'e Egress,
        observer: impl FnMut(&Operation) -> Result<(), Aborted> + 'static,
    ) -> Self {
        let observer = RefCell::new(Box::new(observer) as Box<_>);
        Self { egress, observer }
    }
}

impl fmt::Debug for LiveRoutes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.egress.dir();
        f.debug_tuple("LiveRoutes").field(&dir).finish()
    }
}

fn encap(egress: &Egress, observer: &Observer) -> Result<Option<Encap>, KernelError> {
    ask(observer, Operation::Read(Part::Encap))?;
    match egress.encap() {
        // It says nothing that is not wanted anyway, so it is replaced.
        Err(egress::InstanceError::Row(_) | egress::InstanceError::Orphan { .. }) => Ok(None),
        read => Ok(read?),
    }
}

fn groups(egress: &Egress, observer: &Observer) -> Result<Groups, KernelError> {
    ask(observer, Operation::Read(Part::Groups))?;
    let egress::Groups { known, damaged } = egress.groups_as_they_are()?;
    let damaged = damaged.into_iter().map(|(group, error)| {
        let (why, remedy) = (error.to_string(), error.remedy());
        (group, Damage { why, remedy })
    });
    Ok(Groups {
        known,
        damaged: damaged.collect(),
    })
}

fn routes(egress: &Egress, observer: &Observer) -> Result<Routes, KernelError> {
    ask(observer, Operation::Read(Part::Routes))?;
    let mut routes = Routes::default();
    egress.for_each_route_as_it_is(|key, row| {
        match Key::from_row(key) {
            Err(error) => routes.unreadable.push(error),
            Ok(key) => match Route::from_row(&key, row) {
                Ok(route) => drop(routes.by_key.insert(key, route)),
                Err(error) => {
                    let names = row.kind == RouteKind::GW_ROUTE_GROUP.0 as u8;
                    let senseless = SenselessRoute {
                        origin: Origin(row.origin),
                        group: GroupId::new(row.group_id).filter(|_| names),
                        error,
                    };
                    routes.senseless.insert(key, senseless);
                }
            },
        }
        ControlFlow::Continue(())
    })?;
    Ok(routes)
}

fn tenants(egress: &Egress, observer: &Observer) -> Result<Tenants, KernelError> {
    ask(observer, Operation::Read(Part::Tenants))?;
    let mut tenants = Tenants::default();
    egress.for_each_interface(|ifindex, row| {
        match Tenant::from_row(ifindex, row) {
            Ok(tenant) => drop(tenants.by_interface.insert(ifindex, tenant)),
            Err(error) => tenants.unreadable.push(error),
        }
        ControlFlow::Continue(())
    })?;
    Ok(tenants)
}

fn pins(egress: &Egress, observer: &Observer) -> Result<PinCounts, KernelError> {
    ask(observer, Operation::Read(Part::Pins))?;
    let rules = Rules::new(&egress.groups_as_they_are()?.known);
    let now = Tick::now();
    let mut counts = PinCounts::new();
    egress.pins()?.for_each(|pin| {
        if let Ok(pin) = pin {
            if rules.standing(&pin, now) == Standing::Live {
                let held = (pin.holder.group, pin.held.slot, pin.held.generation);
                *counts.entry(held).or_default() += 1;
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(counts)
}

macro_rules! look {
    ($type:ident, $egress:ident) => {
        impl Look for $type<'_> {
            fn now(&self) -> Duration {
                clock::monotonic()
            }

            fn wall_ns(&self) -> u64 {
                clock::wall_ns()
            }

            fn limits(&self) -> Limits {
                self.$egress.limits().groups()
            }

            fn encap(&self) -> Result<Option<Encap>, KernelError> {
                encap(&self.$egress, &self.observer)
            }

            fn groups(&self) -> Result<Groups, KernelError> {
                groups(&self.$egress, &self.observer)
            }

            fn routes(&self) -> Result<Routes, KernelError> {
                routes(&self.$egress, &self.observer)
            }

            fn tenants(&self) -> Result<Tenants, KernelError> {
                tenants(&self.$egress, &self.observer)
            }

            fn pins(&self) -> Result<PinCounts, KernelError> {
                pins(&self.$egress, &self.observer)
            }
        }
    };
}

look!(Live, writer);
look!(LiveRoutes, egress);

/// Asks before each step of a publication.
fn steps(observer: &Observer) -> impl FnMut(Subject, Step) -> Result<(), Aborted> + '_ {
    |subject, step| ask(observer, Operation::Publish(subject, step)).map_err(|_| Aborted)
}

fn results(
    results: Vec<Result<Published, egress::PublishError>>,
) -> Vec<Result<Published, KernelError>> {
    let results = results.into_iter();
    results.map(|result| result.map_err(Into::into)).collect()
}

impl Kernel for Live<'_> {
    fn context(&self, group: GroupId) -> Result<GroupContext, KernelError> {
        ask(&self.observer, Operation::Read(Part::Counters))?;
        Ok(GroupContext {
            high_water: self.writer.high_water(group),
            counters: self.writer.slot_counters(group)?,
        })
    }

    fn set_encap(&mut self, encap: &Encap) -> Result<bool, KernelError> {
        Ok(self
            .writer
            .set_encap_observed(encap, steps(&self.observer))?)
    }

    fn publish(
        &mut self,
        plans: &[GroupPlan],
    ) -> Result<Vec<Result<Published, KernelError>>, KernelError> {
        let published = self.writer.publish_observed(plans, steps(&self.observer))?;
        Ok(results(published))
    }

    fn exclusive(&mut self, patience: Duration) -> Result<Box<dyn Exclusive + '_>, KernelError> {
        ask(&self.observer, Operation::Lock(Mode::Exclusive))?;
        let started = self.now();
        let guard = self.writer.retire(patience)?;
        Ok(Box::new(LiveExclusive {
            guard,
            observer: &self.observer,
            waited: clock::monotonic().saturating_sub(started),
        }))
    }
}

struct LiveExclusive<'k> {
    guard: RetireGuard<'k>,
    observer: &'k Observer,
    waited: Duration,
}

/// The tickets that some targets need, each taken once.
fn tickets<'g>(
    targets: impl IntoIterator<Item = RouteTarget>,
    take: impl Fn(Class) -> Result<GroupTicket<'g>, TicketError>,
) -> BTreeMap<Class, Result<GroupTicket<'g>, TicketError>> {
    let mut tickets = BTreeMap::new();
    for target in targets {
        if let RouteTarget::Class(class) = target {
            tickets.entry(class).or_insert_with(|| take(class));
        }
    }
    tickets
}

/// A target with its ticket; none if there is no ticket.
fn to<'t>(
    target: RouteTarget,
    tickets: &'t BTreeMap<Class, Result<GroupTicket<'t>, TicketError>>,
) -> Option<To<'t>> {
    Some(match target {
        RouteTarget::Pass => To::Pass,
        RouteTarget::Block(block) => To::Block(block),
        RouteTarget::Shard { sid, next_hop } => To::Shard { sid, next_hop },
        RouteTarget::Class(class) => To::Group(tickets.get(&class)?.as_ref().ok()?),
    })
}

/// Why there is no ticket for this target.
fn refused(
    target: RouteTarget,
    tickets: BTreeMap<Class, Result<GroupTicket<'_>, TicketError>>,
) -> KernelError {
    let mut tickets = tickets;
    let refusal = match target {
        RouteTarget::Class(class) => tickets.remove(&class),
        _ => None,
    };
    match refusal {
        Some(Err(error)) => error.into(),
        // Every class among the targets was asked for.
        _ => KernelError::new(ErrorKind::NotFound, "there is no ticket for the class"),
    }
}

impl Exclusive for LiveExclusive<'_> {
    fn waited(&self) -> Duration {
        self.waited
    }

    fn groups(&self) -> Result<Groups, KernelError> {
        groups(self.guard.egress(), self.observer)
    }

    fn routes(&self) -> Result<Routes, KernelError> {
        routes(self.guard.egress(), self.observer)
    }

    fn change(&mut self, changes: &[RouteChange]) -> ChangeReport {
        let guard = &self.guard;
        let targets = changes.iter().filter_map(RouteChange::to);
        let tickets = tickets(targets, |class| guard.ticket(class));
        let mut report = ChangeReport::default();
        for change in changes {
            let key = change.key();
            let led = change.to().map(|target| (target, to(target, &tickets)));
            if let Some((target, None)) = led {
                report.failed = Some(refused(target, tickets));
                break;
            }
            let led = led.and_then(|(_, led)| led);
            let done = ask(self.observer, Operation::Write(key)).and_then(|()| {
                Ok(match (change, led) {
                    (RouteChange::Exchange { before, .. }, Some(led)) => {
                        guard.exchange(&key, before, led)?
                    }
                    (RouteChange::Insert { .. }, Some(led)) => guard.insert(&key, led)?,
                    (RouteChange::Remove { before, .. }, _) => guard.take_away(&key, before)?,
                    _ => guard.mend(&key)?,
                })
            });
            match done {
                Ok(done) => report.done.push(done),
                Err(error) => {
                    report.failed = Some(error);
                    break;
                }
            }
        }
        report
    }

    fn disable(&mut self, groups: &[GroupId]) -> Vec<Result<Published, Failure>> {
        let failed = |stage, group: GroupId| {
            move |cause: KernelError| Failure::new(stage, format_args!("group {group}"), cause)
        };
        let (mut proofs, mut proven) = (Vec::new(), Vec::new());
        for &group in groups {
            let proof = ask(self.observer, Operation::Prove(group))
                .and_then(|()| Ok(self.guard.prove_zero(group)?));
            let proof = proof.map(|proof| proofs.push(proof));
            proven.push(proof.map_err(failed(Stage::Retire, group)));
        }
        let disabled = self
            .guard
            .disable_all_observed(proofs, steps(self.observer));
        let (mut disabled, refused) = match disabled {
            Ok(results) => (results.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(KernelError::from(error))),
        };
        let whole = |refused: &Option<KernelError>| match refused {
            Some(error) => KernelError::new(error.kind(), error.to_string()),
            // There is one result for each proof.
            None => KernelError::new(ErrorKind::Kernel, "nothing is said of the group"),
        };
        let groups = groups.iter().zip(proven);
        groups
            .map(|(group, proof)| {
                proof?;
                let result = match disabled.next() {
                    Some(result) => result.map_err(KernelError::from),
                    None => Err(whole(&refused)),
                };
                result.map_err(failed(Stage::Disable, *group))
            })
            .collect()
    }
}

impl RouteWriters for LiveRoutes<'_> {
    fn shared(&self, patience: Duration) -> Result<Box<dyn Shared + '_>, KernelError> {
        ask(&self.observer, Operation::Lock(Mode::Shared))?;
        Ok(Box::new(LiveShared {
            egress: self.egress,
            guard: self.egress.write_routes(patience)?,
            observer: &self.observer,
        }))
    }
}

struct LiveShared<'k> {
    egress: &'k Egress,
    guard: RouteWriteGuard<'k>,
    observer: &'k Observer,
}

impl Shared for LiveShared<'_> {
    fn ticket(&self, class: Class) -> Result<Ticket, KernelError> {
        ask(self.observer, Operation::Read(Part::Groups))?;
        match self.guard.ticket(class) {
            Ok(ticket) => Ok(Ticket::Open {
                group: ticket.group(),
                incarnation: ticket.incarnation(),
            }),
            Err(TicketError::NotPublished { .. }) => Ok(Ticket::Absent),
            Err(TicketError::Closing { .. }) => Ok(Ticket::Closing),
            Err(TicketError::Disabled { .. }) => Ok(Ticket::Disabled),
            Err(error) => Err(error.into()),
        }
    }

    fn group(&self, group: GroupId) -> Result<Option<Snapshot>, KernelError> {
        ask(self.observer, Operation::Read(Part::Groups))?;
        Ok(self.egress.group(group)?)
    }

    fn foreign(&self, table: TableId, prefixes: &[Prefix]) -> Result<Vec<Prefix>, KernelError> {
        ask(self.observer, Operation::Read(Part::Routes))?;
        let prefixes: BTreeSet<_> = prefixes.iter().copied().collect();
        Ok(self.guard.foreign(table, &prefixes)?.into_iter().collect())
    }

    fn install(
        &mut self,
        tenant: &Tenant,
        routes: &BTreeMap<Prefix, RouteTarget>,
    ) -> Result<(), KernelError> {
        let guard = &self.guard;
        let tickets = tickets(routes.values().copied(), |class| guard.ticket(class));
        let mut led = Vec::with_capacity(routes.len());
        for (prefix, target) in routes {
            match to(*target, &tickets) {
                Some(to) => led.push((*prefix, to)),
                None => return Err(refused(*target, tickets)),
            }
        }
        let observer = |key: &Key| ask(self.observer, Operation::Write(*key)).map_err(|_| Aborted);
        Ok(guard.install_observed(tenant, &led, observer)?)
    }

    fn check(&self) -> Result<Checked, KernelError> {
        ask(self.observer, Operation::Check)?;
        match self.guard.check() {
            Ok(()) => Ok(Checked::Sound),
            Err(VerifyError::Closed { group, state }) => Ok(Checked::Closed { group, state }),
            Err(VerifyError::Changed { key }) => Ok(Checked::Changed { key }),
            Err(error) => Err(error.into()),
        }
    }
}
