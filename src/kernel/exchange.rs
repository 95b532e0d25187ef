// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Another program in the place of one that packets meet, and back, without a packet lost.
//!
//! An instance has up to three pinned programs around the same maps: the running one, the next one
//! while it is about to take over, and the one before, to which it can go back. An upgrade goes
//!
//! ```text
//!   NAME: old              NAME: old                NAME: old                 NAME: new
//!                   pin    NAME-next: new  exchange NAME-next: new    keep,   NAME-previous: old
//!   hook: old      ---->   hook: old      --------> hook: new        -------> hook: new
//!                                          verify                    commit
//! ```
//!
//! and a rollback exchanges `NAME` and `NAME-previous` in the same way. Each arrow is one or more
//! calls of the kernel that happen or do not; in between, packets are handled by the old program or
//! by the new one, wholly. Whoever opens the instance next looks at what the hooks run, and
//! [`settle`]s: an exchange that had come to every hook is finished, one that had come to none is
//! undone, and one that stopped among several hooks is left for the next upgrade or rollback.
//!
//! A rollback that is made again ends the one that was interrupted and goes no further: which of the
//! two it is to end tells the next program, which is there for an upgrade alone.

mod pins;
mod report;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use super::SysError;
use crate::error::ErrorKind;

pub(crate) use pins::{
    lost_maps, other_program, refuse_other_maps, unknown_links, LostMap, Unheld,
};
pub use pins::{ProgramPins, Programs, Role};
pub use report::{ProgramChange, Seen, SeenHow, UpgradeKind};

/// How long an exchange waits for a packet unless the caller says otherwise.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// Time between two looks at the counters.
const LOOK: Duration = Duration::from_millis(1);

/// A step of an exchange, in their order. [`Step::Exchange`] comes once for each hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Make the maps that state of an older layout lacks.
    Prepare,
    /// Load the program around the maps that are there.
    Load,
    /// Pin it as the next one.
    Pin,
    /// Put it in the place of the one that a hook runs.
    Exchange,
    /// See that hooks run it, and that packets are counted.
    Verify,
    /// Pin the one before as such.
    Keep,
    /// Give the program that runs the name of the running one.
    Commit,
    /// Forget what is known of programs that are gone.
    Tidy,
    /// Give state of an older layout the version of this one.
    Adopt,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "make the maps of this layout",
            Self::Load => "load the program",
            Self::Pin => "pin the program",
            Self::Exchange => "exchange the program on a hook",
            Self::Verify => "verify that the program runs",
            Self::Keep => "keep the program before",
            Self::Commit => "name the program that runs",
            Self::Tidy => "forget programs that are gone",
            Self::Adopt => "tell the version of this layout",
        })
    }
}

/// What an observer returns to stop what it observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

/// Asked before each step.
pub type Observer<'a> = dyn FnMut(Step) -> Result<(), Aborted> + 'a;

/// Why an exchange stopped. What had happened stays; opening the instance settles it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The caller's observer stopped it before a step.
    #[error("stopped by the caller before: {step}")]
    #[non_exhaustive]
    Aborted {
        /// The step that was not made.
        step: Step,
    },
    /// The kernel refused a step.
    #[error("{step}: {error}")]
    #[non_exhaustive]
    Step {
        /// The step.
        step: Step,
        /// Why.
        error: SysError,
    },
}

impl Stopped {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Aborted { .. } => ErrorKind::Partial,
            Self::Step { error, .. } => error.kind(),
        }
    }
}

/// Asks the observer whether to make a step.
pub(crate) fn ask(observer: &mut Observer<'_>, step: Step) -> Result<(), Stopped> {
    observer(step).map_err(|Aborted| Stopped::Aborted { step })
}

/// Makes a step, after the observer was asked.
pub(crate) fn step<T>(
    observer: &mut Observer<'_>,
    step: Step,
    work: impl FnOnce() -> Result<T, SysError>,
) -> Result<T, Stopped> {
    ask(observer, step)?;
    work().map_err(|error| Stopped::Step { step, error })
}

/// The pinned programs of an instance, by their numbers.
pub trait Pins {
    /// The program of this role.
    fn id(&self, role: Role) -> Option<u32>;

    /// Makes the running program the previous one as well.
    fn keep(&mut self) -> Result<(), SysError>;

    /// Makes the next program the running one.
    fn promote(&mut self) -> Result<(), SysError>;

    /// Lets the running and the previous program change places.
    fn swap(&mut self) -> Result<(), SysError>;

    /// Removes the pin of this role.
    fn unpin(&mut self, role: Role) -> Result<(), SysError>;

    /// Removes what interrupted steps left, and what is known of programs without a role.
    fn tidy(&mut self) -> Result<(), SysError>;
}

/// The hooks that an instance is attached to, in some order.
pub trait Hooks {
    /// Why a hook cannot be looked at or changed.
    type Error;

    /// How many there are.
    fn count(&self) -> usize;

    /// The program of this instance that a hook runs, by its number; none if it runs no such, as
    /// when its interface is gone.
    ///
    /// # Errors
    /// The hook cannot be looked at.
    fn runs(&self, hook: usize) -> Result<Option<u32>, Self::Error>;

    /// Puts program `to` in the place of `from` in one step, if the hook runs that.
    ///
    /// # Errors
    /// It runs another one, or the kernel refuses; nothing has changed then.
    fn put(&mut self, hook: usize, from: u32, to: u32) -> Result<(), Self::Error>;

    /// Packets that the programs have counted, whichever did.
    ///
    /// # Errors
    /// The counters cannot be read.
    fn counted(&self) -> Result<u64, SysError>;

    /// Returns when every run of a program that was under way has ended.
    ///
    /// # Errors
    /// The kernel refuses.
    fn wait_for_packets(&self) -> Result<(), SysError>;
}

/// How it was seen that the program works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// No hook runs it: there was nothing to see.
    Detached,
    /// Hooks run it, and packets were counted after the last run of the old one had ended.
    #[non_exhaustive]
    Counted {
        /// How many.
        packets: u64,
        /// Time until the first was seen.
        after: Duration,
    },
    /// Hooks run it, and no packet came.
    #[non_exhaustive]
    Idle {
        /// How long one was waited for.
        waited: Duration,
    },
}

/// What became of one hook.
#[derive(Debug)]
#[non_exhaustive]
pub struct AtHook<E> {
    /// The program of this instance that it ran before; none if it ran no such, or cannot be looked
    /// at.
    pub before: Option<u32>,
    /// The one that it runs now.
    pub now: Option<u32>,
    /// Why it does not run the program that it was to.
    pub fault: Option<Fault<E>>,
}

/// Why a hook does not run the program that it was to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault<E> {
    /// It refuses.
    Refused(E),
    /// It took the program and runs another one all the same.
    Untrue,
}

/// What an exchange did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome<E> {
    /// What became of each hook.
    pub hooks: Vec<AtHook<E>>,
    /// Whether the exchange is done: no hook runs another program of this instance.
    pub done: bool,
    /// How it was seen that the program works.
    pub verification: Verification,
    /// The longest time that the exchange on one hook took.
    pub longest: Duration,
}

/// Has every hook run the program of the role `to`, and gives it the role of the running one.
///
/// A hook that refuses keeps its program, and the others are exchanged. If some run the one and some
/// the other afterwards, the roles stay as they are, and the exchange can be made again, or undone
/// by an exchange to [`Role::Running`].
///
/// # Errors
/// [`Stopped`]; [`settle`] finishes or undoes what has begun.
pub fn run<H: Hooks>(
    pins: &mut dyn Pins,
    hooks: &mut H,
    to: Role,
    patience: Duration,
    observer: &mut Observer<'_>,
) -> Result<Outcome<H::Error>, Stopped> {
    let Some(new) = pins.id(to) else {
        let step = Step::Exchange;
        let error = SysError::new(
            "exchange for a program that is not pinned:",
            to,
            nix::libc::ENOENT,
        );
        return Err(Stopped::Step { step, error });
    };
    let mut longest = Duration::ZERO;
    let mut at = Vec::with_capacity(hooks.count());
    for hook in 0..hooks.count() {
        ask(observer, Step::Exchange)?;
        let began = Instant::now();
        at.push(exchange(hooks, hook, new));
        longest = longest.max(began.elapsed());
    }
    let verification = step(observer, Step::Verify, || {
        for (hook, seen) in at.iter_mut().enumerate() {
            look_again(hooks, hook, new, seen);
        }
        match at.iter().any(|seen| seen.now == Some(new)) {
            true => verify(hooks, patience),
            false => Ok(Verification::Detached),
        }
    })?;
    let unseen = |seen: &AtHook<_>| seen.fault.is_some() && seen.before.is_none();
    let elsewhere = |seen: &AtHook<_>| seen.now.is_some_and(|id| id != new);
    let done = !at.iter().any(|seen| elsewhere(seen) || unseen(seen));
    if done {
        commit(pins, to, observer)?;
    }
    // A rollback has left nothing to tidy, and ends with its commit: whoever is killed after that has
    // gone back, and makes no mistake if another rollback goes on from there.
    if !done || to != Role::Previous {
        let undone = !done && to == Role::Next && at.iter().all(|seen| seen.now != Some(new));
        step(observer, Step::Tidy, || {
            if undone {
                pins.unpin(Role::Next)?;
            }
            pins.tidy()
        })?;
    }
    Ok(Outcome {
        hooks: at,
        done,
        verification,
        longest,
    })
}

/// Exchanges the program of one hook.
fn exchange<H: Hooks>(hooks: &mut H, hook: usize, new: u32) -> AtHook<H::Error> {
    let refused = |before, error| AtHook {
        before,
        now: before,
        fault: Some(Fault::Refused(error)),
    };
    match hooks.runs(hook) {
        Err(error) => refused(None, error),
        Ok(before) => match before.filter(|&id| id != new) {
            Some(old) => match hooks.put(hook, old, new) {
                Err(error) => refused(before, error),
                Ok(()) => AtHook {
                    before,
                    now: Some(new),
                    fault: None,
                },
            },
            None => AtHook {
                before,
                now: before,
                fault: None,
            },
        },
    }
}

/// Notes what a hook runs now. One that took the new program and does not run it gets back the one
/// that it had.
fn look_again<H: Hooks>(hooks: &mut H, hook: usize, new: u32, seen: &mut AtHook<H::Error>) {
    let Ok(now) = hooks.runs(hook) else {
        return;
    };
    seen.now = now;
    // One whose interface is gone by now did not say anything untrue.
    let (Some(runs), Some(old)) = (now.filter(|&id| id != new), seen.before) else {
        return;
    };
    if seen.fault.is_none() {
        seen.fault = Some(Fault::Untrue);
        if runs != old && hooks.put(hook, runs, old).is_ok() {
            seen.now = Some(old);
        }
    }
}

/// Waits until a packet is counted that the old program cannot have counted.
fn verify<H: Hooks>(hooks: &H, patience: Duration) -> Result<Verification, SysError> {
    hooks.wait_for_packets()?;
    let before = hooks.counted()?;
    let began = Instant::now();
    loop {
        let packets = hooks.counted()?.wrapping_sub(before);
        let waited = began.elapsed();
        if packets > 0 {
            let after = waited;
            return Ok(Verification::Counted { packets, after });
        }
        if waited >= patience {
            return Ok(Verification::Idle { waited });
        }
        std::thread::sleep(LOOK);
    }
}

/// Gives the program that every hook runs the role of the running one.
fn commit(pins: &mut dyn Pins, to: Role, observer: &mut Observer<'_>) -> Result<(), Stopped> {
    match to {
        Role::Next => {
            step(observer, Step::Keep, || pins.keep())?;
            step(observer, Step::Commit, || pins.promote())
        }
        Role::Previous => step(observer, Step::Commit, || pins.swap()),
        Role::Running => step(observer, Step::Commit, || pins.unpin(Role::Next)),
    }
}

/// What an interrupted exchange came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// There was none.
    Sound,
    /// It had not come to any hook, or was undone on all of them: the next program is forgotten.
    Undone,
    /// It had come to every hook: the next program, which they run, is the running one now.
    Finished,
    /// A rollback had come to every hook: the program before, which they run, is the running one now.
    Returned,
    /// Some hooks run the one program and some the other, or cannot be looked at.
    Open,
}

/// Finishes or undoes what an interrupted exchange left, by what the hooks run.
///
/// # Errors
/// A pin cannot be moved.
pub fn settle<H: Hooks>(pins: &mut dyn Pins, hooks: &H) -> Result<Settled, SysError> {
    let settled = settle_roles(pins, hooks)?;
    pins.tidy()?;
    Ok(settled)
}

fn settle_roles<H: Hooks>(pins: &mut dyn Pins, hooks: &H) -> Result<Settled, SysError> {
    let Some(running) = pins.id(Role::Running) else {
        return Ok(Settled::Open);
    };
    let previous = pins.id(Role::Previous);
    if let Some(next) = pins.id(Role::Next) {
        match reach(hooks, next) {
            // Kept before it was named: every hook runs the next one.
            _ if previous == Some(running) => {}
            Reach::All => pins.keep()?,
            Reach::Some => return Ok(Settled::Open),
            Reach::None => {
                pins.unpin(Role::Next)?;
                return Ok(Settled::Undone);
            }
        }
        pins.promote()?;
        return Ok(Settled::Finished);
    }
    let Some(previous) = previous.filter(|&id| id != running) else {
        return Ok(Settled::Sound);
    };
    match reach(hooks, previous) {
        Reach::None => Ok(Settled::Sound),
        Reach::Some => Ok(Settled::Open),
        Reach::All => {
            pins.swap()?;
            Ok(Settled::Returned)
        }
    }
}

/// To how many hooks a program has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    None,
    Some,
    All,
}

fn reach<H: Hooks>(hooks: &H, program: u32) -> Reach {
    let (mut with, mut without) = (false, false);
    for hook in 0..hooks.count() {
        match hooks.runs(hook) {
            Ok(None) => {}
            Ok(Some(id)) if id == program => with = true,
            Ok(Some(_)) => without = true,
            // It may be either.
            Err(_) => return Reach::Some,
        }
    }
    match (with, without) {
        (false, _) => Reach::None,
        (true, true) => Reach::Some,
        (true, false) => Reach::All,
    }
}
