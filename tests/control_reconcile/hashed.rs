// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Hashed mode, rule by rule.

use guideway::control::{reconcile, Known, MoveReason, Plan, Problem, Repair, Step, Unreached};
use guideway::egress_spec::RouteTarget;
use guideway::group::{Change, Class, HashMode, Incarnation, PinIdle, Settings};
use guideway::route::{Block, Key, Origin, Prefix, Route, TableId, Target};
use guideway::srv6::{Mtu, NextHop};
use guideway::tenant::Tenant;

use super::fixture::{
    argument, dual, hashed, hop, key, list, nat64, observed, prefix_of, senseless, shard66, sid,
    tenant, to_shard, NAT64,
};
use super::world::{settled, World, NOWHERE};

/// The reasons, classes and destinations of all moves, and how many there are.
fn moves(plan: &Plan) -> Vec<(MoveReason, Class, Option<RouteTarget>, usize)> {
    let moves = plan.steps.iter().filter_map(|planned| match &planned.step {
        Step::MoveRoutes {
            reason,
            class,
            moves,
        } => {
            let to = moves[0].to;
            assert!(moves.iter().all(|one| one.to == to));
            Some((*reason, *class, to, moves.len()))
        }
        _ => None,
    });
    moves.collect()
}

/// Whether no step touches a route.
fn leaves_routes(plan: &Plan) -> bool {
    let publishes = |step: &Step| {
        matches!(
            step,
            Step::PublishConfig(_)
                | Step::PublishLiveness(_)
                | Step::PublishGroups(_)
                | Step::CloseGroups(_)
        )
    };
    plan.steps.iter().all(|planned| publishes(&planned.step))
}

fn group_of(world: &World, key: &Key) -> Option<Class> {
    let (group, incarnation) = world.0.routes[key].group()?;
    let group = world.group(group)?;
    (group.forwards() && group.incarnation == incarnation).then_some(group.class)
}

#[test]
fn a_class_without_candidates_has_an_open_and_empty_group() {
    let mut world = World(observed([1]));
    let plan = world.sweep(&hashed(list([])));
    assert!(matches!(&plan.steps[0].step, Step::PublishGroups(plans) if plans.len() == 2));
    for class in [Class::Nat66, nat64(NAT64)] {
        let group = world.of(class).expect("a group");
        assert_eq!(group.state, guideway::group::State::Open);
        assert!(group.members.is_empty() && group.table.iter().all(|slot| *slot == 0xffff));
        assert_eq!(group_of(&world, &key(1, class)), Some(class));
        assert!(plan.problems.contains(&Problem::Unserved { class }));
        let below = Problem::BelowMinimum {
            class,
            active: 0,
            minimum: 1,
        };
        assert!(plan.problems.contains(&below));
    }
}

#[test]
fn what_changes_in_a_group_is_published_and_nothing_else() {
    let mut desired = hashed(list((0..3).map(dual)));
    let mut world = settled(observed([1]), &desired);
    assert!(world.sweep(&desired).is_empty());

    let settings = [
        Settings {
            hash_mode: HashMode::Flow,
            ..Settings::default()
        },
        Settings {
            pin_idle: PinIdle::OFF,
            ..Settings::default()
        },
        Settings {
            reject: true,
            ..Settings::default()
        },
    ];
    for settings in settings {
        desired.settings = settings;
        let plan = world.sweep(&desired);
        assert!(leaves_routes(&plan) && !plan.is_empty());
        for class in [Class::Nat66, nat64(NAT64)] {
            assert_eq!(world.of(class).expect("a group").settings, settings);
        }
        assert!(world.sweep(&desired).is_empty());
    }

    // Of a change of one class the other knows nothing.
    desired.shards = list((0..3).map(dual).chain([shard66(3)]));
    let plan = reconcile(&world.0, &desired);
    let Step::PublishGroups(plans) = &plan.steps[0].step else {
        panic!("a publication");
    };
    let change = |plan: &guideway::group::GroupPlan| (plan.class(), plan.change());
    let changes: Vec<_> = plans.iter().map(change).collect();
    // NAT64 counts one more shard that cannot be its member.
    let update = |class| (class, Change::Update);
    assert_eq!(changes, [update(Class::Nat66), update(nat64(NAT64))]);
    let joined: Vec<_> = plans.iter().map(|plan| plan.joined().len()).collect();
    assert_eq!(joined, [1, 0]);
}

#[test]
fn another_way_to_a_member_is_a_publication() {
    let desired = hashed(list([dual(0)]));
    let settled = settled(observed([1]), &desired);
    let source = "02:00:00:00:00:01".parse().expect("an address");
    let other = "02:00:00:00:00:77".parse().expect("an address");
    let destination = hop(0).destination();
    let mtu = Mtu::new(1400).expect("an MTU");
    let ways = [
        NextHop::new(8, source, destination, Mtu::UNCHECKED),
        NextHop::new(7, other, destination, Mtu::UNCHECKED),
        NextHop::new(7, source, other, Mtu::UNCHECKED),
        NextHop::new(7, source, destination, mtu),
    ];
    for way in ways.map(|way| way.expect("a next hop")) {
        let mut world = settled.clone();
        world.0.reach.0.insert(sid(0), Ok(way));
        let plan = world.sweep(&desired);
        assert!(matches!(&plan.steps[..], [one] if one.step.name() == "publish-groups"));
        let group = world.of(Class::Nat66).expect("a group");
        assert_eq!(group.members[0].next_hop, Some(way));
        assert_eq!(
            group.table,
            settled.of(Class::Nat66).expect("a group").table
        );
    }
}

#[test]
fn every_tenant_has_an_entry_for_every_class() {
    let mut world = World(observed([1, 2]));
    let disabled = Tenant {
        enabled: false,
        ..tenant(3)
    };
    world.0.tenants.insert(103, disabled);
    // One tenant at two interfaces, and one whose interfaces disagree.
    world.0.tenants.insert(202, tenant(2));
    world.0.tenants.insert(104, tenant(4));
    world.0.tenants.insert(
        204,
        Tenant {
            argument: argument(9),
            ..tenant(4)
        },
    );
    let desired = hashed(list([dual(0)]));
    let plan = world.sweep(&desired);
    let written = plan.steps.iter().filter_map(|planned| match &planned.step {
        Step::WriteRoutes { tenant, routes } => Some((tenant.table.get(), routes.len())),
        _ => None,
    });
    assert_eq!(written.collect::<Vec<_>>(), [(1, 2), (2, 2)]);
    let disagrees = Problem::TenantDisagrees {
        table: TableId::new(4),
        field: "argument",
        first: 104,
        second: 204,
        one: 0x104,
        two: 0x109,
    };
    assert!(plan.problems.contains(&disagrees), "{:?}", plan.problems);
    // None was missing: the classes are new.
    assert_eq!(plan.repairs.get(&Repair::Missing), None);

    world.0.routes.remove(&key(1, nat64(NAT64)));
    let plan = world.sweep(&desired);
    assert_eq!(plan.repairs.get(&Repair::Missing), Some(&1));
    assert_eq!(group_of(&world, &key(1, nat64(NAT64))), Some(nat64(NAT64)));
    // Another writer's entry is an entry.
    let theirs = Route {
        origin: Origin(7),
        target: Target::Pass,
    };
    world.0.routes.insert(key(1, nat64(NAT64)), theirs);
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn routes_of_known_and_static_shards_move_to_a_group_that_serves_them() {
    let mut desired = hashed(list([dual(0), dual(1)]));
    desired.static_sids = vec![sid(5)];
    let mut world = World(observed([1, 2]));
    world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 0));
    world.0.routes.insert(key(2, Class::Nat66), to_shard(2, 5));
    let plan = world.sweep(&desired);
    let to = Some(RouteTarget::Class(Class::Nat66));
    assert_eq!(moves(&plan), [(MoveReason::Group, Class::Nat66, to, 2)]);
    for table in [1, 2] {
        assert_eq!(
            group_of(&world, &key(table, Class::Nat66)),
            Some(Class::Nat66)
        );
        assert_eq!(
            world.0.routes[&key(table, Class::Nat66)].argument(),
            Some(argument(table))
        );
    }
    // A move depends on the publication that opens the group.
    let place = |name| plan.steps.iter().position(|one| one.step.name() == name);
    let publication = place("publish-groups").expect("a publication");
    let moving = &plan.steps[place("move-routes").expect("a move")];
    assert_eq!(moving.after, [publication]);
}

#[test]
fn routes_stay_on_their_shard_as_long_as_no_member_is_active() {
    for (reached, drain) in [(false, false), (true, true)] {
        let mut shard = dual(0);
        shard.drain = drain;
        let mut desired = hashed(list([shard]));
        desired.static_sids = vec![sid(5)];
        let mut world = World(observed([1]));
        if !reached {
            world.0.reach.0.insert(sid(0), Err(Unreached::NoRoute));
        }
        world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 5));
        world.settle(&desired);
        assert_eq!(world.0.routes[&key(1, Class::Nat66)], to_shard(1, 5));
        // A way that is lost does not move it either.
        world.0.reach.0.insert(sid(5), Err(Unreached::NoRoute));
        assert!(world.sweep(&desired).is_empty());
        // With an active member it goes.
        world.0.reach.0.insert(sid(0), Ok(hop(0)));
        desired.shards = list([dual(0)]);
        world.settle(&desired);
        assert_eq!(group_of(&world, &key(1, Class::Nat66)), Some(Class::Nat66));
    }
}

#[test]
fn routes_on_another_class_s_group_and_on_former_tenures_come_home() {
    for shards in [vec![dual(0)], vec![]] {
        let desired = hashed(list(shards));
        let mut world = settled(observed([1, 2, 3]), &desired);
        let (nat66, nat64) = (Class::Nat66, nat64(NAT64));
        let right = world.0.routes.clone();
        let with = |route: &Route, incarnation: Option<Incarnation>| {
            let Target::Group {
                argument,
                group,
                fnv5,
                fnv12,
                ..
            } = route.target
            else {
                panic!("a route to a group");
            };
            let incarnation = incarnation.expect("a number");
            Route::new(Target::Group {
                argument,
                group,
                incarnation,
                fnv5,
                fnv12,
            })
        };
        world.0.routes.insert(key(1, nat64), right[&key(1, nat66)]);
        let over = with(&right[&key(2, nat66)], Incarnation::new(77));
        world.0.routes.insert(key(2, nat66), over);
        // A group that was never opened.
        let Target::Group {
            argument,
            incarnation,
            fnv5,
            fnv12,
            ..
        } = right[&key(3, nat66)].target
        else {
            panic!("a route to a group");
        };
        let group = guideway::group::GroupId::new(3).expect("an index");
        let absent = Target::Group {
            argument,
            group,
            incarnation,
            fnv5,
            fnv12,
        };
        world.0.routes.insert(key(3, nat66), Route::new(absent));

        let plan = world.sweep(&desired);
        let to = |class| Some(RouteTarget::Class(class));
        let expected = [
            (MoveReason::WrongClass, nat64, to(nat64), 1),
            (MoveReason::OldIncarnation, nat66, to(nat66), 1),
            (MoveReason::Orphan, nat66, to(nat66), 1),
        ];
        assert_eq!(moves(&plan), expected);
        let repairs = [Repair::WrongClass, Repair::OldIncarnation, Repair::Orphan];
        assert_eq!(plan.repairs, repairs.map(|repair| (repair, 1)).into());
        assert_eq!(world.0.routes, right);
        assert!(world.sweep(&desired).is_empty());
    }
}

#[test]
fn a_group_route_never_goes_to_a_shard() {
    let mut desired = hashed(list((0..3).map(dual)));
    desired.static_sids = vec![sid(5), sid(6)];
    let settled = settled(observed([1, 2, 3]), &desired);
    let mut one_draining = dual(0);
    one_draining.drain = true;
    let lists = [vec![], vec![one_draining], vec![shard66(0)], vec![dual(9)]];
    for shards in lists {
        let mut world = settled.clone();
        world.0.reach.0.insert(sid(9), Err(Unreached::NoNeighbour));
        desired.shards = list(shards);
        for plan in world.settle(&desired) {
            assert!(leaves_routes(&plan), "{:#?}", plan.steps);
        }
        assert_eq!(world.0.routes, settled.0.routes);
    }
}

#[test]
fn zero_candidates_are_not_ordered_mode() {
    // Three routes to groups, static SIDs that are reached, and all shards are gone.
    let mut desired = hashed(list([dual(0)]));
    desired.static_sids = vec![sid(5)];
    let mut world = settled(observed([1, 2, 3]), &desired);
    world
        .0
        .routes
        .retain(|key, _| key.prefix == prefix_of(Class::Nat66));
    desired.classes = super::fixture::classes(&[]);
    world.settle(&desired);
    let before = world.0.routes.clone();
    assert_eq!(before.len(), 3);
    desired.shards = list([]);
    let plan = world.sweep(&desired);
    assert!(leaves_routes(&plan), "{:#?}", plan.steps);
    assert_eq!(world.0.routes, before);
    let group = world.of(Class::Nat66).expect("a group that forwards");
    assert!(group.members.is_empty());
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn a_class_that_no_shard_translates_keeps_its_routes_from_others() {
    let desired = hashed(list([shard66(0), shard66(1)]));
    let world = settled(observed([1]), &desired);
    let class = nat64(NAT64);
    assert_eq!(group_of(&world, &key(1, class)), Some(class));
    let group = world.of(class).expect("a group");
    assert_eq!((group.members.len(), group.ineligible), (0, 2));
    assert_eq!(world.of(Class::Nat66).expect("a group").members.len(), 2);
}

#[test]
fn what_is_not_the_loop_s_is_left_alone() {
    let mut desired = hashed(list([dual(0)]));
    desired.static_sids = vec![sid(5)];
    let mut world = settled(observed((1..=6).collect::<Vec<_>>()), &desired);
    let nat66 = Class::Nat66;
    let group = world.0.routes[&key(1, nat66)];
    let beside = |table, text: &str| {
        let prefix: Prefix = text.parse().expect("a prefix");
        Key::new(TableId::new(table), prefix)
    };
    let foreign = |route: Route| Route {
        origin: Origin(3),
        ..route
    };
    let left = [
        (key(1, nat66), to_shard(1, 9)),
        (key(2, nat66), Route::new(Target::Pass)),
        (key(3, nat66), foreign(to_shard(3, 0))),
        (key(4, nat66), foreign(to_shard(4, 9))),
        (key(5, nat66), foreign(Route::new(NOWHERE))),
        (beside(1, "2001:db8:1::/48"), to_shard(1, 0)),
        (beside(2, "10.0.0.0/8"), to_shard(2, 5)),
        (
            beside(3, "0.0.0.0/0"),
            Route::new(Target::Block(Block::Unreachable)),
        ),
        (beside(4, "2001:db8:1::/48"), foreign(group)),
    ];
    world.0.routes.extend(left);
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty(), "{:#?}", plan.steps);
    let unknown = Problem::UnknownShard {
        sid: sid(9),
        routes: 1,
        first: key(1, nat66),
    };
    assert!(plan.problems.contains(&unknown));

    // The same from the loop itself would not stay.
    for (key, route) in left.into_iter().take(5).skip(2) {
        world.0.routes.insert(key, Route::new(route.target));
    }
    let plan = reconcile(&world.0, &desired);
    let to = Some(RouteTarget::Class(nat66));
    assert_eq!(moves(&plan), [(MoveReason::Group, nat66, to, 2)]);
}

#[test]
fn rows_without_sense_are_written_over_where_they_are_the_loop_s() {
    let desired = hashed(list([dual(0)]));
    let mut world = settled(observed([1, 2, 3]), &desired);
    let beside = Key::new(
        TableId::new(3),
        "2001:db8:1::/48".parse().expect("a prefix"),
    );
    for (key, origin) in [
        (key(1, Class::Nat66), 0),
        (key(2, Class::Nat66), 4),
        (beside, 0),
    ] {
        world.0.routes.remove(&key);
        world
            .0
            .senseless
            .insert(key, senseless(&key, Origin(origin), None));
    }
    let plan = world.sweep(&desired);
    assert_eq!(plan.repairs, [(Repair::Missing, 1)].into());
    assert_eq!(group_of(&world, &key(1, Class::Nat66)), Some(Class::Nat66));
    let left: Vec<_> = world.0.senseless.keys().copied().collect();
    assert_eq!(left, [key(2, Class::Nat66), beside]);
    let told = plan
        .problems
        .iter()
        .filter(|one| one.kind() == "senseless-route");
    assert_eq!(told.count(), 2);
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn routes_of_tenants_without_interface_get_no_states_that_nobody_knows() {
    let desired = hashed(list([dual(0)]));
    let mut world = settled(observed([1]), &desired);
    let right = world.0.routes[&key(1, Class::Nat66)];
    // Nobody's, on a shard and on another class's group.
    world.0.routes.insert(key(8, Class::Nat66), to_shard(8, 0));
    world.0.routes.insert(key(8, nat64(NAT64)), right);
    let plan = world.sweep(&desired);
    let to = Some(RouteTarget::Block(Block::Drop));
    assert_eq!(
        moves(&plan),
        [(MoveReason::WrongClass, nat64(NAT64), to, 1)]
    );
    let told = Problem::TenantUnknown {
        routes: 2,
        first: key(8, Class::Nat66),
    };
    assert!(plan.problems.contains(&told), "{:?}", plan.problems);
    assert!(world.sweep(&desired).is_empty());
    // When it has one they go where they belong.
    world.0.tenants.insert(108, tenant(8));
    world.settle(&desired);
    for class in [Class::Nat66, nat64(NAT64)] {
        assert_eq!(group_of(&world, &key(8, class)), Some(class));
    }
}

#[test]
fn a_small_pool_is_told_and_forwards_all_the_same() {
    let mut desired = hashed(list([dual(0), dual(1)]));
    let world = settled(observed([1]), &desired);
    desired.policy.pool_min_active = 3;
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty());
    for class in [Class::Nat66, nat64(NAT64)] {
        let below = Problem::BelowMinimum {
            class,
            active: 2,
            minimum: 3,
        };
        assert!(plan.problems.contains(&below));
        assert!(!plan.problems.contains(&Problem::Unserved { class }));
    }
    desired.policy.pool_min_active = 2;
    assert!(reconcile(&world.0, &desired).problems.is_empty());
}

#[test]
fn hashed_mode_is_a_word_and_not_a_list() {
    // Neither the lack of static SIDs nor that of shards makes one mode the other.
    let mut desired = hashed(list([]));
    desired.static_sids = Vec::new();
    let world = settled(observed([1]), &desired);
    assert!(world.of(Class::Nat66).is_some());
    desired.shards = Known::Unknown;
    assert!(reconcile(&world.0, &desired).is_empty());
}
