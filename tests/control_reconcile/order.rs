// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What waits for what, and no more; and what is told, once.

use guideway::control::{reconcile, Desired, MoveReason, Plan, Problem, Step, Unreached, Verdict};
use guideway::group::{Class, GroupId, Incarnation, Publication, Snapshot, State};
use guideway::route::{Origin, Route, Target};
use guideway::tenant::Tenant;

use super::fixture::{
    argument, classes, dual, hashed, hop_by, key, list, nat64, observed, ordered, senseless,
    shard66, sid, tenant, to_shard, NAT64, OTHER64,
};
use super::world::{settled, World};

fn node(desired: &Desired) -> World {
    settled(observed([1, 2]), desired)
}

fn place(plan: &Plan, is: impl Fn(&Step) -> bool) -> usize {
    let mut steps = plan.steps.iter();
    let place = steps.position(|planned| is(&planned.step));
    place.unwrap_or_else(|| panic!("{:#?}", plan.steps))
}

fn moves(plan: &Plan, wanted: MoveReason) -> usize {
    place(
        plan,
        |step| matches!(step, Step::MoveRoutes { reason, .. } if *reason == wanted),
    )
}

fn publishes(plan: &Plan) -> usize {
    place(plan, |step| matches!(step, Step::PublishGroups(_)))
}

#[test]
fn a_move_waits_for_its_own_class_alone() {
    let desired = hashed(list([dual(1), shard66(2)]));
    let mut world = node(&desired);
    // NAT66's group changes, and a route of NAT64 goes home.
    world.0.reach.0.insert(sid(2), Err(Unreached::NoRoute));
    world.0.routes.insert(key(1, nat64(NAT64)), to_shard(1, 1));
    let plan = reconcile(&world.0, &desired);
    let _ = publishes(&plan);
    assert_eq!(
        plan.steps[moves(&plan, MoveReason::Group)].after,
        [0_usize; 0]
    );
    // One of NAT66 waits.
    world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 1));
    let plan = reconcile(&world.0, &desired);
    let of_nat66 = place(
        &plan,
        |step| matches!(step, Step::MoveRoutes { class, .. } if *class == Class::Nat66),
    );
    assert_eq!(plan.steps[of_nat66].after, [publishes(&plan)]);
}

#[test]
fn what_leads_to_no_group_waits_for_none() {
    let mut world = node(&hashed(list([dual(1)])));
    // Nobody knows the tenant of a route that names a tenure which is over: it is blocked.
    let group = world.of(Class::Nat66).expect("a group").group;
    let route = Route::new(Target::Group {
        argument: argument(7),
        group,
        incarnation: Incarnation::new(9).expect("a number"),
        fnv5: guideway::placement::Fnv5::from_raw(1),
        fnv12: guideway::placement::Fnv12::from_raw(1),
    });
    world.0.routes.insert(key(7, Class::Nat66), route);
    let plan = reconcile(&world.0, &hashed(list([dual(1), shard66(2)])));
    let _ = publishes(&plan);
    let blocked = moves(&plan, MoveReason::OldIncarnation);
    assert_eq!(plan.steps[blocked].after, [0_usize; 0]);
}

#[test]
fn a_group_that_closes_already_does_not_wait_for_others_to_close() {
    let mut world = node(&hashed(list([dual(1)])));
    let mut groups = world.0.groups.iter_mut();
    let closing = groups.find(|live| live.class == Class::Nat66);
    closing.expect("a group").state = State::Closing;
    let plan = reconcile(&world.0, &ordered(&[9]));
    let retire = |wanted| {
        place(
            &plan,
            move |step| matches!(step, Step::Retire { class, .. } if *class == wanted),
        )
    };
    let close = place(&plan, |step| matches!(step, Step::CloseGroups(_)));
    assert_eq!(plan.steps[retire(nat64(NAT64))].after, [close]);
    assert_eq!(plan.steps[retire(Class::Nat66)].after, [0_usize; 0]);
}

/// Its routes lead to the class's own group, which must be there first.
#[test]
fn a_group_that_claims_anothers_class_is_retired_behind_its_publication() {
    let mut world = node(&hashed(list([dual(1)])));
    let twin = Snapshot {
        group: GroupId::new(3).expect("an index"),
        state: State::Closing,
        ..world.of(Class::Nat66).expect("a group").clone()
    };
    world.0.groups.push(twin);
    let plan = reconcile(&world.0, &hashed(list([dual(1), shard66(2)])));
    let retire = place(&plan, |step| matches!(step, Step::Retire { .. }));
    assert_eq!(plan.steps[retire].after, [publishes(&plan)]);
}

#[test]
fn a_problem_that_two_have_is_told_once() {
    let mut world = World(observed([1]));
    let gone = Err(Unreached::NoRoute);
    world.0.reach.0.insert(sid(9), gone);
    let plan = reconcile(&world.0, &ordered(&[9, 9]));
    let unreached = |problem: &&Problem| matches!(problem, Problem::Unreached { .. });
    assert_eq!(plan.problems.iter().filter(unreached).count(), 1);
}

/// The kernel has one of each; where somebody says two, the newer one is it.
#[test]
fn of_two_snapshots_of_a_group_the_newer_one_counts() {
    let desired = hashed(list([dual(1)]));
    let world = node(&desired);
    let old = world.of(Class::Nat66).expect("a group").clone();
    let newer = Snapshot {
        publication: Publication::new(old.publication.get() + 5).expect("a number"),
        ..old.clone()
    };
    let wanted = hashed(list([dual(1), shard66(2)]));
    for twins in [[&old, &newer], [&newer, &old]] {
        let mut world = world.clone();
        world.0.groups.retain(|live| live.group != old.group);
        world.0.groups.extend(twins.map(Clone::clone));
        let plan = reconcile(&world.0, &wanted);
        let Step::PublishGroups(plans) = &plan.steps[publishes(&plan)].step else {
            panic!("{plan:#?}");
        };
        assert_eq!(plans[0].base(), Some(newer.publication));
    }
}

/// As its interfaces disagree nothing is written for it, and the row is told.
#[test]
fn a_row_without_sense_of_a_tenant_that_disagrees_is_left_alone_and_told() {
    let desired = hashed(list([dual(1)]));
    let mut world = node(&desired);
    let at = key(1, Class::Nat66);
    world.0.routes.remove(&at);
    world
        .0
        .senseless
        .insert(at, senseless(&at, Origin(0), None));
    let told = |plan: &Plan| {
        let is_row = |problem: &Problem| matches!(problem, Problem::SenselessRoute { key, .. } if *key == at);
        plan.problems.iter().any(is_row)
    };
    let plan = reconcile(&world.0, &desired);
    assert!(!told(&plan) && !plan.is_empty());
    let other = Tenant {
        argument: argument(50),
        ..tenant(1)
    };
    world.0.tenants.insert(201, other);
    let plan = reconcile(&world.0, &desired);
    assert!(told(&plan) && plan.is_empty(), "{plan:#?}");
}

#[test]
fn the_first_interface_that_disagrees_is_named() {
    let desired = hashed(list([dual(1)]));
    let mut world = node(&desired);
    for (ifindex, by) in [(201, 50), (301, 60)] {
        let other = Tenant {
            argument: argument(by),
            ..tenant(1)
        };
        world.0.tenants.insert(ifindex, other);
    }
    let plan = reconcile(&world.0, &desired);
    let named = plan.problems.iter().find_map(|problem| match problem {
        Problem::TenantDisagrees { first, second, .. } => Some((*first, *second)),
        _ => None,
    });
    assert_eq!(named, Some((101, 201)));
}

/// Who says that it works means by the way that its group has.
#[test]
fn a_static_shard_that_is_overruled_is_reached_as_its_group_reaches_it() {
    let mut world = node(&hashed(list([dual(1)])));
    let by_another = hop_by(1, 3);
    for live in &mut world.0.groups {
        live.members[0].next_hop = Some(by_another);
    }
    world.0.reach.0.insert(sid(1), Err(Unreached::NoRoute));
    let mut desired = ordered(&[1]);
    desired.overrides.insert(sid(1), Verdict::Alive);
    world.settle(&desired);
    let expected = Target::Shard {
        argument: argument(1),
        sid: sid(1),
        next_hop: by_another,
    };
    assert_eq!(world.0.routes[&key(1, Class::Nat66)].target, expected);
}

/// What was its group once is no group that serves it now.
#[test]
fn a_class_whose_group_is_disabled_may_have_a_lost_one() {
    let mut desired = hashed(list([dual(1)]));
    desired.classes = classes(&[NAT64, OTHER64]);
    let mut world = node(&desired);
    world.settle(&hashed(list([dual(1)])));
    let other = world
        .0
        .groups
        .iter()
        .find(|live| live.class == nat64(OTHER64));
    assert_eq!(other.expect("a group").state, State::Disabled);
    let group = GroupId::new(3).expect("an index");
    let damage = guideway::control::Damage {
        why: "it was damaged".to_owned(),
        remedy: None,
    };
    world.0.damaged.insert(group, damage);
    let plan = reconcile(&world.0, &desired);
    let opens =
        |planned: &guideway::control::PlannedStep| matches!(&planned.step, Step::PublishGroups(_));
    assert!(!plan.steps.iter().any(opens), "{plan:#?}");
}
