// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The barrier in memory, and what may be done while it is held.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::process::Process;
use super::state::Hold;
use super::FakeRoutes;
use crate::abi::RouteKind;
use crate::control::kernel::{
    ChangeReport, Checked, Exclusive, Failure, Groups, KernelError, Look, Operation, Part,
    RouteChange, RouteWriters, Routes, Shared, Stage, Ticket,
};
use crate::egress::{Published, RouteError, StillReferenced, TicketError};
use crate::egress_spec::RouteTarget;
use crate::error::ErrorKind;
use crate::group::{self, Class, Context, GroupId, Snapshot, State as Phase};
use crate::kernel::write_barrier::{BarrierError, Mode};
use crate::route::{Key, Origin, Prefix, Route, TableId};
use crate::tenant::Tenant;

/// How often who waits looks again in all the time that it waits.
const LOOKS: u32 = 8;

fn waited(
    process: &Process,
    mode: Mode,
    patience: Duration,
) -> Result<(Hold, Duration), KernelError> {
    let operation = Operation::Lock(mode);
    let (pid, alone) = (process.pid(), mode == Mode::Exclusive);
    let started = process.now();
    let mut held = None;
    let taken = process.run(operation, |state| {
        held = state.take(pid, alone);
        Ok(())
    });
    if let Err(error) = taken {
        // Who is told that it has no guard has none.
        process.fake().with(|state| {
            held.into_iter().for_each(|hold| state.give_back(hold));
            state.give_up(pid);
        });
        return Err(error);
    }
    while held.is_none() {
        if process.now().saturating_sub(started) >= patience {
            process.alive(|state| {
                state.give_up(pid);
                Ok(())
            })?;
            let path = "memory".to_owned();
            let error = BarrierError::Timeout {
                path,
                mode,
                patience,
            };
            return Err(crate::egress::GuardError::from(error).into());
        }
        process
            .fake()
            .advance((patience / LOOKS).max(Duration::from_nanos(1)));
        process.tell(&operation);
        held = process.alive(|state| Ok(state.take(pid, alone)))?;
    }
    let waited = process.now().saturating_sub(started);
    // There is one when the loop has ended.
    let absent = || KernelError::new(ErrorKind::Locked, "the barrier is not held");
    Ok((held.ok_or_else(absent)?, waited))
}

pub(super) struct FakeExclusive<'p> {
    process: &'p Process,
    hold: Hold,
    waited: Duration,
}

impl<'p> FakeExclusive<'p> {
    pub(super) fn take(process: &'p Process, patience: Duration) -> Result<Self, KernelError> {
        let (hold, waited) = waited(process, Mode::Exclusive, patience)?;
        Ok(Self {
            process,
            hold,
            waited,
        })
    }

    /// Whether no route names a closing group.
    fn prove(&self, group: GroupId) -> Result<(), KernelError> {
        self.process.run(Operation::Prove(group), |state| {
            let live = state.world.groups.get(&group);
            let phase = live.map(|live| live.state);
            if phase != Some(Phase::Closing) {
                return Err(StillReferenced::State {
                    group,
                    state: phase,
                }
                .into());
            }
            let rows = state.world.routes.iter();
            let rows = rows.filter(|(_, route)| route.group().is_some_and(|(one, _)| one == group));
            let rows = rows.map(|(key, route)| (*key, route.origin));
            let kind = RouteKind::GW_ROUTE_GROUP.0 as u8;
            let senseless = state.senseless.iter();
            let senseless = senseless
                .filter(|(_, row)| row.kind == kind && row.group_id == u32::from(group.get()));
            let senseless = senseless.map(|(key, row)| (*key, Origin(row.origin)));
            let rows: Vec<_> = rows.chain(senseless).collect();
            let foreign = rows.iter().filter(|(_, origin)| origin.is_foreign());
            match rows.first() {
                None => Ok(()),
                Some((first, _)) => Err(StillReferenced::Routes {
                    group,
                    routes: rows.len() as u64,
                    foreign: foreign.count() as u64,
                    first: first.to_string(),
                }
                .into()),
            }
        })
    }

    fn plan(&self, group: GroupId) -> Result<group::GroupPlan, KernelError> {
        let pid = self.process.pid();
        let (now_ns, limits) = (self.process.wall_ns(), self.process.limits());
        self.process.alive(|state| {
            let life = state.lives.get(&pid);
            let mark = life.and_then(|life| life.marks.get(&group).copied());
            let context = Context {
                limits,
                high_water: mark.unwrap_or_default(),
                counters: &[],
                now_ns,
                rewrite: false,
            };
            let live = state.world.groups.get(&group);
            let live = live.ok_or(crate::egress::GroupError::Absent { group })?;
            let plan = group::disable(live, &context);
            Ok(plan.map_err(crate::egress::GroupError::from)?)
        })
    }
}

impl Drop for FakeExclusive<'_> {
    fn drop(&mut self) {
        self.process.fake().with(|state| state.give_back(self.hold));
    }
}

impl Exclusive for FakeExclusive<'_> {
    fn waited(&self) -> Duration {
        self.waited
    }

    fn groups(&self) -> Result<Groups, KernelError> {
        self.process.groups()
    }

    fn routes(&self) -> Result<Routes, KernelError> {
        self.process.routes()
    }

    fn change(&mut self, changes: &[RouteChange]) -> ChangeReport {
        let mut report = ChangeReport::default();
        for change in changes {
            let operation = Operation::Write(change.key());
            match self.process.run(operation, |state| state.change(change)) {
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
        let planned = groups.iter().map(|&group| {
            self.prove(group).map_err(failed(Stage::Retire, group))?;
            self.plan(group).map_err(failed(Stage::Disable, group))
        });
        let planned: Vec<Result<_, Failure>> = planned.collect();
        let plans: Vec<_> = planned.iter().flatten().cloned().collect();
        let (mut results, refused) = match self.process.publish(&plans) {
            Ok(results) => (results.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(error)),
        };
        let planned = groups.iter().zip(planned);
        planned
            .map(|(&group, plan)| {
                plan?;
                let result = results.next().unwrap_or_else(|| {
                    let cause = refused.as_ref().map(ToString::to_string);
                    let cause = cause.unwrap_or_else(|| "nothing is said of it".to_owned());
                    Err(KernelError::new(ErrorKind::Kernel, cause))
                });
                result.map_err(failed(Stage::Disable, group))
            })
            .collect()
    }
}

impl RouteWriters for FakeRoutes {
    fn shared(&self, patience: Duration) -> Result<Box<dyn Shared + '_>, KernelError> {
        Ok(self.guard(patience)?)
    }
}

impl FakeRoutes {
    /// As [`RouteWriters::shared`], for tests that let something else happen while it is held.
    ///
    /// # Errors
    /// As there.
    pub fn guard(&self, patience: Duration) -> Result<Box<dyn Shared + Send>, KernelError> {
        let (hold, _) = waited(&self.process, Mode::Shared, patience)?;
        Ok(Box::new(FakeShared {
            process: self.process.clone(),
            hold,
            written: RefCell::default(),
        }))
    }
}

struct FakeShared {
    process: Arc<Process>,
    hold: Hold,
    /// What was written under the guard.
    written: RefCell<BTreeMap<Key, Route>>,
}

impl Drop for FakeShared {
    fn drop(&mut self) {
        self.process.fake().with(|state| state.give_back(self.hold));
    }
}

/// A write, and what was there before.
struct Done {
    key: Key,
    route: Route,
    before: Option<Route>,
}

impl FakeShared {
    /// Puts back what was there, unless it is somebody else's by now.
    fn undo(&self, done: Vec<Done>) -> Result<(), KernelError> {
        let mut first = Ok(());
        for Done { key, route, before } in done.into_iter().rev() {
            self.written.borrow_mut().remove(&key);
            let undone = self.process.run(Operation::Write(key), |state| {
                if state.world.routes.get(&key) == Some(&route) {
                    match before {
                        Some(before) => state.world.routes.insert(key, before),
                        None => state.world.routes.remove(&key),
                    };
                }
                Ok(())
            });
            first = first.and(undone);
        }
        first
    }
}

impl Shared for FakeShared {
    fn ticket(&self, class: Class) -> Result<Ticket, KernelError> {
        self.process.run(Operation::Read(Part::Groups), |state| {
            Ok(match state.open(class) {
                Ok(live) => Ticket::Open {
                    group: live.group,
                    incarnation: live.incarnation,
                },
                Err(TicketError::NotPublished { .. }) => Ticket::Absent,
                Err(TicketError::Closing { .. }) => Ticket::Closing,
                Err(TicketError::Disabled { .. }) => Ticket::Disabled,
                Err(error) => return Err(error.into()),
            })
        })
    }

    fn group(&self, group: GroupId) -> Result<Option<Snapshot>, KernelError> {
        self.process.run(Operation::Read(Part::Groups), |state| {
            Ok(state.world.groups.get(&group).cloned())
        })
    }

    fn foreign(&self, table: TableId, prefixes: &[Prefix]) -> Result<Vec<Prefix>, KernelError> {
        self.process.run(Operation::Read(Part::Routes), |state| {
            let is_foreign = |prefix: &&Prefix| {
                let route = state.world.routes.get(&Key::new(table, **prefix));
                route.is_some_and(|route| route.origin.is_foreign())
            };
            Ok(prefixes.iter().filter(is_foreign).copied().collect())
        })
    }

    fn install(
        &mut self,
        tenant: &Tenant,
        routes: &BTreeMap<Prefix, RouteTarget>,
    ) -> Result<(), KernelError> {
        let table = tenant.table;
        let mut routes: Vec<_> = routes.iter().map(|(prefix, to)| (*prefix, *to)).collect();
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.bits()));
        // All tickets come first.
        let led = routes.into_iter().map(|(prefix, to)| {
            let key = Key::new(table, prefix);
            self.process.alive(|state| {
                let mut others = state.world.tenants.iter();
                let other = others.find_map(|(&ifindex, other)| {
                    let differing = tenant.contradiction(other)?;
                    (other.table == table).then_some((ifindex, differing))
                });
                if let Some((ifindex, (field, wanted, found))) = other {
                    return Err(RouteError::Contradiction {
                        table,
                        field,
                        wanted,
                        found,
                        ifindex,
                    }
                    .into());
                }
                Ok((key, state.led(&key, tenant, tenant.argument, to)?))
            })
        });
        let led = led.collect::<Result<Vec<_>, KernelError>>()?;
        let mut done = Vec::with_capacity(led.len());
        for (key, route) in led {
            let mut before = None;
            let written = self.process.run(Operation::Write(key), |state| {
                before = Some(state.world.routes.get(&key).copied());
                Ok(state.write(key, route)?)
            });
            // Also one of which nobody said whether it was written.
            done.extend(before.map(|before| Done { key, route, before }));
            if let Err(cause) = written {
                return Err(match self.undo(done) {
                    Ok(()) => cause,
                    Err(error) => KernelError::new(
                        ErrorKind::Partial,
                        format!("{cause}; and it could not be undone: {error}"),
                    ),
                });
            }
            self.written.borrow_mut().insert(key, route);
        }
        Ok(())
    }

    fn check(&self) -> Result<Checked, KernelError> {
        let written = self.written.borrow();
        self.process.run(Operation::Check, |state| {
            for (&key, route) in written.iter() {
                if state.world.routes.get(&key) != Some(route) {
                    return Ok(Checked::Changed { key });
                }
            }
            for (group, incarnation) in written.values().filter_map(Route::group) {
                let live = state.world.groups.get(&group);
                let phase = live.map_or(Phase::Disabled, |live| live.state);
                let same = live.is_some_and(|live| live.incarnation == incarnation);
                if phase != Phase::Open || !same {
                    return Ok(Checked::Closed {
                        group,
                        state: phase,
                    });
                }
            }
            Ok(Checked::Sound)
        })
    }
}
