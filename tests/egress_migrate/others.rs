// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Other processes that have the instance open while it is migrated.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;

use guideway::egress::document::status;
use guideway::egress::migrate::{MigrateError, Step};
use guideway::egress::{GuardError, InstanceError, Loader, To};
use guideway::error::ErrorKind;
use guideway::group::Class;

use crate::netns::isolated;
use crate::scene::*;
use crate::stops::Stops;
use crate::support::*;

const ROLE: &str = "GW_TEST_WRITER";

/// A process that has opened the instance, and writes a route whenever it is told to.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "others::the_process_that_writes", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut other = Self {
            child,
            input,
            output,
        };
        assert_eq!(other.answer(), "opened");
        other
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").expect("a reader");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).expect("text") > 0, "ended");
            if let Some((_, answer)) = line.trim_end().split_once("answer: ") {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test by itself.
#[test]
fn the_process_that_writes() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let mut egress = open();
    println!("answer: opened");
    for line in std::io::stdin().lines() {
        match line.expect("text").as_str() {
            "write" => {
                let written = egress.write_routes(PATIENCE).map(|guard| {
                    let ticket = guard.ticket(Class::Nat66).expect("open");
                    let to = To::Group(&ticket);
                    let put = guard.put(&tenant(7), prefix("2001:db8:7::/48"), to);
                    put.expect("room");
                });
                match written {
                    Ok(()) => println!("answer: written"),
                    Err(error) => println!("answer: {:?} {error}", error.kind()),
                }
            }
            "open" => {
                egress = open();
                println!("answer: opened");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn who_had_it_open_writes_into_no_dead_map() {
    isolated("egress_migrate::others", || {
        let scene = scene(small(), loopback());
        let mut other = Other::start();
        Loader::new(&dir()).limits(large()).migrate().expect("done");
        other.tell("write");
        let answer = other.answer();
        assert_eq!(
            answer,
            "Conflict the instance in /sys/fs/bpf/guideway/egress has another gw_tenants than when it \
             was opened: open it again"
        );
        let routes = || open().census().expect("read").routes;
        assert_eq!(routes(), 2);
        other.tell("open");
        assert_eq!(other.answer(), "opened");
        other.tell("write");
        assert_eq!(other.answer(), "written");
        assert_eq!(routes(), 3);
        // Packets meet what it wrote.
        let egress = open();
        let to = "2001:db8:7::1";
        assert!(shard_of(&egress, scene.interfaces[0], &source(1), to).is_some());
    });
}

#[test]
fn who_waits_for_the_barrier_meanwhile_is_told_afterwards() {
    isolated("egress_migrate::waits", || {
        let _scene = scene(small(), loopback());
        let (mut other, opened) = (Other::start(), open());
        let (mut told, (sender, answers)) = (false, channel());
        std::thread::scope(|scope| {
            let migrated = Loader::new(&dir())
                .limits(large())
                .migrate_observed(|step| {
                    if step == Step::Exchange && !told {
                        told = true;
                        other.tell("write");
                        let (opened, sender) = (&opened, sender.clone());
                        scope.spawn(move || {
                            let written = opened.write_routes(PATIENCE).map(drop);
                            sender.send(written).expect("a receiver");
                        });
                    }
                    Ok(())
                });
            migrated.expect("migrated");
        });
        assert!(told);
        let answer = other.answer();
        assert!(answer.starts_with("Conflict"), "{answer}");
        let thread = answers.recv().expect("an answer");
        let error = thread.expect_err("other maps");
        assert!(
            matches!(error, GuardError::Instance(InstanceError::Replaced { .. })),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Conflict);
    });
}

#[test]
fn who_holds_a_ticket_is_waited_for() {
    isolated("egress_migrate::ticket", || {
        let scene = scene(small(), loopback());
        let shards = shards_of(&scene);
        let (egress, objects) = (open(), pinned());
        let guard = egress.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        let migrate = || {
            Loader::new(&dir())
                .limits(large())
                .patience(SHORT)
                .migrate()
        };
        let error = migrate().expect_err("somebody writes");
        assert!(
            matches!(error, MigrateError::Guard(GuardError::Barrier(_))),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert_eq!(pinned(), objects);
        let to = To::Group(&ticket);
        guard
            .put(&tenant(7), prefix("2001:db8:7::/48"), to)
            .expect("room");
        guard.verify().expect("as it was written");
        migrate().expect("free");
        assert_eq!(open().census().expect("read").routes, 3);
        whole(&scene, &shards);
    });
}

#[test]
fn readers_meet_one_whole_instance() {
    isolated("egress_migrate::readers", || {
        let _scene = scene(small(), loopback());
        let stop = std::sync::atomic::AtomicBool::new(false);
        let opened = std::thread::scope(|scope| {
            let stops = Stops(&stop);
            let reader = scope.spawn(|| {
                let mut opened = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let egress = open();
                    assert!(egress.limits() == small() || egress.limits() == large());
                    assert_eq!(egress.tenants().expect("rows").len(), 2);
                    match egress.groups() {
                        Ok(groups) => assert_eq!(groups.len(), 2),
                        // Migrated since it was opened.
                        Err(InstanceError::Replaced { .. }) => continue,
                        Err(error) => panic!("{error}"),
                    }
                    status(&dir()).expect("the one or the other");
                    opened += 1;
                }
                opened
            });
            for limits in [large(), small(), large()] {
                Loader::new(&dir()).limits(limits).migrate().expect("done");
            }
            drop(stops);
            reader.join().expect("it reads")
        });
        assert!(opened > 0);
    });
}
