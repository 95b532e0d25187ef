// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A process of a node in memory: each of its operations can fail, or be its last.

use std::time::Duration;

use super::state::{Marks, State};
use super::{locked, Fake};
use crate::control::kernel::{
    Groups, KernelError, Look, Operation, Part, PinCounts, Routes, Tenants,
};
use crate::encap::Encap;
use crate::error::ErrorKind;
use crate::group::Limits;

/// Number of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub(super) u64);

/// Something that goes wrong in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// At which of its operations, from the first on as it is counted, from 0.
    pub at: u64,
    /// How.
    pub how: How,
}

/// How an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// It is not done, and the process is told so.
    Fails,
    /// It is done, and the process is told that it was not.
    DoneButFails,
    /// The process is killed before it is done. Its guards are given back.
    KilledBefore,
    /// The process is killed right after it is done.
    KilledAfter,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Fails,
        Self::DoneButFails,
        Self::KilledBefore,
        Self::KilledAfter,
    ];
}

/// What a node knows of a process.
#[derive(Debug, Default)]
pub(super) struct Life {
    operations: u64,
    fault: Option<Fault>,
    killed: bool,
    /// The slot generations that it has used.
    pub(super) marks: Marks,
}

#[derive(Debug)]
pub(super) struct Process {
    fake: Fake,
    pid: Pid,
}

fn failed(operation: &Operation, done: bool) -> KernelError {
    let done = if done { ", although it was done" } else { "" };
    let text = format!("made to fail: {operation}{done}");
    KernelError::new(ErrorKind::Kernel, text)
}

fn killed() -> KernelError {
    KernelError::new(ErrorKind::Kernel, "the process is killed")
}

impl Process {
    pub(super) fn start(fake: &Fake) -> Self {
        let pid = fake.with(|state| {
            state.pids += 1;
            let pid = Pid(state.pids);
            state.lives.insert(pid, Life::default());
            pid
        });
        Self {
            fake: fake.clone(),
            pid,
        }
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) const fn fake(&self) -> &Fake {
        &self.fake
    }

    fn life<T>(&self, look: impl FnOnce(&mut Life) -> T) -> T {
        let pid = self.pid;
        self.fake
            .with(|state| look(state.lives.entry(pid).or_default()))
    }

    pub(super) fn set_fault(&self, fault: Option<Fault>) {
        self.life(|life| life.fault = fault);
    }

    pub(super) fn operations(&self) -> u64 {
        self.life(|life| life.operations)
    }

    pub(super) fn is_killed(&self) -> bool {
        self.life(|life| life.killed)
    }

    /// Tells the hook that an operation is about to be done.
    pub(super) fn tell(&self, operation: &Operation) {
        // What the hook does itself finds it taken, and is not told to it.
        let Some(mut hook) = locked(&self.fake.shared.hook).take() else {
            return;
        };
        hook(self.pid, operation);
        locked(&self.fake.shared.hook).get_or_insert(hook);
    }

    /// Does one operation, or fails in the way that is wanted.
    pub(super) fn run<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut State) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        self.tell(&operation);
        let pid = self.pid;
        self.fake.with(|state| {
            let life = state.lives.entry(pid).or_default();
            if life.killed {
                return Err(killed());
            }
            let number = life.operations;
            life.operations += 1;
            let fault = life.fault.filter(|fault| fault.at == number);
            match fault.map(|fault| fault.how) {
                None => work(state),
                Some(How::Fails) => Err(failed(&operation, false)),
                Some(How::DoneButFails) => {
                    work(state)?;
                    Err(failed(&operation, true))
                }
                Some(how) => {
                    if how == How::KilledAfter {
                        // What it would have been told does not matter.
                        let _ = work(state);
                    }
                    state.kill(pid);
                    Err(killed())
                }
            }
        })
    }

    /// Does something that cannot fail, unless the process is killed.
    pub(super) fn alive<T>(
        &self,
        work: impl FnOnce(&mut State) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        if self.is_killed() {
            return Err(killed());
        }
        self.fake.with(work)
    }
}

impl Life {
    pub(super) fn kill(&mut self) {
        self.killed = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.pid;
        self.fake.with(|state| {
            state.kill(pid);
            state.lives.remove(&pid)
        });
    }
}

impl Look for Process {
    fn now(&self) -> Duration {
        self.fake.with(|state| state.now)
    }

    fn wall_ns(&self) -> u64 {
        // Any moment will do as the beginning, but for 1970 itself.
        let since = Duration::from_secs(1 << 30) + self.now();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn limits(&self) -> Limits {
        self.fake.with(|state| state.world.limits)
    }

    fn encap(&self) -> Result<Option<Encap>, KernelError> {
        self.run(Operation::Read(Part::Encap), |state| Ok(state.world.encap))
    }

    fn groups(&self) -> Result<Groups, KernelError> {
        self.run(Operation::Read(Part::Groups), |state| Ok(state.groups()))
    }

    fn routes(&self) -> Result<Routes, KernelError> {
        self.run(Operation::Read(Part::Routes), |state| Ok(state.routes()))
    }

    fn tenants(&self) -> Result<Tenants, KernelError> {
        self.run(Operation::Read(Part::Tenants), |state| {
            Ok(Tenants {
                by_interface: state.world.tenants.clone(),
                unreadable: Vec::new(),
            })
        })
    }

    fn pins(&self) -> Result<PinCounts, KernelError> {
        self.run(Operation::Read(Part::Pins), |state| Ok(state.live_pins()))
    }
}

macro_rules! look {
    ($type:ident) => {
        impl Look for super::$type {
            fn now(&self) -> Duration {
                self.process.now()
            }

            fn wall_ns(&self) -> u64 {
                self.process.wall_ns()
            }

            fn limits(&self) -> Limits {
                self.process.limits()
            }

            fn encap(&self) -> Result<Option<Encap>, KernelError> {
                self.process.encap()
            }

            fn groups(&self) -> Result<Groups, KernelError> {
                self.process.groups()
            }

            fn routes(&self) -> Result<Routes, KernelError> {
                self.process.routes()
            }

            fn tenants(&self) -> Result<Tenants, KernelError> {
                self.process.tenants()
            }

            fn pins(&self) -> Result<PinCounts, KernelError> {
                self.process.pins()
            }
        }
    };
}

look!(FakeKernel);
look!(FakeRoutes);
