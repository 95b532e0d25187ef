// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is not known takes nothing away.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use guideway::group::MemberState;
use nix::sys::signal::Signal;

use serde_json::Value;

use crate::daemon::*;
use crate::netns::within;
use crate::scrape::{get, scraped, series, sweeps};
use crate::tool::Ran;

/// Whether the daemon says that it holds a current list.
const SYNCED: &str = "guideway_egress_shard_watch_synced";
/// How often files could not be read.
const UNREADABLE: &str = "guideway_egress_source_errors_total{source=\"dir\",reason=\"parse\"}";

#[test]
fn a_broken_manifest_is_reported_with_file_and_line_and_the_last_good_state_stays() {
    on_node("broken", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let address = "127.0.0.1:19488";
        let daemon = node.ready(&[&format!("--metrics={address}")]);
        scraped(address, SYNCED, Some(1.0));
        scraped(address, UNREADABLE, Some(0.0));
        node.attach();
        let before = group();
        node.manifest("b.json", "{\n  \"kind\": \"EgressShard\",\n  oops\n}");
        let file = node.path("shards").join("b.json");
        daemon.tells("problem", &format!("{}:3: is not JSON", file.display()));
        scraped(address, SYNCED, Some(0.0));
        let (_, body) = get(address, "/metrics").expect("an answer");
        let unreadable = series(&body, UNREADABLE).expect("a series");
        assert!(unreadable >= 1.0, "{unreadable}");
        assert_eq!(group(), before);
        // Reachability is followed all the same.
        Node::unroute(0x10);
        node.has_active(&[0x11], &daemon);
        Node::route(0x10);
        node.has_active(&[0x10, 0x11], &daemon);
        node.manifest("b.json", shard(0x12));
        node.has_active(&[0x10, 0x12], &daemon);
        daemon.tells("problem-over", "b.json:3");
        scraped(address, SYNCED, Some(1.0));
        daemon.stop();
    });
}

#[test]
fn an_object_at_fault_is_named_and_costs_no_other_anything() {
    on_node("object", |node| {
        let mut bad = shard(0x11);
        bad["status"]["nat64Prefix"] = "10.0.0.0/8".into();
        node.manifest(
            "a.json",
            serde_json::json!({"kind": "List", "items": [shard(0x10), bad]}),
        );
        let daemon = node.ready(&[]);
        node.has_active(&[0x10], &daemon);
        let file = node.path("shards").join("a.json");
        let said = daemon.tells("problem", "shard edge/s11: status.nat64Prefix");
        assert!(
            said.starts_with(&format!("{}:1: ", file.display())),
            "{said}"
        );
        daemon.stop();
    });
}

#[test]
fn a_file_that_is_passed_over_is_told_once() {
    on_node("passed", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.JSON", shard(0x11));
        let daemon = node.ready(&[]);
        node.has_active(&[0x10], &daemon);
        daemon.tells("problem", "b.JSON is not read");
        node.manifest("c.json", shard(0x12));
        node.has_active(&[0x10, 0x12], &daemon);
        let problems = daemon.messages("problem");
        let told = problems.iter().filter(|text| text.contains("b.JSON"));
        assert_eq!(told.count(), 1, "{}", daemon.log());
        node.remove("b.JSON");
        daemon.signal(Signal::SIGHUP);
        daemon.tells("problem-over", "b.JSON is not read");
        daemon.stop();
    });
}

#[test]
fn before_the_first_list_nothing_is_published_and_what_is_published_stays() {
    on_node("unknown", |node| {
        let shards = node.path("shards");
        std::fs::remove_dir(&shards).expect("empty");
        let address = "127.0.0.1:19489";
        let metrics = format!("--metrics={address}");
        let daemon = node.start(&[&metrics]);
        daemon.tells("problem", "cannot list it");
        daemon.tells("problem", "no complete list of shards yet");
        scraped(address, SYNCED, Some(0.0));
        assert!(open_group().is_none());
        std::fs::create_dir(&shards).expect("made");
        node.manifest("a.json", shard(0x10));
        node.has_active(&[0x10], &daemon);
        daemon.says("ready");
        scraped(address, SYNCED, Some(1.0));
        node.attach();
        let before = group();

        // Listed before, and gone.
        std::fs::rename(&shards, node.path("away")).expect("renamed");
        scraped(address, SYNCED, Some(0.0));
        daemon.signal(Signal::SIGHUP);
        daemon.says("configuration");
        assert_eq!(group(), before);
        daemon.stop();

        // Never listed by this process.
        node.once(&[]).exits(5);
        let daemon = node.start(&[]);
        daemon.tells("problem", "no complete list of shards yet");
        assert_eq!(group(), before);
        assert_eq!(send(1), Some(0x10));
        std::fs::rename(node.path("away"), &shards).expect("renamed");
        daemon.says("ready");
        assert_eq!(group(), before);
        daemon.stop();
    });
}

/// Shards that translate IPv6 alone see no packet that is for a prefix of NAT64, and each of these is
/// counted.
#[test]
fn what_no_shard_translates_is_dropped_and_counted() {
    on_node("untranslated", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let wide = ["--nat64-prefixes=64:ff9b::/96"];
        let daemon = node.ready(&wide);
        node.ran(&["attach", "tap0", "--table=42", "--argument=0x2a5"], &wide)
            .exits(0);
        let mut grouped = 0;
        let routes = egress().for_each_route(|row| {
            let (_, route) = row.expect("it makes sense");
            grouped += usize::from(route.group().is_some());
            ControlFlow::Continue(())
        });
        routes.expect("readable");
        assert_eq!(grouped, 2, "to either class's group");
        let count = || ["group_empty", "blocked", "group", "shard"].map(counter);
        assert_eq!(count(), [0; 4]);
        for host in 1..33 {
            assert_eq!(send_to(host, "64:ff9b::c000:201"), None);
        }
        assert_eq!(count(), [32, 0, 0, 0]);
        let sent = send_from(1..33);
        assert_eq!(shards(&sent), BTreeSet::from([0x10, 0x11]));
        assert_eq!(count(), [32, 0, 32, 0]);
        daemon.stop();
    });
}

#[test]
fn a_list_that_is_known_to_be_empty_empties_the_group_and_sends_nobody_elsewhere() {
    on_node("empty", |node| {
        node.manifest("a.json", shard(0x10));
        let static_sid = format!("--shard-sids={}", sid(0x15));
        let daemon = node.ready(&[&static_sid]);
        node.attach();
        assert_eq!(send(1), Some(0x10));
        node.remove("a.json");
        let empty = || group().members.is_empty();
        assert!(within(PATIENCE, empty), "{}", daemon.log());
        let before = counter("group_empty");
        assert_eq!(send(1), None);
        assert_eq!(counter("group_empty"), before + 1);
        daemon.tells("problem", "nat66: no active shard, its packets are dropped");
        node.manifest("b.json", shard(0x11));
        node.has_active(&[0x11], &daemon);
        assert_eq!(send(1), Some(0x11));
        assert_eq!(Node::members(MemberState::Draining), BTreeSet::new());
        daemon.stop();
    });
}

#[test]
fn ordered_mode_needs_no_list() {
    on_node("ordered", |node| {
        std::fs::remove_dir(node.path("shards")).expect("empty");
        let address = "127.0.0.1:19482";
        let flags = [
            "--mode=ordered",
            &format!("--shard-sids={},{}", sid(0x10), sid(0x11)),
            &format!("--metrics={address}"),
        ];
        let daemon = node.ready(&flags);
        let attached = node
            .ran(
                &["attach", "tap0", "--table=42", "--argument=0x2a5"],
                &flags,
            )
            .exits(0);
        assert!(attached.stdout.contains(&sid(0x10)), "{}", attached.stdout);
        assert_eq!(send(1), Some(0x10));
        Node::unroute(0x10);
        assert!(
            within(PATIENCE, || send(1) == Some(0x11)),
            "{}",
            daemon.log()
        );
        Node::route(0x10);
        assert!(
            within(PATIENCE, || send(1) == Some(0x10)),
            "{}",
            daemon.log()
        );
        // Nobody misses it: neither who reads the log nor who is alerted.
        let watch = "guideway_egress_sweep_errors_total{stage=\"watch\"}";
        scraped(address, watch, Some(0.0));
        // The last one is counted after packets see what it did.
        let swept = || sweeps(address) >= 3.0;
        assert!(within(PATIENCE, swept), "{}", daemon.log());
        let problems = daemon.messages("problem");
        let unreached = format!("shard {} is not reached: no route", sid(0x10));
        assert!(
            problems.iter().all(|text| *text == unreached),
            "{problems:?}"
        );
        let status = Ran::with("egressd", &["-o", "json", "status"]).exits(0);
        let status = status.object();
        assert_eq!(status["loop"]["mode"], "ordered");
        assert_eq!(status["loop"]["unsynced"], Value::Null);
        daemon.stop();
    });
}
