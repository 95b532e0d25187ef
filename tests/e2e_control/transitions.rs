// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Changes of what is wanted, while packets run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway::control::{Known, Mode};
use guideway::group::{Class, State};
use guideway::route::Target;

use crate::traffic::{connect, distinct, probe, server, spread, Answer, Fresh, Stream, LIMIT};
use crate::world::*;

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn by(shards: &[u32]) -> BTreeSet<Answer> {
    shards.iter().map(|&shard| Answer::By(shard)).collect()
}

pub(crate) fn is_group(target: &Target) -> bool {
    matches!(target, Target::Group { .. })
}

pub(crate) fn leads_to(shard: u32) -> impl Fn(&Target) -> bool {
    move |target| matches!(target, Target::Shard { sid: found, .. } if *found == sid(shard))
}

/// All questions were answered.
#[track_caller]
pub(crate) fn answered(answers: &[(Instant, Answer)]) {
    let silent: Vec<_> = (answers.iter().enumerate())
        .filter(|(_, (_, answer))| *answer == Answer::Silence)
        .map(|(at, _)| at)
        .collect();
    assert!(
        silent.is_empty(),
        "questions {silent:?} of {}",
        answers.len()
    );
}

#[test]
fn the_mode_flips_and_nobody_goes_without_an_answer() {
    with_world("e2e_control::flip", LONG, |world| {
        let fresh = Arc::new(Fresh::default());
        let stream = Stream::start(&world.tenants, &fresh, server());
        for _ in 0..2 {
            world.until_routes(Class::Nat66, is_group);
            assert_eq!(
                distinct(&spread(&world.tenants, &fresh, server(), 40)),
                by(&[1, 2, 3])
            );
            world.want(|desired| desired.mode = Mode::Ordered);
            world.until_routes(Class::Nat66, leads_to(2));
            assert!(world.within(PATIENCE, |world| world.group(Class::Nat66).is_none()));
            assert_eq!(
                distinct(&spread(&world.tenants, &fresh, server(), 20)),
                by(&[2])
            );
            world.want(|desired| desired.mode = Mode::Hashed);
        }
        world.until_routes(Class::Nat66, is_group);
        answered(&stream.stop());
        let group = world.group(Class::Nat66).expect("a group");
        assert_eq!(group.state, State::Open);
    });
}

#[test]
fn ordered_routes_follow_the_first_shard_that_is_reached() {
    with_world("e2e_control::ordered", LONG, |world| {
        let fresh = Fresh::default();
        world.want(|desired| desired.mode = Mode::Ordered);
        world.until_routes(Class::Nat66, leads_to(2));
        for (verb, shard) in [("del", 3), ("add", 2)] {
            world.ip(&format!("route {verb} {}", route(2)));
            world.until_routes(Class::Nat66, leads_to(shard));
            assert_eq!(
                distinct(&spread(&world.tenants, &fresh, server(), 20)),
                by(&[shard])
            );
        }
    });
}

#[test]
fn a_class_comes_and_goes_and_its_packets_reach_no_shard_that_cannot_translate_them() {
    with_world("e2e_control::classes", LONG, |world| {
        let fresh = Arc::new(Fresh::default());
        let both = [server(), OTHER];
        let streams = both.map(|to| Stream::start(&world.tenants, &fresh, to));
        world.want(|desired| desired.classes = classes(&[Class::Nat66, nat64()]));
        world.until_routes(nat64(), is_group);
        assert!(world.within(PATIENCE, |world| world.active(nat64()) == [2, 3]));
        let configured = Instant::now();
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, OTHER, 40)),
            by(&[2, 3])
        );
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, server(), 40)),
            by(&[1, 2, 3])
        );
        // Another order of the list, and a restart: nothing is published.
        let before = [Class::Nat66, nat64()].map(|class| world.group(class));
        world.want(|desired| desired.classes = classes(&[nat64(), Class::Nat66]));
        world.restart();
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(
            [Class::Nat66, nat64()].map(|class| world.group(class)),
            before
        );
        // It goes again: its packets are NAT66's.
        let removed = Instant::now();
        world.want(|desired| desired.classes = classes(&[Class::Nat66]));
        assert!(world.within(PATIENCE, |world| world.targets(nat64()).is_empty()));
        assert!(world.within(PATIENCE, |world| world.group(nat64()).is_none()));
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, OTHER, 40)),
            by(&[1, 2, 3])
        );
        let [main, other] = streams.map(Stream::stop);
        answered(&main);
        answered(&other);
        let meanwhile = other
            .iter()
            .filter(|(at, _)| configured <= *at && *at < removed);
        // The last one asked before may be answered after.
        let meanwhile: Vec<_> = meanwhile.map(|(_, answer)| *answer).collect();
        let [kept @ .., _last] = meanwhile.as_slice() else {
            panic!("no questions meanwhile");
        };
        assert_eq!(distinct(kept), by(&[2, 3]));
    });
}

#[test]
fn a_class_without_candidates_reaches_nobody() {
    with_world("e2e_control::unserved", LONG, |world| {
        let fresh = Fresh::default();
        world.want(|desired| {
            desired.classes = classes(&[Class::Nat66, nat64()]);
            desired.shards = only(&[1]);
        });
        world.until_routes(nat64(), is_group);
        world.until_active(&[1], Instant::now());
        let short = Duration::from_millis(100);
        for _ in 0..10 {
            let (tenant, from) = fresh.next(TENANTS);
            let answer = probe(&world.tenants[tenant as usize], from, OTHER, short);
            assert_eq!(answer, Answer::Silence, "shard 1 translates to IPv6 alone");
        }
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, server(), 20)),
            by(&[1])
        );
        world.want(|desired| desired.shards = only(&[1, 3]));
        assert!(world.within(PATIENCE, |world| world.active(nat64()) == [3]));
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, OTHER, 20)),
            by(&[3])
        );
    });
}

#[test]
fn who_drains_keeps_connections_and_gets_no_others() {
    with_world("e2e_control::drain", LONG, |world| {
        let fresh = Fresh::default();
        let mut connections = connect(&world.tenants, &fresh, 24);
        assert!(
            connections.iter().any(|one| one.shard == 2),
            "some go through each"
        );
        world.want(|desired| {
            let Known::Known(list) = &mut desired.shards else {
                panic!("a list");
            };
            list.shards[1].drain = true;
        });
        world.until_active(&[1, 3], Instant::now());
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, server(), 40)),
            by(&[1, 3])
        );
        for connection in &mut connections {
            let answered = connection.exchange();
            assert!(
                answered.is_ok(),
                "through shard {}: {answered:?}",
                connection.shard
            );
        }
    });
}

#[test]
fn who_dies_while_it_drains_gives_up_its_addresses() {
    with_world("e2e_control::drained_dead", LONG, |world| {
        let fresh = Fresh::default();
        let (tenant, from) = loop {
            let (tenant, from) = fresh.next(TENANTS);
            let answer = probe(&world.tenants[tenant as usize], from, server(), LIMIT);
            if answer == Answer::By(2) {
                break (tenant, from);
            }
        };
        let again = |world: &World| {
            let tenant = &world.tenants[tenant as usize];
            probe(tenant, from, server(), Duration::from_millis(300))
        };
        world.want(|desired| {
            let Known::Known(list) = &mut desired.shards else {
                panic!("a list");
            };
            list.shards[1].drain = true;
        });
        world.until_active(&[1, 3], Instant::now());
        assert_eq!(again(world), Answer::By(2), "its pin holds");
        let begin = Instant::now();
        world.ip(&format!("route del {}", route(2)));
        let moved = |world: &World| by(&[1, 3]).contains(&again(world));
        assert!(world.within(PATIENCE, moved), "{:?}", again(world));
        // The question that was under way when it moved was waited for.
        let limit = ROUTE_LIMIT + Duration::from_millis(300);
        assert!(begin.elapsed() <= limit, "after {:?}", begin.elapsed());
    });
}
