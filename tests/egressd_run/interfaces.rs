// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Interfaces of tenants go and come again.

use std::collections::BTreeSet;

use guideway::route::TableId;

use crate::daemon::*;
use crate::netns::{ifindex, ip, veth};
use crate::tool::Ran;

/// The next sweep would come in ten minutes.
const SELDOM: &str = "--sweep=10min";

#[test]
fn an_interface_that_is_made_again_is_missed_until_its_tenant_has_the_new_one() {
    on_node("made_again", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[SELDOM]);
        // The daemon has swept for the last time before there is anything to miss.
        node.attach();
        let before = ifindex("tap0");
        ip(&["link", "del", "tap0"]);
        let words = format!("index {before} is gone");
        daemon.tells("problem", &words);
        let found = Ran::with("egressd", &["-o", "json", "status"]).exits(5);
        assert!(found.stdout.contains("no-interface"), "{}", found.stdout);

        // One of the same name is another interface, with another address.
        veth("tap0", "vm0");
        assert_ne!(ifindex("tap0"), before);
        node.attach();
        assert_eq!(shards(&send_from(1..33)), BTreeSet::from([0x10]));
        // Nobody misses the old one any more.
        let found = Ran::with("egressd", &["-o", "json", "status"]);
        assert!(!found.stdout.contains("no-interface"), "{}", found.stdout);
        Node::unroute(0x10);
        daemon.tells("problem-over", &words);
        daemon.stop();
    });
}

/// Nobody applies a specification there: the groups that it does not have would be retired.
#[test]
fn a_tenant_is_removed_beside_the_daemon_which_keeps_the_others() {
    on_node("tenant_removed", |node| {
        node.manifest("a.json", shard(0x10));
        let daemon = node.ready(&[]);
        node.attach();
        let other = ["attach", "tap1", "--table=43", "--argument=0x2a6"];
        node.ran(&other, &[]).exits(0);
        assert_eq!(shards(&send_from(1..33)), BTreeSet::from([0x10]));
        let before = group();

        Ran::with("egressd", &["detach", "--tenant", "43"]).exits(0);
        let gone = egress().routes(TableId::new(43)).expect("readable");
        assert!(gone.is_empty(), "{gone:?}");
        assert_eq!(group(), before);
        Ran::with("egressd", &["status"]).exits(0);

        // It follows its shards for the one that stayed, and brings no route of the other back.
        node.manifest("b.json", shard(0x11));
        node.has_active(&[0x10, 0x11], &daemon);
        assert!(!shards(&send_from(1..33)).is_empty());
        let gone = egress().routes(TableId::new(43)).expect("readable");
        assert!(gone.is_empty(), "{gone:?}");
        // Nor does it miss the last one; the same may come back.
        Ran::with("egressd", &["detach", "--interface", "tap0"]).exits(0);
        Ran::with("egressd", &["detach", "--tenant", "42"]).exits(0);
        Ran::with("egressd", &["status"]).exits(0);
        node.attach();
        assert!(!shards(&send_from(1..33)).is_empty());
        Ran::with("egressd", &["status"]).exits(0);
        daemon.stop();
    });
}
