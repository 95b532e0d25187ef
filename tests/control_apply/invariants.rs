// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What must hold after every round, and that it is seen where it does not.

use guideway::control::fake::Fake;
use guideway::control::Repair;
use guideway::group::{Class, GroupId, Incarnation, State};
use guideway::placement::Scope;
use guideway::route::{Key, Origin, Prefix, Route, TableId, Target};

use crate::fixture::*;
use crate::node::*;

fn sound() -> (Fake, guideway::control::Desired) {
    let fake = node(&[1, 2]);
    let desired = hashed(list([dual(1)]));
    settled(&fake, &desired, &all());
    assert!(holds(&fake, &desired).hold());
    (fake, desired)
}

fn group_of(fake: &Fake, class: Class) -> guideway::group::Snapshot {
    fake.world(|world| {
        let mut groups = world.groups.values();
        groups
            .find(|group| group.class == class)
            .expect("a group")
            .clone()
    })
}

fn to_group(table: u32, group: GroupId, incarnation: Incarnation, prefix: Prefix) -> Route {
    let scope = Scope::of(tenant(table).hash_table);
    Route::new(Target::group(
        argument(table),
        group,
        incarnation,
        scope,
        prefix,
    ))
}

#[test]
fn each_kind_of_broken_route_is_counted() {
    type Spoil = fn(&Fake);
    let kinds: [(Repair, Spoil); 5] = [
        (Repair::Missing, |fake| {
            fake.remove_route(&key(1, nat64(NAT64)))
        }),
        (Repair::WrongClass, |fake| {
            let other = group_of(fake, Class::Nat66);
            let key = key(1, nat64(NAT64));
            let route = to_group(1, other.group, other.incarnation, key.prefix);
            fake.put_route(key, route);
        }),
        (Repair::OldIncarnation, |fake| {
            let live = group_of(fake, Class::Nat66);
            let key = key(1, Class::Nat66);
            let route = to_group(1, live.group, live.incarnation.next(), key.prefix);
            fake.put_route(key, route);
        }),
        (Repair::Orphan, |fake| {
            let absent = GroupId::new(3).expect("a group");
            let key = key(2, Class::Nat66);
            fake.put_route(key, to_group(2, absent, Incarnation::FIRST, key.prefix));
        }),
        (Repair::Orphan, |fake| {
            let live = group_of(fake, Class::Nat66);
            let disabled = guideway::group::Snapshot {
                group: GroupId::new(3).expect("a group"),
                class: nat64(OTHER64),
                state: State::Disabled,
                ..live.clone()
            };
            let key = key(2, Class::Nat66);
            let route = to_group(2, disabled.group, live.incarnation, key.prefix);
            fake.force_group(disabled);
            fake.put_route(key, route);
        }),
    ];
    for (kind, spoil) in kinds {
        let (fake, desired) = sound();
        spoil(&fake);
        let found = holds(&fake, &desired);
        assert!(!found.hold(), "{kind:?}");
        for other in Repair::ALL {
            assert_eq!(
                found.count(other),
                u64::from(other == kind),
                "{kind:?}: {found:?}"
            );
        }
        let is_dead = matches!(kind, Repair::OldIncarnation | Repair::Orphan);
        assert_eq!(found.dead, u64::from(is_dead), "{kind:?}");
        // What is found the next round mends.
        settled(&fake, &desired, &all());
        assert!(
            holds(&fake, &desired).hold(),
            "{kind:?}: {:?}",
            holds(&fake, &desired)
        );
    }
}

#[test]
fn routes_of_others_are_counted_apart() {
    let (fake, desired) = sound();
    let live = group_of(&fake, Class::Nat66);
    let key = Key::new(
        TableId::new(1),
        "2001:db8:5::/48".parse().expect("a prefix"),
    );
    let dead = to_group(1, live.group, live.incarnation.next(), key.prefix);
    let theirs = Route {
        origin: Origin(4),
        ..dead
    };
    fake.put_route(key, theirs);
    let found = holds(&fake, &desired);
    assert!(found.hold());
    assert_eq!((found.dead, found.foreign_dead), (0, 1));
}

#[test]
fn two_groups_of_one_class_are_found() {
    let (fake, desired) = sound();
    let mut second = group_of(&fake, Class::Nat66);
    second.group = GroupId::new(3).expect("a group");
    fake.force_group(second);
    let found = holds(&fake, &desired);
    assert!(!found.hold());
    assert_eq!(
        found.duplicates.into_iter().collect::<Vec<_>>(),
        [Class::Nat66]
    );
    settled(&fake, &desired, &all());
    assert!(holds(&fake, &desired).hold());
}

/// That no route names a class's group is told only when it was proven: neither of one that never
/// had routes, nor of one that lost them, nor while it closes.
#[test]
fn that_no_route_names_a_group_is_told_only_with_a_proof() {
    let (fake, desired) = sound();
    let told = |fake: &Fake| {
        holds(fake, &desired)
            .group_routes
            .get(&Class::Nat66)
            .copied()
    };
    assert_eq!(told(&fake), Some(2));
    for table in [1, 2] {
        fake.remove_route(&key(table, Class::Nat66));
        fake.remove_tenant(100 + table);
    }
    assert_eq!(told(&fake), None);
    let mut closing = group_of(&fake, Class::Nat66);
    closing.state = State::Closing;
    fake.force_group(closing);
    assert_eq!(told(&fake), None);
    settled(&fake, &ordered(&[STATIC]), &all());
    assert_eq!(told(&fake), Some(0));
    // It is open again, so the proof is worth nothing.
    settled(&fake, &desired, &all());
    assert_eq!(told(&fake), None);
}
