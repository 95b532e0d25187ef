// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps that write routes, each under the exclusive guard.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::report::{Outcome, RouteCounts, StepReport};
use super::run::Run;
use crate::control::kernel::{
    ChangeReport, Exclusive, Failure, KernelError, RouteChange, Routes, Stage,
};
use crate::control::plan::{RouteEnd, RouteMove, Step};
use crate::egress::{Changed, Published, MOST_REFRESHED};
use crate::egress_spec::RouteTarget;
use crate::error::ErrorKind;
use crate::group::{Class, GroupId, State};
use crate::route::{Block, Key, Prefix};
use crate::tenant::Tenant;

/// A group that a step retires, and what becomes of routes to it.
struct Retired {
    group: GroupId,
    class: Class,
    own: RouteEnd,
    others: RouteEnd,
}

fn route(key: Key) -> String {
    format!("route {key}")
}

/// Something is not what it was when it was planned.
fn raced(text: String) -> KernelError {
    KernelError::new(ErrorKind::StalePlan, text)
}

impl RouteCounts {
    fn of(changes: &[RouteChange], report: &ChangeReport) -> Self {
        let mut counts = Self::default();
        for (change, done) in changes.iter().zip(&report.done) {
            *match (done, change) {
                (Changed::Done, RouteChange::Insert { .. }) => &mut counts.written,
                (Changed::Done, RouteChange::Remove { .. }) => &mut counts.removed,
                (Changed::Done, _) => &mut counts.moved,
                (Changed::Orphaned, _) => &mut counts.orphaned,
                _ => &mut counts.raced,
            } += 1;
        }
        counts
    }
}

impl Run<'_> {
    /// Writes what tenants lack, from this step on as many as one guard is held for.
    pub(super) fn write_routes(&mut self, at: usize) {
        let (mut steps, mut routes) = (Vec::new(), 0);
        for planned in self.plan.steps.iter().skip(at).take(self.alike(at)) {
            if let Step::WriteRoutes {
                tenant,
                routes: missing,
            } = &planned.step
            {
                if routes > 0 && routes + missing.len() > MOST_REFRESHED {
                    break;
                }
                routes += missing.len();
                steps.push((tenant, missing));
            }
        }
        let written = self.alone(|guard| {
            let there = guard.routes();
            let there = there.map_err(|cause| Failure::new(Stage::Census, "routes", cause))?;
            let live = guard.groups();
            let live = live.map_err(|cause| Failure::new(Stage::Ownership, "groups", cause))?;
            let open = live.known.iter();
            let open = open.filter(|live| live.state == State::Open);
            let open: BTreeSet<_> = open.map(|live| live.class).collect();
            let mut reports = Vec::with_capacity(steps.len());
            for &(tenant, routes) in &steps {
                let routes: BTreeMap<_, _> = routes
                    .iter()
                    .map(|(prefix, to)| (*prefix, served(*to, &open)))
                    .collect();
                reports.push(write(guard, &there, tenant, &routes));
            }
            Ok(reports)
        });
        let written = written.unwrap_or_else(|cause| {
            let object = format!("routes of table {}", steps[0].0.table);
            Err(Failure::new(Stage::Refresh, object, cause))
        });
        match written {
            Ok(reports) => reports.into_iter().for_each(|report| self.report(report)),
            // The others get a guard of their own.
            Err(failure) => self.report(StepReport::of(vec![failure])),
        }
    }

    /// Lets routes lead elsewhere, some at a time.
    pub(super) fn move_routes(&mut self, moves: &[RouteMove]) {
        let changes: Vec<_> = moves.iter().map(change).collect();
        let mut counts = RouteCounts::default();
        let mut failures = Vec::new();
        for changes in changes.chunks(MOST_REFRESHED) {
            let changed = self.alone(|guard| guard.change(changes));
            let failed = match changed {
                Ok(mut report) => {
                    counts += RouteCounts::of(changes, &report);
                    let next = changes.get(report.done.len());
                    report.failed.take().map(|cause| (next, cause))
                }
                Err(cause) => Some((changes.first(), cause)),
            };
            if let Some((change, cause)) = failed {
                let object = change.map_or_else(String::new, |change| route(change.key()));
                failures.push(Failure::new(Stage::Refresh, object, cause));
                break;
            }
        }
        let report = StepReport::of(failures);
        self.report(StepReport {
            routes: counts,
            ..report
        });
    }

    /// Retires the groups of this step and of those behind it that do the same, under one guard.
    pub(super) fn retire(&mut self, at: usize) {
        let planned = self.plan.steps.iter().skip(at).take(self.alike(at));
        let groups: Vec<_> = planned
            .filter_map(|planned| match planned.step {
                Step::Retire {
                    group,
                    class,
                    own,
                    others,
                } => Some(Retired {
                    group,
                    class,
                    own,
                    others,
                }),
                _ => None,
            })
            .collect();
        let retired = self.alone(|guard| retire(guard, &groups));
        let failure = |cause| {
            let object = format!("group {}", groups[0].group);
            Failure::new(Stage::Retire, object, cause)
        };
        match retired.map_err(failure).and_then(|retired| retired) {
            Ok(retired) => {
                for (routes, result) in retired {
                    let outcome = match result {
                        Ok(published) => {
                            self.disabled(published);
                            Outcome::Done
                        }
                        Err(failure) => Outcome::of(failure),
                    };
                    let report = StepReport::new(outcome);
                    self.report(StepReport { routes, ..report });
                }
            }
            // All wait for the same.
            Err(failure) => {
                self.report(StepReport::of(vec![failure]));
            }
        }
    }
}

fn change(planned: &RouteMove) -> RouteChange {
    let RouteMove { key, before, to } = *planned;
    match to {
        Some(to) => RouteChange::Exchange { key, before, to },
        None => RouteChange::Remove { key, before },
    }
}

/// A target; nowhere, if it is a class that has no group to lead to, which a shorter prefix must not
/// serve instead.
fn served(to: RouteTarget, open: &BTreeSet<Class>) -> RouteTarget {
    match to {
        RouteTarget::Class(class) if !open.contains(&class) => RouteTarget::Block(Block::Drop),
        to => to,
    }
}

/// Writes the routes that a tenant lacks, all or none.
fn write(
    guard: &mut dyn Exclusive,
    there: &Routes,
    tenant: &Tenant,
    missing: &BTreeMap<Prefix, RouteTarget>,
) -> StepReport {
    let key = |prefix: &Prefix| Key::new(tenant.table, *prefix);
    // Long prefixes first: at no time does a short one catch what has a route of its own.
    let mut changes: Vec<_> = missing
        .iter()
        .map(|(prefix, &to)| RouteChange::Insert {
            key: key(prefix),
            to,
        })
        .collect();
    changes.sort_by_key(|change| Reverse(change.key().prefix.bits()));
    let present = missing.keys().map(key);
    let present = present.filter(|key| there.by_key.contains_key(key));
    if let Some(key) = present.min() {
        let cause = raced("it is there by now".to_owned());
        let failure = Failure::new(Stage::Refresh, route(key), cause);
        return StepReport::of(vec![failure]);
    }
    let mut report = guard.change(&changes);
    let odd = report.done.iter().position(|done| *done != Changed::Done);
    let (at, cause) = match (odd, report.failed.take()) {
        (None, None) => {
            let counts = RouteCounts::of(&changes, &report);
            let report = StepReport::new(Outcome::Done);
            return StepReport {
                routes: counts,
                ..report
            };
        }
        (Some(at), _) => (
            at,
            raced(format!("table {} has no enabled interface", tenant.table)),
        ),
        (None, Some(cause)) => (report.done.len(), cause),
    };
    let done = changes.iter().zip(&report.done);
    let done = done.filter(|(_, done)| **done == Changed::Done);
    let mut written: Vec<_> = done.map(|(change, _)| change.key()).collect();
    // Of the one that failed nobody said whether it was written.
    written.extend(changes.get(report.done.len()).map(RouteChange::key));
    let cause = match take_back(guard, &written) {
        Ok(()) => cause,
        Err(error) => KernelError::new(
            ErrorKind::Partial,
            format!("{cause}; and what was written before could not be undone: {error}"),
        ),
    };
    let object = changes
        .get(at)
        .map_or_else(String::new, |change| route(change.key()));
    StepReport::of(vec![Failure::new(Stage::Refresh, object, cause)])
}

/// Takes away routes that were written under this guard, the last one first.
fn take_back(guard: &mut dyn Exclusive, written: &[Key]) -> Result<(), KernelError> {
    if written.is_empty() {
        return Ok(());
    }
    let there = guard.routes()?;
    let removed = written.iter().rev().filter_map(|&key| {
        let before = *there.by_key.get(&key)?;
        Some(RouteChange::Remove { key, before })
    });
    let report = guard.change(&removed.collect::<Vec<_>>());
    report.failed.map_or(Ok(()), Err)
}

/// What became of a group that was to be retired.
type Retirement = (RouteCounts, Result<Published, Failure>);

/// Moves the last routes of closing groups, and disables those that no route names any more.
fn retire(guard: &mut dyn Exclusive, groups: &[Retired]) -> Result<Vec<Retirement>, Failure> {
    let live = guard
        .groups()
        .map_err(|cause| Failure::new(Stage::Ownership, "groups", cause))?;
    let there = guard
        .routes()
        .map_err(|cause| Failure::new(Stage::Census, "routes", cause))?;
    let mut moved = Vec::with_capacity(groups.len());
    for retired in groups {
        let mut known = live.known.iter();
        let state = known.find(|live| live.group == retired.group);
        let state = state.map(|live| (live.class, live.state));
        moved.push(match state {
            Some((class, State::Closing)) if class == retired.class => {
                empty(guard, &there, retired)
            }
            _ => {
                let text = "it is not closing any more".to_owned();
                (RouteCounts::default(), Err(retired.failed(raced(text))))
            }
        });
    }
    let empty = groups.iter().zip(&moved);
    let empty = empty.filter(|(_, (_, result))| result.is_ok());
    let empty: Vec<_> = empty.map(|(retired, _)| retired.group).collect();
    let disabled = match empty.is_empty() {
        true => Vec::new(),
        false => guard.disable(&empty),
    };
    let mut disabled = disabled.into_iter();
    let groups = groups.iter().zip(moved);
    Ok(groups
        .map(|(retired, (counts, result))| {
            let absent = || {
                let text = "the kernel says nothing of the group";
                Err(retired.failed(KernelError::new(ErrorKind::Kernel, text)))
            };
            let result = result.and_then(|()| disabled.next().unwrap_or_else(absent));
            (counts, result)
        })
        .collect())
}

impl Retired {
    fn failed(&self, cause: KernelError) -> Failure {
        let object = format!("group {} ({})", self.group, self.class);
        Failure::new(Stage::Retire, object, cause)
    }
}

/// Lets all routes of the loop's own lead elsewhere that name a group.
fn empty(
    guard: &mut dyn Exclusive,
    there: &Routes,
    retired: &Retired,
) -> (RouteCounts, Result<(), Failure>) {
    let own = Prefix::from(retired.class);
    let ours = there.by_key.iter().filter(|(_, route)| {
        let named = route.group().map(|(group, _)| group);
        named == Some(retired.group) && !route.origin.is_foreign()
    });
    let mut changes: Vec<_> = ours
        .filter_map(|(&key, &before)| {
            let end = if key.prefix == own {
                retired.own
            } else {
                retired.others
            };
            match end {
                RouteEnd::To(to) => Some(RouteChange::Exchange { key, before, to }),
                RouteEnd::Remove => Some(RouteChange::Remove { key, before }),
                // It keeps the group from being disabled.
                RouteEnd::Stay => None,
            }
        })
        .collect();
    // What goes away goes as a tenant's routes always do: last, and short prefixes first.
    changes.sort_by_key(|change| {
        let goes = matches!(change, RouteChange::Remove { .. });
        (goes, change.key().prefix.bits())
    });
    let senseless = there.senseless.iter().filter(|(_, senseless)| {
        senseless.group == Some(retired.group) && !senseless.origin.is_foreign()
    });
    changes.extend(senseless.map(|(&key, _)| RouteChange::Mend { key }));

    let mut report = guard.change(&changes);
    let mut counts = RouteCounts::of(&changes, &report);
    let failed = |change: Option<&RouteChange>, cause| {
        let object = change.map_or_else(String::new, |change| route(change.key()));
        Err(Failure::new(Stage::Retire, object, cause))
    };
    if let Some(cause) = report.failed.take() {
        let next = changes.get(report.done.len());
        return (counts, failed(next, cause));
    }
    // Nobody knows whose they are: they lead nowhere.
    let orphaned = changes.iter().zip(&report.done);
    let orphaned = orphaned.filter(|(_, done)| **done == Changed::Orphaned);
    let blocked: Vec<_> = orphaned
        .filter_map(|(change, _)| match *change {
            RouteChange::Exchange { key, before, .. } => Some(RouteChange::Exchange {
                key,
                before,
                to: RouteTarget::Block(Block::Drop),
            }),
            _ => None,
        })
        .collect();
    let mut report = guard.change(&blocked);
    counts += RouteCounts::of(&blocked, &report);
    match report.failed.take() {
        Some(cause) => {
            let next = blocked.get(report.done.len());
            (counts, failed(next, cause))
        }
        None => (counts, Ok(())),
    }
}
