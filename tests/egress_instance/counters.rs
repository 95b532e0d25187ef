// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Counters of slots, and groups that claim one class.

use guideway::egress::apply::How;
use guideway::group::{Class, GroupId, State};
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
        publish_plan(&mut writer, plan);

        let changes = writer.compare(&wanted).expect("readable");
        assert_eq!(changes.duplicates.len(), 1);
        assert_eq!(
            (changes.duplicates[0].kept.get(), changes.retired.clone()),
            (0, vec![second.group])
        );
        let applied = writer.apply(&wanted, &How::default()).expect("applied");
        assert_eq!(applied.retired, [second.group]);
        let state = |group| writer.group(group).expect("readable").expect("there").state;
        assert_eq!(state(second.group), State::Disabled);
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "2001:db8:1::1"),
            Some(0x10)
        );
        assert!(writer.compare(&wanted).expect("readable").is_empty());
    });
}
