// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What operators see when something is wrong: `status`, counters and probes.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use guideway::egress::{Limits, Loader};
use guideway::group::MemberState;
use guideway::kernel::statedir::StateRoot;
use nix::libc;
use nix::sys::signal::Signal;
use serde_json::{json, Value};

use crate::daemon::*;
use crate::ends::is_at_the_barrier;
use crate::netns::{within, BPFFS};
use crate::routes::Flood;
use crate::scrape::{get, scraped, series, sweeps};
use crate::tool::Ran;

/// What `status` says, whatever its exit code is.
fn status() -> Value {
    let ran = Ran::with("egressd", &["-o", "json", "status"]);
    assert!([0, 5].contains(&ran.code), "{}", ran.stderr);
    ran.object()
}

/// Waits until `status` finds exactly these faults, each with its object.
#[track_caller]
fn finds(wanted: &[(&str, &str)], daemon: &Daemon) {
    let found = || {
        let status = status();
        let findings = status["findings"].as_array().expect("a list").clone();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let errors = findings.iter().filter(|one| one["severity"] == "error");
        let found: Vec<_> = errors
            .map(|one| (text(&one["code"]), text(&one["object"])))
            .collect();
        found
    };
    let is_so = || {
        let found = found();
        let found = found.iter().map(|(code, object)| (&**code, &**object));
        found.eq(wanted.iter().copied())
    };
    assert!(
        within(PATIENCE, is_so),
        "{:?}, not {wanted:?}\n{}",
        found(),
        daemon.log()
    );
    let code = if wanted.is_empty() { 0 } else { 5 };
    Ran::with("egressd", &["status"]).exits(code);
}

#[test]
fn status_tells_what_the_loop_knows() {
    on_node("status", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&["--pool-min-active=2", "--sweep=7s"]);
        node.attach();
        finds(&[("below-minimum", "nat66")], &daemon);
        let told = &status()["loop"];
        assert_eq!(told["mode"], "hashed");
        assert_eq!(told["classes"], json!(["nat66"]));
        assert_eq!(told["interval_seconds"], 7.0);
        assert_eq!(told["failures"], json!([]));
        node.manifest("b.json", shard(0x11));
        finds(&[], &daemon);
        node.manifest("b.json", "broken");
        finds(&[("unsynced", "loop")], &daemon);
        let why = status()["loop"]["unsynced"].as_str().map(str::to_owned);
        assert!(why.is_some_and(|why| why.contains("b.json:1: is not JSON")));
        node.manifest("b.json", shard(0x11));
        finds(&[], &daemon);
        Node::unroute(0x10);
        Node::unroute(0x11);
        finds(&[("nobody-active", "nat66")], &daemon);
        daemon.stop();
        // It goes on to be told by the next one, and who sweeps once is not awaited again.
        Node::route(0x10);
        node.once(&[]).exits(0);
        assert_eq!(status()["loop"]["interval_seconds"], Value::Null);
    });
}

#[test]
fn ordered_mode_without_a_shard_that_is_reached_serves_nobody() {
    on_node("unserved", |node| {
        let ordered = ["--mode=ordered"];
        node.once(&ordered).exits(5);
        let daemon = node.start(&ordered);
        daemon.says("ready");
        finds(&[("unserved-class", "nat66")], &daemon);
        let message = |status: Value| status["findings"][0]["message"].to_string();
        let why = message(status());
        assert!(why.contains("no static SID is configured"), "{why}");
        daemon.tells("problem", "nat66: no static SID is configured");
        daemon.stop();

        let sids = format!("--shard-sids={}", sid(0x10));
        let ordered = ["--mode=ordered", sids.as_str()];
        let daemon = node.start(&ordered);
        daemon.says("ready");
        finds(&[], &daemon);
        Node::unroute(0x10);
        finds(&[("unserved-class", "nat66")], &daemon);
        let why = message(status());
        assert!(why.contains("none of 1 static SIDs is reached"), "{why}");
        daemon.stop();
        node.once(&ordered).exits(5);
        Node::route(0x10);
        node.once(&ordered).exits(0);
        Ran::with("egressd", &["status"]).exits(0);
    });
}

#[test]
fn a_daemon_that_is_gone_is_missed_after_four_intervals() {
    on_node("missed", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&["--sweep=5s"]);
        finds(&[], &daemon);
        daemon.kill();
        // Nothing is asked meanwhile: others need the processor.
        std::thread::sleep(Duration::from_secs(20));
        let findings = || status()["findings"].clone();
        let missed = || {
            let findings = findings();
            let mut findings = findings.as_array().expect("a list").iter();
            findings.any(|one| one["code"] == "stale-sweep")
        };
        assert!(within(PATIENCE, missed), "{}", findings());
        Ran::with("egressd", &["status"]).exits(5);
        // The next one does its work, and is believed.
        let daemon = node.ready(&["--sweep=5s"]);
        finds(&[], &daemon);
        daemon.stop();
    });
}

#[test]
fn more_shards_than_there_is_room_for_are_an_error_with_both_numbers() {
    on_node("many", |node| {
        let shards = |numbers: std::ops::Range<u16>| -> Vec<Value> { numbers.map(shard).collect() };
        let list = |shards: Vec<Value>| json!({"kind": "List", "items": shards});
        node.manifest("a.json", list(shards(0x10..0x12)));
        let address = "127.0.0.1:19483";
        let metrics = format!("--metrics={address}");
        let daemon = node.ready(&["--members=2", &metrics]);
        let errors = "guideway_egress_sweep_errors_total{stage=\"apply\"}";
        scraped(address, errors, Some(0.0));
        node.manifest("a.json", list(shards(0x10..0x13)));
        let words = "nat66: 3 shards, but there is room for 2";
        daemon.tells("problem", words);
        scraped(address, errors, Some(1.0));
        let last = "guideway_egress_last_successful_sweep_timestamp_seconds";
        let (_, before) = get(address, "/metrics").expect("an answer");
        daemon.signal(Signal::SIGHUP);
        scraped(address, errors, Some(2.0));
        let (_, after) = get(address, "/metrics").expect("an answer");
        assert_eq!(series(&after, last), series(&before, last));
        let failures = &status()["loop"]["failures"];
        assert!(
            failures[0]
                .as_str()
                .is_some_and(|text| text.contains(words)),
            "{failures}"
        );
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.stop();
        node.once(&["--members=2"]).exits(3);
        node.manifest("a.json", list(shards(0x10..0x12)));
        node.once(&["--members=2"]).exits(0);
    });
}

#[test]
fn counters_go_on_when_a_hangup_brings_another_source_and_other_uplinks() {
    on_node("carried", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", "broken");
        std::fs::create_dir(node.path("other")).expect("made");
        std::fs::write(node.path("other/x.json"), shard(0x13).to_string()).expect("written");
        let config = node.path("config.json");
        let write = |source: &str, uplinks: &[&str]| {
            let source = format!("dir:{}", node.path(source).display());
            let text = json!({"source": source, "uplinks": uplinks});
            std::fs::write(&config, text.to_string()).expect("written");
        };
        write("shards", &["uplink0", "tap1"]);
        let address = "127.0.0.1:19484";
        let metrics = format!("--metrics={address}");
        let file = format!("--config={}", config.display());
        let flags = ["no:--source", "no:--uplinks", &file, &metrics];
        let daemon = node.start(&flags);
        daemon.tells("problem", "b.json:1: is not JSON");
        let parse = "guideway_egress_source_errors_total{source=\"dir\",reason=\"parse\"}";
        let no_route = "guideway_egress_resolution_failures_total{reason=\"no_route\"}";
        let count = |name: &str| {
            let (_, body) = get(address, "/metrics").expect("an answer");
            series(&body, name).expect("a series")
        };
        node.manifest("b.json", shard(0x11));
        Node::unroute(0x11);
        node.has_active(&[0x10], &daemon);
        assert!(within(PATIENCE, || count(no_route) >= 1.0));
        let before = [count(parse), count(no_route)];
        assert!(before[0] >= 1.0, "{before:?}");
        // Neither has anything to complain of.
        write("other", &["uplink0"]);
        daemon.signal(Signal::SIGHUP);
        node.has_active(&[0x13], &daemon);
        let sweeps = "guideway_egress_sweeps_total{trigger=\"command\"}";
        scraped(address, sweeps, Some(1.0));
        let after = [count(parse), count(no_route)];
        assert!(
            after[0] >= before[0] && after[1] >= before[1],
            "{before:?} {after:?}"
        );
        daemon.stop();
    });
}

/// A thread of another process that does nothing as long as this is there.
struct Held(libc::pid_t);

impl Held {
    /// The thread of this name.
    fn of(process: u32, name: &str) -> Self {
        let tasks = format!("/proc/{process}/task");
        let tasks = std::fs::read_dir(tasks).expect("its threads");
        let mut tasks = tasks.map(|task| task.expect("an entry").path());
        let named = |task: &std::path::PathBuf| {
            let comm = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            comm.trim() == name
        };
        let task = tasks.find(named).expect("a thread of this name");
        let id = task.file_name().and_then(|name| name.to_str());
        let id = id.and_then(|id| id.parse().ok()).expect("a number");
        Self::ask(libc::PTRACE_SEIZE, id);
        Self::ask(libc::PTRACE_INTERRUPT, id);
        let mut status = 0;
        // SAFETY: the status is this function's own.
        let stopped = unsafe { libc::waitpid(id, &mut status, libc::__WALL) };
        assert_eq!(stopped, id, "{}", std::io::Error::last_os_error());
        Self(id)
    }

    fn ask(request: libc::c_uint, id: libc::pid_t) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these requests neither read nor write memory.
        let result = unsafe { libc::ptrace(request, id, none, none) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        Self::ask(libc::PTRACE_DETACH, self.0);
    }
}

#[test]
fn a_sweep_that_does_not_come_on_is_seen_by_probes() {
    on_node("stuck", |node| {
        node.manifest("a.json", shard(0x10));
        let address = "127.0.0.1:19485";
        let metrics = format!("--metrics={address}");
        let path = node.path("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_nonblocking(true).expect("a socket");
        let daemon = Daemon::start(node, &["--sweep=5s", &metrics], |command| {
            command
                .env("NOTIFY_SOCKET", &path)
                .env("WATCHDOG_USEC", "400000");
        });
        daemon.says("ready");
        let signs = || {
            let mut bytes = [0; 1024];
            std::iter::from_fn(|| manager.recv(&mut bytes).ok()).count()
        };
        assert!(within(PATIENCE, || signs() > 0), "it lives");
        let health = || get(address, "/healthz").expect("an answer");
        assert_eq!(health().0, 200);
        let held = Held::of(daemon.id(), "sweep");
        node.manifest("b.json", shard(0x11));
        assert!(within(PATIENCE, || health().0 == 503), "{}", daemon.log());
        let (_, why) = health();
        assert!(why.contains("the sweep did not come on for"), "{why}");
        // Nor is the service manager told that all is well; one message may have been on its way.
        signs();
        std::thread::sleep(Duration::from_secs(2));
        let late = signs();
        assert!(late <= 1, "{late}");
        drop(held);
        let mut told = 0;
        let lives = within(PATIENCE, || {
            told += signs();
            told > 1
        });
        assert!(lives, "it lives again");
        assert!(within(PATIENCE, || health().0 == 200), "{}", health().1);
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.stop();
    });
}

/// A sweep waits for a writer of routes, and nothing else waits with it: all that changes in the
/// network is heard of, and what there was no room for is looked up.
#[test]
fn changes_are_heard_while_a_sweep_blocks() {
    on_node("hears", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let wide = ["--nat64-prefixes=64:ff9b::/96"];
        node.ready(&wide).stop();
        let egress = egress();
        // To retire the class's group takes the barrier, which a writer of routes has.
        let guard = egress.write_routes(PATIENCE).expect("free");
        let address = "127.0.0.1:19491";
        let daemon = node.start(&["--sweep=5s", &format!("--metrics={address}")]);
        let held = loop {
            let waits = || is_at_the_barrier(daemon.id());
            assert!(within(PATIENCE, waits), "{}", daemon.log());
            let held = Held::of(daemon.id(), "sweep");
            // It does not wait for long by itself, and may have given up.
            if waits() {
                break held;
            }
        };
        let kicks = "guideway_egress_kicks_total{source=\"route\"}";
        let overruns = "guideway_egress_netlink_overruns_total";
        let resyncs = "guideway_egress_netlink_resyncs_total";
        let count = |name: &str| {
            let (_, body) = get(address, "/metrics").expect("an answer");
            series(&body, name).expect("a series")
        };
        let before = count(kicks);
        for _ in 0..100 {
            Node::unroute(0x10);
            Node::route(0x10);
        }
        Node::unroute(0x10);
        scraped(address, kicks, Some(before + 201.0));
        assert_eq!(count(overruns), 0.0);

        // More than there is room for, while nobody listens.
        let deaf = Held::of(daemon.id(), "egressd");
        let flood = Flood::new("tap1");
        for number in (0..60_000).step_by(500) {
            flood.routes(libc::RTM_NEWROUTE, number..number + 500);
        }
        drop(deaf);
        scraped(address, resyncs, Some(1.0));
        assert!(count(overruns) >= 1.0);
        let before = count(kicks);
        Node::unroute(0x11);
        scraped(address, kicks, Some(before + 1.0));
        assert!(is_at_the_barrier(daemon.id()), "it still waits");
        assert_eq!(Node::members(MemberState::Active), [0x10, 0x11].into());

        drop(guard);
        drop(held);
        node.has_active(&[], &daemon);
        Node::route(0x11);
        node.has_active(&[0x11], &daemon);
        daemon.stop();
    });
}

#[test]
fn scrapes_follow_the_state_when_it_is_removed_and_made_anew() {
    on_node("anew", |node| {
        node.manifest("a.json", shard(0x10));
        let address = "127.0.0.1:19486";
        let metrics = format!("--metrics={address}");
        let daemon = node.ready(&[&metrics]);
        let room = "guideway_egress_pins_capacity{kind=\"source\"}";
        scraped(address, room, Some(4096.0));
        // By force: who is asked to remove it refuses as long as the daemon runs, which pins things
        // in it meanwhile.
        let dir = StateRoot::new(BPFFS).egress();
        let aside = Path::new(BPFFS).join("aside");
        std::fs::rename(dir.path(), &aside).expect("moved");
        std::fs::remove_dir_all(&aside).expect("removed");
        let gone = || get(address, "/metrics").is_some_and(|(status, _)| status == 503);
        assert!(within(PATIENCE, gone));
        let limits = Limits::default().with_pins(8192).expect("a limit");
        drop(Loader::new(&dir).limits(limits).load().expect("made"));
        scraped(address, room, Some(8192.0));
        daemon.stop();
    });
}

#[test]
fn what_waits_for_others_is_told_once_and_leaves_the_rest_for_later() {
    on_node("undone", |node| {
        node.manifest("a.json", shard(0x10));
        let wide = ["--nat64-prefixes=64:ff9b::/96"];
        let daemon = node.ready(&wide);
        node.ran(&["attach", "tap0", "--table=42", "--argument=0x2a5"], &wide)
            .exits(0);
        daemon.stop();
        let egress = egress();
        // To retire the class's group takes the barrier, which a writer of routes has.
        let guard = egress.write_routes(PATIENCE).expect("free");
        node.once(&[]).exits(3);
        assert_eq!(send(1), Some(0x10), "it forwards all the same");
        let address = "127.0.0.1:19487";
        let daemon = node.start(&[&format!("--metrics={address}")]);
        daemon.tells("problem", "step failed: ");
        // A sweep is counted before it is told of: the last of them may be silent still.
        for _ in 1..=3 {
            let before = sweeps(address);
            daemon.signal(Signal::SIGHUP);
            let swept = within(PATIENCE, || sweeps(address) > before);
            assert!(swept, "{}", daemon.log());
        }
        let mut problems = daemon.messages("problem");
        let all = problems.len();
        problems.sort();
        problems.dedup();
        assert_eq!(problems.len(), all, "{}", daemon.log());
        drop(guard);
        daemon.tells("problem-over", "step failed: ");
        daemon.stop();
        node.once(&[]).exits(0);
    });
}
