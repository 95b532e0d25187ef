// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The same with the tool in place of a loop of the test's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use guideway::control::Mode;
use guideway::egress::Stats;
use guideway::group::Class;
use guideway::reason::egress::{EndKind, Selection};

use crate::events::{spread_over, undisturbed};
use crate::steady::{pinned, Steady};
use crate::traffic::{connect, distinct, server, spread, Fresh, Stream};
use crate::transitions::{answered, by, is_group, leads_to};
use crate::world::*;

#[test]
fn the_daemon_follows_routes_and_neighbours() {
    with_daemon("e2e_control::daemon_events", |world| {
        let fresh = Fresh::default();
        let mut connections = connect(&world.tenants, &fresh, 24);
        let begin = Instant::now();
        world.ip(&format!("route del {}", route(2)));
        let took = world.until_active(&[1, 3], begin);
        assert!(took <= ROUTE_LIMIT, "gone after {took:?}");
        spread_over(world, &fresh, &[1, 3]);
        undisturbed(&mut connections, 2);
        let begin = Instant::now();
        world.ip(&format!("route add {}", route(2)));
        let took = world.until_active(&[1, 2, 3], begin);
        assert!(took <= ROUTE_LIMIT, "back after {took:?}");
        undisturbed(&mut connections, 2);

        let begin = Instant::now();
        world.shard(3).unplug().expect("unplugged");
        let took = world.until_active(&[1, 2], begin);
        assert!(
            took >= DOWN_HOLD && took <= NEIGHBOUR_LIMIT,
            "gone after {took:?}"
        );
        spread_over(world, &fresh, &[1, 2]);
        undisturbed(&mut connections, 3);
    });
}

#[test]
fn the_daemon_changes_modes_and_classes_and_nobody_goes_without_an_answer() {
    with_daemon("e2e_control::daemon_changes", |world| {
        let fresh = Arc::new(Fresh::default());
        let streams = [server(), OTHER].map(|to| Stream::start(&world.tenants, &fresh, to));
        world.want(|desired| desired.classes = classes(&[Class::Nat66, nat64()]));
        world.until_routes(nat64(), is_group);
        assert!(world.within(PATIENCE, |world| world.active(nat64()) == [2, 3]));
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, OTHER, 40)),
            by(&[2, 3])
        );
        world.want(|desired| desired.mode = Mode::Ordered);
        for class in [Class::Nat66, nat64()] {
            world.until_routes(class, leads_to(2));
            assert!(world.within(PATIENCE, |world| world.group(class).is_none()));
        }
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, OTHER, 20)),
            by(&[2])
        );
        world.want(|desired| desired.mode = Mode::Hashed);
        for class in [Class::Nat66, nat64()] {
            world.until_routes(class, is_group);
        }
        world.want(|desired| desired.classes = classes(&[Class::Nat66]));
        assert!(world.within(PATIENCE, |world| world.targets(nat64()).is_empty()));
        assert_eq!(
            distinct(&spread(&world.tenants, &fresh, server(), 40)),
            by(&[1, 2, 3])
        );
        for stream in streams {
            answered(&stream.stop());
        }
    });
}

#[test]
fn nobody_notices_that_the_daemon_is_gone() {
    with_daemon("e2e_control::daemon_gone", |world| {
        let fresh = Arc::new(Fresh::default());
        let mut connections = connect(&world.tenants, &fresh, 24);
        let before = world.group(Class::Nat66);
        let stream = Stream::start(&world.tenants, &fresh, server());
        world.kill();
        spread_over(world, &fresh, &[1, 2, 3]);
        // What happens meanwhile is found by the next one.
        world.ip(&format!("route del {}", route(1)));
        world.ip(&format!("route add {}", route(1)));
        world.restart();
        world.until_said("ready");
        assert_eq!(world.group(Class::Nat66), before, "nothing was published");
        undisturbed(&mut connections, 0);
        answered(&stream.stop());
        world.ip(&format!("route del {}", route(1)));
        world.until_active(&[2, 3], Instant::now());
        undisturbed(&mut connections, 1);
    });
}

/// Addresses that are pinned before anything happens.
const ADDRESSES: usize = 240;

/// Packets that were dropped.
fn drops(stats: &Stats) -> u64 {
    let ends = stats.ends.iter();
    let drops = ends.filter(|(end, _)| end.kind() == EndKind::Drop);
    drops.map(|(_, count)| count).sum()
}

#[test]
fn no_packet_and_no_pin_is_lost_while_the_daemon_stops_dies_and_exchanges_the_program() {
    with_daemon("e2e_control::daemon_restarts", |world| {
        let fresh = Arc::new(Fresh::default());
        world.want(|desired| desired.shards = only(&[1, 2]));
        world.until_active(&[1, 2], Instant::now());
        let askers = pinned(&world.tenants, &fresh, ADDRESSES);
        world.want(|desired| desired.shards = only(&[1, 2, 3]));
        world.until_active(&[1, 2, 3], Instant::now());
        // Without their pins these would go elsewhere from now on.
        let by_table = world.by_table(Class::Nat66);
        let held = askers.iter();
        let held = held.filter(|one| by_table(one.tenant, one.from) != one.shard);
        assert!(held.count() > ADDRESSES / 6);
        let (group, program) = (world.group(Class::Nat66), world.program());
        let (pins, before) = (world.pins(), world.stats());
        assert_eq!(pins.len(), ADDRESSES);

        let steady = Steady::start(&world.tenants, &fresh, askers, by_table);
        steady.goes_on();
        // One of another build comes last, and exchanges the program.
        for round in 0..2 {
            if round == 1 {
                world.forget_build();
            }
            world.stop();
            steady.goes_on();
            world.restart();
            world.until_said("ready");
            steady.goes_on();
            world.kill();
            steady.goes_on();
            world.restart();
            world.until_said("ready");
            steady.goes_on();
        }
        assert_ne!(world.program(), program);
        // Wherever it is in its start.
        for milliseconds in [0, 10, 30, 60, 100, 200, 400] {
            world.kill();
            world.forget_build();
            world.restart();
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
        world.until_said("ready");
        steady.goes_on();

        let outcome = steady.stop();
        let wrong = outcome.wrong;
        assert!(wrong.is_empty(), "of {}: {wrong:#?}", outcome.sent);
        assert_eq!(world.group(Class::Nat66), group, "nothing was published");
        let after = world.pins();
        assert!(pins.iter().all(|(who, held)| after.get(who) == Some(held)));
        assert_eq!(after.len() as u64, ADDRESSES as u64 + outcome.new);
        // What was sent, and what the programs counted one after the other.
        let stats = world.stats();
        let more = |one: Selection| stats.selection[&one] - before.selection[&one];
        assert_eq!(more(Selection::PinHit), outcome.sent - outcome.new);
        assert_eq!(more(Selection::Maglev), outcome.new);
        assert_eq!(more(Selection::PinNew), outcome.new);
        assert_eq!(more(Selection::PinReplaced), 0);
        assert_eq!(drops(&stats), drops(&before));
    });
}
