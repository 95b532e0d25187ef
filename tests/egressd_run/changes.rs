// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Manifests, routes and the configuration change; groups follow.

use std::collections::BTreeSet;

use guideway::group::MemberState;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::daemon::*;
use crate::netns::{ip, within};
use crate::tool::Ran;

#[test]
fn groups_follow_manifests_and_pins_hold_while_a_shard_drains() {
    on_node("follow", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let daemon = node.ready(&[]);
        node.attach();
        let before = send_from(1..65);
        assert_eq!(shards(&before), BTreeSet::from([0x10, 0x11]));

        node.manifest("a.json", draining(0x10));
        node.has_active(&[0x11], &daemon);
        assert_eq!(Node::members(MemberState::Draining), BTreeSet::from([0x10]));
        assert_eq!(send_from(1..65), before, "everybody stays where he was");
        assert_eq!(shards(&send_from(65..129)), BTreeSet::from([0x11]));

        // Who is still held there, and how many that is.
        let held = before.iter().filter(|home| **home == Some(0x10)).count();
        let drain = Ran::with("egressd", &["-o", "json", "drain-status"])
            .exits(0)
            .object();
        let [shard_left] = &drain["shards"].as_array().expect("a list")[..] else {
            panic!("{drain}");
        };
        assert_eq!(shard_left["sid"], sid(0x10));
        assert_eq!(
            (&shard_left["pins"], &shard_left["tenants"]),
            (&json!(held), &json!(1))
        );
        assert!(
            shard_left["youngest_seconds"].as_u64().expect("a number") < 60,
            "{drain}"
        );
        let other = Ran::with("egressd", &["drain-status", &sid(0x11)]).exits(0);
        let words = format!("{} pins of 1 tenants", 128 - held);
        assert!(other.stdout.contains(&words), "{}", other.stdout);
        Ran::with("egressd", &["-o", "json", "drain-status", &sid(0x1f)]).fails(1, "not-found");

        // Gone before they are: its tenants move, and the others stay.
        node.remove("a.json");
        let gone = || Node::members(MemberState::Draining).is_empty();
        assert!(within(PATIENCE, gone), "{}", daemon.log());
        assert_eq!(shards(&send_from(1..129)), BTreeSet::from([0x11]));

        node.manifest("c.json", shard(0x12));
        node.has_active(&[0x11, 0x12], &daemon);
        assert_eq!(shards(&send_from(1..129)), BTreeSet::from([0x11]), "pins");
        assert_eq!(shards(&send_from(129..257)), BTreeSet::from([0x11, 0x12]));
        daemon.stop();
    });
}

#[test]
fn a_shard_that_is_not_reached_takes_no_packets_until_it_is() {
    on_node("reach", |node| {
        node.manifest("a.json", shard(0x10));
        node.manifest("b.json", shard(0x11));
        let daemon = node.ready(&[]);
        node.attach();
        Node::unroute(0x10);
        node.has_active(&[0x11], &daemon);
        assert_eq!(
            Node::members(MemberState::Unreachable),
            BTreeSet::from([0x10])
        );
        assert_eq!(shards(&send_from(1..65)), BTreeSet::from([0x11]));
        daemon.tells(
            "problem",
            &format!("shard {} is not reached: no route", sid(0x10)),
        );
        Node::route(0x10);
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.tells("problem-over", &sid(0x10));
        // Both at once: nobody is served, and nobody is sent elsewhere.
        Node::unroute(0x10);
        Node::unroute(0x11);
        node.has_active(&[], &daemon);
        assert_eq!(shards(&send_from(65..129)), BTreeSet::new());
        ip(&["link", "set", "uplink0", "down"]);
        ip(&["link", "set", "uplink0", "up"]);
        daemon.stop();
    });
}

#[test]
fn a_hangup_reads_the_file_anew_and_refuses_what_makes_no_sense() {
    on_node("hangup", |node| {
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let write = |text: serde_json::Value| {
            std::fs::write(&config, text.to_string()).expect("written");
        };
        write(json!({"pin_idle": "1h"}));
        let flag = format!("--config={}", config.display());
        let daemon = node.ready(&[&flag]);
        node.attach();
        let idle = || group().settings.pin_idle.as_secs();
        assert_eq!(idle(), 3600);

        // Half of it is right: none of it is taken.
        write(json!({"pin_idle": "2h", "hash": "nonsense", "unserverd": "drop"}));
        daemon.signal(Signal::SIGHUP);
        let refused = daemon.tells("configuration", "refused (1 so far)");
        for words in [
            "config.json: hash: must be source or flow",
            "is unserved meant?",
        ] {
            assert!(refused.contains(words), "{refused}");
        }
        write(json!({"members": 8}));
        daemon.signal(Signal::SIGHUP);
        let refused = daemon.tells("configuration", "refused (2 so far)");
        assert!(refused.contains("takes a new start"), "{refused}");
        assert_eq!(idle(), 3600);

        write(json!({"pin_idle": "2h", "nat64_prefixes": ["64:ff9b::/96"], "sweep": "5s"}));
        daemon.signal(Signal::SIGHUP);
        daemon.tells("configuration", "in force");
        assert!(within(PATIENCE, || idle() == 7200), "{}", daemon.log());
        // Nobody joins or leaves, and the line says what is changed.
        daemon.tells(
            "step",
            "nat66 treats packets otherwise, by the same members",
        );
        // The tenant that was there before gets the route of the new class.
        let routes = || {
            let mut routes = 0;
            let counted = egress().for_each_route(|_| {
                routes += 1;
                std::ops::ControlFlow::Continue(())
            });
            counted.expect("readable");
            routes
        };
        assert!(within(PATIENCE, || routes() == 2), "{}", daemon.log());
        let said = daemon.says("ineligible");
        assert_eq!(
            said,
            format!(
                "shard edge/s10 ({}) does not translate nat64:64:ff9b::/96",
                sid(0x10)
            )
        );
        daemon.stop();
    });
}

/// Nobody joins, leaves or moves, and it is a publication all the same.
#[test]
fn a_hangup_that_changes_how_long_pins_stand_and_nothing_else_is_published_and_told() {
    on_node("pins-alone", |node| {
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let write = |idle: &str| {
            let text = json!({"pin_idle": idle}).to_string();
            std::fs::write(&config, text).expect("written");
        };
        write("1h");
        let flag = format!("--config={}", config.display());
        let daemon = node.ready(&[&flag]);
        node.attach();
        send_from(1..65);
        // Without their pins some would go there.
        node.manifest("b.json", shard(0x11));
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.tells("step", "1 join");
        let told = |steps: usize| {
            let is_so = || daemon.messages("step").len() >= steps;
            assert!(within(PATIENCE, is_so), "{}", daemon.log());
            daemon.messages("step").split_off(steps - 1)
        };
        let otherwise = "publish-groups nat66: nat66 treats packets otherwise, by the same members";
        for (idle, seconds, held) in [("2h", 7200, true), ("0", 0, false)] {
            let (before, steps) = (group(), daemon.messages("step").len());
            write(idle);
            daemon.signal(Signal::SIGHUP);
            let in_force = || group().settings.pin_idle.as_secs() == seconds;
            assert!(within(PATIENCE, in_force), "{}", daemon.log());
            let said = told(steps + 1);
            assert_eq!(said, [otherwise]);
            let after = group();
            assert_eq!(after.table, before.table);
            assert_eq!(after.members, before.members);
            assert_eq!(after.incarnation, before.incarnation);
            let hits = counter("pin_hit");
            let homes = shards(&send_from(1..65));
            assert_eq!(homes == BTreeSet::from([0x10]), held, "{idle}: {homes:?}");
            assert_eq!(counter("pin_hit") - hits, if held { 64 } else { 0 });
        }
        daemon.stop();
    });
}

#[test]
fn another_source_and_other_uplinks_are_taken_at_a_hangup() {
    on_node("resource", |node| {
        node.manifest("a.json", shard(0x10));
        std::fs::create_dir(node.path("other")).expect("made");
        std::fs::write(node.path("other/x.json"), shard(0x13).to_string()).expect("written");
        let config = node.path("config.json");
        let source = |name: &str| format!("dir:{}", node.path(name).display());
        let write = |text: serde_json::Value| {
            std::fs::write(&config, text.to_string()).expect("written");
        };
        write(json!({"source": source("shards"), "uplinks": ["uplink0"]}));
        let file = format!("--config={}", config.display());
        let daemon = node.ready(&["no:--source", "no:--uplinks", &file]);
        node.has_active(&[0x10], &daemon);
        write(json!({"source": source("other"), "uplinks": ["uplink0"]}));
        daemon.signal(Signal::SIGHUP);
        node.has_active(&[0x13], &daemon);
        std::fs::write(node.path("other/y.json"), shard(0x14).to_string()).expect("written");
        node.has_active(&[0x13, 0x14], &daemon);
        // Nothing is an uplink any more: nobody is reached, and it is said so.
        write(json!({"source": source("other"), "uplinks": ["tap1"]}));
        daemon.signal(Signal::SIGHUP);
        node.has_active(&[], &daemon);
        daemon.stop();
    });
}
