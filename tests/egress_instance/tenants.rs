// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants that go, and the pins that go with them; slot generations that come round.

use std::sync::atomic::{AtomicBool, Ordering};

use guideway::egress::pins::{Held, Scope, Tick};
use guideway::egress::{TenantError, To, Writer};
use guideway::group::{Class, Generation, Slot};
use guideway::kernel::map::Map;
use guideway::kernel::statedir::Section;
use guideway::route::TableId;

use crate::netns::{isolated, veth};
use crate::support::*;

#[test]
fn a_tenants_number_is_inherited_with_nothing() {
    isolated("egress_instance::tenant_goes", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10, 0x11, 0x12]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        serve(&writer, inside + 1000, 8, &[Class::Nat66]);
        for number in 0..200 {
            let source = format!("2001:db8::{number:x}");
            assert!(shard_of(&writer, inside, &source, "2001:db8:1::1").is_some());
        }
        let used = |writer: &guideway::egress::Writer| {
            let usage = writer.pins().expect("pins").usage().expect("readable");
            usage.get(&TableId::new(7)).map(|usage| usage.pins)
        };
        assert_eq!(used(&writer), Some(200));

        let error = writer
            .remove_tenant(TableId::new(7), PATIENCE)
            .expect_err("in use");
        assert!(matches!(error, TenantError::InUse { ifindex, .. } if ifindex == inside));
        let guard = writer.write_routes(PATIENCE).expect("free");
        let gone = guard.remove_interface(inside).expect("removed");
        assert_eq!(gone, Some(tenant(7)));
        assert_eq!(guard.remove_interface(inside).expect("nothing"), None);
        drop(guard);
        assert_eq!(
            run(&writer, inside, "2001:db8::1", "2001:db8:1::1").action,
            PASSED
        );
        assert_eq!(writer.abandoned().expect("readable"), [TableId::new(7)]);
        let removed = writer
            .remove_tenant(TableId::new(7), PATIENCE)
            .expect("removed");
        assert_eq!((removed.routes, removed.pins), (1, 200));
        assert_eq!(used(&writer), None);
        assert!(writer.abandoned().expect("readable").is_empty());
        // The other tenant keeps what it has.
        assert_eq!(writer.routes(TableId::new(8)).expect("readable").len(), 1);

        serve(&writer, inside, 7, &[Class::Nat66]);
        assert_eq!(used(&writer), Some(0));
        let new = guideway::abi::EgressCounter::GW_EGRESS_PIN_NEW;
        let before = counter(new);
        for number in 0..200 {
            let source = format!("2001:db8::{number:x}");
            shard_of(&writer, inside, &source, "2001:db8:1::1");
        }
        assert_eq!(counter(new), before + 200, "every pin is made anew");
    });
}

#[test]
fn pins_are_expired_by_the_rules_of_what_is_published() {
    isolated("egress_instance::expire", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        let mut of_first = 0;
        for number in 0..100 {
            let source = format!("2001:db8::{number:x}");
            let shard = shard_of(&writer, inside, &source, "2001:db8:1::1");
            of_first += u64::from(shard == Some(0x10));
        }
        let report = writer.sweeper().expect("loaded").expire(Tick::now());
        assert_eq!(report.expect("a pass").removed.total(), 0);
        // The first shard's tenure is over.
        publish(&mut writer, Class::Nat66, &[0x11]);
        let report = writer.sweeper().expect("loaded").expire(Tick::now());
        let report = report.expect("a pass");
        assert_eq!(
            (report.removed.stale, report.removed.total()),
            (of_first, of_first)
        );
    });
}

/// Pins of a former round of numbers are gone before the numbers come again.
#[test]
fn slot_generations_that_come_round_inherit_no_pin() {
    isolated("egress_instance::round", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        let group = publish(&mut writer, Class::Nat66, &[0x10, 0x11]).group;
        serve(&writer, inside, 7, &[Class::Nat66]);
        for number in 0..100 {
            let source = format!("2001:db8::{number:x}");
            shard_of(&writer, inside, &source, "2001:db8:1::1");
        }
        // Its pins, of generation 2, stay behind.
        publish(&mut writer, Class::Nat66, &[0x10]);
        let second = Held {
            slot: Slot::new(1).expect("a slot"),
            generation: Generation::new(2).expect("a generation"),
        };
        let of_second = |writer: &mut Writer| {
            let scope = Scope::Member(group, second);
            let report = writer.sweeper().expect("loaded").count(scope, Tick::now());
            report.expect("a pass").found.total()
        };
        assert!(of_second(&mut writer) > 20);
        drop(writer);
        // Just before the end of the numbers: the word is behind flags, incarnation and publication.
        let old = Map::open_any(&dir().pin(Section::Generations, &format!("g{group}")));
        let old = old.expect("a map");
        let mut bytes = vec![0; old.shape().value_size as usize];
        assert!(old.lookup(&[0; 4], &mut bytes).expect("readable"));
        bytes[16..20].copy_from_slice(&0xffff_fffe_u32.to_ne_bytes());
        force(group, &bytes);

        let mut writer = load();
        let mut seen = vec![1];
        for round in 0..6_u16 {
            publish(&mut writer, Class::Nat66, &[0x10, 0x20 + round]);
            let newest = members(&writer, group)[1];
            assert_eq!(newest.0, 0x20 + round);
            assert!(
                newest.2 != 0 && !seen.contains(&newest.2),
                "{newest:?} after {seen:?}"
            );
            seen.push(newest.2);
            if newest.2 == 2 {
                assert_eq!(newest.1, 1, "the slot that the number was given for before");
                assert_eq!(of_second(&mut writer), 0);
            }
        }
        assert_eq!(seen, [1, 0xffff_fffe, 0xffff_ffff, 2, 3, 4, 5]);
    });
}

/// A tenant comes again while what it left behind is removed: it has its routes, and gets pins.
#[test]
fn who_adds_a_tenant_and_who_removes_it_do_not_meet() {
    isolated("egress_instance::tenant_race", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = &stop;
            let adder = scope.spawn(move || {
                let egress = open();
                let mut added = 0;
                while !end.load(Ordering::Relaxed) {
                    let guard = egress.write_routes(PATIENCE).expect("in time");
                    let ticket = guard.ticket(Class::Nat66).expect("open");
                    let to = To::Group(&ticket);
                    guard
                        .install(&tenant(7), &[(prefix("::/0"), to)])
                        .expect("room");
                    guard.add_interface(1, &tenant(7)).expect("room");
                    guard.verify().expect("written");
                    // It is whole as long as it has its interface.
                    for _ in 0..5 {
                        let routes = egress.routes(TableId::new(7)).expect("readable");
                        assert_eq!(routes.len(), 1, "round {added}");
                        let usage = egress.pins().expect("pins").usage().expect("readable");
                        assert!(usage.contains_key(&TableId::new(7)), "round {added}");
                    }
                    let guard = egress.write_routes(PATIENCE).expect("in time");
                    guard.remove_interface(1).expect("removed");
                    added += 1;
                }
                added
            });
            let mut removed = 0;
            while removed < 6 && !adder.is_finished() {
                for table in writer.abandoned().expect("readable") {
                    match writer.remove_tenant(table, PATIENCE) {
                        Ok(_) => removed += 1,
                        Err(TenantError::InUse { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(adder.join().expect("an adder") > 6);
        });
    });
}
