// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The group follows what happens to shards, and connections through others notice nothing.

use std::time::{Duration, Instant};

use guideway::control::Known;
use guideway::group::Class;

use crate::control::Order;
use crate::traffic::{connect, distinct, probe, server, spread, Answer, Connection, Fresh};
use crate::world::*;

const LONG: Duration = Duration::from_secs(30);

/// Connections through other shards than this one go on.
pub(crate) fn undisturbed(connections: &mut [Connection], but: u32) {
    let others = connections.iter_mut().filter(|one| one.shard != but);
    let mut count = 0;
    for connection in others {
        let shard = connection.shard;
        let answered = connection.exchange();
        assert!(answered.is_ok(), "through shard {shard}: {answered:?}");
        count += 1;
    }
    assert!(count >= 3, "{count} connections tell nothing");
}

/// New addresses go to exactly these shards.
pub(crate) fn spread_over(world: &World, fresh: &Fresh, expected: &[u32]) {
    let answers = spread(&world.tenants, fresh, server(), 40);
    let expected = expected.iter().map(|&shard| Answer::By(shard)).collect();
    assert_eq!(distinct(&answers), expected);
}

#[test]
fn a_probe_that_nobody_answers_fails() {
    with_world("e2e_control::self_test", LONG, |world| {
        let fresh = Fresh::default();
        spread_over(world, &fresh, &[1, 2, 3]);
        // A tenant that is cut off, and one that is not.
        world.ip("link set t0 down");
        let short = Duration::from_millis(300);
        for tenant in [0, 1] {
            let from = crate::net::address(tenant, 7);
            let answer = probe(&world.tenants[tenant as usize], from, server(), short);
            assert_eq!(
                answer == Answer::Silence,
                tenant == 0,
                "{tenant}: {answer:?}"
            );
        }
    });
}

#[test]
fn a_shard_goes_with_its_route_and_comes_back_with_it() {
    with_world("e2e_control::route", LONG, |world| {
        let fresh = Fresh::default();
        spread_over(world, &fresh, &[1, 2, 3]);
        let mut connections = connect(&world.tenants, &fresh, 24);
        let begin = Instant::now();
        world.ip(&format!("route del {}", route(2)));
        let looked = world
            .node
            .run(|| crate::netns::ip(&["-6", "route", "show"]));
        assert!(
            !looked.expect("inside").contains("2001:db8:ff09:12::"),
            "no way is left"
        );
        let took = world.until_active(&[1, 3], begin);
        assert!(took <= ROUTE_LIMIT, "gone after {took:?}");
        spread_over(world, &fresh, &[1, 3]);
        undisturbed(&mut connections, 2);
        let begin = Instant::now();
        world.ip(&format!("route add {}", route(2)));
        let took = world.until_active(&[1, 2, 3], begin);
        assert!(took <= ROUTE_LIMIT, "back after {took:?}");
        spread_over(world, &fresh, &[1, 2, 3]);
        undisturbed(&mut connections, 2);
    });
}

#[test]
fn a_shard_goes_with_its_neighbour_and_comes_back_with_it() {
    with_world("e2e_control::neighbour", LONG, |world| {
        let fresh = Fresh::default();
        let mut connections = connect(&world.tenants, &fresh, 24);
        let begin = Instant::now();
        world.shard(2).unplug().expect("unplugged");
        // Not before its time is up.
        assert!(!world.within(DOWN_HOLD / 2, |world| world.active(Class::Nat66) == [1, 3]));
        let took = world.until_active(&[1, 3], begin);
        assert!(took >= DOWN_HOLD, "gone after {took:?}");
        assert!(took <= NEIGHBOUR_LIMIT, "gone after {took:?}");
        spread_over(world, &fresh, &[1, 3]);
        undisturbed(&mut connections, 2);
        let plug = "link set node up\naddr add fe80::2/64 dev node nodad\n\
                    route add 2001:db8:a::/48 via fe80::1 dev node\n";
        let begin = Instant::now();
        world.shard(2).decapsulation.ip(plug).expect("plugged");
        let took = world.until_active(&[1, 2, 3], begin);
        assert!(took <= NEIGHBOUR_LIMIT, "back after {took:?}");
        spread_over(world, &fresh, &[1, 2, 3]);
        undisturbed(&mut connections, 2);
    });
}

#[test]
fn a_neighbour_that_blinks_moves_nobody() {
    with_world("e2e_control::blink", LONG, |world| {
        let fresh = Fresh::default();
        let mut connections = connect(&world.tenants, &fresh, 24);
        let before = world.group(Class::Nat66);
        // As when the kernel collects it; whoever keeps it finds it again.
        world.ip("neigh del fe80::2 dev up2");
        let gone = || crate::netns::ip(&["-6", "neigh", "show", "fe80::2", "dev", "up2"]);
        assert!(world.within(PATIENCE, |world| {
            let shown = world.node.run(gone).expect("inside");
            shown.contains("managed") && shown.contains("lladdr")
        }));
        std::thread::sleep(DOWN_HOLD * 2);
        assert_eq!(world.group(Class::Nat66), before, "nothing was published");
        undisturbed(&mut connections, 0);
    });
}

#[test]
fn what_was_not_heard_is_found_by_the_next_sweep() {
    let interval = Duration::from_secs(3);
    with_world("e2e_control::lost_event", interval, move |world| {
        let fresh = Fresh::default();
        world.order(Order::Deaf(true));
        for (verb, expected) in [("del", &[1, 3][..]), ("add", &[1, 2, 3])] {
            let begin = Instant::now();
            world.ip(&format!("route {verb} {}", route(2)));
            let took = world.until_active(expected, begin);
            assert!(took <= interval + ROUTE_LIMIT, "{verb}: {took:?}");
            spread_over(world, &fresh, expected);
        }
    });
}

#[test]
fn all_shards_go_and_come_back() {
    with_world("e2e_control::all", LONG, |world| {
        let fresh = Fresh::default();
        for shard in 1..=SHARDS {
            world.ip(&format!("route del {}", route(shard)));
        }
        world.until_active(&[], Instant::now());
        let short = Duration::from_millis(200);
        let (tenant, from) = fresh.next(TENANTS);
        let answer = probe(&world.tenants[tenant as usize], from, server(), short);
        assert_eq!(answer, Answer::Silence, "nobody else takes it");
        for shard in 1..=SHARDS {
            world.ip(&format!("route add {}", route(shard)));
        }
        world.until_active(&[1, 2, 3], Instant::now());
        spread_over(world, &fresh, &[1, 2, 3]);
    });
}

#[test]
fn a_shard_goes_with_its_route_while_the_list_is_stale() {
    with_world("e2e_control::stale", LONG, |world| {
        let fresh = Fresh::default();
        world.want(|desired| {
            let known = std::mem::replace(&mut desired.shards, Known::Unknown);
            let value = known.value().cloned().expect("a list");
            let (since, why) = (Duration::ZERO, "nobody answers".to_owned());
            desired.shards = Known::Stale { value, since, why };
        });
        let begin = Instant::now();
        world.ip(&format!("route del {}", route(3)));
        let took = world.until_active(&[1, 2], begin);
        assert!(took <= ROUTE_LIMIT, "gone after {took:?}");
        spread_over(world, &fresh, &[1, 2]);
        // No list at all: what was published stays, whatever happens to routes.
        world.want(|desired| desired.shards = Known::Unknown);
        world.ip(&format!("route del {}", route(2)));
        std::thread::sleep(ROUTE_LIMIT * 2);
        assert_eq!(world.active(Class::Nat66), [1, 2]);
    });
}
