// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The steps of a migration.

use std::time::{Duration, Instant};

use super::copy::{CopiedRows, Copy};
use super::error::MigrateError;
use super::known::unknown_to;
use super::plan::MigrationPlan;
use super::settle::{instance, Settled, Takeover};
use super::usage::Usage;
use super::Step;
use crate::egress::instance::{shapes, Writer};
use crate::egress::loader::{around, pin_all, store_meta, Loader};
use crate::egress::ours::refuse_foreign;
use crate::egress::{Aborted, Egress, GuardError, InstanceError, Limits};
use crate::kernel::exchange::Role;
use crate::kernel::map::Map;
use crate::kernel::statedir::{AbiVersion, Draft, Section, StateDirLock};
use crate::kernel::write_barrier::{ExclusiveGuard, WriteBarrier};

/// What was migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// What was changed.
    pub plan: MigrationPlan,
    /// What became of an earlier migration that was interrupted.
    pub settled: Settled,
    /// What was copied.
    pub copied: CopiedRows,
    /// Indices of the interfaces that run the new program.
    pub interfaces: Vec<u32>,
    /// How long nobody else could write routes.
    pub held: Duration,
}

/// Asks before each step, and names the step that failed.
pub(super) struct Observer<'a>(pub(super) &'a mut dyn FnMut(Step) -> Result<(), Aborted>);

impl Observer<'_> {
    pub(super) fn step<T>(
        &mut self,
        step: Step,
        work: impl FnOnce() -> Result<T, MigrateError>,
    ) -> Result<T, MigrateError> {
        (self.0)(step).map_err(|Aborted| MigrateError::Aborted { step })?;
        work().map_err(|error| match error {
            // These name what is wrong without it.
            error @ (MigrateError::TooSmall { .. } | MigrateError::UnknownRoutes { .. }) => error,
            error => MigrateError::Step {
                step,
                error: Box::new(error),
            },
        })
    }
}

impl Loader {
    /// What [`migrate`](Self::migrate) would change by now. Takes no lock, and changes nothing.
    ///
    /// # Errors
    /// As there, where it would change nothing.
    pub fn plan_migration(&self) -> Result<MigrationPlan, MigrateError> {
        let egress = Egress::open(&self.dir)?;
        plan(&egress, &self.limits.unwrap_or(egress.limits), self.version)
    }

    /// Moves an existing instance into maps of the sizes that were asked for, while packets go on: no
    /// packet is lost, each goes where it would have gone, and pins, routes, groups and counters are
    /// kept. Without [`limits`](Self::limits) the sizes stay, and state that an older version made gets
    /// this version. Nothing is done where nothing would change.
    ///
    /// The program before cannot be gone back to; another migration to the old sizes can be made.
    ///
    /// Takes the right of the publisher, which must be free, the lock of the instance, and for some
    /// milliseconds the write barrier; for each of these two it waits as [`patience`](Self::patience) says. Loading takes a second or so; old and new maps
    /// take memory together meanwhile. Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`MigrateError`]; unless it says otherwise the old state is in force, whole.
    pub fn migrate(self) -> Result<Migrated, MigrateError> {
        self.migrate_observed(|_| Ok(()))
    }

    /// As [`migrate`](Self::migrate), asking `observer` before each step.
    ///
    /// # Errors
    /// As there, and [`MigrateError::Aborted`] when the observer stops it.
    pub fn migrate_observed(
        self,
        mut observer: impl FnMut(Step) -> Result<(), Aborted>,
    ) -> Result<Migrated, MigrateError> {
        let _publisher = self.dir.publisher().map_err(InstanceError::from)?;
        let (wanted, version) = (self.limits, self.version);
        let patience = self.patience;
        let (writer, settled) = Loader {
            limits: None,
            ..self
        }
        .settle_and_open()?;
        let Writer {
            egress: old, lock, ..
        } = writer;
        refuse_foreign(&old.dir)?;
        if old.programs()?.get(Role::Next).is_some() {
            return Err(MigrateError::OpenExchange);
        }
        let wanted = wanted.unwrap_or(old.limits);
        let plan = plan(&old, &wanted, version)?;
        let mut migrated = Migrated {
            plan,
            settled,
            copied: CopiedRows::default(),
            interfaces: Vec::new(),
            held: Duration::ZERO,
        };
        if !migrated.plan.is_empty() {
            Migration {
                old,
                lock,
                wanted,
                version,
                patience,
                observer: Observer(&mut observer),
            }
            .run(&mut migrated)?;
        }
        Ok(migrated)
    }
}

fn plan(
    egress: &Egress,
    wanted: &Limits,
    version: AbiVersion,
) -> Result<MigrationPlan, MigrateError> {
    let made = AbiVersion::EGRESS;
    if version.major != made.major || version.minor > made.minor {
        let wanted = version;
        return Err(MigrateError::Version { wanted, made });
    }
    let routes = unknown_to(version, &egress.route_kinds().map_err(instance)?);
    // What no version knows is dropped before and after.
    if version != made && !routes.is_empty() {
        let wanted = version;
        return Err(MigrateError::UnknownRoutes { wanted, routes });
    }
    let found = egress.limits;
    let from = egress.dir.version().map_err(InstanceError::from)?;
    let shapes = (&shapes(&found)?, &shapes(wanted)?);
    let used = Usage::of(egress)?;
    MigrationPlan::new((&found, wanted), &used, (from, version), shapes)
}

struct Migration<'a> {
    old: Egress,
    lock: StateDirLock,
    wanted: Limits,
    version: AbiVersion,
    patience: Duration,
    observer: Observer<'a>,
}

impl Migration<'_> {
    fn run(mut self, migrated: &mut Migrated) -> Result<(), MigrateError> {
        let copied = &mut migrated.copied;
        let (draft, new) = self.load(&migrated.plan)?;
        let copy = Copy {
            from: &self.old,
            to: &new,
        };
        copied.pins = self.observer.step(Step::CopyPins, || {
            let pins = copy.pins()?;
            if pins.refused > 0 {
                // Packets have made more since they were counted.
                plan(&self.old, &self.wanted, self.version)?;
            }
            Ok(pins.copied)
        })?;
        let barrier = self.barrier()?;
        let began = Instant::now();
        let takeover = Takeover::new(&self.old, &new)?;
        self.observer.step(Step::Copy, || {
            // Routes may have been written since they were counted.
            plan(&self.old, &self.wanted, self.version)?;
            copy.rows(copied).map_err(instance)?;
            copied.groups = copy.snapshots(|name| draft.pin(Section::Generations, name))?;
            // That nobody keeps the instance in line is found afterwards, too.
            let keep = |name: &str| draft.pin(Section::Generations, name);
            self.old.keep_loop_report(keep).map_err(instance)?;
            let kept = self.old.keep_lost_rows(&new, keep);
            kept.map_err(instance)?;
            for (ifindex, holder) in takeover.holders() {
                holder.keep(*ifindex, new.program.id(), |name| {
                    draft.pin(Section::Links, name)
                })?;
            }
            let barrier = WriteBarrier::below(draft.path());
            barrier.create().map_err(instance)?;
            Ok(store_meta(
                &draft,
                &self.old.dir,
                self.wanted,
                self.version,
            )?)
        })?;
        let publish = || Ok(draft.publish().map_err(InstanceError::from)?);
        let mut next = self.observer.step(Step::Store, publish)?;
        let begun = self.observer.step(Step::Announce, || {
            Ok(self.lock.begin_takeover().map_err(instance)?)
        });
        if let Err(error) = begun {
            // What cannot be removed now is removed by whoever opens the instance next.
            let _ = next.discard();
            return Err(error);
        }
        let forwards = takeover.forwards(copied, &mut self.observer);
        let committed = forwards.and_then(|interfaces| {
            self.observer.step(Step::Commit, || {
                self.lock.exchange(&mut next).map_err(instance)?;
                Ok(interfaces)
            })
        });
        match committed {
            Ok(interfaces) => migrated.interfaces = interfaces,
            Err(error) => {
                let error = takeover.undo(&self.lock, error);
                if !matches!(error, MigrateError::Stuck { .. }) {
                    let _ = next.discard();
                }
                return Err(error);
            }
        }
        drop(barrier);
        migrated.held = began.elapsed();
        let forget = || Ok(next.discard().map_err(instance)?);
        self.observer.step(Step::Forget, forget)
    }

    /// This build's program around new maps and those that stay, pinned in a draft.
    fn load(&mut self, plan: &MigrationPlan) -> Result<(Draft, Egress), MigrateError> {
        let (old, lock, wanted) = (&self.old, &self.lock, &self.wanted);
        self.observer.step(Step::Load, || {
            let staying = old.maps.all().into_iter();
            let staying = staying.filter(|map| !plan.replaces(&map.shape().name));
            let staying: Result<Vec<_>, _> = staying.map(Map::try_clone).collect();
            let object = around(wanted, &staying.map_err(instance)?)?;
            let draft = lock.draft_next().map_err(InstanceError::from)?;
            let (program, maps) = pin_all(&draft, object)?;
            let dir = old.dir.next();
            let new = Egress {
                barrier: WriteBarrier::below(dir.path()),
                dir,
                limits: *wanted,
                program,
                maps,
            };
            Ok((draft, new))
        })
    }

    /// From now on nobody writes routes.
    fn barrier(&self) -> Result<ExclusiveGuard, MigrateError> {
        let guard = self.old.barrier.exclusive(self.patience);
        Ok(guard.map_err(GuardError::from)?)
    }
}
