// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! From a document to what packets see.

use guideway::egress::apply::How;
use guideway::egress::{Attached, Writer};
use guideway::egress_spec::Resolved;
use guideway::error::ErrorKind;
use guideway::group::{Change, Class, State};
use guideway::kernel::tc;
use guideway::route::{Origin, TableId};
use serde_json::json;

use crate::documents::{class, resolved, tenants};
use crate::netns::{ip, isolated, veth};
use crate::support::*;

fn apply(writer: &mut Writer, wanted: &Resolved) -> guideway::egress::apply::Applied {
    let applied = writer.apply(wanted, &How::default());
    let applied = applied.unwrap_or_else(|error| panic!("{error}"));
    let left = writer.compare(wanted).expect("readable");
    assert!(left.is_empty(), "{left:?}");
    applied
}

#[test]
fn a_document_becomes_what_packets_see_and_a_second_time_nothing() {
    isolated("egress_instance::apply", || {
        let (one, _) = veth("tap0", "inside0");
        let (two, _) = veth("tap1", "inside1");
        let mut writer = load();
        let wanted = resolved(
            &[class("nat66", &[0x10, 0x11]), class(PREFIX, &[0x20])],
            tenants(&[(7, "tap0"), (8, "tap1")]),
        );
        let changes = writer.compare(&wanted).expect("readable");
        assert!(
            writer.groups().expect("readable").is_empty(),
            "looking changes nothing"
        );
        assert_eq!(changes.attached, [one, two].into());
        let applied = apply(&mut writer, &wanted);
        assert_eq!(applied.published.len(), 2);
        assert_eq!((applied.routes_written, applied.attached.len()), (4, 2));
        for ifindex in [one, two] {
            let shard = shard_of(&writer, ifindex, "2001:db8::1", "2001:db8:1::1");
            assert!(matches!(shard, Some(0x10 | 0x11)));
            let other = shard_of(&writer, ifindex, "2001:db8::1", "64:ff9b::1");
            assert_eq!(other, Some(0x20));
        }
        let program = writer.program().id();
        let views = writer.attachments().expect("readable");
        assert_eq!(views.len(), 2);
        assert!(views.iter().all(|view| view.program_id == Some(program)));
        // Whatever order the document has.
        let again = resolved(
            &[class(PREFIX, &[0x20]), class("nat66", &[0x11, 0x10])],
            tenants(&[(8, "tap1"), (7, "tap0")]),
        );
        assert!(apply(&mut writer, &again).is_empty());
    });
}

#[test]
fn what_is_missing_from_the_document_goes() {
    isolated("egress_instance::apply_removes", || {
        let (one, _) = veth("tap0", "inside0");
        let (two, _) = veth("tap1", "inside1");
        let mut writer = load();
        let both = resolved(
            &[class("nat66", &[0x10]), class(PREFIX, &[0x20])],
            tenants(&[(7, "tap0"), (8, "tap1")]),
        );
        apply(&mut writer, &both);
        shard_of(&writer, two, "2001:db8::1", "2001:db8:1::1");

        // A tenant, and then a class.
        let less = resolved(
            &[class("nat66", &[0x10]), class(PREFIX, &[0x20])],
            tenants(&[(7, "tap0")]),
        );
        let applied = apply(&mut writer, &less);
        assert_eq!(applied.tenants_removed, [TableId::new(8)]);
        assert_eq!(
            (applied.detached, applied.interfaces_removed),
            (vec![two], vec![two])
        );
        assert!(writer.routes(TableId::new(8)).expect("readable").is_empty());
        assert!(!writer
            .pins()
            .expect("pins")
            .usage()
            .expect("readable")
            .contains_key(&TableId::new(8)));
        assert_eq!(
            run(&writer, two, "2001:db8::1", "2001:db8:1::1").action,
            PASSED
        );

        let less = resolved(&[class("nat66", &[0x10])], tenants(&[(7, "tap0")]));
        let applied = apply(&mut writer, &less);
        assert_eq!(applied.retired.len(), 1);
        let state = writer
            .group(applied.retired[0])
            .expect("readable")
            .expect("there")
            .state;
        assert_eq!(state, State::Disabled);
        // Not configured any more, the prefix is one like any other.
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "64:ff9b::1"),
            Some(0x10)
        );

        // And back, in another incarnation.
        let applied = apply(&mut writer, &both);
        assert!(applied
            .published
            .iter()
            .any(|group| group.change == Change::Open));
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "64:ff9b::1"),
            Some(0x20)
        );
        assert_eq!(
            shard_of(&writer, two, "2001:db8::1", "64:ff9b::1"),
            Some(0x20)
        );
    });
}

#[test]
fn an_interface_goes_from_tenant_to_tenant_and_a_tenant_changes_what_it_hashes() {
    isolated("egress_instance::apply_moves", || {
        let (one, _) = veth("tap0", "inside0");
        veth("tap1", "inside1");
        let mut writer = load();
        let classes = [class("nat66", &[0x10, 0x11, 0x12])];
        let wanted = |hash_table: u32, first: &str| {
            let tenants = json!([
                {"table": 7, "argument": 7, "hash_table": hash_table, "interfaces": [first]},
                {"table": 8, "argument": 8, "interfaces": [if first == "tap0" { "tap1" } else { "tap0" }]},
            ]);
            resolved(&classes, tenants)
        };
        apply(&mut writer, &wanted(7, "tap0"));
        assert_eq!(writer.tenants().expect("readable")[&one].table.get(), 7);
        apply(&mut writer, &wanted(7, "tap1"));
        assert_eq!(writer.tenants().expect("readable")[&one].table.get(), 8);
        let applied = apply(&mut writer, &wanted(77, "tap1"));
        assert_eq!(
            (applied.routes_written, applied.interfaces_written.len()),
            (1, 1)
        );
        assert!(
            writer
                .retire(PATIENCE)
                .expect("free")
                .refresh()
                .expect("refreshed")
                .moved
                == 0
        );
    });
}

#[test]
fn other_writers_routes_stay_and_keep_their_group() {
    isolated("egress_instance::apply_foreign", || {
        let (one, _) = veth("tap0", "inside0");
        let mut writer = load();
        let both = resolved(
            &[class("nat66", &[0x10]), class(PREFIX, &[0x20])],
            tenants(&[(7, "tap0")]),
        );
        apply(&mut writer, &both);
        let guard = writer.write_routes(PATIENCE).expect("free");
        guard.set_origin(Origin(4));
        let ticket = guard.ticket(nat64()).expect("open");
        let row = writer.tenants().expect("readable")[&one];
        guard
            .put(
                &row,
                prefix("2001:db8:77::/48"),
                guideway::egress::To::Group(&ticket),
            )
            .expect("room");
        drop(guard);
        let less = resolved(&[class("nat66", &[0x10])], tenants(&[(7, "tap0")]));
        let error = writer
            .apply(&less, &How::default())
            .expect_err("still named");
        assert_eq!(error.kind(), ErrorKind::Partial, "{error}");
        assert!(
            error.to_string().contains("1 of them of other writers"),
            "{error}"
        );
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "2001:db8:77::1"),
            Some(0x20)
        );
        let group = writer
            .groups()
            .expect("readable")
            .into_iter()
            .find(|group| group.class == nat64());
        assert_eq!(group.expect("there").state, State::Closing);
        // It ends when they are gone.
        let guard = writer.write_routes(PATIENCE).expect("free");
        assert!(guard
            .remove(TableId::new(7), prefix("2001:db8:77::/48"))
            .expect("removed"));
        drop(guard);
        apply(&mut writer, &less);
    });
}

#[test]
fn a_program_is_attached_once_and_only_ours_is_taken_off() {
    isolated("egress_instance::attach", || {
        let (one, _) = veth("tap0", "inside0");
        let mut writer = load();
        let attached = writer
            .attach(one, &tc::Options::default())
            .expect("attached");
        assert!(matches!(
            attached,
            Attached::Tcx { .. } | Attached::Clsact { .. }
        ));
        assert_eq!(
            writer.attach(one, &tc::Options::default()).expect("there"),
            attached
        );
        assert_eq!(tc::hook(one).expect("readable").occupants.len(), 1);
        // Another process finds it.
        drop(writer);
        let mut writer = load();
        assert_eq!(writer.attachments().expect("readable")[0].how, attached);
        assert!(writer.detach(one).expect("detached"));
        assert!(!writer.detach(one).expect("nothing"));
        assert!(tc::hook(one).expect("readable").occupants.is_empty());

        let clsact = tc::Options {
            way: tc::Way::Clsact,
            ..Default::default()
        };
        let attached = writer.attach(one, &clsact).expect("attached");
        assert!(matches!(attached, Attached::Clsact { .. }));
        assert_eq!(writer.attach(one, &clsact).expect("there"), attached);
        // The record is lost, as if the process had died before it wrote it.
        let pin = dir().path().join("links").join(format!("{one}-clsact"));
        std::fs::remove_file(&pin).expect("a pin");
        assert_eq!(writer.attach(one, &clsact).expect("adopted"), attached);
        assert_eq!(tc::hook(one).expect("readable").occupants.len(), 1);
        let error = writer.remove().expect_err("attached");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

        let mut writer = load();
        assert!(writer.detach(one).expect("detached"));
        // An interface that is gone has nothing to be taken off.
        writer
            .attach(one, &tc::Options::default())
            .expect("attached");
        ip(&["link", "delete", "tap0"]);
        assert_eq!(writer.attachments().expect("readable")[0].program_id, None);
        assert!(!writer.detach(one).expect("nothing"));
        let removed = writer.remove().expect("removed");
        assert!(
            removed.contains(&"maps/gw_routes".to_owned()),
            "{removed:?}"
        );
        assert!(!dir().exists().expect("readable"));
    });
}

/// A program that was loaded anew takes the place of the one before, where that is among others.
#[test]
fn a_program_that_was_made_again_takes_its_place() {
    isolated("egress_instance::attach_again", || {
        let (one, _) = veth("tap0", "inside0");
        veth("tap1", "inside1");
        for way in [tc::Way::Auto, tc::Way::Clsact] {
            let mut writer = load();
            let options = tc::Options {
                way,
                ..Default::default()
            };
            writer.attach(one, &options).expect("attached");
            let before = writer.program().id();
            drop(writer);
            std::fs::remove_file(dir().path().join("progs/gw_egress")).expect("a pin");
            let mut writer = load();
            assert_ne!(writer.program().id(), before);
            writer.attach(one, &options).expect("attached");
            let views = writer.attachments().expect("readable");
            assert_eq!(views.len(), 1);
            assert_eq!(views[0].program_id, Some(writer.program().id()));
            assert_eq!(tc::hook(one).expect("readable").occupants.len(), 1);
            assert!(writer.detach(one).expect("detached"));
        }
    });
}

#[test]
fn more_classes_than_groups_change_nothing() {
    isolated("egress_instance::apply_refused", || {
        veth("tap0", "inside0");
        let mut writer = load();
        let wanted = resolved(&[class("nat66", &[0x10])], tenants(&[(7, "tap0")]));
        apply(&mut writer, &wanted);
        // Written for a larger instance.
        let mut many = wanted.clone();
        let prefixes = (0..8).map(|number| format!("64:ff9b:1:{number}::/96"));
        let classes: Vec<_> = prefixes
            .map(|prefix| Class::Nat64(prefix.parse().expect("a prefix")))
            .collect();
        let configured = std::iter::once(Class::Nat66).chain(classes);
        let configured = configured.map(|class| guideway::group::ConfiguredClass {
            class,
            hash_group: None,
        });
        let limits = guideway::group::Limits::new(64, 64, writer.limits().groups().table_size());
        many.classes =
            guideway::group::Classes::new(configured, limits.expect("limits")).expect("classes");
        many.groups = many
            .classes
            .iter()
            .map(|entry| (entry.class, shards(&[0x10])))
            .collect();
        let before = (
            writer.groups().expect("readable"),
            writer.tenants().expect("readable"),
        );
        let error = writer.apply(&many, &How::default()).expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let after = (
            writer.groups().expect("readable"),
            writer.tenants().expect("readable"),
        );
        assert_eq!(before, after);
    });
}

/// The process died between exchanging the program of a filter and writing that down.
#[test]
fn a_filter_whose_record_is_old_is_still_ours() {
    isolated("egress_instance::old_record", || {
        let (one, _) = veth("tap0", "inside0");
        let options = tc::Options {
            way: tc::Way::Clsact,
            ..Default::default()
        };
        for again in [true, false] {
            let mut writer = load();
            let Attached::Clsact { filter } = writer.attach(one, &options).expect("attached")
            else {
                panic!("a filter was asked for")
            };
            let before = writer.program().id();
            drop(writer);
            std::fs::remove_file(dir().path().join("progs/gw_egress")).expect("a pin");
            let mut writer = load();
            let there = tc::ClsactFilter::at(one, filter);
            there.replace(writer.program(), before).expect("replaced");
            if again {
                writer.attach(one, &options).expect("recorded");
                let views = writer.attachments().expect("readable");
                assert_eq!(views[0].program_id, Some(writer.program().id()));
            }
            assert!(writer.detach(one).expect("detached"));
            assert!(tc::hook(one).expect("readable").occupants.is_empty());
        }
    });
}

/// What a row says that goes with the same document is nothing to agree with.
#[test]
fn a_tenant_changes_while_an_interface_of_it_goes() {
    isolated("egress_instance::apply_leaving", || {
        veth("tap0", "inside0");
        veth("tap1", "inside1");
        let mut writer = load();
        let classes = [class("nat66", &[0x10])];
        let wanted = |quota: u32, first: &[&str], second: &[&str]| {
            let mut tenants =
                vec![json!({"table": 7, "argument": 7, "pin_quota": quota, "interfaces": first})];
            if !second.is_empty() {
                tenants.push(json!({"table": 8, "argument": 8, "interfaces": second}));
            }
            resolved(&classes, tenants.into())
        };
        apply(&mut writer, &wanted(100, &["tap0", "tap1"], &[]));
        apply(&mut writer, &wanted(200, &["tap0"], &[]));
        apply(&mut writer, &wanted(300, &["tap0", "tap1"], &[]));
        apply(&mut writer, &wanted(400, &["tap0"], &["tap1"]));
        // All of them are others, and the dead one's row is still there.
        apply(&mut writer, &wanted(500, &["tap1"], &["tap0"]));
        ip(&["link", "delete", "tap0"]);
        apply(&mut writer, &wanted(600, &["tap1"], &[]));
        // The Argument of a tenant that goes with the same document.
        let other = json!([{"table": 9, "argument": 7, "interfaces": ["tap1"]}]);
        apply(&mut writer, &resolved(&classes, other));
    });
}

/// As many classes as groups, and one is exchanged: packets to the new one are dropped until the
/// group of the old one is free.
#[test]
fn a_class_takes_the_group_of_another_one() {
    isolated("egress_instance::apply_full", || {
        let (one, _) = veth("tap0", "inside0");
        let groups = guideway::group::Limits::new(2, 64, guideway::maglev::TableSize::SHARD);
        let limits = guideway::egress::Limits::default().with_groups(groups.expect("limits"));
        let mut writer = guideway::egress::Loader::new(&dir())
            .limits(limits)
            .load()
            .expect("made");
        let wanted = |prefix: &str, first: u16| {
            let classes = [class("nat66", &[0x10]), class(prefix, &[first])];
            resolved(&classes, tenants(&[(7, "tap0")]))
        };
        apply(&mut writer, &wanted("64:ff9b::/96", 0x20));
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "64:ff9b::1"),
            Some(0x20)
        );
        let changes = writer
            .compare(&wanted("64:ff9b:1::/96", 0x30))
            .expect("possible");
        assert_eq!(changes.waiting.len(), 1);
        apply(&mut writer, &wanted("64:ff9b:1::/96", 0x30));
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "64:ff9b:1::1"),
            Some(0x30)
        );
        assert_eq!(
            shard_of(&writer, one, "2001:db8::1", "64:ff9b::1"),
            Some(0x10)
        );
    });
}

#[test]
fn another_writers_route_in_the_place_of_a_class_is_left_alone_and_told() {
    isolated("egress_instance::apply_foreign_class", || {
        veth("tap0", "inside0");
        let mut writer = load();
        let wanted = resolved(&[class("nat66", &[0x10])], tenants(&[(7, "tap0")]));
        let guard = writer.write_routes(PATIENCE).expect("free");
        guard.set_origin(Origin(4));
        let theirs = guideway::tenant::Tenant {
            ..wanted.tenants[0].tenant
        };
        guard
            .put(&theirs, prefix("::/0"), guideway::egress::To::Pass)
            .expect("room");
        drop(guard);
        let before = writer.routes(TableId::new(7)).expect("readable");
        let changes = writer.compare(&wanted).expect("readable");
        assert_eq!(changes.foreign.len(), 1);
        apply(&mut writer, &wanted);
        assert_eq!(writer.routes(TableId::new(7)).expect("readable"), before);
    });
}

/// One interface is somebody else's; everything that has nothing to do with it is done.
#[test]
fn what_fails_keeps_nothing_else_from_being_done() {
    isolated("egress_instance::apply_some", || {
        let (one, _) = veth("tap0", "inside0");
        let (two, _) = veth("tap1", "inside1");
        let mut writer = load();
        apply(
            &mut writer,
            &resolved(
                &[class("nat66", &[0x10]), class(PREFIX, &[0x20])],
                tenants(&[(7, "tap0")]),
            ),
        );
        let mut wanted = resolved(&[class("nat66", &[0x10])], tenants(&[(8, "tap1")]));
        // An interface that is gone since the names were looked up.
        let row = wanted.tenants[0].interfaces[&two];
        wanted.tenants[0].interfaces.insert(9999, row);
        let error = writer
            .apply(&wanted, &How::default())
            .expect_err("one is missing");
        assert_eq!(error.kind(), ErrorKind::Partial);
        let applied = &error.applied;
        assert_eq!(
            (applied.attached.clone(), applied.detached.clone()),
            (vec![two], vec![one])
        );
        assert_eq!(
            (applied.tenants_removed.len(), applied.retired.len()),
            (1, 1)
        );
        assert!(error.further.is_empty(), "{error}");
        assert_eq!(
            shard_of(&writer, two, "2001:db8::1", "2001:db8:1::1"),
            Some(0x10)
        );
    });
}
