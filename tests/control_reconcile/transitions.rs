// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Changes of the mode and of the list of classes, also from the middle of one.

use guideway::control::{reconcile, Desired, MoveReason, Plan, Problem, Repair, Step};
use guideway::egress_spec::RouteTarget;
use guideway::group::{Class, ConfiguredClass, GroupId, Incarnation, Snapshot, State};
use guideway::placement::HashGroup;
use guideway::route::{Key, Origin, Route, TableId, Target};

use super::fixture::{
    classes, classes_with, dual, hashed, key, list, nat64, observed, ordered, prefix_of, shard66,
    sid, to_shard, NAT64, OTHER64,
};
use super::world::{settled, World, NOWHERE};

const THIRD64: &str = "2001:db8:66::/96";

/// Shards 0 to 2 for everything that is configured.
fn serving(prefixes: &[&str]) -> Desired {
    let mut desired = hashed(list((0..3).map(dual)));
    let well = prefixes
        .iter()
        .map(|prefix| prefix.parse().expect("a prefix"));
    let shards: Vec<_> = well
        .enumerate()
        .flat_map(|(place, prefix)| {
            (0..3).map(move |number| {
                let mut shard = dual(number + 3 * place as u16);
                shard.nat64_prefix = Some(prefix);
                shard
            })
        })
        .collect();
    if !shards.is_empty() {
        desired.shards = list(shards);
    }
    desired.classes = classes(prefixes);
    desired
}

/// Each configured prefix of each tenant leads to a group of its class, in its tenure.
fn all_at_home(world: &World, prefixes: &[&str], tables: &[u32]) {
    let classes = prefixes
        .iter()
        .map(|prefix| nat64(prefix))
        .chain([Class::Nat66]);
    for class in classes {
        for table in tables {
            let key = key(*table, class);
            let (group, incarnation) = world.0.routes[&key].group().expect("a group");
            let group = world.group(group).expect("a group");
            let found = (group.class, group.state, group.incarnation);
            assert_eq!(found, (class, State::Open, incarnation), "{key}");
        }
    }
}

fn names(plan: &Plan) -> Vec<&'static str> {
    plan.steps.iter().map(|one| one.step.name()).collect()
}

#[test]
fn to_hashed_mode_groups_open_before_routes_move() {
    let mut desired = serving(&[NAT64]);
    let mut world = settled(observed([1, 2]), &ordered(&[5]));
    // As long as nobody lists shards, everything stays.
    let unknown = Desired {
        shards: guideway::control::Known::Unknown,
        static_sids: vec![sid(5)],
        ..desired.clone()
    };
    assert!(world.sweep(&unknown).is_empty());
    desired.static_sids = vec![sid(5)];
    let plan = world.sweep(&desired);
    assert_eq!(
        names(&plan),
        ["publish-groups", "move-routes", "move-routes"]
    );
    assert!(plan.steps[1..].iter().all(|one| one.after == [0]));
    all_at_home(&world, &[NAT64], &[1, 2]);
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn a_mode_that_flips_back_loses_no_slot_and_no_tenure() {
    let desired = serving(&[NAT64]);
    let world = settled(observed([1, 2]), &desired);
    let members = |world: &World| {
        let group = world.of(Class::Nat66).expect("a group");
        (group.incarnation, group.members.clone())
    };
    let flip = reconcile(&world.0, &ordered(&[15]));
    // After each of its steps, back again.
    for steps in 0..=flip.steps.len() {
        let mut world = world.clone();
        let before = members(&world);
        for planned in &flip.steps[..steps] {
            world.step(&planned.step);
        }
        let was_disabled = world.of(Class::Nat66).is_none();
        world.settle(&Desired {
            static_sids: vec![sid(15)],
            ..desired.clone()
        });
        all_at_home(&world, &[NAT64], &[1, 2]);
        let after = members(&world);
        if was_disabled {
            assert_eq!(after.0, before.0.next());
            // Pins of the tenure before are nobody's.
            let numbers = |members: &[guideway::group::Member]| {
                members
                    .iter()
                    .map(|member| member.generation.get())
                    .max()
                    .unwrap_or(0)
            };
            let lowest = after.1.iter().map(|member| member.generation.get()).min();
            assert!(lowest > Some(numbers(&before.1)));
        } else {
            assert_eq!(after, before, "after {steps} steps");
        }
    }
}

#[test]
fn a_class_that_is_added_opens_before_its_prefix_is_written() {
    let mut world = settled(observed([1, 2]), &serving(&[NAT64]));
    let before: Vec<Snapshot> = world.0.groups.clone();
    let desired = serving(&[NAT64, OTHER64]);
    let plan = world.sweep(&desired);
    assert_eq!(names(&plan)[0], "publish-groups");
    let writes = plan.steps[1..]
        .iter()
        .filter(|one| one.step.name() == "write-routes");
    assert_eq!(writes.count(), 2);
    all_at_home(&world, &[NAT64, OTHER64], &[1, 2]);
    for old in before {
        let new = world.group(old.group).expect("a group");
        assert_eq!((new.class, new.incarnation), (old.class, old.incarnation));
    }
    assert!(plan.repairs.is_empty(), "nothing was wrong");
}

#[test]
fn a_class_that_is_removed_closes_and_loses_its_routes() {
    let mut world = settled(observed([1, 2]), &serving(&[NAT64, OTHER64]));
    let gone = nat64(OTHER64);
    let group = world.of(gone).expect("a group").group;
    // One that did not get to the group yet, and one that names it from elsewhere.
    world.0.routes.insert(key(2, gone), to_shard(2, 0));
    let beside = Key::new(
        TableId::new(1),
        "2001:db8:7::/48".parse().expect("a prefix"),
    );
    let to_group = world.0.routes[&key(1, gone)];
    world.0.routes.insert(beside, to_group);

    let desired = serving(&[NAT64]);
    let plan = world.sweep(&desired);
    let steps = names(&plan);
    let place = |name| steps.iter().position(|one| *one == name).expect("a step");
    assert!(place("close-groups") < place("move-routes"));
    assert!(place("move-routes") < place("retire"));
    assert_eq!(
        plan.steps[place("retire")].after,
        [place("close-groups"), place("move-routes")]
    );
    assert_eq!(
        world.group(group).expect("the group").state,
        State::Disabled
    );
    assert!(world
        .0
        .routes
        .keys()
        .all(|key| key.prefix != prefix_of(gone)));
    // Nobody knows what a shorter prefix would do to what is not of the class.
    assert_eq!(world.0.routes[&beside].target, NOWHERE);
    all_at_home(&world, &[NAT64], &[1, 2]);
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn a_class_that_is_replaced_never_shares_a_group() {
    let mut world = settled(observed([1, 2]), &serving(&[NAT64]));
    let old = world.of(nat64(NAT64)).expect("a group").group;
    let desired = serving(&[OTHER64]);
    world.sweep(&desired);
    let new = world.of(nat64(OTHER64)).expect("a group").group;
    assert_ne!(old, new);
    assert_eq!(world.group(old).expect("the group").state, State::Disabled);
    all_at_home(&world, &[OTHER64], &[1, 2]);
    assert!(world.sweep(&desired).is_empty());
}

#[test]
fn a_class_without_a_free_group_is_blocked_until_one_is() {
    let all = [NAT64, OTHER64, THIRD64];
    let mut world = settled(observed([1, 2]), &serving(&all));
    assert_eq!(world.0.groups.len(), 4, "all there are");
    let fourth = "2001:db8:67::/96";
    let desired = serving(&[NAT64, OTHER64, fourth]);
    // A route at its prefix that names another class's group must not stay there.
    let wrong = world.0.routes[&key(2, Class::Nat66)];
    world.0.routes.insert(key(2, nat64(fourth)), wrong);
    let plan = world.sweep(&desired);
    let told: Vec<_> = plan.problems.iter().map(Problem::kind).collect();
    assert!(told.contains(&"no-group-left"), "{told:?}");
    for table in [1, 2] {
        assert_eq!(world.0.routes[&key(table, nat64(fourth))].target, NOWHERE);
    }
    world.settle(&desired);
    all_at_home(&world, &[NAT64, OTHER64, fourth], &[1, 2]);
    let stale = wrong.group().expect("a group").1;
    assert_eq!(stale, Incarnation::FIRST);
}

#[test]
fn another_order_of_classes_is_no_change() {
    let world = settled(observed([1]), &serving(&[NAT64, OTHER64, THIRD64]));
    let mut desired = serving(&[NAT64, OTHER64, THIRD64]);
    desired.classes = classes(&[THIRD64, NAT64, OTHER64]);
    let plan = reconcile(&world.0, &desired);
    assert!(plan.is_empty(), "{:#?}", plan.steps);
}

#[test]
fn another_hash_id_is_published_and_then_written_into_routes() {
    let world = settled(observed([1, 2]), &serving(&[NAT64]));
    let mut desired = serving(&[NAT64]);
    desired.classes = classes_with([ConfiguredClass {
        class: nat64(NAT64),
        hash_group: Some(HashGroup(77)),
    }]);
    let mut after = world.clone();
    let plan = after.sweep(&desired);
    assert_eq!(names(&plan), ["publish-groups", "move-routes"]);
    assert_eq!(plan.steps[1].after, [0]);
    let Step::MoveRoutes { reason, moves, .. } = &plan.steps[1].step else {
        panic!("a move");
    };
    assert_eq!((*reason, moves.len()), (MoveReason::HashState, 2));
    let (old, new) = (world.of(nat64(NAT64)), after.of(nat64(NAT64)));
    let (old, new) = (old.expect("a group"), new.expect("a group"));
    assert_eq!((new.state, new.incarnation), (State::Open, old.incarnation));
    assert_eq!(new.members, old.members);
    let (before, now) = (
        world.0.routes[&key(1, nat64(NAT64))],
        after.0.routes[&key(1, nat64(NAT64))],
    );
    assert_eq!(before.group(), now.group());
    assert_ne!(before, now);
    assert!(after.sweep(&desired).is_empty());
    // A tenant that hashes another number gets its states anew, too.
    let mut table = after.clone();
    let row = table.0.tenants.get_mut(&101).expect("a tenant");
    row.hash_table = guideway::placement::HashTable(4711);
    let plan = table.sweep(&desired);
    assert_eq!(names(&plan), ["move-routes"; 2]);
    assert!(table.sweep(&desired).is_empty());
}

#[test]
fn groups_of_classes_that_nobody_configured_always_go() {
    let world = settled(observed([1]), &serving(&[NAT64, OTHER64]));
    let gone = nat64(OTHER64);
    let group = world.of(gone).expect("a group").group;
    let closing = {
        let mut world = world.clone();
        let plan = reconcile(&world.0, &serving(&[NAT64]));
        let close = plan
            .steps
            .iter()
            .find(|one| one.step.name() == "close-groups");
        world.step(&close.expect("a close").step);
        world
    };
    assert_eq!(closing.of(gone).expect("a group").state, State::Closing);
    for start in [world, closing] {
        for desired in [serving(&[NAT64]), serving(&[]), ordered(&[5])] {
            let mut world = start.clone();
            world.settle(&desired);
            assert_eq!(
                world.group(group).expect("the group").state,
                State::Disabled
            );
        }
    }
}

#[test]
fn of_two_groups_that_claim_a_class_one_goes() {
    let desired = serving(&[NAT64]);
    let mut world = settled(observed([1, 2]), &desired);
    let first = world.of(Class::Nat66).expect("a group").clone();
    let id = GroupId::new(3).expect("an index");
    let second = Snapshot {
        group: id,
        ..first.clone()
    };
    world.0.groups.push(second);
    let Target::Group {
        argument,
        incarnation,
        fnv5,
        fnv12,
        ..
    } = world.0.routes[&key(2, Class::Nat66)].target
    else {
        panic!("a route to a group");
    };
    let there = Target::Group {
        argument,
        group: id,
        incarnation,
        fnv5,
        fnv12,
    };
    let beside = Key::new(
        TableId::new(2),
        "2001:db8:7::/48".parse().expect("a prefix"),
    );
    world
        .0
        .routes
        .insert(key(2, Class::Nat66), Route::new(there));
    world.0.routes.insert(beside, Route::new(there));
    // The one with more routes has the class.
    let kept = id;
    let plan = world.sweep(&desired);
    let told = Problem::DuplicateClass {
        class: Class::Nat66,
        kept,
        others: vec![first.group],
    };
    assert!(plan.problems.contains(&told), "{:?}", plan.problems);
    assert_eq!(plan.repairs, [(Repair::Orphan, 1)].into());
    world.settle(&desired);
    assert_eq!(
        world.group(first.group).expect("the group").state,
        State::Disabled
    );
    for route in [key(1, Class::Nat66), key(2, Class::Nat66), beside] {
        assert_eq!(world.0.routes[&route].group(), Some((kept, incarnation)));
    }
}

#[test]
fn another_writer_s_route_keeps_a_removed_class_s_group() {
    let mut world = settled(observed([1, 2]), &serving(&[NAT64, OTHER64]));
    let gone = nat64(OTHER64);
    let group = world.of(gone).expect("a group").group;
    let theirs = Route {
        origin: Origin(2),
        ..world.0.routes[&key(2, gone)]
    };
    world.0.routes.insert(key(2, gone), theirs);
    let desired = serving(&[NAT64]);
    world.settle(&desired);
    assert_eq!(world.group(group).expect("the group").state, State::Closing);
    assert_eq!(world.0.routes.get(&key(1, gone)), None);
    assert_eq!(world.0.routes[&key(2, gone)], theirs);
    world.0.routes.remove(&key(2, gone));
    world.settle(&desired);
    assert_eq!(
        world.group(group).expect("the group").state,
        State::Disabled
    );
}

#[test]
fn a_class_that_comes_back_opens_again_or_anew() {
    let desired = serving(&[NAT64]);
    let world = settled(observed([1]), &desired);
    let class = nat64(NAT64);
    let old = world.of(class).expect("a group").clone();
    let removal = reconcile(&world.0, &serving(&[]));
    for steps in 0..=removal.steps.len() {
        let mut world = world.clone();
        for planned in &removal.steps[..steps] {
            world.step(&planned.step);
        }
        let disabled = world.of(class).is_none();
        world.settle(&desired);
        let new = world.of(class).expect("a group");
        assert_eq!((new.group, new.hash_group), (old.group, old.hash_group));
        let incarnation = match disabled {
            true => old.incarnation.next(),
            false => old.incarnation,
        };
        assert_eq!(new.incarnation, incarnation);
        all_at_home(&world, &[NAT64], &[1]);
    }
}

#[test]
fn a_removed_class_s_shards_serve_nobody_else() {
    // All shards translate one prefix only: whose group is asked for decides, not its place.
    let mut desired = serving(&[NAT64, OTHER64]);
    let world = settled(observed([1]), &desired);
    desired.classes = classes(&[OTHER64]);
    let plan = reconcile(&world.0, &desired);
    for planned in &plan.steps {
        if let Step::PublishGroups(plans) = &planned.step {
            assert!(plans.iter().all(|plan| plan.class() != nat64(NAT64)));
        }
        if let Step::MoveRoutes { moves, .. } = &planned.step {
            assert!(moves
                .iter()
                .all(|one| !matches!(one.to, Some(RouteTarget::Class(_)))));
        }
    }
    // A shard of one class only is a member of that alone.
    desired.shards = list([shard66(0)]);
    let mut world = world.clone();
    world.settle(&desired);
    assert!(world
        .of(nat64(OTHER64))
        .expect("a group")
        .members
        .is_empty());
}
