// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer's program under traffic.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use guideway::kernel::exchange::Step as UpgradeStep;
use guideway::kernel::map::Map;
use guideway::kernel::program::Program;
use guideway::kernel::statedir::Section;
use guideway::quiclb::{Aborted, Collector, CollectorOptions, Mode, UpgradeKind, Upgraded, Writer};

use crate::balancer::{self, Balancer, Way};
use crate::killed::{self, killed, nothing_leaks};
use crate::netns::{isolated, xdp_seen_by_ip};
use crate::traffic::{Stopping, PATIENCE};

/// Exchanges so often in each direction while so many packets are sent.
fn exchange(way: Way, exchanges: u32, packets: u64) {
    let mut balancer = Balancer::new(way);
    let other = balancer.writer.program().id();
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let (mut longest_ms, mut last_sent) = (0.0_f64, 0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| balancer.source.send_until(&balancer.sink, &stop, packets));
        let stopping = Stopping(&stop);
        let mut counted = |upgraded: &Upgraded| {
            assert_eq!(upgraded.interface.as_deref(), Some("edge0"));
            assert!(upgraded.seen.packets > 0, "{upgraded:?}");
            longest_ms = longest_ms.max(upgraded.swap_ms.expect("exchanged"));
            let sent = balancer.source.sent();
            assert!(sent > last_sent, "packets go on");
            last_sent = sent;
        };
        for _ in 0..exchanges {
            let upgraded = balancer
                .writer
                .upgrade_observed(PATIENCE, |_| Ok(()))
                .expect("upgraded");
            assert_eq!(upgraded.kind, UpgradeKind::Upgrade);
            assert_eq!(upgraded.program.old_program_id, other);
            assert_ne!(upgraded.program.new_tag, upgraded.program.old_tag);
            counted(&upgraded);
            let back = balancer
                .writer
                .rollback_observed(PATIENCE, |_| Ok(()))
                .expect("rolled back");
            assert_eq!(back.kind, UpgradeKind::Rollback);
            assert_eq!(back.program.new_program_id, other);
            assert_eq!(back.program.old_tag, upgraded.program.new_tag);
            counted(&back);
        }
        drop(stopping);
        sender.join().expect("all packets arrived");
    });
    println!(
        "{} packets through {} exchanges in {:?}, the longest took {longest_ms:.1} ms",
        balancer.source.sent(),
        2 * exchanges,
        began.elapsed()
    );
    assert!(balancer.source.sent() >= packets);
    balancer.nothing_is_lost_or_misplaced();
}

#[test]
fn a_million_packets_meet_fifty_exchanges_in_each_direction() {
    isolated("exchange::quiclb_native", || {
        exchange(Way::Link(Mode::Native), 50, 1_000_000);
    });
}

#[test]
fn a_generic_program_is_exchanged_too() {
    isolated("exchange::quiclb_generic", || {
        exchange(Way::Link(Mode::Generic), 5, 50_000);
    });
}

#[test]
fn without_a_link_netlink_exchanges_the_program() {
    for mode in [Mode::Native, Mode::Generic] {
        isolated("exchange::quiclb_netlink", move || {
            exchange(Way::Netlink(mode), 5, 50_000);
        });
    }
}

#[test]
fn the_same_program_is_not_exchanged_and_without_packets_it_says_so() {
    isolated("exchange::quiclb_idle", || {
        let mut balancer = Balancer::new(Way::Link(Mode::Native));
        let began = Instant::now();
        let upgraded = balancer.writer.upgrade().expect("upgraded");
        assert!(began.elapsed() > Duration::from_millis(250));
        let json = serde_json::to_value(&upgraded).expect("JSON");
        assert_eq!(json["verification"], "idle", "{json}");
        assert_eq!(json["packets"], 0);
        assert_eq!(json["old_build"], serde_json::Value::Null);
        let again = balancer.writer.upgrade().expect("nothing to do");
        let json = serde_json::to_value(&again).expect("JSON");
        assert_eq!(json["verification"], "unchanged", "{json}");
        assert_eq!(json["old_program_id"], json["new_program_id"]);
        assert_eq!(json["new_program_id"], upgraded.program.new_program_id);
        assert_eq!(json["swap_ms"], serde_json::Value::Null);
        assert_eq!(json["new_build"]["version"], env!("CARGO_PKG_VERSION"));
        // What is not exchanged is not kept as the one before.
        let back = balancer.writer.rollback().expect("rolled back");
        assert_eq!(back.program.new_program_id, upgraded.program.old_program_id);
    });
}

#[test]
fn who_was_stopped_goes_on() {
    isolated("exchange::quiclb_stopped", || {
        let mut balancer = Balancer::new(Way::Link(Mode::Native));
        for stop_at in [
            UpgradeStep::Exchange,
            UpgradeStep::Verify,
            UpgradeStep::Commit,
        ] {
            let before = balancer.writer.program().id();
            let stopped =
                balancer
                    .writer
                    .upgrade_observed(Duration::ZERO, |step| match step == stop_at {
                        true => Err(Aborted),
                        false => Ok(()),
                    });
            stopped.expect_err("stopped");
            balancer.source.send_all(&balancer.sink, 1);
            let upgraded = balancer.writer.upgrade().expect("upgraded");
            let running = xdp_seen_by_ip("edge0").expect("attached").1;
            assert_eq!(u64::from(upgraded.program.new_program_id), running);
            assert_ne!(upgraded.program.new_program_id, before);
            balancer.source.send_all(&balancer.sink, 1);
            balancer.writer.rollback().expect("rolled back");
        }
        balancer.nothing_is_lost_or_misplaced();
    });
}

/// A program that was loaded again because the pin of the running one was lost is not the one that
/// packets meet.
#[test]
fn a_program_that_has_no_name_any_more_is_exchanged() {
    isolated("exchange::quiclb_lost_pin", || {
        let balancer = Balancer::new(Way::Link(Mode::Native));
        let balancer = balancer.reopened(|_, _| {
            std::fs::remove_file(balancer::running_pin()).expect("removed");
        });
        let mut writer = balancer.writer;
        let (pinned, running) = (writer.program().id(), xdp_seen_by_ip("edge0"));
        assert_ne!(running.expect("attached").1, u64::from(pinned));
        let upgraded = writer.upgrade().expect("upgraded");
        assert_eq!(upgraded.program.new_program_id, pinned);
        let running = xdp_seen_by_ip("edge0").expect("attached").1;
        assert_eq!(running, u64::from(pinned));
        let json = serde_json::to_value(&upgraded).expect("JSON");
        assert_eq!(json["verification"], "idle", "{json}");
    });
}

#[test]
fn there_is_nothing_to_go_back_to_before_an_upgrade() {
    isolated("exchange::quiclb_nothing_before", || {
        let mut writer = balancer::load();
        let error = writer.rollback().expect_err("nothing before");
        assert_eq!(error.kind(), guideway::error::ErrorKind::NotFound);
        assert!(
            error.to_string().contains("nothing to go back to"),
            "{error}"
        );
    });
}

/// Not a test by itself: the process that the test below kills.
#[test]
fn the_process_that_is_killed() {
    let Some((role, mut steps)) = killed::role() else {
        return;
    };
    let at = |_| {
        steps.go_on();
        Ok(())
    };
    let mut writer = balancer::load();
    match role.as_str() {
        "upgrade" => drop(writer.upgrade_observed(Duration::ZERO, at)),
        "rollback" => drop(writer.rollback_observed(Duration::ZERO, at)),
        other => panic!("{other}"),
    }
}

fn killed_at_every_step(way: Way) {
    let mut balancer = Balancer::new(way);
    let [running, previous] = ["gw_quiclb", "gw_quiclb-previous"]
        .map(|name| balancer::dir().pin(Section::Programs, name));
    let id = |pin: &Path| Program::open(pin).expect("a program").id();
    let on_hook = || xdp_seen_by_ip("edge0").expect("a program").1;
    let map_id = {
        let map = balancer::dir().pin(Section::Maps, "gw_ql_gen");
        Map::open_any(&map).expect("a map").id()
    };
    let links = usize::from(matches!(way, Way::Link(_)));
    let no_wait = Duration::ZERO;
    // So that there is one to go back to.
    balancer.writer.upgrade().expect("upgraded");
    balancer.writer.rollback().expect("rolled back");
    for role in ["upgrade", "rollback"] {
        let mut kills = 0;
        loop {
            let old = id(&running);
            let before = id(&previous);
            drop(balancer.writer);
            let was_killed = killed("quiclb::the_process_that_is_killed", role, kills);
            balancer.source.send_all(&balancer.sink, 1);
            let now = on_hook();

            balancer.writer = balancer::load();
            assert_eq!(on_hook(), now, "{role} at {kills}: what runs stays");
            assert_eq!(u64::from(id(&running)), now, "{role} at {kills}");
            assert_eq!(balancer.writer.program().id(), id(&running));
            balancer.source.send_all(&balancer.sink, 1);
            match id(&running) == old {
                true => assert_eq!(id(&previous), before, "{role} at {kills}"),
                false => assert_eq!(id(&previous), old, "{role} at {kills}"),
            }
            nothing_leaks(map_id, &[&running, &previous], links);
            // As many records as there are programs of this build.
            let mut pins = killed::names(&balancer::dir().path().join("progs"));
            pins.retain(|name| !name.starts_with("build-"));
            assert_eq!(pins.len(), 2, "{pins:?}");

            // What was not done is done now.
            if id(&running) == old {
                match role {
                    "upgrade" => balancer.writer.upgrade_observed(no_wait, |_| Ok(())),
                    _ => balancer.writer.rollback_observed(no_wait, |_| Ok(())),
                }
                .expect("done");
            }
            assert_ne!(id(&running), old, "{role} at {kills}");
            assert_eq!(id(&previous), old, "{role} at {kills}");
            // For the one that found it the rollback is done already.
            drop(balancer.writer);
            balancer.writer = balancer::load();
            let back = balancer.writer.rollback_observed(no_wait, |_| Ok(()));
            back.expect("as before");
            assert_eq!(id(&running), old, "{role} at {kills}");
            balancer.source.send_all(&balancer.sink, 1);
            if !was_killed {
                break;
            }
            kills += 1;
        }
        println!("{role}: killed at {kills} steps");
        assert_eq!(kills, if role == "upgrade" { 7 } else { 3 });
    }
    balancer.nothing_is_lost_or_misplaced();
}

#[test]
fn killed_at_any_step_the_old_program_runs_or_the_new_one() {
    isolated("exchange::quiclb_killed", || {
        killed_at_every_step(Way::Link(Mode::Native));
    });
    isolated("exchange::quiclb_killed_netlink", || {
        killed_at_every_step(Way::Netlink(Mode::Generic));
    });
}

/// Opens the instance, some time after the collector has been at work there.
fn load_after_the_collector() -> Writer {
    let mut collector = Collector::new(&balancer::dir(), CollectorOptions::default());
    collector.step(0).expect("looked");
    balancer::load()
}

/// Nothing waits for the next exchange, and the interface runs the program that has the name.
#[track_caller]
fn is_settled_on(program: u32, context: &str) {
    let [running, next] =
        ["gw_quiclb", "gw_quiclb-next"].map(|name| balancer::dir().pin(Section::Programs, name));
    let on_hook = xdp_seen_by_ip("edge0").expect("a program").1;
    assert_eq!(on_hook, u64::from(program), "{context}");
    let running = Program::open(&running).expect("a program");
    assert_eq!(running.id(), program, "{context}");
    assert!(!next.exists(), "{context}");
}

#[test]
fn a_rollback_that_is_made_again_goes_no_further() {
    isolated("exchange::quiclb_rollback_again", || {
        let mut balancer = Balancer::new(Way::Link(Mode::Native));
        balancer.writer.upgrade().expect("upgraded");
        let previous = || {
            let pin = balancer::dir().pin(Section::Programs, "gw_quiclb-previous");
            Program::open(&pin).expect("a program").id()
        };
        let mut kills = 0;
        loop {
            let (newer, older) = (balancer.writer.program().id(), previous());
            drop(balancer.writer);
            if !killed("quiclb::the_process_that_is_killed", "rollback", kills) {
                break;
            }
            let context = format!("at {kills}");
            balancer.writer = load_after_the_collector();
            let back = balancer
                .writer
                .rollback_observed(Duration::ZERO, |_| Ok(()));
            let back = back.expect("rolled back");
            is_settled_on(older, &context);
            assert_eq!(previous(), newer, "{context}");
            assert_eq!(back.kind, UpgradeKind::Rollback);
            assert!(!back.cancelled, "{context}");
            let change = [back.program.old_program_id, back.program.new_program_id];
            assert_eq!(change, [newer, older], "{context}");
            balancer.source.send_all(&balancer.sink, 1);
            kills += 1;
        }
        assert_eq!(kills, 3);
        balancer.writer = balancer::load();
        balancer.nothing_is_lost_or_misplaced();
    });
}

#[test]
fn a_rollback_undoes_an_upgrade_that_was_interrupted() {
    isolated("exchange::quiclb_rollback_undoes", || {
        let way = Way::Link(Mode::Native);
        let mut balancer = Balancer::new(way);
        let previous = balancer::dir().pin(Section::Programs, "gw_quiclb-previous");
        // Before each step from the first that comes after something was pinned.
        for (kills, has_previous) in (2..7).flat_map(|kills| [(kills, true), (kills, false)]) {
            let context = format!("at {kills}, with one before: {has_previous}");
            balancer.writer.upgrade().expect("upgraded");
            drop(balancer.writer);
            balancer::run_other_build(way);
            if !has_previous {
                std::fs::remove_file(&previous).expect("removed");
            }
            let ran = Program::open(&balancer::running_pin()).expect("a program");
            let before = Program::open(&previous).ok().map(|program| program.id());
            assert_eq!(before.is_some(), has_previous);
            let role = "upgrade";
            assert!(killed("quiclb::the_process_that_is_killed", role, kills));
            balancer.writer = load_after_the_collector();
            let back = balancer
                .writer
                .rollback_observed(Duration::ZERO, |_| Ok(()));
            let back = back.unwrap_or_else(|error| panic!("{context}: {error}"));
            is_settled_on(ran.id(), &context);
            assert_eq!(back.program.new_program_id, ran.id(), "{context}");
            // One that had come to the interface is one to go back from.
            assert_eq!(back.cancelled, kills == 2, "{context}");
            if back.cancelled {
                let kept = Program::open(&previous).ok().map(|program| program.id());
                assert_eq!(kept, before, "{context}");
            }
            balancer.source.send_all(&balancer.sink, 1);
        }
        balancer.nothing_is_lost_or_misplaced();
    });
}

/// What a process leaves that dies between two calls of one step.
#[test]
fn what_no_role_has_is_tidied_away() {
    isolated("exchange::quiclb_tidied", || {
        let writer = balancer::load();
        let progs = balancer::dir().path().join("progs");
        let before = killed::names(&progs);
        let program = writer.program().try_clone().expect("a handle");
        drop(writer);
        for name in ["gw_quiclb-draft", "gw_quiclb-next"] {
            program.pin(&progs.join(name)).expect("pinned");
        }
        let known = progs.join(format!("build-{}", program.id()));
        let record = Map::open_any(&known).expect("a record");
        record.pin(&progs.join("build-1")).expect("pinned");
        drop(balancer::load());
        assert_eq!(killed::names(&progs), before);
    });
}
