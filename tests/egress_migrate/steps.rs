// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Migrations that are stopped, or whose process is killed, before any step.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use guideway::egress::document::{status, FindingCode};
use guideway::egress::migrate::{MigrateError, Settled, Step};
use guideway::egress::{Aborted, GuardError, InstanceError, Loader};
use guideway::group::Class;
use nix::sys::signal::{raise, Signal};

use crate::netns::isolated;
use crate::scene::*;
use crate::support::*;

const KILLED_AT: &str = "GW_TEST_KILLED_AT";

/// The steps of a migration of two interfaces.
const STEPS: [Step; 10] = [
    Step::Load,
    Step::CopyPins,
    Step::Copy,
    Step::Store,
    Step::Announce,
    Step::Exchange,
    Step::Exchange,
    Step::CopyAgain,
    Step::Commit,
    Step::Forget,
];

/// Calls `reached` before step number `at`.
fn migrate_to(
    at: usize,
    mut reached: impl FnMut() -> Result<(), Aborted>,
) -> Result<guideway::egress::migrate::Migrated, MigrateError> {
    let mut number = 0;
    Loader::new(&dir())
        .limits(large())
        .migrate_observed(|step| {
            assert_eq!(step, STEPS[number]);
            number += 1;
            match number - 1 == at {
                true => reached(),
                false => Ok(()),
            }
        })
}

/// Not a test by itself.
#[test]
fn the_process_that_is_killed() {
    let Ok(at) = std::env::var(KILLED_AT) else {
        return;
    };
    let at = at.parse().expect("a number");
    let _ = migrate_to(at, || {
        raise(Signal::SIGKILL).expect("killed");
        Ok(())
    });
}

fn killed(at: usize) {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "steps::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(KILLED_AT, at.to_string())
        .status()
        .expect("a child");
    assert_eq!(status.signal(), Some(9), "before {}", STEPS[at]);
}

const INTERRUPTED: FindingCode = FindingCode::InterruptedMigration;

/// What is wrong, and with what.
fn found() -> Vec<(FindingCode, String)> {
    let findings = status(&dir()).expect("readable").findings.into_iter();
    let found = findings.map(|finding| (finding.code, finding.object));
    found.collect()
}

/// In which of two states an instance is.
fn is_large() -> bool {
    let limits = open().limits();
    assert!(limits == small() || limits == large());
    limits == large()
}

#[test]
fn who_is_killed_before_any_step_leaves_one_whole_state() {
    isolated("egress_migrate::killed", || {
        let scene = scene(small(), loopback());
        let shards = shards_of(&scene);
        for (at, step) in STEPS.into_iter().enumerate() {
            // Another one sees what is there before and after, and has opened it before.
            let opened = open();
            let before = contents(&opened);
            let wrong_before = found();
            let mut known: BTreeSet<_> = pinned().into_values().collect();
            killed(at);
            known.extend(pinned().into_values());

            // Packets go where they went, whichever program they meet; nobody opens half of it.
            assert_eq!(is_large(), step == Step::Forget, "before {step}");
            let stored = pinned().keys().any(|name| name.contains("/next-egress"));
            assert_eq!(stored, step >= Step::Announce, "before {step}");
            let written = opened.write_routes(SHORT).map(drop);
            match written {
                Ok(()) => assert!(step <= Step::Announce, "before {step}"),
                Err(GuardError::Unfinished { .. }) => {
                    assert!(Step::Exchange <= step && step <= Step::Commit);
                }
                Err(GuardError::Instance(InstanceError::Replaced { .. })) => {
                    assert_eq!(step, Step::Forget)
                }
                Err(error) => panic!("before {step}: {error}"),
            }
            drop(opened);
            // Nothing else is wrong: the program that is to follow does the same.
            let mut wrong = found();
            let told = wrong.iter().position(|(code, _)| *code == INTERRUPTED);
            assert_eq!(
                told.is_some(),
                Step::Exchange <= step && step <= Step::Commit
            );
            told.map(|at| wrong.remove(at));
            assert_eq!(wrong, wrong_before, "before {step}");
            let attachments = status(&dir()).expect("readable").attachments;
            assert_eq!(attachments.len(), scene.interfaces.len());
            assert!(attachments.iter().all(|one| one.alive), "before {step}");

            // The next one who opens it ends it; every other time that is who migrates.
            match at % 2 {
                0 => drop(load()),
                _ => {
                    let expected = match step {
                        step if step < Step::Announce => Settled::Sound,
                        Step::Announce | Step::Forget => Settled::Cleared,
                        _ => Settled::Finished,
                    };
                    let loader = Loader::new(&dir()).limits(large());
                    let migrated = loader.migrate().expect("migrated");
                    assert_eq!(migrated.settled, expected, "before {step}");
                }
            }
            let finished = at % 2 == 1 || step >= Step::Exchange;
            assert_eq!(is_large(), finished, "before {step}");
            same(&contents(&open()), &before);
            nothing_leaks(&known);
            whole(&scene, &shards);
            assert!(open().write_routes(PATIENCE).is_ok());

            let back = Loader::new(&dir()).limits(small()).migrate();
            back.expect("migrated");
        }
    });
}

#[test]
fn what_is_stopped_before_any_step_is_undone() {
    isolated("egress_migrate::stopped", || {
        let scene = scene(small(), loopback());
        let shards = shards_of(&scene);
        for (at, step) in STEPS.into_iter().enumerate() {
            let opened = open();
            let (before, objects) = (contents(&opened), pinned());
            let mut known = BTreeSet::new();
            let stopped = migrate_to(at, || {
                known.extend(pinned().into_values());
                Err(Aborted)
            });
            let error = stopped.expect_err("stopped");
            assert!(
                matches!(error, MigrateError::Aborted { step: found, .. } if found == step),
                "{error}"
            );
            assert_eq!(error.is_in_force(), step == Step::Forget);
            same(&contents(&open()), &before);
            if step == Step::Forget {
                // What is left of the old one goes with the next writer.
                assert!(is_large());
                drop(load());
            } else {
                assert_eq!(pinned(), objects, "before {step}");
                assert!(opened.write_routes(PATIENCE).is_ok());
            }
            drop(opened);
            nothing_leaks(&known);
            whole(&scene, &shards);
        }
        let mut writer = load();
        publish_to(&mut writer, Class::Nat66, &[0x10], loopback());
    });
}
