// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Counters of slots, and groups that claim one class.

use guideway::egress::apply::How;
use guideway::group::{Class, GroupId, Incarnation, State};
use guideway::placement::{Fnv12, Fnv5};
use guideway::route::{Key, Origin, Route, TableId, Target};
use serde_json::json;

use crate::documents::{class, resolved};
use crate::netns::{isolated, veth};
use crate::support::*;

/// The kernel counts by slot and never goes back; who takes a slot begins at what it says.
#[test]
fn a_shard_is_not_credited_with_what_its_slot_counted_before() {
    isolated("egress_instance::counters", || {
        let (inside, _) = veth("gw-tenant", "gw-inside");
        let mut writer = load();
        configure(&mut writer);
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        serve(&writer, inside, 7, &[Class::Nat66]);
        let send = |writer: &guideway::egress::Writer, packets: u32| {
            for number in 0..packets {
                let source = format!("2001:db8::{number:x}");
                assert!(shard_of(writer, inside, &source, "2001:db8:1::1").is_some());
            }
        };
        send(&writer, 30);
        let base = |writer: &guideway::egress::Writer| {
            let live = writer.group(group).expect("readable").expect("there");
            live.members
                .iter()
                .map(|member| (member.slot.get(), member.base.packets))
                .collect::<Vec<_>>()
        };
        assert_eq!(base(&writer), [(0, 0)]);
        // Its slot goes to another shard: the group has but these.
        publish(&mut writer, Class::Nat66, &[]);
        publish(&mut writer, Class::Nat66, &[0x11]);
        assert_eq!(members(&writer, group), [(0x11, 0, 2)]);
        assert_eq!(base(&writer), [(0, 30)]);
        send(&writer, 12);
        let counted = writer.slot_counters(group).expect("readable")[0];
        // 14 bytes of Ethernet, 40 of IPv6, 16 of UDP.
        assert_eq!((counted.packets, counted.bytes), (42, 42 * 70));
        drop(writer);
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x11, 0x12]);
        assert_eq!(base(&writer)[0], (0, 30), "kept over a restart");
    });
}

/// Two snapshots claim one class: the one with more routes is its group, the other one ends.
#[test]
fn of_two_groups_of_a_class_one_is_retired() {
    isolated("egress_instance::duplicates", || {
        let (one, _) = veth("tap0", "inside0");
        let mut writer = load();
        let wanted = resolved(
            &[class("nat66", &[0x10])],
            json!([{"table": 7, "argument": 7, "interfaces": ["tap0"]}]),
        );
        writer.apply(&wanted, &How::default()).expect("applied");
        let mut second = place(&writer, Class::Nat66);
        second.group = GroupId::new(5).expect("a group");
        let plan = writer
            .plan_group(&second, &shards(&[0x66]))
            .expect("a plan");
        let refused = writer
            .publish(std::slice::from_ref(&plan))
            .expect("possible")
            .remove(0);
        assert_eq!(
            refused.expect_err("claimed").to_string(),
            format!(
                "group 5 cannot be opened for {}: group 0 is its group",
                Class::Nat66
            )
        );
        // So another program does it, and its group has more routes.
        let snapshot = plan.snapshot().to_bytes(writer.limits().groups());
        force(second.group, &snapshot.expect("bytes"));
        for (table, group) in [(70, 5), (71, 5), (72, 5), (73, 0)] {
            let route = Route {
                origin: Origin(3),
                target: Target::Group {
                    argument: tenant(table).argument,
                    group: GroupId::new(group).expect("a group"),
                    incarnation: Incarnation::FIRST,
                    fnv5: Fnv5::from_raw(0),
                    fnv12: Fnv12::from_raw(0),
                },
            };
            put_row(&Key::new(TableId::new(table), prefix("::/0")), &route);
        }
        // Who writes routes and who allocates groups agree which one is the class's.
        let guard = writer.write_routes(PATIENCE).expect("free");
        let ticket = guard.ticket(Class::Nat66).expect("open");
        assert_eq!(ticket.group(), second.group);
        drop(guard);
        let first = GroupId::new(0).expect("a group");
        let changes = writer.compare(&wanted).expect("readable");
        assert_eq!(changes.duplicates.len(), 1);
        let kept = changes.duplicates[0].kept;
        assert_eq!((kept, changes.retired.clone()), (second.group, vec![first]));
        let error = writer
            .apply(&wanted, &How::default())
            .expect_err("others' routes");
        assert!(
            error.to_string().contains("1 of them of other writers"),
            "{error}"
        );
        // The tenant went to the group that is kept, and never lost its route.
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "2001:db8:1::1"),
            Some(0x10)
        );
        let routes = writer.routes(TableId::new(7)).expect("readable");
        let named = routes.values().filter_map(Route::group);
        assert_eq!(
            named.map(|(group, _)| group).collect::<Vec<_>>(),
            [second.group]
        );
        let guard = writer.write_routes(PATIENCE).expect("free");
        for table in [70, 71, 72, 73] {
            let removed = guard.remove(TableId::new(table), prefix("::/0"));
            assert!(removed.expect("removed"));
        }
        drop(guard);
        let applied = writer.apply(&wanted, &How::default()).expect("applied");
        assert_eq!(applied.retired, [first]);
        let state = |group| writer.group(group).expect("readable").expect("there").state;
        assert_eq!(state(first), State::Disabled);
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "2001:db8:1::1"),
            Some(0x10)
        );
        assert!(writer.compare(&wanted).expect("readable").is_empty());
    });
}
