// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is published before a process has listed the shards for the first time.

use std::collections::BTreeSet;

use guideway::group::{MemberState, Snapshot};

use crate::daemon::*;
use crate::netns::within;
use crate::scrape::sweep;

const ADDRESS: &str = "127.0.0.1:19489";
const METRICS: &str = "--metrics=127.0.0.1:19489";
const FLAG: &str = "--liveness-before-sync";
/// It would be published if anything could be.
const IDLE: &str = "--pin-idle=1h";
/// The next sweep would come in ten minutes.
const SELDOM: &str = "--sweep=10min";

/// A group, but for which of its members are reached.
fn lasting(group: &Snapshot) -> Snapshot {
    let mut lasting = group.clone();
    for member in &mut lasting.members {
        member.next_hop = None;
    }
    lasting
}

/// Insists that two groups differ in nothing but in who is reached, and what follows from that.
#[track_caller]
fn same_but_for_liveness(after: &Snapshot, before: &Snapshot) {
    let mut expected = lasting(before);
    let after = lasting(after);
    (expected.publication, expected.published_ns) = (after.publication, after.published_ns);
    expected.table = after.table.clone();
    expected.digest = after.digest;
    assert_eq!(after, expected);
}

/// Starts the daemon where no list can be had, and waits until it has swept more than once.
fn start(node: &Node, more: &[&str]) -> Daemon {
    let daemon = node.start(&[&[METRICS, IDLE, SELDOM], more].concat());
    daemon.tells("problem", "no complete list of shards yet");
    sweep(ADDRESS, &daemon);
    daemon
}

#[test]
fn before_the_first_list_members_follow_their_routes_if_that_was_asked_for() {
    on_node("liveness", |node| {
        let (shards_at, away) = (node.path("shards"), node.path("away"));
        std::fs::rename(&shards_at, &away).expect("renamed");
        let daemon = start(node, &[FLAG]);
        assert!(open_group().is_none(), "no list is no reason to open one");
        daemon.stop();
        std::fs::rename(&away, &shards_at).expect("renamed");
        for (name, number) in [("a.json", 0x10), ("b.json", 0x11), ("c.json", 0x12)] {
            node.manifest(name, shard(number));
        }
        let daemon = node.ready(&[]);
        node.attach();
        let homes = send_from(1..129);
        assert_eq!(shards(&homes), BTreeSet::from([0x10, 0x11, 0x12]));
        node.manifest("c.json", draining(0x12));
        node.has_active(&[0x10, 0x11], &daemon);
        daemon.stop();

        // From now on there is no list; the one that comes is another one.
        node.remove("c.json");
        node.manifest("d.json", shard(0x13));
        std::fs::rename(&shards_at, &away).expect("renamed");
        Node::unroute(0x10);
        let before = group();
        let daemon = start(node, &[]);
        assert_eq!(group(), before);
        Node::unroute(0x11);
        sweep(ADDRESS, &daemon);
        assert_eq!(group(), before);
        assert_eq!(send_from(1..129), homes, "nobody is moved");
        Node::route(0x11);
        daemon.stop();

        let daemon = start(node, &[FLAG]);
        node.has_active(&[0x11], &daemon);
        daemon.tells("step", "publish-liveness nat66");
        let without = group();
        same_but_for_liveness(&without, &before);
        let unreached = Node::members(MemberState::Unreachable);
        assert_eq!(unreached, BTreeSet::from([0x10]));
        assert_eq!(Node::members(MemberState::Draining), BTreeSet::from([0x12]));
        // Who was there has moved, and nobody else.
        let moved = |home: &Option<u16>| home.map(|home| if home == 0x10 { 0x11 } else { home });
        let expected: Vec<_> = homes.iter().map(moved).collect();
        assert_eq!(send_from(1..129), expected);
        // Being back is heard of, and is as it was before.
        Node::route(0x10);
        node.has_active(&[0x10, 0x11], &daemon);
        let back = group();
        same_but_for_liveness(&back, &before);
        assert_eq!(
            (&back.members, &back.table),
            (&before.members, &before.table)
        );
        assert_eq!(daemon.messages("ready").len(), 0, "it has no list");

        std::fs::rename(&away, &shards_at).expect("renamed");
        sweep(ADDRESS, &daemon);
        node.has_active(&[0x10, 0x11, 0x13], &daemon);
        daemon.says("ready");
        let taken = || group().settings.pin_idle.as_secs() == 3600;
        assert!(within(PATIENCE, taken), "{}", daemon.log());
        assert_eq!(Node::members(MemberState::Draining), BTreeSet::new());
        daemon.stop();
    });
}
