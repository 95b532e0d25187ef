// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Limits up and down, and those that are refused.

use std::collections::BTreeSet;

use guideway::egress::migrate::{MigrateError, Settled};
use guideway::egress::{InstanceError, Limits, Loader};
use guideway::error::ErrorKind;
use guideway::group::{self, Class};
use guideway::maglev::TableSize;

use crate::netns::isolated;
use crate::scene::*;
use crate::support::*;

#[test]
fn limits_go_up_and_down_and_everything_is_kept() {
    isolated("egress_migrate::up_and_down", || {
        let scene = scene(small(), loopback());
        let shards = shards_of(&scene);
        let before = contents(&open());
        let known: BTreeSet<_> = pinned().into_values().collect();
        let old = pinned();

        // Others are refused by who opens it, and that says what helps.
        let error = Loader::new(&dir()).limits(large()).load();
        let error = error.expect_err("other limits");
        assert_eq!(
            error.to_string(),
            "the instance was made for groups 4, not 6"
        );
        let remedy = error.remedy().expect("one");
        assert!(remedy.contains("egressd migrate"), "{remedy}");

        let loader = Loader::new(&dir()).limits(large());
        let plan = loader.plan_migration().expect("possible");
        let migrated = loader.migrate().expect("migrated");
        assert_eq!(migrated.plan, plan);
        assert_eq!(migrated.settled, Settled::Sound);
        let mut interfaces = scene.interfaces;
        interfaces.sort_unstable();
        assert_eq!(migrated.interfaces, interfaces);
        assert_eq!(migrated.copied.pins, u64::from(ADDRESSES));
        assert_eq!(migrated.copied.routes, 2);
        assert_eq!(open().limits(), large());
        same(&contents(&open()), &before);
        // Only maps that need another size are other maps.
        for (path, object) in pinned() {
            let name = path.rsplit('/').next().expect("a name");
            let stays = old.get(&path) == Some(&object);
            let replaced = plan.replaces(name);
            if path.contains("/maps/") && name != "gw_eg_meta" {
                assert_eq!(stays, !replaced, "{path}");
            }
        }
        nothing_leaks(&known);
        whole(&scene, &shards);

        // And back.
        let before = contents(&open());
        let back = Loader::new(&dir()).limits(small()).migrate();
        assert_eq!(back.expect("migrated").plan.limits.len(), 7);
        assert_eq!(open().limits(), small());
        same(&contents(&open()), &before);
        whole(&scene, &shards);
        // It is as good as any other.
        let mut writer = load();
        publish_to(&mut writer, Class::Nat66, &[0x10, 0x12], loopback());
        drop(writer);

        let again = Loader::new(&dir()).limits(small()).migrate();
        assert!(again.expect("nothing to do").plan.is_empty());
    });
}

#[test]
fn less_than_is_in_use_is_refused_with_both_numbers_and_nothing_is_changed() {
    isolated("egress_migrate::too_small", || {
        let _scene = scene(small(), loopback());
        let (before, objects) = (contents(&open()), pinned());
        let groups = |groups, members| {
            let groups = group::Limits::new(groups, members, TableSize::SHARD);
            small().with_groups(groups.expect("in range"))
        };
        let cases: [(Limits, &str); 6] = [
            (
                small().with_pins(299).expect("in range"),
                "300 pins are in use, 299 are wanted",
            ),
            (
                small().with_routes(1).expect("in range"),
                "2 routes are in use, 1 are wanted",
            ),
            (
                small().with_tenants(1).expect("in range"),
                "2 tenants are in use, 1 are wanted",
            ),
            (groups(1, 8), "2 groups are in use, 1 are wanted"),
            (groups(4, 2), "3 members are in use, 2 are wanted"),
            (
                groups(1, 2).with_pins(7).expect("in range"),
                "2 groups are in use, 1 are wanted; 3 members are in use, 2 are wanted; 300 pins are \
                 in use, 7 are wanted",
            ),
        ];
        for (limits, expected) in cases {
            let loader = Loader::new(&dir()).limits(limits);
            let planned = loader.plan_migration().expect_err("too small");
            let error = loader.migrate().expect_err("too small");
            assert_eq!(error.to_string(), expected);
            assert_eq!(planned.to_string(), expected);
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
        let other = TableSize::new(251).expect("a prime");
        let table = group::Limits::new(4, 8, other).expect("in range");
        let error = Loader::new(&dir())
            .limits(small().with_groups(table))
            .migrate();
        let error = error.expect_err("another table");
        assert!(matches!(
            error,
            MigrateError::TableSize {
                found: 1021,
                wanted: 251,
                ..
            }
        ));
        same(&contents(&open()), &before);
        assert_eq!(pinned(), objects);
        // As many as there are is enough.
        let exact = small().with_pins(300).expect("in range");
        Loader::new(&dir()).limits(exact).migrate().expect("room");
        assert_eq!(open().limits(), exact);
    });
}

#[test]
fn nothing_is_migrated_beside_a_publisher_or_where_nothing_is() {
    isolated("egress_migrate::refused", || {
        let error = Loader::new(&dir()).limits(large()).migrate();
        let error = error.expect_err("nothing is there");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let _scene = scene(small(), loopback());
        let objects = pinned();
        let publisher = dir().publisher().expect("free");
        let error = Loader::new(&dir()).limits(large()).migrate();
        let error = error.expect_err("a publisher");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop(publisher);
        let writer = load();
        let error = Loader::new(&dir())
            .limits(large())
            .patience(SHORT)
            .migrate();
        assert!(matches!(
            error.expect_err("a writer"),
            MigrateError::Instance(InstanceError::State(_))
        ));
        drop(writer);
        assert_eq!(pinned(), objects);
    });
}
