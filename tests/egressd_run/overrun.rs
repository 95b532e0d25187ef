// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The network changes faster than the daemon hears of it.

use nix::libc;
use nix::sys::signal::Signal;

use crate::daemon::*;
use crate::netns::{ip, within};
use crate::routes::Flood;
use crate::scrape::{get, scraped, series};

const OVERRUNS: &str = "guideway_egress_netlink_overruns_total";
const RESYNCS: &str = "guideway_egress_netlink_resyncs_total";
/// Changes that are made at a time.
const SOME: u32 = 500;

/// Reports that were lost by who listens for changes of routes: the daemon, in its namespace.
fn lost() -> u64 {
    // sk, protocol, port, groups, bytes that wait, sent, dump, locks, drops, inode.
    let sockets = std::fs::read_to_string("/proc/thread-self/net/netlink").expect("sockets");
    let rows = sockets.lines().skip(1);
    let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    let listening = rows.filter(|row| row[1] == "0" && row[3] != "00000000");
    let drops = listening.map(|row| row[8].parse::<u64>().expect("a number"));
    drops.sum()
}

/// Makes changes that are nobody's business until this many reports more are lost.
fn flood(more: u64) {
    let flood = Flood::new("tap1");
    let before = lost();
    // Far more than there is room for.
    for _ in 0..1000 {
        for kind in [libc::RTM_NEWROUTE, libc::RTM_DELROUTE] {
            flood.routes(kind, 0..SOME);
        }
        if lost() >= before + more {
            return;
        }
    }
    panic!("there is room for everything");
}

/// The Ethernet address that packets for a shard are sent to.
fn sent_to(number: u16) -> Option<String> {
    let member = group().members.into_iter();
    let mut member = member.filter(|member| member.sid.node_id() == number);
    Some(member.next()?.next_hop?.destination().to_string())
}

#[test]
fn changes_that_are_lost_are_found_by_looking_anew() {
    on_node("overrun", |node| {
        for (name, number) in [("a.json", 0x10), ("b.json", 0x11), ("c.json", 0x12)] {
            node.manifest(name, shard(number));
        }
        Node::unroute(0x12);
        let address = "127.0.0.1:19488";
        let metrics = format!("--metrics={address}");
        // It does not look again by itself.
        let daemon = node.ready(&["--sweep=10min", &metrics]);
        node.has_active(&[0x10, 0x11], &daemon);
        for name in [OVERRUNS, RESYNCS] {
            scraped(address, name, Some(0.0));
        }
        assert_eq!(lost(), 0);

        daemon.halt();
        flood(1);
        let (before, losing) = (group(), lost());
        // One goes, one is somewhere else, and one comes.
        Node::unroute(0x10);
        let mac = "02:00:00:00:09:77";
        ip(&[
            "neigh",
            "replace",
            "2001:db8:ff::11",
            "lladdr",
            mac,
            "dev",
            "uplink0",
            "nud",
            "permanent",
        ]);
        Node::route(0x12);
        assert!(lost() >= losing + 3, "the daemon cannot have heard of it");
        assert_eq!(group(), before);
        daemon.signal(Signal::SIGCONT);
        node.has_active(&[0x11, 0x12], &daemon);
        let moved = || sent_to(0x11).as_deref() == Some(mac);
        assert!(within(PATIENCE, moved), "{:?}", sent_to(0x11));
        let counted = |name| get(address, "/metrics").and_then(|(_, body)| series(&body, name));
        for name in [OVERRUNS, RESYNCS] {
            let told = || counted(name) >= Some(1.0);
            assert!(within(PATIENCE, told), "{name}: {:?}", counted(name));
        }

        // It hears of what happens from now on.
        let overruns = counted(OVERRUNS);
        Node::route(0x10);
        node.has_active(&[0x10, 0x11, 0x12], &daemon);
        Node::unroute(0x12);
        node.has_active(&[0x10, 0x11], &daemon);
        assert_eq!(counted(OVERRUNS), overruns);
        daemon.stop();
        // And has come to what one finds that looks for the first time.
        let after = group();
        node.once(&[]).exits(0);
        assert_eq!(group(), after, "nothing was published");
    });
}
