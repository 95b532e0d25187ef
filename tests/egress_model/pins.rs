// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What packets make of pins.

use std::net::{IpAddr, Ipv6Addr};

use guideway::group::HashMode;
use guideway::oracle::egress::{By, Decision, PinFate, PinUse};
use guideway::reason::egress::{End, Selection};
use guideway::tenant::PinQuota;

use crate::frames::*;
use crate::scene::*;

/// The life of a pin, from its first packet on.
#[test]
fn a_pin_holds_until_its_member_is_lost_or_it_was_idle() {
    let mut scene = Scene::of_group(group(pinned()));
    let (start, fate) = (scene.now_tick, |decision: &Decision| {
        decision.choice.and_then(|c| c.pin)
    });
    let first = scene.send(&v6());
    assert_eq!(fate(&first), Some(PinFate::New));
    assert_eq!(first.counters, [Selection::Maglev, Selection::PinNew]);
    let member = |decision: &Decision| decision.choice.and_then(|c| c.member).expect("a member");
    let (slot, sid) = (member(&first).slot, member(&first).sid);
    assert_eq!(first.slot.map(|(_, slot)| slot), Some(slot));
    let second = scene.send(&v6());
    assert_eq!(
        (fate(&second), member(&second).by),
        (Some(PinFate::Followed), By::Pin)
    );
    assert_eq!(second.counters, [Selection::PinHit]);

    // 100 s are 94 ticks of 1.0737 s, and a 64th of it, at least a second, is two.
    let (idle, refresh) = (94, 2);
    // The table names somebody else from now on; a draining member keeps what it has.
    let index = scene
        .group()
        .members
        .iter()
        .position(|one| one.slot == slot);
    let index = index.expect("the member");
    scene.group().members[index].draining = true;
    let other = scene.group().members[(index + 1) % 3].slot.get();
    scene.group().table.fill(other);
    scene.now_tick = start + 1;
    assert_eq!(fate(&scene.send(&v6())), Some(PinFate::Followed));
    scene.now_tick = start + refresh;
    assert_eq!(fate(&scene.send(&v6())), Some(PinFate::Refreshed));
    scene.now_tick += idle + refresh;
    let late = scene.send(&v6());
    assert_eq!(
        (fate(&late), member(&late).sid),
        (Some(PinFate::Refreshed), sid)
    );
    // A time to come is no reason to forget it.
    scene.now_tick -= 5;
    assert_eq!(fate(&scene.send(&v6())), Some(PinFate::Followed));
    scene.now_tick += 5;

    let kept = (scene.pins.clone(), scene.now_tick);
    let replaced = |scene: &mut Scene| {
        let decision = scene.send(&v6());
        assert_eq!(fate(&decision), Some(PinFate::Replaced));
        let counters = [
            Selection::Maglev,
            Selection::PinStale,
            Selection::PinReplaced,
        ];
        assert_eq!(decision.counters, counters);
        assert_eq!(member(&decision).slot.get(), other);
        assert_eq!(fate(&scene.send(&v6())), Some(PinFate::Followed));
        (scene.pins, scene.now_tick) = kept.clone();
    };
    scene.now_tick += idle + refresh + 1;
    replaced(&mut scene);
    let before = scene.group().members[index];
    scene.group().members[index].generation = before.generation.next().next().next();
    replaced(&mut scene);
    scene.group().members[index] = before;
    scene.group().members[index].next_hop = None;
    replaced(&mut scene);
    // Nobody to go to: the pin stays.
    scene.group().table.fill(0xffff);
    let decision = scene.send(&v6());
    assert_eq!(
        (decision.end, fate(&decision)),
        (End::GroupEmpty, Some(PinFate::Stale))
    );
    assert_eq!(decision.counters, [Selection::PinStale]);
    assert_eq!(scene.pins, kept.0);
    scene.group().members[index] = before;
    // A pin decides where the table has nobody.
    assert_eq!(scene.send(&v6()).end, End::Group);

    scene.group().table.fill(other);
    for (change, expected) in [(0, PinFate::Torn), (1, PinFate::Dead)] {
        let pin = scene.pins.pins.values_mut().next().expect("a pin");
        match change {
            0 => pin.tag ^= 1,
            _ => pin.dead = true,
        }
        let changed = scene.pins.clone();
        let decision = scene.send(&v6());
        assert_eq!(
            (decision.end, fate(&decision)),
            (End::Group, Some(expected))
        );
        assert_eq!((scene.pins, member(&decision).slot.get()), (changed, other));
        scene.pins = kept.0.clone();
    }
}

#[test]
fn a_pin_needs_room_and_quota() {
    let mut scene = Scene::of_group(group(pinned()));
    let send = |scene: &mut Scene, number: u16| {
        let source = Ipv6Addr::new(0x2001, 0xdb8, 0xaaaa, 0, 0, 0, 1, number);
        let frame = v6_from(&source.to_string(), UDP, &ports(1, 2, 12));
        let decision = scene.send(&frame);
        assert_eq!(decision.end, End::Group);
        decision
            .choice
            .and_then(|choice| choice.pin)
            .expect("a fate")
    };
    let quota = |scene: &mut Scene, quota| {
        scene
            .world
            .tenants
            .get_mut(&TENANT)
            .expect("a tenant")
            .pin_quota = quota;
    };
    quota(&mut scene, PinQuota(3));
    let fates: Vec<_> = (0..5).map(|number| send(&mut scene, number)).collect();
    assert_eq!(fates[..3], [PinFate::New; 3]);
    assert_eq!(fates[3..], [PinFate::NoQuota; 2]);
    let used = PinUse {
        pins: 3,
        refused: 2,
    };
    assert_eq!(scene.pins.used[&TABLE], used);
    quota(&mut scene, PinQuota::UNLIMITED);
    let fates: Vec<_> = (3..10).map(|number| send(&mut scene, number)).collect();
    assert_eq!(fates[..5], [PinFate::New; 5]);
    assert_eq!(fates[5..], [PinFate::NoRoom; 2]);
    // A table that was just full is not tried, also where there is no quota; later it is.
    quota(&mut scene, PinQuota::NONE);
    assert_eq!(send(&mut scene, 20), PinFate::NoRoom);
    scene.now_tick += 2;
    assert_eq!(send(&mut scene, 20), PinFate::NoQuota);
    scene.pins.used.clear();
    quota(&mut scene, PinQuota::UNLIMITED);
    assert_eq!(send(&mut scene, 20), PinFate::NoQuota);
    // Flows have room of their own.
    scene.group().settings.hash_mode = HashMode::Flow;
    scene.pins.used.insert(TABLE, used);
    assert_eq!(send(&mut scene, 0), PinFate::New);
    let flows = scene
        .pins
        .pins
        .keys()
        .filter(|holder| holder.flow.is_some());
    let destinations: Vec<_> = flows
        .map(|holder| holder.flow.map(|flow| flow.destination))
        .collect();
    let to: IpAddr = "2001:db8:2::1".parse().expect("an address");
    assert_eq!(destinations, [Some(to)]);
}
