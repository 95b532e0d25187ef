// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What it tells: the service manager, probes, scrapes, and lines.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::daemon::*;
use crate::netns::within;
use crate::scrape::{get, scraped, series};

/// Messages to a service manager, as they come.
pub(crate) struct Manager(UnixDatagram);

impl Manager {
    pub(crate) fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("a socket");
        let timeout = socket.set_read_timeout(Some(PATIENCE));
        timeout.expect("a timeout");
        Self(socket)
    }

    /// That it is ready, behind what it waited for.
    pub(crate) fn ready(&self) -> String {
        loop {
            let message = self.next_state();
            if !message.starts_with("STATUS=waiting") {
                assert!(message.starts_with("READY=1\n"), "{message}");
                return message;
            }
        }
    }

    fn next(&self) -> String {
        let mut bytes = [0; 1024];
        let count = loop {
            match self.0.recv(&mut bytes) {
                // A machine that was halted meanwhile ends a wait that has an end.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                received => break received.expect("a message in time"),
            }
        };
        String::from_utf8(bytes[..count].to_vec()).expect("text")
    }

    /// The next message that is no sign of life.
    fn next_state(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_is_told_in_order_and_that_it_lives() {
    on_node("notify", |node| {
        let path = node.path("notify");
        let manager = Manager::at(&path);
        let shards = node.path("shards");
        std::fs::remove_dir(&shards).expect("empty");
        let daemon = Daemon::start(node, &[], |command| {
            command
                .env("NOTIFY_SOCKET", &path)
                .env("WATCHDOG_USEC", "200000");
        });
        // A sweep without an error, and still no list.
        let waiting = manager.next_state();
        assert!(
            waiting.starts_with("STATUS=waiting for a complete list of shards"),
            "{waiting}"
        );
        std::fs::create_dir(&shards).expect("made");
        node.manifest("a.json", shard(0x10));
        assert_eq!(manager.ready(), "READY=1\nSTATUS=in line with its shards");
        // Half of the time that the manager gives it, though nothing happens.
        for _ in 0..5 {
            assert_eq!(manager.next(), "WATCHDOG=1");
        }
        daemon.signal(Signal::SIGTERM);
        assert_eq!(manager.next_state(), "STOPPING=1");
        assert_eq!(daemon.end(), Some(0));
    });
}

#[test]
fn probes_and_scrapes_are_answered_by_what_is_so() {
    on_node("scrape", |node| {
        let shards = node.path("shards");
        std::fs::remove_dir(&shards).expect("empty");
        let address = "127.0.0.1:19477";
        let daemon = node.start(&[&format!("--metrics={address}")]);
        daemon.says("metrics");
        daemon.tells("problem", "no complete list");
        assert!(within(PATIENCE, || get(address, "/readyz")
            .is_some_and(|(status, _)| status == 503)));
        let (_, why) = get(address, "/readyz").expect("an answer");
        assert!(
            why.contains("waiting for a complete list of shards"),
            "{why}"
        );
        assert_eq!(get(address, "/healthz").expect("an answer").0, 200);
        let (status, body) = get(address, "/metrics").expect("an answer");
        assert_eq!(status, 200);
        assert_eq!(
            series(&body, "guideway_egress_shard_watch_synced"),
            Some(0.0),
            "{body}"
        );
        assert_eq!(
            series(&body, "guideway_egress_mode{mode=\"hashed\"}"),
            Some(1.0),
            "{body}"
        );
        let errors = "guideway_egress_source_errors_total{source=\"dir\",reason=\"gone\"}";
        assert!(
            series(&body, errors).is_some_and(|count| count >= 1.0),
            "{body}"
        );

        std::fs::create_dir(&shards).expect("made");
        node.manifest("a.json", shard(0x10));
        node.has_active(&[0x10], &daemon);
        daemon.says("ready");
        assert_eq!(
            get(address, "/readyz").expect("an answer"),
            (200, "ready\n".to_owned())
        );
        node.attach();
        let scraped = |name: &str, wanted: f64| scraped(address, name, Some(wanted));
        scraped("guideway_egress_shard_watch_synced", 1.0);
        scraped(
            "guideway_egress_pool_members{class=\"nat66\",state=\"active\"}",
            1.0,
        );
        scraped("guideway_egress_class_served{class=\"nat66\"}", 1.0);
        scraped("guideway_egress_publications_total{result=\"ok\"}", 1.0);
        Node::unroute(0x10);
        scraped(
            "guideway_egress_pool_members{class=\"nat66\",state=\"unreachable\"}",
            1.0,
        );
        scraped("guideway_egress_class_served{class=\"nat66\"}", 0.0);
        scraped(
            "guideway_egress_resolution_failures_total{reason=\"no_route\"}",
            1.0,
        );
        let unchanged = "guideway_egress_publications_total{result=\"unchanged\"}";
        let (_, before) = get(address, "/metrics").expect("an answer");
        daemon.signal(Signal::SIGHUP);
        scraped("guideway_egress_sweeps_total{trigger=\"command\"}", 1.0);
        let (_, after) = get(address, "/metrics").expect("an answer");
        assert!(
            series(&after, unchanged) > series(&before, unchanged),
            "{after}"
        );
        // What the next sweep finds: the tenant's route.
        scraped("guideway_egress_group_routes{class=\"nat66\"}", 1.0);
        assert_eq!(get(address, "/other").expect("an answer").0, 404);
        // What the start found out about the kernel.
        let (_, body) = get(address, "/metrics").expect("an answer");
        let mut lines = body.lines();
        let build = lines.find(|line| line.starts_with("guideway_egress_build_info{"));
        let build = build.expect("a series");
        let tcx = guideway::kernel::probe::features().tcx.expect("known");
        assert!(
            build.contains(&format!("tcx=\"{tcx}\",batch=\"true\"")),
            "{build}"
        );
        daemon.stop();
    });
}

#[test]
fn a_class_and_the_mode_come_and_go_in_scrapes() {
    on_node("scraped-classes", |node| {
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let write = |mode: &str, prefixes: &[&str]| {
            let text = json!({"mode": mode, "nat64_prefixes": prefixes, "shard_sids": [sid(0x11)]});
            std::fs::write(&config, text.to_string()).expect("written");
        };
        let address = "127.0.0.1:19480";
        write("hashed", &[]);
        let (file, metrics) = (
            format!("--config={}", config.display()),
            format!("--metrics={address}"),
        );
        let daemon = node.ready(&["no:--mode", &file, &metrics]);
        node.attach();
        let nat64 = "guideway_egress_class_configured{class=\"nat64:64:ff9b::/96\"}";
        let enabled = "guideway_egress_pool_enabled{class=\"nat64:64:ff9b::/96\"}";
        scraped(address, nat64, None);
        write("hashed", &["64:ff9b::/96"]);
        daemon.signal(Signal::SIGHUP);
        scraped(address, nat64, Some(1.0));
        scraped(address, enabled, Some(1.0));
        write("hashed", &[]);
        daemon.signal(Signal::SIGHUP);
        scraped(address, nat64, None);
        scraped(address, enabled, None);
        // Whoever goes back to an older version waits for this 0.
        let routes = "guideway_egress_group_routes{class=\"nat66\"}";
        scraped(address, routes, Some(1.0));
        write("ordered", &[]);
        daemon.signal(Signal::SIGHUP);
        scraped(address, routes, Some(0.0));
        scraped(address, "guideway_egress_mode{mode=\"ordered\"}", Some(1.0));
        daemon.stop();
        // The proof is the group's state, and outlives the process.
        let daemon = node.ready(&["no:--mode", &file, &metrics]);
        scraped(address, routes, Some(0.0));
        daemon.stop();
    });
}

#[test]
fn a_line_tells_a_change_and_none_that_nothing_changed() {
    on_node("lines", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", "broken");
        let daemon = node.start(&[]);
        let words = "b.json:1: is not JSON";
        daemon.tells("problem", words);
        for number in 1..=3 {
            daemon.signal(Signal::SIGHUP);
            let told = || daemon.messages("configuration").len() == number;
            assert!(within(PATIENCE, told), "{}", daemon.log());
            // The sweep that it asked for.
            std::thread::sleep(Duration::from_millis(150));
        }
        let problems = daemon.messages("problem");
        let same = problems.iter().filter(|text| text.contains(words));
        assert_eq!(same.count(), 1, "{problems:?}");
        node.manifest("b.json", shard(0x11));
        daemon.tells("problem-over", words);
        let lines = daemon.lines();
        let over = lines.iter().find(|line| {
            let text = line["message"].as_str().expect("text");
            line["event"] == "problem-over" && text.contains(words)
        });
        assert!(
            over.expect("there")["repeats"].as_u64().expect("a number") >= 2,
            "{over:?}"
        );
        for line in &lines {
            assert!(
                line["time"]
                    .as_str()
                    .is_some_and(|time| time.ends_with('Z')),
                "{line}"
            );
            assert!(["info", "warning", "error"].contains(&line["level"].as_str().expect("text")));
        }
        daemon.stop();
    });
}
