// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! This build's program in the place of the one that runs, and back to the one before.

use std::time::Duration;

use serde::Serialize;

use super::attachment::index_of;
use super::error::InstanceError;
use super::instance::{QuicLb, Writer, PROGRAM};
use super::loader::{self, load_around};
use super::mend::refuse_lost_contexts;
use super::ours::{pinned_programs, refuse_foreign_programs};
use super::root_array::{self, kept, Kept};
use super::status::Abi;
use crate::error::ErrorKind;
use crate::id::InstanceId;
use crate::kernel::attach::{display_name, occupants, AttachError, NetlinkAttachment, XdpLink};
use crate::kernel::barrier::wait_for_packets;
use crate::kernel::build::Build;
use crate::kernel::exchange::{
    self, ask, run, Aborted, Fault, Hooks, Observer, Outcome, Pins, ProgramChange, ProgramPins,
    Programs, Role, Seen, Settled, Step, Stopped, UpgradeKind,
};
use crate::kernel::program::Program;
use crate::kernel::statedir::{AbiVersion, Section};
use crate::kernel::{PinError, SysError};

/// What became of the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Upgraded {
    /// Names this form.
    pub schema: UpgradeSchema,
    /// The instance's UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub instance_id: InstanceId,
    /// What was asked for.
    pub kind: UpgradeKind,
    /// Whether a rollback undid an upgrade that had been interrupted, and went no further.
    pub cancelled: bool,
    /// Which program was exchanged for which; twice the same where this build's runs already, and
    /// where an upgrade was undone.
    #[serde(flatten)]
    pub program: ProgramChange,
    /// Whether the instance is attached. If so, and no interface runs the program, what it is attached
    /// to is gone; if not, the program is there for the next attachment.
    pub attached: bool,
    /// Name of the interface that runs it; none if it is on none.
    pub interface: Option<String>,
    /// Milliseconds that the exchange itself took: packets meet the new program from then on. None if
    /// nothing was exchanged.
    pub swap_ms: Option<f64>,
    /// What was seen of the new program.
    #[serde(flatten)]
    pub seen: Seen,
    /// Version of the layout of the maps, which stay.
    pub abi: Abi,
}

/// Names the form of what became of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum UpgradeSchema {
    /// The first form.
    #[serde(rename = "guideway.quiclb.upgrade/v1")]
    V1,
}

/// Why the program that runs is the one that ran before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The instance cannot be read, or the program not loaded.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The interface is somebody else's, or refuses the program.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// There is no program to go back to.
    #[error("instance {instance} has no program before the one that runs: nothing to go back to")]
    #[non_exhaustive]
    NothingBefore {
        /// The instance.
        instance: InstanceId,
    },
    /// The interface took the program, and runs another one all the same. It got back the one that it
    /// had.
    #[error(
        "{interface} took program {program} and did not run it: program {before} is there again"
    )]
    #[non_exhaustive]
    NotRunning {
        /// The interface.
        interface: String,
        /// The program that it was to run.
        program: u32,
        /// The one before.
        before: u32,
    },
    /// It stopped. The interface runs the one program or the other; whoever opens the instance next
    /// finishes or undoes what had begun.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl UpgradeError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Instance(error) => error.kind(),
            Self::Attach(error) => error.kind(),
            Self::NothingBefore { .. } => ErrorKind::NotFound,
            Self::NotRunning { .. } => ErrorKind::Kernel,
            Self::Stopped(error) => error.kind(),
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

impl Writer {
    /// Has the interface run this build's program, loaded around the maps that are there: generation,
    /// flow state and counters stay, and each packet is handled by the old program or by the new one.
    /// The old one stays pinned, to go [back](Self::rollback) to. Where this build's program runs
    /// already, nothing is done.
    ///
    /// Blocks until a packet was counted, up to a quarter of a second, after the second or so that
    /// loading takes. Minimum kernel: 6.1. Takes CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`UpgradeError`]: the old program runs, unless it says that it was [stopped](UpgradeError::Stopped).
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
        self.refuse_foreign()?;
        refuse_lost_contexts(self.dir())?;
        // This writer may have been stopped before.
        self.settle()?;
        self.settled = Settled::Sound;
        let old = self.known(&self.program)?;
        let built = loader::build();
        if old.as_ref().is_some_and(|old| old.makes_the_same(&built)) {
            // Where the pin of the program was lost, the interface may run one without a name.
            let outcome = match self.runs_elsewhere()? {
                true => Some(self.exchange_program(Role::Running, patience, &mut observer)?),
                false => None,
            };
            return self.report(UpgradeKind::Upgrade, outcome);
        }
        ask(&mut observer, Step::Load)?;
        let loaded = load_around(self.dir())?;
        let build = loaded.build.clone();
        ask(&mut observer, Step::Pin)?;
        let (program, maps) = loaded.take(self.dir())?;
        ProgramPins::open(&self.lock, PROGRAM)?.add_next(program, &build)?;
        self.balancer.maps.contexts = maps.contexts;
        let outcome = self.exchange_program(Role::Next, patience, &mut observer)?;
        self.report(UpgradeKind::Upgrade, Some(outcome))
    }

    /// Has the interface run the program before the one that runs now, as [`upgrade`](Self::upgrade)
    /// does; a second time, the newer one again. What is published stays.
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
        self.settle()?;
        let settled = self.settled;
        let programs = pinned_programs(self.dir())?;
        if programs.get(Role::Next).is_some() {
            let outcome = self.exchange_program(Role::Running, patience, &mut observer)?;
            return self.went_back(Some(outcome), None);
        }
        // There is nothing left to do then.
        match settled {
            Settled::Undone => return self.went_back(None, None),
            Settled::Returned => return self.went_back(None, programs.get(Role::Previous)),
            _ => {}
        }
        let Some(previous) = programs.get(Role::Previous) else {
            return Err(UpgradeError::NothingBefore {
                instance: self.instance_id(),
            });
        };
        self.check_program(previous, &Role::Previous.pin(PROGRAM))?;
        let outcome = self.exchange_program(Role::Previous, patience, &mut observer)?;
        self.report(UpgradeKind::Rollback, Some(outcome))
    }

    /// What is to be said of an exchange that was interrupted: a rollback from this program, or an
    /// upgrade.
    fn went_back(
        &mut self,
        outcome: Option<(Outcome<AttachError>, Program)>,
        from: Option<&Program>,
    ) -> Result<Upgraded, UpgradeError> {
        let mut upgraded = self.report(UpgradeKind::Rollback, outcome)?;
        match from {
            Some(from) => {
                let running = (&self.program, self.known(&self.program)?);
                upgraded.program = ProgramChange::new((from, self.known(from)?), running);
            }
            None => upgraded.cancelled = true,
        }
        self.settled = Settled::Sound;
        Ok(upgraded)
    }

    /// Whether the interface runs a program of the instance that has not the name of the running one.
    fn runs_elsewhere(&self) -> Result<bool, UpgradeError> {
        let hooks = Hooked::of(self)?;
        for hook in 0..hooks.count() {
            if hooks.runs(hook)?.is_some_and(|id| id != self.program.id()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn known(&self, program: &Program) -> Result<Option<Build>, SysError> {
        Build::of(self.dir(), program.id())
    }

    /// Refuses if the interface of the live generation is somebody else's.
    fn refuse_foreign(&self) -> Result<(), UpgradeError> {
        match self.live_record()? {
            Some(live) => Ok(root_array::refuse_foreign(self.dir(), live.spec())?),
            None => Ok(()),
        }
    }

    fn exchange_program(
        &mut self,
        to: Role,
        patience: Duration,
        observer: &mut Observer<'_>,
    ) -> Result<(Outcome<AttachError>, Program), UpgradeError> {
        let mut hooks = Hooked::of(self)?;
        let mut pins = ProgramPins::open(&self.lock, PROGRAM)?;
        let wanted = pins.id(to);
        let mut outcome = run(&mut pins, &mut hooks, to, patience, observer)?;
        let faulty = outcome.hooks.iter().position(|seen| seen.fault.is_some());
        let interface = faulty.and_then(|hook| hooks.interface(hook));
        drop((hooks, pins));
        let before = self.program.try_clone()?;
        if outcome.done {
            self.take_up()?;
        }
        if let Some(hook) = faulty {
            return Err(match outcome.hooks.swap_remove(hook).fault {
                Some(Fault::Refused(error)) => error.into(),
                _ => UpgradeError::NotRunning {
                    interface: interface.unwrap_or_default(),
                    program: wanted.unwrap_or_default(),
                    before: before.id(),
                },
            });
        }
        Ok((outcome, before))
    }

    /// Takes up the program that has the name of the running one now.
    fn take_up(&mut self) -> Result<(), PinError> {
        self.balancer.program = Program::open(&self.dir().pin(Section::Programs, PROGRAM))?;
        Ok(())
    }

    fn report(
        &self,
        kind: UpgradeKind,
        exchanged: Option<(Outcome<AttachError>, Program)>,
    ) -> Result<Upgraded, UpgradeError> {
        let new = &self.program;
        let old = exchanged.as_ref().map_or(new, |(_, before)| before);
        let outcome = exchanged.as_ref().map(|(outcome, _)| outcome);
        let hooks = Hooked::of(self)?;
        let mut runs = None;
        for hook in 0..hooks.count() {
            if runs.is_none() && hooks.runs(hook)?.is_some() {
                runs = Some(hook);
            }
        }
        let swapped = outcome.filter(|_| runs.is_some());
        let unseen = match runs {
            Some(_) => Seen::UNCHANGED,
            None => Seen::DETACHED,
        };
        let AbiVersion { major, minor } = self.dir().version().map_err(InstanceError::from)?;
        Ok(Upgraded {
            schema: UpgradeSchema::V1,
            instance_id: self.instance_id(),
            kind,
            cancelled: false,
            program: ProgramChange::new((old, self.known(old)?), (new, self.known(new)?)),
            attached: hooks.count() > 0,
            interface: runs.and_then(|hook| hooks.interface(hook)),
            swap_ms: swapped.map(|outcome| outcome.longest.as_secs_f64() * 1_000.0),
            seen: outcome.map_or(unseen, |outcome| outcome.verification.into()),
            abi: Abi { major, minor },
        })
    }

    /// Finishes or undoes what an interrupted exchange has left, by what the interface runs.
    pub(super) fn settle(&mut self) -> Result<(), InstanceError> {
        refuse_foreign_programs(self.dir())?;
        let mut pins = ProgramPins::open(&self.lock, PROGRAM)?;
        let settled = exchange::settle(&mut pins, &Hooked::of(self)?)?;
        drop(pins);
        if matches!(settled, Settled::Finished | Settled::Returned) {
            self.take_up()?;
        }
        // Nothing new says nothing about what was found before.
        if settled != Settled::Sound {
            self.settled = settled;
        }
        Ok(())
    }
}

/// What an instance is attached to: one or nothing, unless a process died while it changed from one
/// root array to another.
struct Hooked<'b> {
    balancer: &'b QuicLb,
    programs: Programs,
    holders: Vec<Holder>,
}

enum Holder {
    Link(XdpLink),
    /// At a place in an array of the interface's owner.
    RootArray(Kept),
    /// By netlink, on the interface with this index.
    Netlink(u32),
}

impl<'b> Hooked<'b> {
    fn of(balancer: &'b QuicLb) -> Result<Self, InstanceError> {
        let programs = pinned_programs(balancer.dir())?;
        let link = balancer.pinned_link()?.map(Holder::Link);
        let mut holders: Vec<_> = link.into_iter().collect();
        holders.extend(kept(balancer.dir())?.into_iter().map(Holder::RootArray));
        if holders.is_empty() {
            let ifindex = interface_by_netlink(balancer, &programs)?;
            holders.extend(ifindex.map(Holder::Netlink));
        }
        Ok(Self {
            balancer,
            programs,
            holders,
        })
    }

    /// Name of the interface.
    fn interface(&self, hook: usize) -> Option<String> {
        let ifindex = match &self.holders[hook] {
            Holder::Link(link) => link.state().ok()?.ifindex?,
            Holder::Netlink(ifindex) => *ifindex,
            Holder::RootArray(_) => {
                let live = self.balancer.live_record().ok()??;
                return Some(live.spec().interface().to_string());
            }
        };
        Some(display_name(ifindex))
    }
}

/// The interface of the live generation, if it runs a program of the instance without a pinned link.
fn interface_by_netlink(
    balancer: &QuicLb,
    programs: &Programs,
) -> Result<Option<u32>, InstanceError> {
    // A generation that cannot be read names no interface.
    let Ok(Some(live)) = balancer.live_record() else {
        return Ok(None);
    };
    let Some(ifindex) = index_of(live.spec().interface())? else {
        return Ok(None);
    };
    let runs = program_on(ifindex, programs)?;
    Ok(runs.map(|_| ifindex))
}

/// Which of these programs an interface runs.
fn program_on(ifindex: u32, programs: &Programs) -> Result<Option<u32>, AttachError> {
    let ids = occupants(ifindex)?.into_iter();
    let mut ids = ids.map(|occupant| occupant.program_id);
    Ok(ids.find(|&id| programs.with_id(id).is_some()))
}

impl Hooks for Hooked<'_> {
    type Error = AttachError;

    fn count(&self) -> usize {
        self.holders.len()
    }

    fn runs(&self, hook: usize) -> Result<Option<u32>, AttachError> {
        match &self.holders[hook] {
            Holder::Link(link) => {
                let state = link.state()?;
                Ok(state.ifindex.map(|_| state.program_id))
            }
            Holder::RootArray(kept) => kept.ours(self.balancer.dir()),
            Holder::Netlink(ifindex) => match program_on(*ifindex, &self.programs) {
                Err(AttachError::NoInterface { .. }) => Ok(None),
                runs => runs,
            },
        }
    }

    fn put(&mut self, hook: usize, from: u32, to: u32) -> Result<(), AttachError> {
        let Some(program) = self.programs.with_id(to) else {
            return Err(not_pinned(to).into());
        };
        let expected = self.programs.with_id(from);
        match (&self.holders[hook], expected) {
            (Holder::Link(link), Some(expected)) => Ok(link.update(program, expected)?),
            // The link is ours, whatever became of the program's pin.
            (Holder::Link(link), None) => Ok(link.replace(program)?),
            (Holder::RootArray(kept), _) => Ok(kept.array.exchange(kept.index, program, from)?),
            (Holder::Netlink(ifindex), Some(expected)) => {
                match NetlinkAttachment::find(expected, *ifindex)? {
                    Some(attachment) => attachment.update(program, expected),
                    None => Err(not_pinned(from).into()),
                }
            }
            (Holder::Netlink(_), None) => Err(not_pinned(from).into()),
        }
    }

    fn counted(&self) -> Result<u64, SysError> {
        self.balancer.packets_seen()
    }

    fn wait_for_packets(&self) -> Result<(), SysError> {
        wait_for_packets()
    }
}

fn not_pinned(program: u32) -> SysError {
    SysError::new(
        "exchange for",
        format_args!("program {program}"),
        nix::libc::ENOENT,
    )
}
