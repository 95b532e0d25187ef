// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! It ends in every way there is, and starts again: packets go on.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use guideway::egress::pins::Tick;
use guideway::kernel::statedir::Section;
use guideway::kernel::statedir::StateRoot;
use guideway::kernel::write_barrier::GATE;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::daemon::*;
use crate::netns::{ip, within, BPFFS};
use crate::scrape::get;
use crate::shown::Manager;
use crate::tool::Ran;

#[test]
fn a_restart_with_nothing_changed_publishes_nothing_and_pins_go_on_to_be_hit() {
    on_node("restart", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let daemon = node.ready(&[]);
        node.attach();
        let sent = send_from(1..65);
        let before = group();
        daemon.stop();
        assert_eq!(send_from(1..65), sent, "without it");
        let daemon = node.ready(&[]);
        assert_eq!(daemon.messages("step"), [""; 0]);
        assert_eq!(group(), before, "the same publication");
        let hits = counter("pin_hit");
        assert_eq!(send_from(1..65), sent);
        assert_eq!(counter("pin_hit") - hits, 64);
        daemon.stop();
    });
}

/// A newer daemon exchanges the program of the build before when it starts, and pins go on to be hit.
#[test]
fn a_program_of_another_build_is_exchanged_when_it_starts() {
    on_node("another-build", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let daemon = node.ready(&[]);
        assert_eq!(daemon.messages("program"), [""; 0]);
        node.attach();
        let sent = send_from(1..65);
        daemon.stop();
        let old = egress().program().id();
        forget_build();
        let (address, path) = ("127.0.0.1:19488", node.path("notify"));
        let manager = Manager::at(&path);
        let metrics = format!("--metrics={address}");
        let daemon = Daemon::start(node, &[&metrics], |command| {
            command.env("NOTIFY_SOCKET", &path);
        });
        daemon.says("ready");
        let new = egress().program().id();
        assert_ne!(new, old);
        let told = daemon.messages("program");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains(&format!("{new} in the place of {old} on 1 interfaces")),
            "{told:?}"
        );
        // Who asks how it goes hears of it, too.
        assert!(manager.ready().ends_with(&told[0]));
        let ready = (200, format!("ready; program: {}\n", told[0]));
        assert_eq!(get(address, "/readyz"), Some(ready));
        let attachments = egress().attachments().expect("readable");
        assert!(attachments.iter().all(|view| view.program_id == Some(new)));
        let hits = counter("pin_hit");
        assert_eq!(send_from(1..65), sent);
        assert_eq!(counter("pin_hit") - hits, 64);
        daemon.stop();
        // It is of this build now.
        let daemon = node.ready(&[&metrics]);
        assert_eq!(daemon.messages("program"), [""; 0]);
        assert_eq!(get(address, "/readyz"), Some((200, "ready\n".to_owned())));
        daemon.stop();
    });
}

/// Forgets of which build the program is.
fn forget_build() {
    let known = guideway::egress::Build::pin(egress().program().id());
    let known = egress().dir().pin(Section::Programs, &known);
    std::fs::remove_file(known).expect("removed");
}

#[test]
fn an_interface_that_the_new_program_does_not_come_to_is_told_where_it_is_asked_how_it_goes() {
    on_node("not-on-all", |node| {
        node.manifest("a.json", shard(0x10));
        node.once(&[]).exits(0);
        node.attach();
        let own = ["attach", "tap1", "--table=43", "--argument=0x2a6"];
        node.ran(&own, &[]).exits(0);
        ip(&["link", "del", "tap1"]);
        let address = "127.0.0.1:19489";
        let metrics = format!("--metrics={address}");
        let old = egress().program().id();
        forget_build();
        let daemon = node.ready(&[&metrics]);
        let new = egress().program().id();
        let told = format!("{new} in the place of {old} on 1 interfaces, but not on all");
        assert!(
            daemon.messages("program").contains(&told),
            "{}",
            daemon.log()
        );
        let lines = daemon.lines();
        let line = lines.iter().find(|line| line["message"] == told);
        assert_eq!(line.expect("there")["level"], "error");
        // Tenants that it is on are served.
        let ready = (200, format!("ready; program: {told}\n"));
        assert_eq!(get(address, "/readyz"), Some(ready));
        daemon.stop();
        // Nor does it stop being so where the program is this build's.
        let daemon = node.ready(&[&metrics]);
        let ready = format!("ready; program: {new} on 1 interfaces, but not on all\n");
        assert_eq!(get(address, "/readyz"), Some((200, ready)));
        daemon.stop();
    });
}

/// Behind a sweep, and not with it: what is asked of the loop meanwhile waits for no pin.
#[test]
fn idle_pins_are_removed_behind_a_sweep() {
    on_node("idle", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[]);
        node.attach();
        send_from(1..65);
        let pins = || egress().pin_status(Tick::now()).expect("readable").pins;
        assert_eq!(pins().total(), 64);
        daemon.stop();
        // One sweep tidies nothing up.
        node.once(&["--pin-idle=1s"]).exits(0);
        assert!(within(PATIENCE, || pins().idle == 64));
        let daemon = node.ready(&["--pin-idle=1s"]);
        let gone = || pins().total() == 0;
        assert!(within(PATIENCE, gone), "{}", daemon.log());
        assert_eq!(daemon.messages("problem"), [""; 0]);
        daemon.stop();
    });
}

/// Sweeps that nothing asks for are not waited for: there are none.
#[test]
fn idle_pins_are_removed_where_something_changes_all_the_time() {
    on_node("busy", |node| {
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let idle = |time: &str| {
            let text = json!({"pin_idle": time}).to_string();
            std::fs::write(&config, text).expect("written");
        };
        idle("1h");
        let file = format!("--config={}", config.display());
        let daemon = node.ready(&[&file, "--sweep=5s"]);
        node.attach();
        send_from(1..65);
        let pins = || egress().pin_status(Tick::now()).expect("readable").pins;
        assert_eq!(pins().total(), 64);
        idle("1s");
        daemon.signal(Signal::SIGHUP);
        daemon.tells("configuration", "in force");
        let mut changes = 0;
        let gone = within(PATIENCE, || {
            changes += 1;
            let other = [shard, draining][changes % 2];
            node.manifest("b.json", other(0x11));
            std::thread::sleep(Duration::from_millis(50));
            pins().total() == 0
        });
        assert!(gone, "{}", daemon.log());
        daemon.stop();
    });
}

#[test]
fn packets_go_on_when_it_is_killed_and_the_next_start_goes_on() {
    on_node("killed", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[]);
        node.attach();
        // At any moment of its work: while manifests change all the time.
        let mut rounds = 0;
        let mut daemon = Some(daemon);
        let end = Instant::now() + Duration::from_secs(8);
        while rounds < 4 || Instant::now() < end && rounds < 12 {
            rounds += 1;
            let running = daemon.take().expect("it runs");
            node.manifest("b.json", shard(0x11));
            std::thread::sleep(Duration::from_millis(17 + 7 * rounds % 40));
            running.kill();
            assert!(send(rounds as u16 + 1).is_some(), "round {rounds}");
            node.remove("b.json");
            daemon = Some(node.ready(&[]));
            assert!(send(1).is_some());
        }
        let daemon = daemon.expect("it runs");
        node.manifest("b.json", shard(0x11));
        node.has_active(&[0x10, 0x11], &daemon);
        assert_eq!(shards(&send_from(1000..1064)), BTreeSet::from([0x10, 0x11]));
        daemon.stop();
    });
}

#[test]
fn told_to_end_in_the_middle_of_a_publication_it_ends_well_and_soon() {
    on_node("term", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[]);
        node.attach();
        let mut wanted = [shard(0x11), draining(0x11)].into_iter().cycle();
        let mut daemon = Some(daemon);
        for round in 0..4 {
            let running = daemon.take().expect("it runs");
            let next = Node::next_snapshot();
            // It is halted between the storing of a snapshot and the renaming behind its swap.
            let halted = (0..100).any(|_| {
                node.manifest("b.json", wanted.next().expect("for ever"));
                // It is there for some milliseconds alone.
                let end = Instant::now() + PATIENCE;
                while !next.exists() && Instant::now() < end {
                    std::thread::yield_now();
                }
                running.halt();
                let in_between = next.exists();
                if !in_between {
                    running.signal(Signal::SIGCONT);
                }
                in_between
            });
            assert!(halted, "round {round}: {}", running.log());
            let steps = running.messages("step").len();
            let start = Instant::now();
            running.signal(Signal::SIGTERM);
            running.signal(Signal::SIGCONT);
            let events = running.events_until_it_ended();
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "round {round}: {took:?}");
            // What it was at is told of in the log, and to who asks for the state later.
            let told = events.iter().filter(|event| *event == "step");
            assert!(told.count() > steps, "round {round}: {events:?}");
            let status = Ran::with("egressd", &["-o", "json", "status"]).object();
            let ago = status["loop"]["swept_seconds_ago"].as_f64();
            assert!(ago.is_some_and(|ago| ago <= start.elapsed().as_secs_f64()));
            assert!(send(1).is_some(), "round {round}");
            daemon = Some(node.ready(&[]));
        }
        daemon.expect("it runs").stop();
    });
}

/// Whether a process has locked the barrier's gate, as who retires does before it waits for others.
pub(crate) fn is_at_the_barrier(process: u32) -> bool {
    let gate = StateRoot::new(BPFFS).egress().path().join(GATE);
    let gate = std::fs::metadata(gate).expect("a gate").ino();
    let locks = std::fs::read_to_string("/proc/locks").expect("readable");
    // `1: FLOCK  ADVISORY  WRITE 4711 00:1f:53 0 EOF`
    let is_it = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        matches!(words[..], [_, "FLOCK", _, "WRITE", id, file, ..]
            if id == process.to_string() && file.ends_with(&format!(":{gate}")))
    };
    locks.lines().any(is_it)
}

#[test]
fn while_somebody_holds_the_barrier_it_still_ends_within_its_time_and_at_once_if_told_twice() {
    on_node("twice", |node| {
        node.manifest("a.json", shard(0x10));
        let flags = ["--nat64-prefixes=64:ff9b::/96"];
        node.ready(&flags).stop();
        let egress = egress();
        // To retire the class's group takes the barrier, which a writer of routes has.
        let guard = egress.write_routes(PATIENCE).expect("free");
        let waiting = || {
            let daemon = node.start(&[]);
            let waits = within(PATIENCE, || is_at_the_barrier(daemon.id()));
            assert!(waits, "{}", daemon.log());
            daemon
        };
        // A hangup is no second word: the sweep that waits is awaited, and told of.
        for hangup in [false, true] {
            let daemon = waiting();
            let start = Instant::now();
            daemon.signal(Signal::SIGTERM);
            daemon.says("stopping");
            if hangup {
                daemon.signal(Signal::SIGHUP);
            }
            let events = daemon.events_until_it_ended();
            let took = start.elapsed();
            let told = events.iter().any(|event| event == "problem");
            assert!(told || took > Duration::from_secs(5), "{events:?}");
            assert!(took < Duration::from_secs(7), "{took:?}");
        }
        // Halted, so that it is told both at one time.
        let daemon = waiting();
        daemon.halt();
        daemon.signal(Signal::SIGINT);
        daemon.signal(Signal::SIGTERM);
        daemon.signal(Signal::SIGCONT);
        let events = daemon.events_until_it_ended();
        assert_eq!(events.last().map(|last| &**last), Some("stopping"));
        drop(guard);
        let daemon = node.ready(&[]);
        let retired = || {
            let groups = egress.groups().expect("readable");
            groups.iter().filter(|group| group.forwards()).count() == 1
        };
        assert!(within(PATIENCE, retired), "{}", daemon.log());
        daemon.stop();
    });
}
