// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Ordered mode: the first static SID that is reached has all routes.

use guideway::control::{reconcile, MoveReason, Problem, Repair, RouteEnd, Step, Unreached};
use guideway::group::{Class, State};
use guideway::route::{Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::Argument;

use super::fixture::{
    dual, hashed, hop, hop_by, key, list, nat64, observed, ordered, prefix_of, sid, to_shard,
    NAT64, OTHER64,
};
use super::world::{settled, World, NOWHERE};

fn both() -> [Class; 2] {
    [Class::Nat66, nat64(NAT64)]
}

#[test]
fn the_first_that_is_reached_has_all_routes() {
    let mut world = World(observed([1, 2]));
    world.0.reach.0.insert(sid(4), Err(Unreached::NoRoute));
    // The order is that of the list and not that of numbers.
    let desired = ordered(&[4, 9, 2]);
    let plan = world.sweep(&desired);
    for (table, class) in [1, 2]
        .into_iter()
        .flat_map(|table| both().map(|class| (table, class)))
    {
        assert_eq!(world.0.routes[&key(table, class)], to_shard(table, 9));
    }
    let told = Problem::Unreached {
        sid: sid(4),
        why: Unreached::NoRoute,
    };
    assert_eq!(plan.problems, [told]);
    assert!(world.sweep(&desired).is_empty());
    assert!(world.0.groups.is_empty());

    // Another order is another choice.
    world.settle(&ordered(&[2, 9, 4]));
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 2));
}

#[test]
fn a_better_one_that_is_reached_again_gets_them_back() {
    let desired = ordered(&[4, 9]);
    let mut world = settled(observed([1]), &desired);
    world.0.reach.0.insert(sid(4), Err(Unreached::NoNeighbour));
    let plan = world.sweep(&desired);
    let reasons: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|one| match &one.step {
            Step::MoveRoutes { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [MoveReason::Ordered; 2]);
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 9));
    world.0.reach.0.insert(sid(4), Ok(hop(4)));
    world.sweep(&desired);
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 4));
}

#[test]
fn another_way_to_the_same_shard_is_written() {
    let desired = ordered(&[4]);
    let mut world = settled(observed([1]), &desired);
    world.0.reach.0.insert(sid(4), Ok(hop_by(4, 1)));
    let plan = world.sweep(&desired);
    let reason = |one: &guideway::control::PlannedStep| match one.step {
        Step::MoveRoutes { reason, .. } => reason,
        _ => panic!("a move"),
    };
    assert!(plan
        .steps
        .iter()
        .all(|one| reason(one) == MoveReason::NextHop));
    let Target::Shard { next_hop, .. } = world.0.routes[&key(1, Class::Nat66)].target else {
        panic!("a route to a shard");
    };
    assert_eq!(next_hop, hop_by(4, 1));
}

#[test]
fn a_route_keeps_its_argument() {
    let desired = ordered(&[4]);
    let mut world = World(observed([1]));
    let other = Argument::new(0x777).expect("an Argument");
    let theirs = Target::Shard {
        argument: other,
        sid: sid(9),
        next_hop: hop(9),
    };
    world
        .0
        .routes
        .insert(key(1, Class::Nat66), Route::new(theirs));
    world.settle(&desired);
    let expected = Target::Shard {
        argument: other,
        sid: sid(4),
        next_hop: hop(4),
    };
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], Route::new(expected));
}

#[test]
fn what_does_not_resolve_stays_and_what_is_not_there_is_blocked() {
    let with = settled(observed([1, 2]), &ordered(&[4]));
    for desired in [ordered(&[4]), ordered(&[]), ordered(&[7, 8])] {
        let mut world = with.clone();
        for number in [4, 7, 8] {
            world.0.reach.0.insert(sid(number), Err(Unreached::NoRoute));
        }
        world.0.routes.remove(&key(2, Class::Nat66));
        let plan = world.sweep(&desired);
        assert_eq!(world.0.routes[&key(2, Class::Nat66)].target, NOWHERE);
        for (table, class) in [(1, Class::Nat66), (1, nat64(NAT64)), (2, nat64(NAT64))] {
            assert_eq!(world.0.routes[&key(table, class)], to_shard(table, 4));
        }
        let sids = desired.static_sids.len();
        for (class, routes) in [(Class::Nat66, 1), (nat64(NAT64), 2)] {
            let told = Problem::Unresolved {
                class,
                sids,
                routes,
            };
            assert!(plan.problems.contains(&told), "{:?}", plan.problems);
        }
        assert!(world.sweep(&desired).is_empty());
        // What was blocked is served when a SID is reached.
        world.0.reach.0.insert(sid(9), Ok(hop(9)));
        world.settle(&ordered(&[9]));
        assert_eq!(world.0.routes[&key(2, Class::Nat66)], to_shard(2, 9));
    }
}

#[test]
fn what_is_not_the_loop_s_is_left_alone() {
    let desired = ordered(&[4]);
    let mut world = settled(observed([1, 2, 3]), &desired);
    let beside = |text: &str| {
        let prefix: Prefix = text.parse().expect("a prefix");
        Key::new(TableId::new(1), prefix)
    };
    world.0.routes.extend([
        (
            key(1, Class::Nat66),
            Route {
                origin: Origin(1),
                ..to_shard(1, 9)
            },
        ),
        (key(2, Class::Nat66), Route::new(Target::Pass)),
        (
            key(3, Class::Nat66),
            Route {
                origin: Origin(1),
                target: NOWHERE,
            },
        ),
        (beside("2001:db8::/32"), to_shard(1, 9)),
        (beside("0.0.0.0/0"), Route::new(NOWHERE)),
    ]);
    assert!(reconcile(&world.0, &desired).is_empty());
}

#[test]
fn groups_close_first_and_all_at_once_then_routes_move_and_groups_go() {
    let mut world = settled(observed([1, 2]), &hashed(list([dual(0), dual(1)])));
    let beside = Key::new(
        TableId::new(1),
        "2001:db8:7::/48".parse().expect("a prefix"),
    );
    let to_group = world.0.routes[&key(1, Class::Nat66)];
    world.0.routes.insert(beside, to_group);
    let desired = ordered(&[5]);
    let plan = reconcile(&world.0, &desired);
    let names: Vec<_> = plan.steps.iter().map(|one| one.step.name()).collect();
    assert_eq!(
        names,
        [
            "close-groups",
            "move-routes",
            "move-routes",
            "retire",
            "retire"
        ]
    );
    let Step::CloseGroups(closes) = &plan.steps[0].step else {
        panic!("a close");
    };
    assert_eq!(closes.len(), 2);
    for planned in &plan.steps[1..] {
        assert_eq!(planned.after, [0], "{:?}", planned.step);
    }
    // Retiring does not wait for the routes that were moved before.
    let end = RouteEnd::To(guideway::egress_spec::RouteTarget::Shard {
        sid: sid(5),
        next_hop: hop(5),
    });
    for planned in &plan.steps[3..] {
        assert!(
            matches!(planned.step, Step::Retire { own, others, .. } if own == end && others == end)
        );
    }
    world.apply(&plan);
    assert!(world.sweep(&desired).is_empty());
    assert!(world
        .0
        .groups
        .iter()
        .all(|group| group.state == State::Disabled));
    for (table, class) in [(1, Class::Nat66), (2, Class::Nat66), (1, nat64(NAT64))] {
        assert_eq!(world.0.routes[&key(table, class)], to_shard(table, 5));
    }
    assert_eq!(world.0.routes[&beside], to_shard(1, 5));
    assert!(plan.repairs.is_empty());
}

#[test]
fn without_a_static_sid_groups_close_and_go_on_forwarding() {
    let mut world = settled(observed([1]), &hashed(list([dual(0)])));
    let before = world.0.routes.clone();
    let desired = ordered(&[]);
    let plan = world.sweep(&desired);
    let names: Vec<_> = plan.steps.iter().map(|one| one.step.name()).collect();
    assert_eq!(names, ["close-groups"]);
    assert_eq!(world.0.routes, before);
    assert!(world.sweep(&desired).is_empty());
    // A closing group follows its next hops.
    world.0.reach.0.insert(sid(0), Ok(hop_by(0, 1)));
    let plan = world.sweep(&desired);
    assert!(matches!(&plan.steps[..], [one] if one.step.name() == "publish-liveness"));
    let group = world.of(Class::Nat66).expect("a group that forwards");
    assert_eq!(
        (group.state, group.members[0].next_hop),
        (State::Closing, Some(hop_by(0, 1)))
    );
    // With one they go.
    world.settle(&ordered(&[5]));
    assert!(world.0.groups.iter().all(|group| !group.forwards()));
}

#[test]
fn a_group_without_routes_goes_although_no_sid_is_reached() {
    let mut world = settled(observed([]), &hashed(list([dual(0)])));
    let plan = world.sweep(&ordered(&[]));
    let ends = plan.steps.iter().filter_map(|one| match one.step {
        Step::Retire { own, others, .. } => Some((own, others)),
        _ => None,
    });
    // A route that comes late keeps its group rather than to lead nowhere.
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends, [(RouteEnd::Stay, RouteEnd::Stay); 2]);
    assert!(world.0.groups.iter().all(|group| !group.forwards()));
}

#[test]
fn other_writers_routes_keep_a_group() {
    let mut world = settled(observed([1, 2]), &hashed(list([dual(0)])));
    let nat66 = world.of(Class::Nat66).expect("a group").group;
    let theirs = Route {
        origin: Origin(9),
        ..world.0.routes[&key(2, Class::Nat66)]
    };
    world.0.routes.insert(key(2, Class::Nat66), theirs);
    let desired = ordered(&[5]);
    let plan = world.sweep(&desired);
    let held = Problem::HeldGroup {
        group: nat66,
        class: Class::Nat66,
        routes: 1,
        first: key(2, Class::Nat66),
    };
    assert!(plan.problems.contains(&held));
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 5));
    assert_eq!(world.0.routes[&key(2, Class::Nat66)], theirs);
    assert_eq!(world.group(nat66).expect("the group").state, State::Closing);
    assert!(
        world.of(nat64(NAT64)).is_none(),
        "the other class's group is gone"
    );
    assert!(world.sweep(&desired).is_empty());
    world.0.routes.remove(&key(2, Class::Nat66));
    world.settle(&desired);
    assert!(world.of(Class::Nat66).is_none());
}

#[test]
fn a_row_without_sense_that_names_a_group_keeps_it_if_it_is_another_writer_s() {
    for origin in [0, 4] {
        let mut world = settled(observed([1]), &hashed(list([dual(0)])));
        let nat66 = world.of(Class::Nat66).expect("a group").group;
        let prefix = "2001:db8:7::/48".parse().expect("a prefix");
        let beside = Key::new(TableId::new(1), prefix);
        let row = super::fixture::senseless(&beside, Origin(origin), Some(nat66));
        world.0.senseless.insert(beside, row);
        let desired = ordered(&[5]);
        world.settle(&desired);
        let state = world.group(nat66).expect("the group").state;
        if origin == 0 {
            assert_eq!(state, State::Disabled);
            assert_eq!(world.0.routes[&beside].target, NOWHERE);
            continue;
        }
        assert_eq!(state, State::Closing);
        world.0.senseless.clear();
        world.settle(&desired);
        assert_eq!(
            world.group(nat66).expect("the group").state,
            State::Disabled
        );
    }
}

#[test]
fn wrong_and_dead_routes_are_repaired_in_ordered_mode_too() {
    let mut world = settled(observed([1, 2]), &hashed(list([dual(0)])));
    let (nat66, nat64) = (Class::Nat66, nat64(NAT64));
    let wrong = world.0.routes[&key(1, nat66)];
    world.0.routes.insert(key(1, nat64), wrong);
    let Target::Group {
        argument,
        group,
        incarnation,
        fnv5,
        fnv12,
    } = world.0.routes[&key(2, nat66)].target
    else {
        panic!("a route to a group");
    };
    let incarnation = incarnation.next();
    let over = Target::Group {
        argument,
        group,
        incarnation,
        fnv5,
        fnv12,
    };
    world.0.routes.insert(key(2, nat66), Route::new(over));
    // Without a SID, what must not stay leads nowhere, and the rest stays.
    let mut nowhere = world.clone();
    let plan = nowhere.sweep(&ordered(&[]));
    assert_eq!(
        plan.repairs,
        [(Repair::WrongClass, 1), (Repair::OldIncarnation, 1)].into()
    );
    assert_eq!(nowhere.0.routes[&key(1, nat64)].target, NOWHERE);
    assert_eq!(nowhere.0.routes[&key(2, nat66)].target, NOWHERE);
    assert_eq!(nowhere.0.routes[&key(1, nat66)], wrong);
    world.settle(&ordered(&[5]));
    assert_eq!(world.0.routes[&key(1, nat64)], to_shard(1, 5));
    assert_eq!(world.0.routes[&key(2, nat66)], to_shard(2, 5));
}

#[test]
fn a_class_that_is_removed_at_once_with_the_mode_goes_whole() {
    let mut before = hashed(list([dual(0)]));
    before.classes = super::fixture::classes(&[NAT64, OTHER64]);
    let mut world = settled(observed([1, 2]), &before);
    let gone = nat64(OTHER64);
    world.0.routes.insert(key(2, gone), Route::new(NOWHERE));
    let desired = ordered(&[5]);
    world.settle(&desired);
    assert!(world
        .0
        .groups
        .iter()
        .all(|group| group.state == State::Disabled));
    let prefix = prefix_of(gone);
    assert!(world.0.routes.keys().all(|key| key.prefix != prefix));
    assert_eq!(world.0.routes.len(), 4);
}
