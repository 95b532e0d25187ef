// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan says that it does to packets.

use std::collections::HashMap;

use guideway::control::{
    reconcile, ClassEffect, MemberCounts, Mode, Part, Plan, PlannedStep, Problem, ShardShare, Step,
    Unreached,
};
use guideway::group::{Change, Class, GroupId, HashMode, Member, PinIdle, Snapshot, State};
use guideway::placement::{HashKey, Scope};
use guideway::route::{Block, Origin, Route, Target};

use super::fixture::{
    dual, hashed, hop_by, key, list, nat64, observed, ordered, shard66, sid, to_shard, NAT64,
};
use super::world::{settled, World};

fn of(plan: &Plan, class: Class) -> &ClassEffect {
    let mut classes = plan.effect.classes.iter();
    classes
        .find(|effect| effect.class == class)
        .expect("the class")
}

/// Table slots that lead to a shard, counted one by one.
fn slots(group: &Snapshot, number: u16) -> u32 {
    let member = group.member_by_sid(sid(number)).expect("a member");
    let slot = member.slot.get();
    group.table.iter().filter(|to| **to == slot).count() as u32
}

fn counts(active: u64, draining: u64, unreachable: u64, ineligible: u64) -> MemberCounts {
    let mut counts = MemberCounts::default();
    counts.active = active;
    counts.draining = draining;
    counts.unreachable = unreachable;
    counts.ineligible = ineligible;
    counts
}

#[test]
fn members_are_counted_by_what_they_do() {
    let mut shards = vec![dual(0), dual(1), dual(2), shard66(3)];
    shards[1].drain = true;
    let desired = hashed(list(shards));
    let mut world = World(observed([1]));
    world.0.reach.0.insert(sid(2), Err(Unreached::NoRoute));
    let plan = world.sweep(&desired);
    assert_eq!(of(&plan, Class::Nat66).members, counts(2, 1, 1, 0));
    let effect = of(&plan, nat64(NAT64));
    assert_eq!(effect.members, counts(1, 1, 1, 1));
    assert_eq!(effect.ineligible, [("ns/shard-3".to_owned(), sid(3))]);
    assert_eq!(effect.change, Some(Change::Open));
    assert!(effect.served && effect.configured);
    let idle = reconcile(&world.0, &desired);
    assert_eq!(of(&idle, nat64(NAT64)).members, counts(1, 1, 1, 1));
    assert_eq!(of(&idle, nat64(NAT64)).change, None);
    assert_eq!(
        (idle.effect.tenants_moved, idle.effect.publishing_bytes),
        (0, 0)
    );
}

#[test]
fn most_addresses_change_their_shard_once_on_the_way_to_hashed_mode() {
    // Three tenants on a shard that will be one of four: what the table gives it stays there.
    let mut desired = hashed(list((0..4).map(shard66)));
    desired.static_sids = vec![sid(0)];
    let mut world = settled(observed([1, 2, 3]), &ordered(&[0]));
    let plan = world.sweep(&desired);
    let group = world.of(Class::Nat66).expect("a group").clone();
    let effect = of(&plan, Class::Nat66);
    let size = group.table.len() as u64;
    let kept = u64::from(slots(&group, 0));
    assert_eq!(effect.routes_moved, 3);
    assert_eq!(
        effect.addresses_moved,
        Part {
            part: 3 * (size - kept),
            whole: 3 * size
        }
    );
    let part = effect.addresses_moved.part as f64 / effect.addresses_moved.whole as f64;
    assert!((part - 0.75).abs() < 0.05, "about three of four: {part}");
    // NAT64 has no shard here: its routes stay where they are.
    assert_eq!(of(&plan, nat64(NAT64)).routes_moved, 0);
    assert!(!of(&plan, nat64(NAT64)).served);
    assert_eq!(plan.effect.tenants_moved, 3);

    let share = |number| effect.shares[&sid(number)];
    for number in 0..4 {
        let mut expected = ShardShare::default();
        expected.slots_after = slots(&group, number);
        expected.routes_before = if number == 0 { 3 } else { 0 };
        assert_eq!(share(number), expected, "shard {number}");
    }

    // The prediction is what comes: addresses of a tenant, placed one by one.
    let scope = Scope {
        table: world.0.tenants[&101].hash_table,
        group: group.hash_group,
    };
    let moved = (0..2000_u32).filter(|number| {
        let source: std::net::IpAddr = format!("2001:db8:1::{number:x}").parse().expect("one");
        let hash = HashKey::source(scope, source).hash32();
        group.place(hash).map(|member| member.sid) != Some(sid(0))
    });
    let found = moved.count() as f64 / 2000.0;
    assert!((found - part).abs() < 0.05, "{found} and {part}");
}

#[test]
fn ordered_mode_gives_all_to_one_shard() {
    let mut world = settled(observed([1, 2]), &hashed(list((0..2).map(dual))));
    let group = world.of(Class::Nat66).expect("a group").clone();
    let plan = world.sweep(&ordered(&[1]));
    let effect = of(&plan, Class::Nat66);
    let mut expected = ShardShare::default();
    expected.slots_before = slots(&group, 1);
    expected.routes_after = 2;
    assert_eq!(effect.shares[&sid(1)], expected);
    let lost = u64::from(slots(&group, 0));
    assert_eq!(
        effect.addresses_moved,
        Part {
            part: 2 * lost,
            whole: 2 * group.table.len() as u64
        }
    );
    assert!(effect.served);
    assert_eq!(plan.effect.tenants_moved, 2);
    let unresolved = reconcile(&world.0, &ordered(&[]));
    assert!(!of(&unresolved, Class::Nat66).served);
}

#[test]
fn another_way_moves_nobody() {
    let desired = ordered(&[4]);
    let mut world = settled(observed([1]), &desired);
    world.0.reach.0.insert(sid(4), Ok(hop_by(4, 1)));
    let plan = reconcile(&world.0, &desired);
    assert!(!plan.is_empty());
    assert_eq!(
        (
            plan.effect.tenants_moved,
            of(&plan, Class::Nat66).routes_moved
        ),
        (0, 0)
    );
}

#[test]
fn a_tenant_is_counted_once() {
    let mut world = settled(observed([1]), &ordered(&[0]));
    world.0.routes.insert(key(1, Class::Nat66), to_shard(1, 9));
    world.0.routes.insert(key(1, nat64(NAT64)), to_shard(1, 9));
    let plan = reconcile(&world.0, &ordered(&[0]));
    assert_eq!(plan.effect.tenants_moved, 1);
}

/// One number of pins for each member of a group.
fn pinned(world: &mut World, numbers: &[u64]) {
    let group = world.of(Class::Nat66).expect("a group");
    let id = group.group;
    let held = |(member, number): (&Member, &u64)| ((id, member.slot, member.generation), *number);
    let mut pins: HashMap<_, _> = group.members.iter().zip(numbers).map(held).collect();
    // Of a tenure that is over: no pin in use.
    let first = group.members[0];
    pins.insert(
        (id, first.slot, first.generation.next().next().next().next()),
        1000,
    );
    let other = GroupId::new(3).expect("an index");
    pins.insert((other, first.slot, first.generation), 1000);
    world.0.pins = Some(pins);
}

#[test]
fn sessions_at_risk_are_those_whose_shard_goes() {
    let desired = hashed(list((0..3).map(shard66)));
    let mut world = settled(observed([1]), &desired);
    assert_eq!(
        of(&reconcile(&world.0, &desired), Class::Nat66).pins,
        None,
        "nobody counted"
    );
    pinned(&mut world, &[5, 7, 11]);
    let risk = |plan: &Plan| {
        let pins = of(plan, Class::Nat66).pins.expect("pins");
        [pins.live, pins.leaving, pins.unreachable, pins.released]
    };
    assert_eq!(risk(&reconcile(&world.0, &desired)), [23, 0, 0, 0]);

    let mut draining = (0..3).map(shard66).collect::<Vec<_>>();
    draining[0].drain = true;
    assert_eq!(
        risk(&reconcile(&world.0, &hashed(list(draining)))),
        [23, 0, 0, 0]
    );
    let leaving = hashed(list((1..3).map(shard66)));
    assert_eq!(risk(&reconcile(&world.0, &leaving)), [23, 5, 0, 0]);
    let mut flows = desired.clone();
    flows.settings.hash_mode = HashMode::Flow;
    assert_eq!(risk(&reconcile(&world.0, &flows)), [23, 0, 0, 23]);
    let mut off = desired.clone();
    off.settings.pin_idle = PinIdle::OFF;
    assert_eq!(risk(&reconcile(&world.0, &off)), [23, 0, 0, 23]);
    let mode = ordered(&[5]);
    assert_eq!(mode.mode, Mode::Ordered);
    assert_eq!(risk(&reconcile(&world.0, &mode)), [23, 0, 0, 23]);
    world.0.reach.0.insert(sid(1), Err(Unreached::NoRoute));
    let plan = reconcile(&world.0, &desired);
    assert_eq!(risk(&plan), [23, 0, 7, 0]);
    assert_eq!(of(&plan, Class::Nat66).pins.expect("pins").at_risk(), 7);
}

#[test]
fn publications_take_memory_for_each_group_of_a_batch() {
    let mut world = World(observed([1]));
    let both = reconcile(&world.0, &hashed(list([dual(0)])));
    let one = {
        let desired = hashed(list([dual(0)]));
        world.settle(&desired);
        let mut desired = desired.clone();
        desired.classes = super::fixture::classes(&[]);
        reconcile(&world.0, &desired)
    };
    assert!(one.effect.publishing_bytes > 0);
    assert_eq!(
        both.effect.publishing_bytes,
        2 * one.effect.publishing_bytes
    );
    // The table alone has two bytes for each of its slots.
    let table = 2 * u64::from(super::fixture::limits().table_size().get());
    assert!(one.effect.publishing_bytes > table);
}

#[test]
fn a_class_that_goes_is_told_beside_the_others() {
    let desired = hashed(list([dual(0)]));
    let world = settled(observed([1]), &desired);
    let mut fewer = desired.clone();
    fewer.classes = super::fixture::classes(&[]);
    let plan = reconcile(&world.0, &fewer);
    let told: Vec<_> = plan
        .effect
        .classes
        .iter()
        .map(|one| (one.class, one.configured))
        .collect();
    assert_eq!(told, [(Class::Nat66, true), (nat64(NAT64), false)]);
    assert!(!of(&plan, nat64(NAT64)).served);
    // Nobody is warned of what is meant to go.
    assert!(!plan.problems.contains(&Problem::Unserved {
        class: nat64(NAT64)
    }));
}

/// What got nowhere before does not move.
#[test]
fn addresses_that_were_blocked_do_not_count_as_moved() {
    let desired = hashed(list([dual(1), dual(2)]));
    let mut world = settled(observed([1, 2]), &desired);
    let block = Route::new(Target::Block(Block::Drop));
    world.0.routes.insert(key(1, Class::Nat66), block);
    let plan = reconcile(&world.0, &desired);
    let effect = of(&plan, Class::Nat66);
    assert_eq!(
        (effect.routes_moved, effect.addresses_moved),
        (1, Part::default())
    );
}

#[test]
fn shares_leave_out_what_other_writers_keep() {
    let desired = ordered(&[9]);
    let mut world = settled(observed([1, 2]), &desired);
    let foreign = Route {
        origin: Origin(7),
        ..to_shard(1, 9)
    };
    world.0.routes.insert(key(1, Class::Nat66), foreign);
    let plan = reconcile(&world.0, &desired);
    let share = of(&plan, Class::Nat66).shares[&sid(9)];
    assert_eq!((share.routes_before, share.routes_after), (1, 1));
}

/// To disable a group takes a snapshot as well.
#[test]
fn a_retirement_alone_needs_memory() {
    let mut world = settled(observed([1]), &hashed(list([dual(1)])));
    for live in &mut world.0.groups {
        live.state = State::Closing;
    }
    let plan = reconcile(&world.0, &ordered(&[9]));
    assert!(plan.effect.publishing_bytes > 0);
    let published = |planned: &PlannedStep| {
        matches!(&planned.step, Step::CloseGroups(_) | Step::PublishGroups(_))
    };
    assert!(!plan.steps.iter().any(published));
}

/// Of two groups that claim a class, the one that is published for it is what it has afterwards.
#[test]
fn a_class_that_two_claim_has_the_shares_of_the_one_that_is_kept() {
    let mut world = settled(observed([1]), &hashed(list([dual(1)])));
    let kept = world.of(Class::Nat66).expect("a group").clone();
    let twin = Snapshot {
        group: GroupId::new(3).expect("an index"),
        ..kept.clone()
    };
    // The routes name the one with the higher number.
    for route in world.0.routes.values_mut() {
        if let Target::Group { group, .. } = &mut route.target {
            if *group == kept.group {
                *group = twin.group;
            }
        }
    }
    world.0.groups.push(twin.clone());
    // Somebody else's keeps the other one there.
    let foreign = Route {
        origin: Origin(7),
        target: world.0.routes[&key(1, Class::Nat66)].target,
    };
    let Target::Group {
        argument,
        incarnation,
        fnv5,
        fnv12,
        ..
    } = foreign.target
    else {
        panic!("{foreign:?}");
    };
    let group = kept.group;
    let target = Target::Group {
        argument,
        group,
        incarnation,
        fnv5,
        fnv12,
    };
    world
        .0
        .routes
        .insert(key(7, Class::Nat66), Route { target, ..foreign });
    for table in [1, 2] {
        let again = world.0.routes[&key(1, Class::Nat66)];
        world.0.routes.insert(key(table, Class::Nat66), again);
    }
    let plan = reconcile(&world.0, &hashed(list([dual(1), shard66(2)])));
    let effect = of(&plan, Class::Nat66);
    assert_eq!(effect.group, Some(twin.group));
    assert!(effect.shares[&sid(2)].slots_after > 0);
}
