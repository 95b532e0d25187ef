// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Exchanges on hooks and pins that are plain numbers, where any call may fail.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nix::libc;

use super::*;

const OLD: u32 = 10;
const NEW: u32 = 20;
const OLDER: u32 = 5;
const NO_WAIT: Duration = Duration::ZERO;

/// Lets so many calls pass, and fails one.
#[derive(Clone, Default)]
struct Fuse(Rc<Cell<Option<usize>>>);

impl Fuse {
    fn burn_after(&self, calls: usize) {
        self.0.set(Some(calls));
    }

    fn has_burnt(&self) -> bool {
        self.0.get().is_none()
    }

    fn call(&self) -> Result<(), SysError> {
        match self.0.get() {
            Some(0) => {
                self.0.set(None);
                Err(SysError::new("do", "what fails here", libc::EIO))
            }
            left => {
                self.0.set(left.map(|calls| calls - 1));
                Ok(())
            }
        }
    }
}

#[derive(Clone, Default)]
struct FakePins {
    by_role: [Option<u32>; 3],
    fuse: Fuse,
}

impl FakePins {
    fn roles(&self) -> [Option<u32>; 3] {
        Role::ALL.map(|role| self.id(role))
    }
}

impl Pins for FakePins {
    fn id(&self, role: Role) -> Option<u32> {
        self.by_role[role as usize]
    }

    fn keep(&mut self) -> Result<(), SysError> {
        self.fuse.call()?;
        self.by_role[Role::Previous as usize] = self.id(Role::Running);
        Ok(())
    }

    fn promote(&mut self) -> Result<(), SysError> {
        self.fuse.call()?;
        self.by_role[Role::Running as usize] = self.by_role[Role::Next as usize].take();
        Ok(())
    }

    fn swap(&mut self) -> Result<(), SysError> {
        self.fuse.call()?;
        self.by_role
            .swap(Role::Running as usize, Role::Previous as usize);
        Ok(())
    }

    fn unpin(&mut self, role: Role) -> Result<(), SysError> {
        self.fuse.call()?;
        self.by_role[role as usize] = None;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), SysError> {
        self.fuse.call()
    }
}

#[derive(Clone, Default)]
struct FakeHooks {
    runs: Vec<Option<u32>>,
    /// Hooks that keep what they have, and say that they took the other.
    stubborn: Vec<usize>,
    traffic: bool,
    packets: Cell<u64>,
    fuse: Fuse,
}

impl Hooks for FakeHooks {
    type Error = SysError;

    fn count(&self) -> usize {
        self.runs.len()
    }

    fn runs(&self, hook: usize) -> Result<Option<u32>, SysError> {
        self.fuse.call()?;
        Ok(self.runs[hook])
    }

    fn put(&mut self, hook: usize, from: u32, to: u32) -> Result<(), SysError> {
        self.fuse.call()?;
        assert_eq!(self.runs[hook], Some(from), "the expected program");
        if !self.stubborn.contains(&hook) {
            self.runs[hook] = Some(to);
        }
        Ok(())
    }

    fn counted(&self) -> Result<u64, SysError> {
        self.fuse.call()?;
        let more = u64::from(self.traffic && self.runs.iter().any(Option::is_some));
        self.packets.set(self.packets.get() + more);
        Ok(self.packets.get())
    }

    fn wait_for_packets(&self) -> Result<(), SysError> {
        self.fuse.call()
    }
}

/// An instance on so many interfaces; the last of three is gone.
fn instance(hooks: usize) -> (FakePins, FakeHooks) {
    let fuse = Fuse::default();
    let mut runs = vec![Some(OLD); hooks];
    if hooks == 3 {
        runs[2] = None;
    }
    let pins = FakePins {
        by_role: [Some(OLD), None, Some(OLDER)],
        fuse: fuse.clone(),
    };
    let hooks = FakeHooks {
        runs,
        traffic: true,
        fuse,
        ..FakeHooks::default()
    };
    (pins, hooks)
}

fn pin_next(pins: &mut FakePins) {
    pins.by_role[Role::Next as usize] = Some(NEW);
}

fn go_on(_: Step) -> Result<(), Aborted> {
    Ok(())
}

/// What an upgrade does when it is asked for, whatever was left.
fn upgrade(pins: &mut FakePins, hooks: &mut FakeHooks) {
    settle(pins, hooks).expect("settled");
    if pins.id(Role::Running) != Some(NEW) {
        pin_next(pins);
        let outcome = run(pins, hooks, Role::Next, NO_WAIT, &mut go_on).expect("upgraded");
        assert!(outcome.done);
    }
}

#[test]
fn an_upgrade_and_the_way_back() {
    for hooks in 0..=3 {
        let (mut pins, mut hooks) = instance(hooks);
        let all = |program| {
            let runs = hooks.runs.iter().map(|runs| runs.map(|_| program));
            runs.collect::<Vec<_>>()
        };
        let (on_old, on_new) = (all(OLD), all(NEW));
        pin_next(&mut pins);
        let mut steps = Vec::new();
        let mut note = |step| {
            steps.push(step);
            Ok(())
        };
        let outcome = run(&mut pins, &mut hooks, Role::Next, NO_WAIT, &mut note).expect("done");
        assert!(outcome.done);
        assert_eq!(hooks.runs, on_new);
        assert_eq!(pins.roles(), [Some(NEW), None, Some(OLD)]);
        match hooks.runs.is_empty() {
            true => assert_eq!(outcome.verification, Verification::Detached),
            false => assert!(matches!(
                outcome.verification,
                Verification::Counted { packets: 1, .. }
            )),
        }
        let mut sorted = steps.clone();
        sorted.sort_unstable();
        assert_eq!(steps, sorted, "in their order");

        hooks.traffic = false;
        let back = run(&mut pins, &mut hooks, Role::Previous, NO_WAIT, &mut go_on);
        let back = back.expect("done");
        assert!(back.done);
        assert_eq!(hooks.runs, on_old);
        assert_eq!(pins.roles(), [Some(OLD), None, Some(NEW)]);
        if !hooks.runs.is_empty() {
            assert!(matches!(back.verification, Verification::Idle { .. }));
        }
        assert_eq!(settle(&mut pins, &hooks), Ok(Settled::Sound));
    }
}

/// Where the work stopped, each hook runs the one program or the other, and what comes next finds
/// its way.
fn is_whole(pins: &FakePins, hooks: &FakeHooks) {
    let roles = pins.roles();
    for runs in hooks.runs.iter().flatten() {
        assert!(roles.contains(&Some(*runs)), "{runs} of {roles:?}");
    }
}

fn ends_well(mut pins: FakePins, mut hooks: FakeHooks, to: Role) {
    is_whole(&pins, &hooks);
    let gone = hooks.runs.iter().map(Option::is_none).collect::<Vec<_>>();
    // The one who comes next opens the instance, and does what was asked for.
    let (mut again_pins, mut again_hooks) = (pins.clone(), hooks.clone());
    match to {
        Role::Next => upgrade(&mut again_pins, &mut again_hooks),
        _ => {
            settle(&mut again_pins, &again_hooks).expect("settled");
            if again_pins.id(Role::Running) == Some(OLD) {
                let to = Role::Previous;
                let outcome = run(&mut again_pins, &mut again_hooks, to, NO_WAIT, &mut go_on);
                assert!(outcome.expect("rolled back").done);
            }
        }
    }
    let [new, before] = match to {
        Role::Next => [NEW, OLD],
        _ => [OLDER, OLD],
    };
    let all = |program: u32| -> Vec<_> {
        let gone = gone.iter();
        gone.map(|gone| (!gone).then_some(program)).collect()
    };
    assert_eq!(again_hooks.runs, all(new));
    assert_eq!(again_pins.roles(), [Some(new), None, Some(before)]);
    // Or opens it, and goes back to the program that has the name.
    if settle(&mut pins, &hooks).expect("settled") == Settled::Open {
        let outcome = run(&mut pins, &mut hooks, Role::Running, NO_WAIT, &mut go_on);
        assert!(outcome.expect("undone").done);
    }
    let running = pins.id(Role::Running).expect("a program");
    assert_eq!(hooks.runs, all(running));
    assert_eq!(pins.id(Role::Next), None);
    assert_ne!(pins.id(Role::Previous), Some(running));
}

#[test]
fn stopped_before_any_step_it_is_finished_or_undone() {
    for (to, hooks) in [Role::Next, Role::Previous]
        .into_iter()
        .flat_map(|to| (0..=3).map(move |hooks| (to, hooks)))
    {
        for stop in 0.. {
            let (mut pins, mut hooks) = instance(hooks);
            if to == Role::Next {
                pin_next(&mut pins);
            }
            let mut asked = 0;
            let mut observer = |_| {
                asked += 1;
                match asked > stop {
                    true => Err(Aborted),
                    false => Ok(()),
                }
            };
            let ended = run(&mut pins, &mut hooks, to, NO_WAIT, &mut observer);
            let stopped = matches!(ended, Err(Stopped::Aborted { .. }));
            ends_well(pins, hooks, to);
            if !stopped {
                assert!(stop > 1, "there are steps");
                break;
            }
        }
    }
}

#[test]
fn a_call_that_fails_leaves_each_hook_with_one_program() {
    for (to, count) in [Role::Next, Role::Previous]
        .into_iter()
        .flat_map(|to| (0..=3).map(move |hooks| (to, hooks)))
    {
        for calls in 0.. {
            let (mut pins, mut hooks) = instance(count);
            if to == Role::Next {
                pin_next(&mut pins);
            }
            let fuse = pins.fuse.clone();
            fuse.burn_after(calls);
            let outcome = run(&mut pins, &mut hooks, to, NO_WAIT, &mut go_on);
            let burnt = fuse.has_burnt();
            fuse.0.set(None);
            if let Ok(outcome) = &outcome {
                let faults = outcome.hooks.iter().filter(|seen| seen.fault.is_some());
                assert!(faults.count() <= 1);
            }
            ends_well(pins, hooks, to);
            if !burnt {
                assert!(outcome.expect("nothing failed").done);
                assert!(calls > 0, "there are calls");
                break;
            }
        }
    }
}

#[test]
fn a_hook_that_does_not_run_what_it_took_gets_back_what_it_had() {
    let (mut pins, mut hooks) = instance(1);
    hooks.stubborn = vec![0];
    pin_next(&mut pins);
    let outcome = run(&mut pins, &mut hooks, Role::Next, NO_WAIT, &mut go_on).expect("ended");
    assert!(!outcome.done);
    assert!(matches!(outcome.hooks[0].fault, Some(Fault::Untrue)));
    assert_eq!(outcome.hooks[0].now, Some(OLD));
    assert_eq!(pins.roles(), [Some(OLD), None, Some(OLDER)]);

    // Among others it stays behind, and the exchange stays open.
    let (mut pins, mut hooks) = instance(2);
    hooks.stubborn = vec![1];
    pin_next(&mut pins);
    let outcome = run(&mut pins, &mut hooks, Role::Next, NO_WAIT, &mut go_on).expect("ended");
    assert!(!outcome.done);
    assert_eq!(hooks.runs, [Some(NEW), Some(OLD)]);
    assert_eq!(settle(&mut pins, &hooks), Ok(Settled::Open));
    assert_eq!(pins.roles(), [Some(OLD), Some(NEW), Some(OLDER)]);
    hooks.stubborn.clear();
    let outcome = run(&mut pins, &mut hooks, Role::Next, NO_WAIT, &mut go_on).expect("ended");
    assert!(outcome.done);
    assert_eq!(pins.roles(), [Some(NEW), None, Some(OLD)]);
}

#[test]
fn a_program_that_is_not_pinned_is_no_program_to_go_to() {
    let (mut pins, mut hooks) = instance(1);
    pins.by_role[Role::Previous as usize] = None;
    let error = run(&mut pins, &mut hooks, Role::Previous, NO_WAIT, &mut go_on);
    assert!(matches!(error, Err(Stopped::Step { .. })));
    assert_eq!(hooks.runs, [Some(OLD)]);
}
