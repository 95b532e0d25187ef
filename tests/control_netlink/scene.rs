// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A node with two uplinks to one router, on links of their own.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use guideway::control::machine::Trigger;
use guideway::control::netlink::{Monitor, News, Resolution, Resolver};
use guideway::control::Unreached;
use guideway::id::InterfaceName;
use guideway::srv6::{BaseSid, NextHop};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::namespace::Namespace;
use crate::netns;

/// What an idle machine does in milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The first shard, and one in another locator.
pub(crate) const SHARD: &str = "2001:db8:ff09:10:e000::";
pub(crate) const OTHER: &str = "2001:db8:ff09:11:e000::";
/// A route to all of them.
pub(crate) const BLOCK: &str = "2001:db8:ff09::/48";

/// The calling thread's namespace is the node: `up0` has fc00:0::1, where the router is fc00:0::2,
/// and `up1` has fc00:1::1 likewise. There is no route to any shard yet.
pub(crate) struct Scene {
    pub(crate) router: Namespace,
}

/// A node and its router, in the calling thread's namespace.
pub(crate) fn scene() -> Scene {
    let scene = Scene {
        router: Namespace::new().expect("a namespace"),
    };
    for number in [0, 1] {
        scene.connect(number);
    }
    scene
}

impl Scene {
    /// Makes an uplink with this number and what is at its other end.
    pub(crate) fn connect(&self, number: u8) {
        let path = self.router.path();
        node(&format!(
            "link add up{number} address 02:00:00:00:0{number}:01 type veth \
             peer name far{number} address 02:00:00:00:0{number}:02 netns {path}"
        ));
        self.router(&format!(
            "addr add fc00:{number}::2/64 dev far{number} nodad\nlink set far{number} up"
        ));
        node(&format!(
            "addr add fc00:{number}::1/64 dev up{number} nodad\nlink set up{number} up"
        ));
    }

    /// Cuts the cable of `up0`.
    pub(crate) fn unplug(&self) {
        self.router("link set far0 down");
    }

    /// Joins it again. The router has lost its address there meanwhile, as Linux has it.
    pub(crate) fn plug(&self) {
        self.router("link set far0 up\naddr add fc00:0::2/64 dev far0 nodad");
    }

    /// Runs commands of `ip` at the router, one a line.
    pub(crate) fn router(&self, commands: &str) {
        self.router.ip(&format!("{commands}\n")).expect("ip");
    }
}

/// Runs commands of `ip` at the node, one a line.
pub(crate) fn node(commands: &str) {
    for line in commands.lines() {
        netns::ip(&line.split_whitespace().collect::<Vec<_>>());
    }
}

/// Sets something of the node's neighbour table at an interface.
pub(crate) fn set(interface: &str, name: &str, value: u32) {
    let path = format!("/proc/sys/net/ipv6/neigh/{interface}/{name}");
    std::fs::write(path, value.to_string()).expect("a setting");
}

pub(crate) fn uplinks() -> Vec<InterfaceName> {
    ["up0", "up1"]
        .map(|name| name.parse().expect("a name"))
        .to_vec()
}

pub(crate) fn sid(text: &str) -> BaseSid {
    text.parse().expect("a SID")
}

/// A monitor of the first shard.
pub(crate) fn monitor() -> Monitor {
    let mut monitor = Monitor::open(&uplinks()).expect("a monitor");
    monitor.watch([sid(SHARD)]);
    monitor
}

/// A resolver that holds nothing.
pub(crate) fn resolver() -> Resolver {
    Resolver::keeping(&uplinks(), Duration::ZERO).expect("a resolver")
}

pub(crate) fn resolve(resolver: &mut Resolver, sids: &[&str], now: Duration) -> Resolution {
    let sids: BTreeSet<_> = sids.iter().map(|text| sid(text)).collect();
    let found = resolver.resolve(&sids, now).expect("answers");
    assert_eq!(found.unkept, [], "what the kernel refuses");
    found
}

/// How the first shard is reached now.
pub(crate) fn way(resolver: &mut Resolver) -> Result<NextHop, Unreached> {
    resolve(resolver, &[SHARD], Duration::ZERO).reachability.0[&sid(SHARD)].clone()
}

/// Resolves after each piece of news, or after a while, until the first shard is reached.
pub(crate) fn reached(resolver: &mut Resolver) -> NextHop {
    let end = Instant::now() + PATIENCE;
    loop {
        match way(resolver) {
            Ok(next_hop) => return next_hop,
            Err(unreached) => assert!(Instant::now() < end, "still {unreached}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether there is something to receive, now or within a time.
pub(crate) fn readable(monitor: &Monitor, limit: Duration) -> bool {
    let mut fds = [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).expect("a short time");
    poll(&mut fds, limit).expect("poll") > 0
}

/// All that waits to be received.
pub(crate) fn drain(monitor: &mut Monitor) -> News {
    let mut all = News::default();
    loop {
        let news = monitor.receive(64).expect("news");
        all.triggers.extend(news.triggers);
        all.lost |= news.lost;
        if !news.more {
            return all;
        }
    }
}

/// Receives until this trigger comes; those that came, without repetitions.
pub(crate) fn await_trigger(monitor: &mut Monitor, expected: Trigger) -> BTreeSet<Trigger> {
    let end = Instant::now() + PATIENCE;
    let mut seen = BTreeSet::new();
    loop {
        let news = drain(monitor);
        assert!(!news.lost, "something was lost");
        seen.extend(news.triggers);
        if seen.contains(&expected) {
            return seen;
        }
        assert!(Instant::now() < end, "no {expected} among {seen:?}");
        readable(monitor, Duration::from_millis(100));
    }
}

/// The triggers of what happened until now, and of nothing that comes later: the kernel reports
/// before the command that made the change returns.
pub(crate) fn triggers(monitor: &mut Monitor) -> BTreeSet<Trigger> {
    let news = drain(monitor);
    assert!(!news.lost, "something was lost");
    news.triggers.into_iter().collect()
}
