// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Writing routes: all or none, long prefixes first, in line with tenants and groups.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use guideway::egress::{Limits, Loader, Move, RouteError, To};
use guideway::error::ErrorKind;
use guideway::group::{Class, ConfiguredClass};
use guideway::placement::{Family, Fnv12, Fnv5, HashGroup, HashTable, Scope};
use guideway::route::{Block, Key, TableId, Target};
use guideway::srv6::Argument;
use guideway::tenant::Tenant;

use crate::cpus::stay_on;
use crate::netns::{isolated, veth};
use crate::stops::Stops;
use crate::support::*;

/// What a configured prefix has no shards for must not go where the default route leads.
#[test]
fn a_class_without_shards_never_uses_the_default_route() {
    isolated("egress_instance::unserved", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        publish(&mut writer, nat64(), &[]);
        serve(&writer, inside, 7, &[Class::Nat66, nat64()]);
        let there = |destination| shard_of(&writer, inside, "2001:db8::1", destination);
        assert_eq!(there("2001:db8:1::1"), Some(0x10));
        let empty = guideway::abi::EgressCounter::GW_EGRESS_DROP_GROUP_EMPTY;
        let before = counter(empty);
        assert_eq!(there("64:ff9b::192.0.2.1"), None);
        assert_eq!(counter(empty), before + 1);

        publish(&mut writer, nat64(), &[0x20]);
        let there = |destination| shard_of(&writer, inside, "2001:db8::1", destination);
        assert_eq!(there("64:ff9b::192.0.2.1"), Some(0x20));
    });
}

/// All shards of a group go: its routes stay, and the packets are dropped.
#[test]
fn an_empty_group_keeps_its_routes() {
    isolated("egress_instance::empty_group", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        serve(&writer, inside, 7, &[Class::Nat66]);
        let routes = writer.routes(TableId::new(7)).expect("readable");
        publish(&mut writer, Class::Nat66, &[]);
        assert_eq!(writer.routes(TableId::new(7)).expect("readable"), routes);
        assert_eq!(
            shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1"),
            None
        );
        publish(&mut writer, Class::Nat66, &[0x11]);
        assert_eq!(
            shard_of(&writer, inside, "2001:db8::1", "2001:db8:1::1"),
            Some(0x11)
        );
    });
}

/// How often routes are installed and removed, and how often at most until packets met both.
const ROUNDS: u32 = 3000;
const MOST_ROUNDS: u32 = 300_000;

/// While a tenant's routes are installed and removed again and again, no packet to the prefix of a
/// class goes where the default route leads.
#[test]
fn the_default_route_comes_last_and_goes_first() {
    isolated("egress_instance::order", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10]);
        publish(&mut writer, nat64(), &[0x20]);
        let stop = AtomicBool::new(false);
        let [passed, sent] = [0, 0].map(AtomicU64::new);
        std::thread::scope(|scope| {
            let stops = Stops(&stop);
            let packets = scope.spawn(|| {
                stay_on(1);
                let egress = open();
                while !stop.load(Ordering::Relaxed) {
                    let done = run(&egress, inside, "2001:db8::1", "64:ff9b::192.0.2.1");
                    let seen = match done.action {
                        PASSED => &passed,
                        SENT => {
                            assert_eq!(done.frame[45], 0x20, "the other class's shard");
                            &sent
                        }
                        action => panic!("verdict {action}"),
                    };
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
            stay_on(0);
            let guard = writer.write_routes(PATIENCE).expect("free");
            guard.add_interface(inside, &tenant(7)).expect("room");
            let [one, two] =
                [Class::Nat66, nat64()].map(|class| guard.ticket(class).expect("open"));
            let routes = [
                (prefix("::/0"), To::Group(&one)),
                (prefix(PREFIX), To::Group(&two)),
            ];
            let both = || [&passed, &sent].map(|count| count.load(Ordering::Relaxed));
            for round in 0..MOST_ROUNDS {
                if packets.is_finished() || round >= ROUNDS && both().iter().all(|&seen| seen > 100)
                {
                    break;
                }
                guard.install(&tenant(7), &routes).expect("room");
                assert_eq!(guard.remove_all(TableId::new(7)).expect("removed"), 2);
            }
            drop(stops);
            packets.join().expect("packets");
            assert!(both().iter().all(|&seen| seen > 0), "{:?}", both());
        });
    });
}

#[test]
fn a_set_of_routes_is_written_whole_or_not_at_all() {
    isolated("egress_instance::all_or_none", || {
        let limits = Limits::default().with_routes(3).expect("a limit");
        let writer = Loader::new(&dir()).limits(limits).load().expect("made");
        let guard = writer.write_routes(PATIENCE).expect("free");
        let block = To::Block(Block::Drop);
        guard
            .put(&tenant(7), prefix("::/0"), To::Pass)
            .expect("room");
        guard.put(&tenant(8), prefix("::/0"), block).expect("room");
        let before = writer.routes(TableId::new(7)).expect("readable");
        let routes = [
            "::/0",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "2001:db8:2::/48",
        ];
        let routes = routes.map(|text| (prefix(text), block));
        let error = guard.install(&tenant(7), &routes).expect_err("no room");
        assert_eq!(error.to_string(), "there is no room for more than 3 routes");
        assert_eq!(writer.routes(TableId::new(7)).expect("readable"), before);
        // What was never written is not looked for either.
        guard.verify().expect("as it was");

        let guard = writer.write_routes(PATIENCE).expect("free");
        guard.install(&tenant(7), &routes[..2]).expect("room");
        assert_eq!(writer.routes(TableId::new(7)).expect("readable").len(), 2);
        assert!(guard
            .remove(TableId::new(7), prefix("2001:db8::/32"))
            .expect("removed"));
        assert!(!guard
            .remove(TableId::new(7), prefix("2001:db8::/32"))
            .expect("nothing"));
    });
}

#[test]
fn rows_of_one_tenant_agree() {
    isolated("egress_instance::contradictions", || {
        let writer = load();
        let guard = writer.write_routes(PATIENCE).expect("free");
        guard.add_interface(11, &tenant(7)).expect("room");
        let kinds = [
            (
                "argument",
                0x2a6,
                0x2a5,
                Tenant {
                    argument: Argument::new(0x2a6).expect("an Argument"),
                    ..tenant(7)
                },
            ),
            (
                "hash_table",
                9,
                7,
                Tenant {
                    hash_table: HashTable(9),
                    ..tenant(7)
                },
            ),
            (
                "pin_quota",
                5,
                u32::MAX,
                Tenant {
                    pin_quota: guideway::tenant::PinQuota(5),
                    ..tenant(7)
                },
            ),
        ];
        for (field, wanted, found, other) in kinds {
            let text = format!("{field} {wanted} of table 7 is {found} at ifindex 11");
            let error = guard.add_interface(12, &other).expect_err(field);
            assert_eq!(error.to_string(), text);
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let error = guard
                .put(&other, prefix("::/0"), To::Pass)
                .expect_err(field);
            assert_eq!(error.to_string(), text);
        }
        let error = guard
            .add_interface(11, &tenant(8))
            .expect_err("another tenant's");
        assert_eq!(
            error.to_string(),
            "ifindex 11 is an interface of table 7, not 8; remove it first"
        );
        assert!(matches!(
            guard.add_interface(0, &tenant(9)),
            Err(RouteError::Ifindex)
        ));
        assert_eq!(
            writer.tenants().expect("readable"),
            [(11, tenant(7))].into()
        );
        // The only interface of a tenant may change in anything.
        let other = Tenant {
            hash_table: HashTable(9),
            ..tenant(7)
        };
        guard.add_interface(11, &other).expect("room");
        assert_eq!(writer.tenants().expect("readable"), [(11, other)].into());
    });
}

#[test]
fn routes_follow_the_numbers_that_are_hashed() {
    isolated("egress_instance::refresh", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        serve(&writer, 11, 7, &[Class::Nat66]);
        serve(&writer, 12, 8, &[Class::Nat66]);
        let states = |writer: &guideway::egress::Writer, table| {
            let key = Key::new(TableId::new(table), prefix("::/0"));
            match writer.routes(key.table).expect("readable")[&key].target {
                Target::Group { fnv5, fnv12, .. } => (fnv5, fnv12),
                other => panic!("{other:?}"),
            }
        };
        let of = |table, group| {
            let scope = Scope {
                table: HashTable(table),
                group: HashGroup(group),
            };
            (
                Fnv5::new(scope.table, Family::Ipv6),
                Fnv12::new(scope, Family::Ipv6),
            )
        };
        assert_eq!(states(&writer, 7), of(7, 0));

        // Another number for the tenant, and then another one for the class.
        let guard = writer.write_routes(PATIENCE).expect("free");
        let other = Tenant {
            hash_table: HashTable(77),
            ..tenant(7)
        };
        guard.add_interface(11, &other).expect("room");
        drop(guard);
        let report = writer
            .retire(PATIENCE)
            .expect("free")
            .refresh()
            .expect("refreshed");
        assert_eq!((report.moved, report.more), (1, false));
        assert_eq!(
            (states(&writer, 7), states(&writer, 8)),
            (of(77, 0), of(8, 0))
        );

        let configured = [ConfiguredClass {
            class: Class::Nat66,
            hash_group: Some(HashGroup(5)),
        }];
        let classes = guideway::group::Classes::new(configured, writer.limits().groups());
        let places = writer
            .places(&classes.expect("classes"), |_| 0)
            .expect("readable");
        let place = places.of(Class::Nat66).expect("a place");
        let plan = writer
            .plan_group(&place, &shards(&[0x10, 0x11]))
            .expect("a plan");
        assert!(plan.rewrites_routes());
        publish_plan(&mut writer, plan);
        let report = writer
            .retire(PATIENCE)
            .expect("free")
            .refresh()
            .expect("refreshed");
        assert_eq!(report.moved, 2);
        assert_eq!(
            (states(&writer, 7), states(&writer, 8)),
            (of(77, 5), of(8, 5))
        );
        let report = writer
            .retire(PATIENCE)
            .expect("free")
            .refresh()
            .expect("refreshed");
        assert_eq!(report.moved, 0);
    });
}

/// Others wait while a guard is held, so it is held for so many routes at most.
#[test]
fn a_refresh_goes_on_under_the_next_guard() {
    isolated("egress_instance::refresh_some", || {
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x10]);
        serve(&writer, 11, 7, &[Class::Nat66]);
        let guard = writer.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        for number in 0..1500_u32 {
            let address = format!("2001:db8:{:x}::/48", number);
            guard
                .put(&tenant(7), prefix(&address), To::Group(&ticket))
                .expect("room");
        }
        let other = Tenant {
            hash_table: HashTable(77),
            ..tenant(7)
        };
        guard.add_interface(11, &other).expect("room");
        drop(guard);
        let refresh = |writer: &mut guideway::egress::Writer| {
            let report = writer
                .retire(PATIENCE)
                .expect("free")
                .refresh()
                .expect("refreshed");
            (report.moved, report.more)
        };
        assert_eq!(refresh(&mut writer), (1024, true));
        assert_eq!(refresh(&mut writer), (477, false));
        assert_eq!(refresh(&mut writer), (0, false));
    });
}

#[test]
fn all_routes_there_is_room_for_are_moved_and_proven() {
    isolated("egress_instance::many_routes", || {
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        let guard = writer.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        let all = writer.limits().routes();
        for table in 0..all {
            guard
                .put(&tenant(table), prefix("::/0"), To::Group(&ticket))
                .expect("room");
        }
        let full = guard.put(&tenant(all), prefix("::/0"), To::Pass);
        assert!(matches!(full, Err(RouteError::Full { max: 32_768, .. })));
        drop(guard);
        let close = writer.plan_close(group).expect("open");
        publish_plan(&mut writer, close);
        let mut guard = writer.retire(PATIENCE).expect("free");
        let report = guard.move_routes(|_, _| Move::To(To::Block(Block::Drop)));
        assert_eq!(report.expect("moved").moved, u64::from(all));
        let proof = guard.prove_zero(group).expect("none is left");
        assert_eq!(
            (proof.census().routes, proof.census().of(group)),
            (u64::from(all), 0)
        );
        guard.disable(proof).expect("disabled");
    });
}

/// The shard would take the packets for another tenant's, so that must be asked for.
#[test]
fn another_argument_than_the_tenants_is_asked_for_by_name() {
    isolated("egress_instance::foreign_argument", || {
        let writer = load();
        let guard = writer.write_routes(PATIENCE).expect("free");
        let to = To::Shard {
            sid: sid(0x10),
            next_hop: hop(1),
        };
        let other = Argument::new(0x111).expect("an Argument");
        guard.put(&tenant(7), prefix("::/0"), to).expect("room");
        guard
            .put_foreign(&tenant(7), other, prefix("2001:db8::/32"), to)
            .expect("room");
        let routes = writer.routes(TableId::new(7)).expect("readable");
        let arguments: Vec<_> = routes
            .values()
            .filter_map(|route| route.argument())
            .collect();
        assert_eq!(arguments, [tenant(7).argument, other]);
    });
}
