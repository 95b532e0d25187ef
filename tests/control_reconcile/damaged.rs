// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Groups whose snapshots are damaged: each is its class's affair alone.

use guideway::control::{
    invariants, reconcile, Damage, Desired, Known, MoveReason, Plan, Problem, Step,
};
use guideway::group::{Class, GroupId, Snapshot, State};
use guideway::route::{Origin, Route};

use super::fixture::{
    classes, dual, hashed, key, list, nat64, observed, ordered, sid, to_shard, NAT64, OTHER64,
};
use super::world::{settled, World};

const TABLES: [u32; 2] = [1, 2];

fn wanted(shards: &[u16]) -> Desired {
    hashed(list(shards.iter().map(|number| dual(*number))))
}

fn node(desired: &Desired) -> World {
    settled(observed(TABLES), desired)
}

fn damage() -> Damage {
    Damage {
        why: "it was damaged".to_owned(),
        remedy: Some("make another node"),
    }
}

/// Damages the group of a class so that the rest is still known.
fn damaged(world: &mut World, class: Class, change: impl Fn(&mut Snapshot)) -> GroupId {
    let group = world.of(class).expect("a group").group;
    world.0.damaged.insert(group, damage());
    let mut groups = world.0.groups.iter_mut();
    change(groups.find(|live| live.group == group).expect("the group"));
    group
}

/// Damages the group of a class so that nobody knows whose it is.
fn lost(world: &mut World, class: Class) -> GroupId {
    let group = damaged(world, class, |_| {});
    world.0.groups.retain(|live| live.group != group);
    group
}

fn told(plan: &Plan) -> Vec<(GroupId, Option<Class>, u64)> {
    let problems = plan.problems.iter().filter_map(|problem| match problem {
        Problem::Damaged {
            group,
            class,
            routes,
            ..
        } => Some((*group, *class, *routes)),
        _ => None,
    });
    problems.collect()
}

/// The classes that a plan publishes groups of.
fn published(plan: &Plan) -> Vec<Class> {
    let steps = plan.steps.iter().flat_map(|planned| match &planned.step {
        Step::PublishGroups(plans) | Step::PublishLiveness(plans) | Step::CloseGroups(plans) => {
            plans.as_slice()
        }
        _ => &[],
    });
    steps.map(|plan| plan.class()).collect()
}

#[test]
fn what_is_left_of_a_group_is_published_anew_though_nothing_else_changes() {
    let desired = wanted(&[1, 2]);
    let mut world = node(&desired);
    let before = world.of(nat64(NAT64)).expect("a group").clone();
    damaged(&mut world, nat64(NAT64), |_| {});
    let plan = world.sweep(&desired);
    assert_eq!(published(&plan), [nat64(NAT64)]);
    assert_eq!((plan.steps.len(), told(&plan)), (1, vec![]));
    assert_eq!(
        plan.steps[0].why,
        format!("{} is damaged, and written anew", nat64(NAT64))
    );
    let after = world.of(nat64(NAT64)).expect("a group").clone();
    assert_eq!(after.members, before.members);
    assert_eq!(after.incarnation, before.incarnation);
    assert_ne!(after.publication, before.publication);
    assert!(reconcile(&world.0, &desired).is_empty());
}

/// The member that is missing is a newcomer: nobody is led to the tenure that it had.
#[test]
fn a_member_that_is_missing_gets_another_tenure() {
    let desired = wanted(&[1, 2]);
    let mut world = node(&desired);
    let before = world.of(Class::Nat66).expect("a group").clone();
    damaged(&mut world, Class::Nat66, |live| {
        live.members.remove(0);
    });
    world.settle(&desired);
    let after = world.of(Class::Nat66).expect("a group");
    let of = |snapshot: &Snapshot, number| *snapshot.member_by_sid(sid(number)).expect("a member");
    assert_eq!(of(after, 2), of(&before, 2));
    assert!(of(after, 1).generation.is_after(
        before
            .members
            .iter()
            .map(|one| one.generation)
            .max_by_key(|one| one.get())
            .expect("two")
    ));
}

#[test]
fn a_lost_group_stops_no_other_class_and_stays_with_its_routes() {
    let mut world = node(&wanted(&[1, 2]));
    let routes = world.0.routes.clone();
    let group = lost(&mut world, nat64(NAT64));
    let desired = wanted(&[1, 3]);
    let plan = world.sweep(&desired);
    assert_eq!(published(&plan), [Class::Nat66]);
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(told(&plan), [(group, None, 2)]);
    let text = plan.problems.iter().map(ToString::to_string);
    let text: Vec<_> = text.filter(|text| text.contains("damaged")).collect();
    assert_eq!(
        text,
        [format!(
            "group {group} is damaged, and left as it is with its 2 routes: it was damaged; make \
             another node"
        )]
    );
    assert_eq!(world.0.routes, routes);
    let again = reconcile(&world.0, &desired);
    assert!(again.is_empty());
    assert_eq!(told(&again), [(group, None, 2)]);
    let found = invariants(&world.0, &desired.classes);
    assert!(found.hold() && found.dead == 0, "{found:?}");
    // A tenant that comes now waits for it.
    let tenant = super::fixture::tenant(3);
    world.0.tenants.insert(103, tenant);
    world.settle(&desired);
    assert!(world.0.routes[&key(3, Class::Nat66)].group().is_some());
    assert_eq!(
        world.0.routes[&key(3, nat64(NAT64))].target,
        super::world::NOWHERE
    );
}

/// Another writer's route tells as much of whose it was.
#[test]
fn a_lost_group_that_only_one_class_names_keeps_no_other_from_opening() {
    let mut world = node(&wanted(&[1]));
    let group = lost(&mut world, nat64(NAT64));
    let mut desired = wanted(&[1]);
    desired.classes = classes(&[NAT64, OTHER64]);
    let plan = world.sweep(&desired);
    assert_eq!(published(&plan), [nat64(OTHER64)]);
    let opened = world.of(nat64(OTHER64)).expect("a group").group;
    assert_ne!(opened, group, "its number is taken");

    // Where nothing names it, it may be any class's that has no group.
    let mut world = node(&wanted(&[1]));
    let group = lost(&mut world, nat64(NAT64));
    world
        .0
        .routes
        .retain(|_, route| route.group().is_none_or(|(named, _)| named != group));
    let plan = world.sweep(&desired);
    assert_eq!(published(&plan), []);
    assert_eq!(told(&plan), [(group, None, 0)]);
}

#[test]
fn a_class_that_has_another_group_leaves_a_lost_one() {
    let desired = wanted(&[1]);
    let mut world = node(&desired);
    // One of two that claimed the class.
    let twin = Snapshot {
        group: GroupId::new(3).expect("an index"),
        ..world.of(Class::Nat66).expect("a group").clone()
    };
    world.0.groups.push(twin);
    let group = lost(&mut world, Class::Nat66);
    let plan = world.sweep(&desired);
    let reasons: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|planned| match &planned.step {
            Step::MoveRoutes { reason, moves, .. } => Some((*reason, moves.len())),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, [(MoveReason::Orphan, 2)]);
    assert_eq!(told(&plan), [(group, None, 2)]);
    assert!(reconcile(&world.0, &desired).is_empty());
}

#[test]
fn in_ordered_mode_routes_leave_a_lost_group_as_any_other() {
    let mut world = node(&wanted(&[1, 2]));
    let group = lost(&mut world, nat64(NAT64));
    world.settle(&ordered(&[]));
    assert_eq!(
        world.0.routes[&key(1, nat64(NAT64))]
            .group()
            .map(|(named, _)| named),
        Some(group)
    );
    let desired = ordered(&[9]);
    world.settle(&desired);
    for table in TABLES {
        for class in [Class::Nat66, nat64(NAT64)] {
            assert_eq!(world.0.routes[&key(table, class)], to_shard(table, 9));
        }
    }
    assert!(world.of(Class::Nat66).is_none());
    assert_eq!(told(&reconcile(&world.0, &desired)), [(group, None, 0)]);
}

/// No member is taken away while nobody knows which there should be.
#[test]
fn before_the_first_list_a_damaged_group_is_told_and_not_touched() {
    let mut world = node(&wanted(&[1, 2]));
    let group = damaged(&mut world, Class::Nat66, |live| {
        live.members.remove(0);
    });
    let mut desired = hashed(Known::Unknown);
    desired.policy.liveness_before_sync = true;
    let plan = reconcile(&world.0, &desired);
    assert_eq!(published(&plan), []);
    assert_eq!(told(&plan), [(group, Some(Class::Nat66), 2)]);
    let text = plan.problems.iter().map(ToString::to_string);
    let text: Vec<_> = text.filter(|text| text.contains("damaged")).collect();
    assert_eq!(
        text,
        [format!(
            "group {group} is damaged, written anew when nat66 is published next: it was damaged"
        )]
    );
}

/// A group on its way out goes on, and is sound when it is proven that no route names it.
#[test]
fn a_damaged_group_that_closes_is_written_anew_and_retired() {
    let mut world = node(&wanted(&[1]));
    let group = damaged(&mut world, nat64(NAT64), |live| live.state = State::Closing);
    let desired = Desired {
        classes: classes(&[]),
        ..wanted(&[1])
    };
    let plan = world.sweep(&desired);
    assert_eq!(published(&plan), [nat64(NAT64)]);
    assert_eq!(world.group(group).expect("there").state, State::Disabled);
    assert!(world.0.damaged.is_empty());
}

/// Foreign routes to a lost group may well be served.
#[test]
fn nobody_calls_routes_to_a_lost_group_dead() {
    let desired = wanted(&[1]);
    let mut world = node(&desired);
    let route = world.0.routes[&key(1, nat64(NAT64))];
    let foreign = Route {
        origin: Origin(7),
        ..route
    };
    world.0.routes.insert(key(1, nat64(NAT64)), foreign);
    lost(&mut world, nat64(NAT64));
    let plan = reconcile(&world.0, &desired);
    let dead = |problem: &Problem| matches!(problem, Problem::ForeignDead { .. });
    assert!(!plan.problems.iter().any(dead), "{:?}", plan.problems);
    assert_eq!(invariants(&world.0, &desired.classes).foreign_dead, 0);
}
