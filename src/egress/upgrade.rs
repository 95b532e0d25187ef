// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! This build's program in the place of the one that runs on tenants' interfaces, and back to the one
//! before.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;

use super::attachment::{AttachmentError, Holder};
use super::document::InterfaceName;
use super::error::InstanceError;
use super::instance::{Egress, Writer, PROGRAM};
use super::loader::{build, load_around};
use super::lost_rows::Rows;
use super::ours::pinned_programs;
use crate::error::ErrorKind;
use crate::kernel::barrier::wait_for_packets;
use crate::kernel::build::Build;
use crate::kernel::exchange::{
    self, ask, run, Aborted, Fault, Hooks, Observer, Outcome, ProgramChange, ProgramPins, Programs,
    Role, Seen, Settled, Step, Stopped, UpgradeKind,
};
use crate::kernel::program::Program;
use crate::kernel::repair::Repair;
use crate::kernel::statedir::Section;
use crate::kernel::tc::AttachError;
use crate::kernel::{PinError, SysError};

/// What became of the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Upgraded {
    /// Names this form.
    pub schema: UpgradeSchema,
    /// What was asked for.
    pub kind: UpgradeKind,
    /// Whether it is done: no interface runs another program of this instance. Where it is not, the
    /// same again goes on, and a rollback returns.
    pub done: bool,
    /// Whether a rollback undid an upgrade that had been interrupted, and went no further.
    pub cancelled: bool,
    /// Which program was exchanged for which; twice the same where this build's runs already, and
    /// where an upgrade was undone that had come to no interface.
    #[serde(flatten)]
    pub program: ProgramChange,
    /// What the instance had lost, and has again.
    pub repaired: Vec<Repair>,
    /// Published rows that were lost for good: they are not back before the specification is applied
    /// again.
    pub lost_rows: Vec<Rows>,
    /// What became of each interface that the program is on, or should be: it is a tenant's.
    pub interfaces: Vec<HookUpgraded>,
    /// Milliseconds that the exchange took on the interface where it took longest: its packets meet
    /// the new program from then on. None if nothing was exchanged.
    pub swap_ms: Option<f64>,
    /// What was seen of the new program.
    #[serde(flatten)]
    pub seen: Seen,
}

/// Names the form of what became of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum UpgradeSchema {
    /// The first form.
    #[serde(rename = "guideway.egress.upgrade/v1")]
    V1,
}

/// What became of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HookUpgraded {
    /// The interface.
    pub interface: InterfaceName,
    /// The kernel's number of the program that it ran before; none if it ran none of this instance.
    pub old_program_id: Option<u32>,
    /// The kernel's number of the one that it runs now.
    pub new_program_id: Option<u32>,
    /// Why it does not run the program that it was to.
    pub error: Option<String>,
}

/// Why every interface runs the program that it ran before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The instance cannot be read, or the program not loaded.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// It cannot be said where the program is attached.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// There is no program to go back to.
    #[error("there is no program before the one that runs: nothing to go back to")]
    NothingBefore,
    /// It stopped. Each interface runs the one program or the other; whoever opens the instance next
    /// finishes or undoes what had begun, unless it had come to some of them only.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl UpgradeError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Attachment(error) => error.kind(),
            Self::NothingBefore => ErrorKind::NotFound,
            Self::Stopped(error) => error.kind(),
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Instance(error) => error.remedy(),
            Self::Attachment(error) => error.remedy(),
            Self::NothingBefore | Self::Stopped(_) => None,
        }
    }
}

impl From<PinError> for UpgradeError {
    fn from(error: PinError) -> Self {
        Self::Instance(error.into())
    }
}

impl From<SysError> for UpgradeError {
    fn from(error: SysError) -> Self {
        Self::Instance(error.into())
    }
}

impl Egress {
    /// Whether the program is the one that this build would load.
    ///
    /// # Errors
    /// The kernel refuses to read what is known of it.
    pub fn runs_this_build(&self) -> Result<bool, SysError> {
        let known = self.build_of(&self.program)?;
        Ok(known.is_some_and(|known| known.makes_the_same(&build())))
    }

    /// The pinned programs, but for somebody else's.
    pub(super) fn programs(&self) -> Result<Programs, InstanceError> {
        Ok(pinned_programs(&self.dir)?)
    }

    /// What a pinned program was made of; none if its build kept no record.
    pub(super) fn build_of(&self, program: &Program) -> Result<Option<Build>, SysError> {
        Build::of(&self.dir, program.id())
    }
}

impl Writer {
    /// Has every interface run this build's program, loaded around the maps that are there: groups,
    /// routes, pins and counters stay, and each packet is handled by the old program or by the new
    /// one. The old one stays pinned, to go [back](Self::rollback) to. Where this build's program runs
    /// already, nothing is done.
    ///
    /// Blocks until a packet was counted, up to a quarter of a second, after the second or so that
    /// loading takes. An interface that refuses keeps the old program, and the others are exchanged:
    /// see [`Upgraded::done`]. Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`UpgradeError`]: the old program runs.
    pub fn upgrade(&mut self) -> Result<Upgraded, UpgradeError> {
        self.upgrade_observed(exchange::PATIENCE, |_| Ok(()))
    }

    /// As [`upgrade`](Self::upgrade), waiting so long for a packet, and asking `observer` before each
    /// step.
    ///
    /// # Errors
    /// As there, and [`Stopped::Aborted`] when the observer stops it.
    pub fn upgrade_observed(
        &mut self,
        patience: Duration,
        mut observer: impl FnMut(Step) -> Result<(), Aborted>,
    ) -> Result<Upgraded, UpgradeError> {
        let kind = UpgradeKind::Upgrade;
        self.refuse_foreign()?;
        self.settled = Settled::Sound;
        let programs = self.programs()?;
        if let Some(next) = programs.get(Role::Next) {
            // Some interfaces run it since an upgrade that was not finished.
            let same = |known: Build| known.makes_the_same(&build());
            if self.build_of(next)?.is_some_and(same) {
                return self.exchange(kind, Role::Next, patience, &mut observer);
            }
            let back = self.exchange(kind, Role::Running, patience, &mut observer)?;
            if !back.done {
                return Ok(back);
            }
        }
        if self.runs_this_build()? {
            return match self.runs_elsewhere()? {
                true => self.exchange(kind, Role::Running, patience, &mut observer),
                false => self.unchanged(kind),
            };
        }
        ask(&mut observer, Step::Load)?;
        let (mut object, missing) = load_around(&self.dir)?;
        ask(&mut observer, Step::Pin)?;
        for name in missing {
            let map = object.take_map(name)?;
            map.pin(&self.dir.pin(Section::Maps, name))?;
        }
        ProgramPins::open(&self.lock, PROGRAM)?.add_next(object.program, &build())?;
        self.exchange(kind, Role::Next, patience, &mut observer)
    }

    /// Has every interface run the program before the one that runs now, as [`upgrade`](Self::upgrade)
    /// does; a second time, the newer one again.
    ///
    /// A rollback that was interrupted is finished, and an upgrade that was interrupted undone, see
    /// [`Upgraded::cancelled`]: neither goes further than that.
    ///
    /// # Errors
    /// [`UpgradeError`]: the program that runs is the one that ran before.
    /// [`NothingBefore`](UpgradeError::NothingBefore) where there was no upgrade.
    pub fn rollback(&mut self) -> Result<Upgraded, UpgradeError> {
        self.rollback_observed(exchange::PATIENCE, |_| Ok(()))
    }

    /// As [`rollback`](Self::rollback), waiting so long for a packet, and asking `observer` before
    /// each step.
    ///
    /// # Errors
    /// As there, and [`Stopped::Aborted`] when the observer stops it.
    pub fn rollback_observed(
        &mut self,
        patience: Duration,
        mut observer: impl FnMut(Step) -> Result<(), Aborted>,
    ) -> Result<Upgraded, UpgradeError> {
        self.refuse_foreign()?;
        let kind = UpgradeKind::Rollback;
        let programs = self.programs()?;
        let mut back = match programs.get(Role::Next) {
            Some(_) => self.exchange(kind, Role::Running, patience, &mut observer)?,
            // There is nothing left to do then.
            None if matches!(self.settled, Settled::Undone | Settled::Returned) => {
                self.unchanged(kind)?
            }
            None => return self.go_back(&programs, patience, &mut observer),
        };
        match (self.settled, programs.get(Role::Previous)) {
            (Settled::Returned, Some(from)) => {
                let running = (&self.program, self.build_of(&self.program)?);
                back.program = ProgramChange::new((from, self.build_of(from)?), running);
            }
            _ => back.cancelled = back.done,
        }
        self.settled = Settled::Sound;
        Ok(back)
    }

    fn go_back(
        &mut self,
        programs: &Programs,
        patience: Duration,
        observer: &mut Observer<'_>,
    ) -> Result<Upgraded, UpgradeError> {
        let Some(previous) = programs.get(Role::Previous) else {
            return Err(UpgradeError::NothingBefore);
        };
        self.check_program(previous, &Role::Previous.pin(PROGRAM))?;
        self.exchange(UpgradeKind::Rollback, Role::Previous, patience, observer)
    }

    /// Whether an interface runs a program of the instance that has not the name of the running one.
    fn runs_elsewhere(&self) -> Result<bool, AttachmentError> {
        let programs = self.attachments()?.into_iter();
        let mut programs = programs.filter_map(|view| view.program_id);
        Ok(programs.any(|id| id != self.program.id()))
    }

    fn exchange(
        &mut self,
        kind: UpgradeKind,
        to: Role,
        patience: Duration,
        observer: &mut Observer<'_>,
    ) -> Result<Upgraded, UpgradeError> {
        let mut hooks = TenantHooks::of(self)?;
        let mut pins = ProgramPins::open(&self.lock, PROGRAM)?;
        // Undone is an upgrade, whose program has no name any more afterwards.
        let from = match to {
            Role::Running => Role::Next,
            _ => Role::Running,
        };
        let [from, to_program] = [from, to].map(|role| {
            let program = pins.programs().get(role);
            let program = program.unwrap_or(&self.program);
            let build = self.build_of(program)?;
            Ok::<_, UpgradeError>((program.try_clone()?, build))
        });
        let (old, new) = (from?, to_program?);
        let mut outcome = run(&mut pins, &mut hooks, to, patience, observer)?;
        let names: Vec<_> = hooks.at.iter().map(|(ifindex, _)| *ifindex).collect();
        drop((hooks, pins));
        self.take_up()?;
        let interfaces = names
            .into_iter()
            .zip(outcome.hooks.drain(..))
            .map(|(ifindex, seen)| HookUpgraded {
                interface: InterfaceName::of(ifindex),
                old_program_id: seen.before,
                new_program_id: seen.now,
                error: match seen.fault {
                    Some(Fault::Refused(error)) => Some(error.to_string()),
                    Some(_) => Some("it took the program and did not run it".to_owned()),
                    None => runs_none(seen.now),
                },
            })
            .collect();
        let change = ProgramChange::new((&old.0, old.1), (&new.0, new.1));
        Ok(self.report(kind, change, interfaces, Some(&outcome))?)
    }

    /// With the interfaces of tenants that the program is not attached to, in order.
    fn with_idle(&self, mut all: Vec<HookUpgraded>) -> Result<Vec<HookUpgraded>, SysError> {
        let attached: BTreeSet<u32> = all.iter().map(|one| one.interface.ifindex).collect();
        self.for_each_interface(|ifindex, _| {
            if !attached.contains(&ifindex) {
                all.push(HookUpgraded {
                    interface: InterfaceName::of(ifindex),
                    old_program_id: None,
                    new_program_id: None,
                    error: runs_none(None),
                });
            }
            ControlFlow::Continue(())
        })?;
        all.sort_unstable_by_key(|one| one.interface.ifindex);
        Ok(all)
    }

    fn unchanged(&self, kind: UpgradeKind) -> Result<Upgraded, UpgradeError> {
        let program = || Ok::<_, SysError>((&self.program, self.build_of(&self.program)?));
        let interfaces = self.attachments()?.into_iter();
        let interfaces = interfaces.map(|view| HookUpgraded {
            interface: InterfaceName::of(view.ifindex),
            old_program_id: view.program_id,
            new_program_id: view.program_id,
            error: runs_none(view.program_id),
        });
        let change = ProgramChange::new(program()?, program()?);
        Ok(self.report(kind, change, interfaces.collect(), None)?)
    }

    /// What there is to say of an exchange, or of none.
    fn report(
        &self,
        kind: UpgradeKind,
        program: ProgramChange,
        interfaces: Vec<HookUpgraded>,
        outcome: Option<&Outcome<AttachmentError>>,
    ) -> Result<Upgraded, SysError> {
        let swapped = interfaces.iter().any(|one| one.old_program_id.is_some());
        let swapped = outcome.filter(|_| swapped);
        Ok(Upgraded {
            schema: UpgradeSchema::V1,
            kind,
            done: outcome.is_none_or(|outcome| outcome.done),
            cancelled: false,
            program,
            repaired: self.repairs().to_vec(),
            lost_rows: self.lost_rows()?,
            interfaces: self.with_idle(interfaces)?,
            swap_ms: swapped.map(|outcome| outcome.longest.as_secs_f64() * 1_000.0),
            seen: outcome.map_or(Seen::UNCHANGED, |outcome| outcome.verification.into()),
        })
    }

    /// Finishes or undoes what an interrupted exchange has left, by what the interfaces run.
    pub(super) fn settle_program(&mut self) -> Result<Settled, InstanceError> {
        self.remove_drafts()?;
        // Their places are needed for that, and it is for who needs it to say so.
        if self.refuse_foreign().is_err() {
            return Ok(Settled::Open);
        }
        // What cannot be looked at is left for who can.
        let Ok(hooks) = TenantHooks::of(self) else {
            return Ok(Settled::Open);
        };
        if hooks.mend_records().is_err() {
            return Ok(Settled::Open);
        }
        let mut pins = ProgramPins::open(&self.lock, PROGRAM)?;
        let settled = exchange::settle(&mut pins, &hooks)?;
        drop((hooks, pins));
        if matches!(settled, Settled::Finished | Settled::Returned) {
            self.take_up()?;
        }
        self.settled = settled;
        Ok(settled)
    }

    /// Takes up the program that has the name of the running one now.
    fn take_up(&mut self) -> Result<(), InstanceError> {
        let running = Program::open(&self.dir.pin(Section::Programs, PROGRAM))?;
        self.egress.program = running;
        Ok(())
    }
}

/// What is wrong with an interface that is the instance's and does not run it.
fn runs_none(program: Option<u32>) -> Option<String> {
    match program {
        Some(_) => None,
        None => Some("it runs no program of this instance".to_owned()),
    }
}

/// The interfaces that the program is on.
struct TenantHooks<'w> {
    writer: &'w Writer,
    programs: Programs,
    at: Vec<(u32, Holder)>,
}

impl<'w> TenantHooks<'w> {
    fn of(writer: &'w Writer) -> Result<Self, UpgradeError> {
        Ok(Self {
            writer,
            programs: writer.programs()?,
            at: writer.holders()?,
        })
    }

    /// Writes down what filters run of whose exchange nobody could say so.
    fn mend_records(&self) -> Result<(), AttachmentError> {
        for (hook, (_, holder)) in self.at.iter().enumerate() {
            let Holder::Clsact(filter, known) = holder else {
                continue;
            };
            // What cannot be looked at is left for who can.
            if let Ok(Some(runs)) = self.runs(hook) {
                if runs != *known {
                    self.writer.record_of(filter, runs)?;
                }
            }
        }
        Ok(())
    }
}

impl Hooks for TenantHooks<'_> {
    type Error = AttachmentError;

    fn count(&self) -> usize {
        self.at.len()
    }

    fn runs(&self, hook: usize) -> Result<Option<u32>, AttachmentError> {
        let (ifindex, holder) = &self.at[hook];
        holder.runs(*ifindex, self.programs.all())
    }

    fn put(&mut self, hook: usize, from: u32, to: u32) -> Result<(), AttachmentError> {
        let (_, holder) = &self.at[hook];
        let Some(program) = self.programs.with_id(to) else {
            let what = format_args!("program {to}");
            return Err(SysError::new("exchange for", what, nix::libc::ENOENT).into());
        };
        match (holder, self.programs.with_id(from)) {
            (Holder::Tcx(link), Some(expected)) => link.update(program, expected)?,
            // The link is ours, whatever became of the program's pin.
            (Holder::Tcx(link), None) => link.replace(program)?,
            (Holder::Clsact(filter, _), _) => {
                filter.replace(program, from)?;
                self.writer.record_of(filter, to)?;
            }
        }
        Ok(())
    }

    fn counted(&self) -> Result<u64, SysError> {
        let ends = self.writer.stats()?.ends;
        Ok(ends.values().fold(0, |sum, count| sum.wrapping_add(*count)))
    }

    fn wait_for_packets(&self) -> Result<(), SysError> {
        wait_for_packets()
    }
}

impl From<AttachError> for UpgradeError {
    fn from(error: AttachError) -> Self {
        Self::Attachment(error.into())
    }
}
