// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What `status` advises where a loop keeps the node: no specification, and it helps.

use guideway::group::{Class, GroupId, Snapshot};
use guideway::kernel::egress_object::Sizes;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::snapshot::{self, Slots};
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::Trie;
use guideway::route::{Origin, TableId, Target};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::daemon::*;
use crate::netns::{foreign_program, pin, within, Kind};
use crate::tool::Ran;

/// Sweeps come when the test asks for one.
const SELDOM: &str = "--sweep=10min";

/// What `status` advises about a finding; none if it does not find that.
fn remedy(code: &str) -> Option<String> {
    let status = Ran::with("egressd", &["-o", "json", "status"]);
    assert!([0, 5].contains(&status.code), "{}", status.stderr);
    let status = status.object();
    let mut findings = status["findings"].as_array().expect("a list").iter();
    let found = findings.find(|finding| finding["code"] == code)?;
    Some(found["remedy"].as_str().expect("advice").to_owned())
}

/// Insists that this is found, and that what is advised beside a loop are these words.
#[track_caller]
fn advised(code: &str, words: &str) {
    let remedy = remedy(code).unwrap_or_else(|| panic!("{code} is not found"));
    let expected = format!("apply the specification again; beside egressd run: {words}");
    assert_eq!(remedy, expected);
}

/// Has the loop sweep, until this is found no more.
#[track_caller]
fn is_mended(code: &str, daemon: &Daemon) {
    daemon.signal(Signal::SIGHUP);
    let mended = within(PATIENCE, || remedy(code).is_none());
    assert!(mended, "{code}:\n{}", daemon.log());
}

fn map(name: &str) -> Map {
    Map::open_any(&egress().dir().pin(Section::Maps, name)).expect("a map")
}

#[test]
fn the_next_sweep_publishes_a_configuration() {
    on_node("remedy-configuration", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        node.attach();
        assert_eq!(send(1), Some(0x10));
        let gone = map("gw_eg_config").delete(&0_u32.to_ne_bytes());
        assert!(gone.expect("possible"));
        assert_eq!(send(1), None);
        advised("no-configuration", "its next sweep publishes one");
        is_mended("no-configuration", &daemon);
        assert_eq!(send(1), Some(0x10));
        daemon.stop();
    });
}

#[test]
fn the_next_sweep_mends_dead_routes_but_those_of_others() {
    on_node("remedy-routes", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        node.attach();
        let routes = egress().routes(TableId::new(42)).expect("readable");
        let (key, route) = routes.into_iter().next().expect("a route");
        let trie = Trie::new(map("gw_routes")).expect("its shape");
        let kill = |origin: Origin| {
            let mut dead = route;
            dead.origin = origin;
            if let Target::Group { incarnation, .. } = &mut dead.target {
                *incarnation = incarnation.next();
            }
            let update = trie.update(&key.to_row(), &dead.to_row(), Update::Any);
            update.expect("written");
            assert_eq!(send(1), None);
        };
        let words = "its next sweep mends its own, those of others are for who wrote them";
        kill(Origin::default());
        advised("dead-routes", words);
        is_mended("dead-routes", &daemon);
        assert_eq!(send(1), Some(0x10));

        kill(Origin(3));
        daemon.signal(Signal::SIGHUP);
        daemon.tells("problem", "routes of other writers");
        advised("dead-routes", words);
        // Who wrote it takes it away, and the tenant gets one that is kept.
        trie.remove(&key.to_row()).expect("removed");
        is_mended("dead-routes", &daemon);
        assert!(
            within(PATIENCE, || send(1) == Some(0x10)),
            "{}",
            daemon.log()
        );
        daemon.stop();
    });
}

#[test]
fn the_next_sweep_ends_all_groups_of_a_class_but_one() {
    on_node("remedy-duplicates", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        node.attach();
        let second = Snapshot {
            group: GroupId::new(1).expect("a group"),
            ..group()
        };
        assert_eq!(second.class, Class::Nat66);
        let limits = egress().limits().groups();
        let bytes = second.to_bytes(limits).expect("bytes");
        let forced = snapshot::Snapshot::create(&Sizes::default().snapshot_shape());
        let forced = forced.expect("a snapshot");
        forced.fill(&bytes).expect("filled");
        forced.freeze().expect("frozen");
        let pin = egress().dir().pin(Section::Generations, "g1");
        forced.map().pin(&pin).expect("pinned");
        let slots = Slots::new(map("gw_groups")).expect("slots");
        slots
            .swap(second.group.get().into(), &forced)
            .expect("swapped");
        advised("duplicate-class", "its next sweep ends all but one");
        is_mended("duplicate-class", &daemon);
        assert_eq!(send(1), Some(0x10));
        daemon.stop();
    });
}

#[test]
fn a_group_that_closes_ends_when_no_route_of_others_leads_to_it() {
    on_node("remedy-closing", |node| {
        node.manifest("a.json", shard(0x10));
        let config = node.path("config.json");
        let write = |prefixes: &[&str]| {
            let text = serde_json::json!({"nat64_prefixes": prefixes});
            std::fs::write(&config, text.to_string()).expect("written");
        };
        write(&["64:ff9b::/96"]);
        let file = format!("--config={}", config.display());
        let daemon = node.ready(&[SELDOM, &file]);
        node.ran(
            &["attach", "tap0", "--table=42", "--argument=0x2a5"],
            &[&file],
        )
        .exits(0);
        let routes = egress().routes(TableId::new(42)).expect("readable");
        let prefix = "64:ff9b::/96".parse().expect("a prefix");
        let (key, route) = routes
            .into_iter()
            .find(|(key, _)| key.prefix == prefix)
            .expect("a route of the class");
        // Somebody else's route leads there as well.
        let trie = Trie::new(map("gw_routes")).expect("its shape");
        let mut theirs = route;
        theirs.origin = Origin(3);
        let update = trie.update(&key.to_row(), &theirs.to_row(), Update::Any);
        update.expect("written");
        write(&[]);
        daemon.signal(Signal::SIGHUP);
        let closing = "closing-group";
        assert!(
            within(PATIENCE, || remedy(closing).is_some()),
            "{}",
            daemon.log()
        );
        advised(
            closing,
            "it ends by itself when no route of others leads to it",
        );
        trie.remove(&key.to_row()).expect("removed");
        is_mended(closing, &daemon);
        daemon.stop();
    });
}

#[test]
fn what_was_lost_of_the_state_is_made_again_by_a_start() {
    on_node("remedy-lost", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        node.attach();
        // One that runs has it back as soon as anything has it look.
        daemon.stop();
        std::fs::remove_file(egress().dir().pin(Section::Maps, "gw_eg_stat")).expect("removed");
        let error = Ran::with("egressd", &["-o", "json", "status"])
            .exits(1)
            .error();
        let message = error["message"].as_str().expect("text");
        let remedy = "apply the specification again; beside egressd run: restart that";
        assert!(message.ends_with(remedy), "{message}");
        assert_eq!(error["faults"], Value::Array(Vec::new()));
        let daemon = node.ready(&[SELDOM]);
        let told = daemon.messages("state").into_iter();
        let told = told.filter(|line| line.contains("gw_eg_stat: pinned again"));
        assert_eq!(told.count(), 1, "{}", daemon.log());
        Ran::with("egressd", &["status"]).exits(0);
        assert_eq!(send(1), Some(0x10));
        daemon.stop();
    });
}

/// Somebody else's program in the place of the one before: who starts is told, who runs goes on.
#[test]
fn a_foreign_program_keeps_no_loop_from_going_on() {
    on_node("foreign-program", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        node.attach();
        let theirs = foreign_program("theirs", Kind::Classifier).expect("load");
        for role in ["next", "previous"] {
            let name = format!("gw_egress-{role}");
            let path = egress().dir().pin(Section::Programs, &name);
            pin(&theirs, &path);
            node.manifest("b.json", shard(0x11));
            node.has_active(&[0x10, 0x11], &daemon);
            node.remove("b.json");
            node.has_active(&[0x10], &daemon);
            assert_eq!(send(1), Some(0x10));
            assert!(path.exists());
            std::fs::remove_file(&path).expect("removed");
        }
        daemon.stop();
        let path = egress().dir().pin(Section::Programs, "gw_egress-next");
        pin(&theirs, &path);
        let error = node.once(&[]).fails(4, "incompatible");
        let message = error["message"].as_str().expect("text");
        for part in [&path.display().to_string(), "(theirs)", "left alone"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(path.exists());
        assert_eq!(send(1), Some(0x10));
    });
}
