// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes that a class which goes leaves behind, and those that nobody's rule is for.

use guideway::control::{reconcile, Desired, MoveReason, Plan, Problem, Repair, RouteMove, Step};
use guideway::group::{Class, Incarnation};
use guideway::placement::{member_key, Fnv12, Fnv5};
use guideway::route::{Block, Key, Origin, Route, TableId, Target};

use super::fixture::{
    argument, classes, dual, hashed, key, limits, list, nat64, observed, ordered, prefix_of,
    senseless, shard66, sid, to_shard, NAT64, OTHER64,
};
use super::world::{settled, World, NOWHERE};

fn wanted() -> Desired {
    hashed(list([dual(1), dual(2)]))
}

/// The same without NAT64.
fn without() -> Desired {
    Desired {
        classes: classes(&[]),
        ..wanted()
    }
}

fn node() -> World {
    settled(observed([1, 2]), &wanted())
}

fn moves(plan: &Plan) -> Vec<(MoveReason, RouteMove)> {
    let steps = plan.steps.iter().filter_map(|planned| match &planned.step {
        Step::MoveRoutes { reason, moves, .. } => Some(moves.iter().map(|one| (*reason, *one))),
        _ => None,
    });
    steps.flatten().collect()
}

/// The moves of one route.
fn of(plan: &Plan, key: &Key) -> Vec<MoveReason> {
    let moves = moves(plan).into_iter().filter(|(_, one)| one.key == *key);
    moves.map(|(reason, _)| reason).collect()
}

fn to_group(world: &World, class: Class, incarnation: u32) -> Route {
    Route::new(Target::Group {
        argument: argument(1),
        group: world.of(class).expect("a group").group,
        incarnation: Incarnation::new(incarnation).expect("a number"),
        fnv5: Fnv5::from_raw(1),
        fnv12: Fnv12::from_raw(1),
    })
}

#[test]
fn what_names_the_group_at_anothers_prefix_is_moved_once_as_that_classs() {
    let mut world = node();
    let at = key(1, Class::Nat66);
    let route = to_group(&world, nat64(NAT64), 1);
    world.0.routes.insert(at, route);
    let plan = reconcile(&world.0, &without());
    assert_eq!(of(&plan, &at), [MoveReason::WrongClass]);
    assert_eq!(of(&plan, &key(1, nat64(NAT64))), [MoveReason::ClassRemoved]);
}

#[test]
fn a_route_of_a_former_tenure_at_the_prefix_that_goes_is_moved_once() {
    let mut world = node();
    let at = key(1, nat64(NAT64));
    let route = to_group(&world, nat64(NAT64), 9);
    world.0.routes.insert(at, route);
    let plan = reconcile(&world.0, &without());
    assert_eq!(of(&plan, &at), [MoveReason::OldIncarnation]);
}

/// Of the shards at its prefix the loop removes the routes of those that are listed or static.
#[test]
fn at_the_prefix_that_goes_a_route_to_nobodys_shard_stays() {
    let mut world = node();
    let at = nat64(NAT64);
    world.0.routes.insert(key(1, at), to_shard(1, 14));
    world.0.routes.insert(key(2, at), to_shard(2, 9));
    let mut desired = without();
    desired.static_sids = vec![sid(9)];
    let plan = reconcile(&world.0, &desired);
    assert_eq!(of(&plan, &key(1, at)), []);
    assert_eq!(of(&plan, &key(2, at)), [MoveReason::ClassRemoved]);
    world.settle(&desired);
    assert_eq!(world.0.routes.get(&key(1, at)), Some(&to_shard(1, 14)));
    assert_eq!(world.0.routes.get(&key(2, at)), None);
}

/// That is the affair of the class whose group it is.
#[test]
fn at_the_prefix_that_goes_a_route_to_anothers_group_stays() {
    let mut world = node();
    let at = key(1, nat64(NAT64));
    let route = to_group(&world, Class::Nat66, 1);
    world.0.routes.insert(at, route);
    let plan = reconcile(&world.0, &without());
    assert!(!of(&plan, &at).contains(&MoveReason::ClassRemoved));
}

#[test]
fn in_ordered_mode_a_former_tenure_is_left_for_the_shard_at_once() {
    let mut world = node();
    let at = key(1, Class::Nat66);
    let route = to_group(&world, Class::Nat66, 9);
    world.0.routes.insert(at, route);
    let plan = reconcile(&world.0, &ordered(&[9]));
    assert_eq!(of(&plan, &at), [MoveReason::OldIncarnation]);
    world.apply(&plan);
    assert_eq!(world.0.routes[&at].target, to_shard(1, 9).target);
}

/// Nobody knows the Argument of its tenant.
#[test]
fn in_ordered_mode_a_block_of_an_unknown_tenant_stays_and_is_told() {
    let mut world = World(observed([1]));
    let at = Key::new(TableId::new(7), prefix_of(Class::Nat66));
    world
        .0
        .routes
        .insert(at, Route::new(Target::Block(Block::Drop)));
    let plan = reconcile(&world.0, &ordered(&[9]));
    assert_eq!(of(&plan, &at), []);
    let told = Problem::TenantUnknown {
        routes: 1,
        first: at,
    };
    assert!(plan.problems.contains(&told), "{:?}", plan.problems);
    world.settle(&ordered(&[9]));
    assert_eq!(world.0.routes[&at].target, NOWHERE);
}

/// Where nobody has a route of a new class none is missing, but a row without sense is one of it.
#[test]
fn a_row_without_sense_is_a_repair_also_of_a_class_that_is_new() {
    let mut world = node();
    let mut desired = wanted();
    desired.classes = classes(&[NAT64, OTHER64]);
    let at = key(1, nat64(OTHER64));
    world
        .0
        .senseless
        .insert(at, senseless(&at, Origin(0), None));
    let plan = reconcile(&world.0, &desired);
    assert_eq!(plan.repairs.get(&Repair::Missing), Some(&1));
}

/// All nodes that have no member yet take the same of too many.
#[test]
fn of_too_many_shards_the_first_by_their_keys_are_members() {
    // Three digits of the SID come before two of a greater number.
    let numbers = (0..4).chain(0xf4..0xfa);
    let mut world = World(observed([1]));
    let desired = hashed(list(numbers.clone().map(shard66)));
    world.settle(&desired);
    let mut wanted: Vec<_> = numbers.map(sid).collect();
    wanted.sort_by_key(|sid| member_key(*sid));
    wanted.truncate(usize::from(limits().members()));
    wanted.sort_unstable();
    let group = world.of(Class::Nat66).expect("a group");
    let mut members: Vec<_> = group.members.iter().map(|member| member.sid).collect();
    members.sort_unstable();
    assert_eq!(members, wanted);
    assert!(members.contains(&sid(0xf4)), "not by number");
}
