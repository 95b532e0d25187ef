// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is done while it is not known which shards there are, or not asked which are reached.

use guideway::control::{
    reconcile, Known, MoveReason, Plan, Policy, Problem, ShardList, Step, Unreached, Verdict,
};
use guideway::egress_spec::RouteTarget;
use guideway::group::{Class, MemberState};
use guideway::route::{Block, Origin, Route, Target};

use super::fixture::{
    but_for_liveness, classes, dual, hashed, hop, hop_by, key, list, nat64, observed, ordered,
    prefix_of, sid, stale, tenant, to_shard, NAT64, OTHER64,
};
use super::world::{settled, World, NOWHERE};

fn names(plan: &Plan) -> Vec<&'static str> {
    plan.steps
        .iter()
        .map(|planned| planned.step.name())
        .collect()
}

/// A world where everything that a list of shards could change is to be changed: a member that
/// nothing reaches, one that is reached otherwise, routes on a shard, on another class's group and
/// on a tenure that is over, a group of a class that is not configured, and a prefix without entry.
fn in_disorder() -> World {
    let mut before = hashed(list((0..3).map(dual)));
    before.classes = classes(&[NAT64, OTHER64]);
    let mut world = settled(observed([1, 2, 3, 4]), &before);
    let (nat66, nat64) = (Class::Nat66, nat64(NAT64));
    let over = {
        let route = &world.0.routes[&key(2, nat66)];
        let Target::Group {
            argument,
            group,
            incarnation,
            fnv5,
            fnv12,
        } = route.target
        else {
            panic!("a route to a group");
        };
        let incarnation = incarnation.next();
        Route::new(Target::Group {
            argument,
            group,
            incarnation,
            fnv5,
            fnv12,
        })
    };
    let wrong = world.0.routes[&key(3, nat66)];
    world.0.routes.insert(key(1, nat66), to_shard(1, 0));
    world.0.routes.insert(key(2, nat66), over);
    world.0.routes.insert(key(3, nat64), wrong);
    world.0.routes.remove(&key(4, nat64));
    world.0.reach.0.insert(sid(1), Err(Unreached::NoNeighbour));
    world.0.reach.0.insert(sid(2), Ok(hop_by(2, 1)));
    world
}

#[test]
fn without_a_list_nothing_is_published_and_nothing_moved() {
    let world = in_disorder();
    let plan = reconcile(&world.0, &hashed(Known::Unknown));
    assert_eq!(names(&plan), ["write-routes"], "{:#?}", plan.steps);
    let Step::WriteRoutes {
        tenant: whose,
        routes,
    } = &plan.steps[0].step
    else {
        panic!("a step that writes");
    };
    assert_eq!(*whose, tenant(4));
    let blocked = [(prefix_of(nat64(NAT64)), RouteTarget::Block(Block::Drop))];
    assert_eq!(*routes, blocked.into());
    assert!(plan.problems.contains(&Problem::ShardsUnknown));

    // With a list all of it is mended.
    let plan = reconcile(&world.0, &hashed(list((0..3).map(dual))));
    let names = names(&plan);
    for name in [
        "publish-groups",
        "write-routes",
        "move-routes",
        "close-groups",
        "retire",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn before_the_first_list_a_tenant_is_blocked_and_then_served() {
    let mut world = World(observed([1]));
    world.settle(&hashed(Known::Unknown));
    assert!(world.0.groups.is_empty());
    for class in [Class::Nat66, nat64(NAT64)] {
        assert_eq!(world.0.routes[&key(1, class)].target, NOWHERE);
    }
    world.settle(&hashed(list([dual(0)])));
    for class in [Class::Nat66, nat64(NAT64)] {
        let group = world.of(class).expect("a group").group;
        let route = world.0.routes[&key(1, class)];
        assert_eq!(route.group().map(|(group, _)| group), Some(group));
    }
}

#[test]
fn a_row_without_sense_stays_until_a_list_is_known() {
    let desired = hashed(list([dual(0)]));
    let mut world = settled(observed([1]), &desired);
    let key = key(1, Class::Nat66);
    world.0.routes.remove(&key);
    world
        .0
        .senseless
        .insert(key, super::fixture::senseless(&key, Origin(0), None));
    let unknown = reconcile(&world.0, &hashed(Known::Unknown));
    assert!(unknown.is_empty(), "{:#?}", unknown.steps);
    let known = world.sweep(&desired);
    assert_eq!(names(&known), ["write-routes"]);
    assert!(world.0.routes[&key].group().is_some());
}

#[test]
fn liveness_before_the_list_changes_who_is_alive_and_nothing_else() {
    let mut world = in_disorder();
    // A member that drains goes on doing so.
    let mut draining = hashed(list((0..3).map(dual)));
    draining.classes = classes(&[NAT64, OTHER64]);
    if let Known::Known(list) = &mut draining.shards {
        list.shards[0].drain = true;
    }
    world.0.reach = super::fixture::reach((0..16).map(|number| (number, true)));
    world.settle(&draining);
    let before = world.clone();
    world.0.reach.0.insert(sid(1), Err(Unreached::NoNeighbour));

    let mut desired = hashed(Known::Unknown);
    assert!(
        reconcile(&world.0, &desired).is_empty(),
        "it is off by default"
    );
    desired.policy.liveness_before_sync = true;
    let plan = world.sweep(&desired);
    assert_eq!(names(&plan), ["publish-liveness"]);
    assert!(world.sweep(&desired).is_empty());
    assert_eq!(world.0.routes, before.0.routes);
    for old in &before.0.groups {
        let new = world.group(old.group).expect("the group");
        assert_eq!(but_for_liveness(new, old), *old);
        let Some(gone) = new.member_by_sid(sid(1)) else {
            continue;
        };
        assert_eq!(gone.state(), MemberState::Unreachable);
        let slot = gone.slot.get();
        assert!(!new.table.contains(&slot), "nobody is sent to it");
        assert!(old.table.contains(&slot), "somebody was");
        let rest = new.member_by_sid(sid(2)).expect("a member");
        assert!(new.table.iter().all(|slot| *slot == rest.slot.get()));
    }

    // Shards that are members of nothing get into no group, reached or not.
    world.0.reach.0.insert(sid(1), Ok(hop(1)));
    world.sweep(&desired);
    let again = world.of(Class::Nat66).expect("a group");
    let first = before.of(Class::Nat66).expect("a group");
    assert_eq!(
        (&again.table, &again.members),
        (&first.table, &first.members)
    );
}

#[test]
fn a_source_that_fails_takes_no_member_away() {
    let known = hashed(list((0..3).map(dual)));
    let mut world = settled(observed([1]), &known);
    let mut desired = known.clone();
    desired.shards = stale(known.shards.clone());
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    let why = "connection refused".to_owned();
    assert!(plan.problems.contains(&Problem::ShardsStale { why }));

    // A shard that dies now leaves the table, and routes follow the usual rules.
    world.0.reach.0.insert(sid(1), Err(Unreached::NoRoute));
    world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 0));
    world.sweep(&desired);
    let group = world.of(Class::Nat66).expect("a group");
    assert_eq!(group.members.len(), 3);
    let dead = group.member_by_sid(sid(1)).expect("a member");
    assert_eq!(dead.state(), MemberState::Unreachable);
    assert!(!group.table.contains(&dead.slot.get()));
    assert!(world.0.routes[&key(1, Class::Nat66)].group().is_some());
}

#[test]
fn ordered_mode_does_not_wait_for_shards() {
    let world = in_disorder();
    let mut desired = ordered(&[5, 6]);
    let text = |plan: &Plan| format!("{:#?}", plan.steps);
    let first = reconcile(&world.0, &desired);
    assert!(names(&first).contains(&"move-routes"));
    let shards = (0..3).map(dual).collect::<Vec<_>>();
    let lists = [
        Known::Known(ShardList::default()),
        list(shards.clone()),
        stale(list(shards)),
    ];
    for shards in lists {
        desired.shards = shards;
        let plan = reconcile(&world.0, &desired);
        assert_eq!(text(&plan), text(&first), "{:?}", desired.shards);
    }
}

#[test]
fn nothing_is_taken_away_because_nobody_asked() {
    let desired = hashed(list((0..3).map(dual)));
    let mut world = settled(observed([1]), &desired);
    world.0.reach.0.clear();
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    assert!(plan.problems.contains(&Problem::NotAsked { sid: sid(0) }));
    // Who was no member before is not reached.
    let more = hashed(list((0..4).map(dual)));
    world.sweep(&more);
    let group = world.of(Class::Nat66).expect("a group");
    let states: Vec<_> = group.members.iter().map(|member| member.state()).collect();
    let active = MemberState::Active;
    assert_eq!(states, [active, active, active, MemberState::Unreachable]);
}

#[test]
fn a_health_check_overrules_the_node() {
    let mut desired = hashed(list((0..3).map(dual)));
    let mut world = settled(observed([1]), &desired);
    let state = |world: &World, number| {
        let group = world.of(Class::Nat66).expect("a group");
        group.member_by_sid(sid(number)).expect("a member").state()
    };
    desired.overrides.insert(sid(0), Verdict::Dead);
    desired.overrides.insert(sid(1), Verdict::Alive);
    world.0.reach.0.insert(sid(1), Err(Unreached::NoNeighbour));
    world.0.reach.0.insert(sid(2), Err(Unreached::NoNeighbour));
    let plan = world.sweep(&desired);
    assert!(plan
        .problems
        .contains(&Problem::OverruledDead { sid: sid(0) }));
    let found = [0, 1, 2].map(|number| state(&world, number));
    use MemberState::{Active, Unreachable};
    assert_eq!(found, [Unreachable, Active, Unreachable]);
    let group = world.of(Class::Nat66).expect("a group");
    assert_eq!(
        group.member_by_sid(sid(1)).expect("a member").next_hop,
        Some(hop(1))
    );

    desired.overrides.clear();
    world.sweep(&desired);
    let found = [0, 1, 2].map(|number| state(&world, number));
    assert_eq!(found, [Active, Unreachable, Unreachable]);
}

#[test]
fn a_health_check_overrules_the_node_in_ordered_mode() {
    let mut desired = ordered(&[5, 6]);
    desired.overrides.insert(sid(5), Verdict::Dead);
    let world = settled(observed([1]), &desired);
    assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 6));
}

#[test]
fn configuration_does_not_wait_for_shards() {
    let mut world = World(observed([]));
    world.0.encap = None;
    let desired = hashed(Known::Unknown);
    let plan = world.sweep(&desired);
    assert_eq!(names(&plan), ["publish-config"]);
    assert_eq!(world.0.encap, Some(desired.encap));
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn the_way_of_a_shard_route_is_followed_only_with_a_list() {
    let desired = hashed(list([]));
    let mut world = settled(observed([1]), &desired);
    let mut known = desired.clone();
    known.static_sids = vec![sid(5)];
    world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 5));
    world.0.reach.0.insert(sid(5), Ok(hop_by(5, 1)));
    let mut unknown = known.clone();
    unknown.shards = Known::Unknown;
    unknown.policy = Policy::default();
    assert!(reconcile(&world.0, &unknown).is_empty());
    let plan = world.sweep(&known);
    let Step::MoveRoutes { reason, .. } = &plan.steps[0].step else {
        panic!("a step that moves");
    };
    assert_eq!(*reason, MoveReason::NextHop);
    let Target::Shard {
        sid: shard,
        next_hop,
        ..
    } = world.0.routes[&key(1, Class::Nat66)].target
    else {
        panic!("a route to a shard");
    };
    assert_eq!((shard, next_hop), (sid(5), hop_by(5, 1)));
}
