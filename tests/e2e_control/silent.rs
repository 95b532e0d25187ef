// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A shard that dies without a word: the node's link is up all the time, as there is a switch at its
//! other end. Only the kernel's own questions to the neighbour tell, as nobody answers them.

use std::time::{Duration, Instant};

use guideway::group::Class;
use guideway::reason::egress::Selection;

use crate::events::{spread_over, undisturbed};
use crate::namespace::Namespace;
use crate::netns;
use crate::steady::pinned;
use crate::traffic::{connect, Fresh};
use crate::world::*;

/// The loop does not look again by itself while a test runs.
const SELDOM: Duration = Duration::from_secs(600);
/// Addresses that are pinned before anything happens.
const ADDRESSES: usize = 60;
/// The shard that dies.
const DEAD: u32 = 2;

/// What lies between the node and a shard.
struct Switch(Namespace);

impl Switch {
    /// Puts one in the wire, which takes so long that the shard is missed, and waits until that is
    /// found behind it.
    fn before(world: &World, number: u32) -> Self {
        let switch = Namespace::new().expect("a namespace");
        let shard = world.shard(number);
        let (path, mac) = (switch.path(), &shard.mac);
        let run = |at: &Namespace, commands: &str| at.ip(commands).expect("ip");
        run(
            &shard.decapsulation,
            &format!("link set node netns {path}\n"),
        );
        run(
            &switch,
            "link add switch type bridge\nlink set switch up\n\
             link set node address 02:00:00:00:0a:01 name near master switch\nlink set near up\n",
        );
        run(
            &shard.decapsulation,
            &format!(
                "link add node address {mac} type veth peer name far netns {path}\n\
                 link set node up\naddr add fe80::2/64 dev node nodad\n\
                 route add 2001:db8:a::/48 via fe80::1 dev node\n"
            ),
        );
        let (all, others) = (
            [1, 2, 3],
            [1, 2, 3].into_iter().filter(|one| *one != number),
        );
        world.until_active(&others.collect::<Vec<_>>(), Instant::now());
        run(&switch, "link set far master switch\nlink set far up\n");
        world.until_active(&all, Instant::now());
        Self(switch)
    }

    /// The shard is gone, and nobody else sees a change of any link.
    fn cut(&self) {
        self.0.ip("link set far down\n").expect("cut");
    }

    fn mend(&self) {
        self.0.ip("link set far up\n").expect("mended");
    }
}

/// Has the node's kernel ask after the neighbours at an uplink every few seconds, not every half
/// minute.
fn asks_often(world: &World, shard: u32) {
    let set = |(name, value): (&str, &str)| {
        let setting = format!("/proc/sys/net/ipv6/neigh/up{shard}/{name}");
        let written = world.node.run(|| std::fs::write(setting, value));
        written.expect("inside").expect("a setting");
    };
    // An entry lasts half of the first to one and a half. What is less than the second lasts for ever.
    for setting in [
        ("base_reachable_time_ms", "2400"),
        ("delay_first_probe_time", "1"),
        ("retrans_time_ms", "300"),
    ] {
        set(setting);
    }
}

fn has_carrier(world: &World, shard: u32) -> bool {
    let uplink = format!("up{shard}");
    let shown = (world.node).run(|| netns::ip(&["link", "show", "dev", &uplink]));
    shown.expect("inside").contains("LOWER_UP")
}

fn tenants_of_a_silent_shard_move_and_others_do_not(world: &World) {
    // First: a neighbour that was found by then is believed for as long as was right before.
    asks_often(world, DEAD);
    let switch = Switch::before(world, DEAD);
    let fresh = Fresh::default();
    let mut connections = connect(&world.tenants, &fresh, 24);
    let mut askers = pinned(&world.tenants, &fresh, ADDRESSES);
    let theirs = askers.iter().filter(|one| one.shard == DEAD).count();
    assert!((5..ADDRESSES - 10).contains(&theirs), "{theirs} are there");
    let before = world.stats();

    switch.cut();
    undisturbed(&mut connections, DEAD);
    world.until_active(&[1, 3], Instant::now());
    assert!(has_carrier(world, DEAD), "the link is up");
    // Everybody there gets another shard, and that is the table's choice; nobody else does.
    let by_table = world.by_table(Class::Nat66);
    for asker in &mut askers {
        if asker.shard == DEAD {
            asker.shard = by_table(asker.tenant, asker.from);
            assert_ne!(asker.shard, DEAD);
        }
        assert_eq!(asker.asks(1).expect("an answer"), asker.shard);
    }
    undisturbed(&mut connections, DEAD);
    let stats = world.stats();
    let more = |one: Selection| stats.selection[&one] - before.selection[&one];
    assert_eq!(more(Selection::PinReplaced), theirs as u64);
    spread_over(world, &fresh, &[1, 3]);

    // It comes back as silently, and gets new ones; nobody moves for that.
    switch.mend();
    world.until_active(&[1, 2, 3], Instant::now());
    for asker in &askers {
        assert_eq!(asker.asks(2).expect("an answer"), asker.shard);
    }
    spread_over(world, &fresh, &[1, 2, 3]);
    undisturbed(&mut connections, DEAD);
}

#[test]
fn a_shard_that_falls_silent_behind_a_link_that_stays_up_loses_its_tenants_and_no_others() {
    with_world("e2e_control::silent", SELDOM, |world| {
        tenants_of_a_silent_shard_move_and_others_do_not(world);
    });
}

#[test]
fn the_daemon_hears_of_a_shard_that_falls_silent() {
    with_daemon("e2e_control::daemon_silent", |world| {
        tenants_of_a_silent_shard_move_and_others_do_not(world);
    });
}
