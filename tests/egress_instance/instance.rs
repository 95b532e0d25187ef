// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Making, opening and repairing instances.

use std::fs;

use guideway::egress::{Egress, InstanceError, Limits, Loader, Subject, Writer};
use guideway::error::ErrorKind;
use guideway::group::{self, Class};
use guideway::kernel::map::{Map, MapKind, MapShape};
use guideway::kernel::statedir::{Section, StateError, EGRESS_META_MAP};

use crate::capabilities;
use crate::netns::isolated;
use crate::support::*;

#[test]
fn an_instance_stays_when_its_maker_is_gone() {
    isolated("egress_instance::stays", || {
        assert!(matches!(
            Egress::open(&dir()),
            Err(InstanceError::State(StateError::NoInstance { .. }))
        ));
        let mut writer = load();
        let group = publish(&mut writer, Class::Nat66, &[0x10, 0x11]).group;
        let id = writer.program().id();
        drop(writer);

        let egress = open();
        assert_eq!(egress.program().id(), id);
        assert_eq!(egress.limits(), Limits::default());
        assert_eq!(members(&egress, group), [(0x10, 0, 1), (0x11, 1, 2)]);
        let path = dir().path().display().to_string();
        assert_eq!(path, "/sys/fs/bpf/guideway/egress");
        let directories = fs::read_dir(&path).expect("a directory");
        let names: Vec<_> = directories
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        assert!(
            names.contains(&"barrier-gate".to_owned())
                && names.contains(&"barrier-routes".to_owned())
        );

        // Slots and generations go on where they were.
        let mut writer = load();
        publish(&mut writer, Class::Nat66, &[0x11, 0x12]);
        assert_eq!(members(&writer, group), [(0x11, 1, 2), (0x12, 2, 3)]);
    });
}

#[test]
fn there_is_one_writer_at_a_time_and_any_number_of_readers() {
    isolated("egress_instance::one_writer", || {
        let writer = load();
        let error = Writer::open(&dir()).expect_err("locked");
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        drop((open(), open()));
        drop(writer);
        drop(Writer::open(&dir()).expect("free"));
    });
}

#[test]
fn limits_are_those_it_was_made_with() {
    isolated("egress_instance::limits", || {
        let groups = group::Limits::new(4, 32, group::Limits::default().table_size());
        let limits = Limits::default().with_groups(groups.expect("limits"));
        let limits = limits.with_pins(5000).expect("a limit");
        let limits = limits.with_routes(700).expect("a limit");
        drop(Loader::new(&dir()).limits(limits).load().expect("made"));
        assert_eq!(open().limits(), limits);
        drop(Loader::new(&dir()).load().expect("whatever they are"));
        let more = limits.with_pins(6000).expect("a limit");
        let error = Loader::new(&dir()).limits(more).load().expect_err("others");
        assert_eq!(
            error.to_string(),
            "the instance was made for pins 5000, not 6000"
        );
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let entries = |name: &str| {
            let map = Map::open_any(&dir().pin(Section::Maps, name)).expect("a map");
            map.shape().max_entries
        };
        let sizes = ["gw_groups", "gw_pins", "gw_routes", "gw_shardstat"].map(entries);
        assert_eq!(sizes, [4, 5000, 700, 4 * 32]);
    });
}

#[test]
fn impossible_limits_are_refused() {
    let limits = Limits::default();
    let text = |error: guideway::egress::LimitError| error.to_string();
    assert_eq!(
        limits.with_pins(0).map_err(text),
        Err("pins 0 is not from 1 to 4194304".to_owned())
    );
    assert_eq!(
        limits.with_routes(1_048_577).map_err(text),
        Err("routes 1048577 is not from 1 to 1048576".to_owned())
    );
    assert_eq!(
        limits.with_tenants(65_537).map_err(text),
        Err("tenants 65537 is not from 1 to 65536".to_owned())
    );
    assert_eq!(
        limits.with_ring_bytes(5000).map_err(text),
        Err("ring of 5000 bytes is no power of two from 4096 to 67108864".to_owned())
    );
    assert!(limits.with_flow_pins(4_194_304).is_ok());
}

#[test]
fn what_is_missing_is_made_again_around_the_rest() {
    isolated("egress_instance::repair", || {
        let mut writer = load();
        configure(&mut writer);
        let group = publish(&mut writer, Class::Nat66, &[0x10]).group;
        let live = live_id(Subject::Group(group));
        drop(writer);
        let lost = [
            dir().pin(Section::Programs, "gw_egress"),
            dir().pin(Section::Maps, "gw_pins"),
            dir().path().join("barrier-gate"),
        ];
        for path in lost {
            let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
            removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let writer = load();
            assert_eq!(live_id(Subject::Group(group)), live, "{}", path.display());
            assert_eq!(members(&writer, group), [(0x10, 0, 1)]);
            drop(writer.write_routes(PATIENCE).expect("free"));
            // The program uses the maps beside it.
            drop(open());
        }
    });
}

/// A new map in its place would be empty: pins would be lost, and nobody would say so.
#[test]
fn a_lost_map_that_cannot_be_had_back_is_not_made_anew() {
    isolated("egress_instance::lost_map", || {
        drop(load());
        let path = dir().pin(Section::Maps, "gw_pins");
        let id = Map::open_any(&path).expect("a map").id();
        fs::remove_file(&path).expect("a pin");
        let refused = std::thread::spawn(|| {
            capabilities::keep(&capabilities::enough());
            Loader::new(&dir()).load().map(drop)
        });
        let error = refused.join().expect("a thread").expect_err("no right");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        let message = error.to_string();
        assert!(
            message.contains("gw_pins") && message.contains("CAP_SYS_ADMIN"),
            "{message}"
        );
        assert!(!path.exists());
        drop(load());
        assert_eq!(Map::open_any(&path).expect("a map").id(), id);
    });
}

#[test]
fn state_that_is_not_understood_is_left_alone() {
    isolated("egress_instance::foreign_state", || {
        drop(load());
        let path = dir().pin(Section::Maps, "gw_pins");
        fs::remove_file(&path).expect("a pin");
        let other = MapShape {
            name: "gw_pins".into(),
            kind: MapKind::HASH,
            key_size: 24,
            value_size: 24,
            max_entries: 65_536,
            flags: 0,
        };
        let other = Map::create(&other, None).expect("a map");
        other.pin(&path).expect("pinned");
        let error = Loader::new(&dir()).load().expect_err("another shape");
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
        assert!(error.to_string().contains("value size"), "{error}");
        assert_eq!(Map::open_any(&path).expect("still there").id(), other.id());

        // Of a version to come: the number of the major one is behind the magic one.
        let path = dir().pin(Section::Maps, EGRESS_META_MAP);
        let shape = Map::open_any(&path).expect("a map").shape().clone();
        let mut value = vec![0; shape.value_size as usize];
        value[..8].copy_from_slice(&[0x47, 0x45, 0x57, 0x47, 99, 0, 0, 0]);
        fs::remove_file(&path).expect("a pin");
        let newer = Map::create(&shape, None).expect("a map");
        let update = guideway::kernel::map::Update::Any;
        newer.update(&[0; 4], &value, update).expect("written");
        newer.pin(&path).expect("pinned");
        let error = Egress::open(&dir()).expect_err("newer");
        assert!(
            matches!(error, InstanceError::State(StateError::Version { .. })),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Incompatible);
    });
}

/// Numbers that routes and pins carry do not begin anew when the map of groups is lost.
#[test]
fn groups_outlive_the_loss_of_their_map() {
    isolated("egress_instance::lost_groups", || {
        let mut writer = load();
        configure(&mut writer);
        let group = publish(&mut writer, Class::Nat66, &[0x10, 0x11]).group;
        publish(&mut writer, nat64(), &[0x20]);
        let before = (
            writer.groups().expect("readable"),
            writer.encap().expect("readable"),
        );
        drop(writer);
        for name in ["gw_groups", "gw_eg_config"] {
            fs::remove_file(dir().pin(Section::Maps, name)).expect("a pin");
        }
        let mut writer = load();
        let after = (
            writer.groups().expect("readable"),
            writer.encap().expect("readable"),
        );
        assert_eq!(before, after);
        publish(&mut writer, Class::Nat66, &[0x10, 0x12]);
        assert_eq!(members(&writer, group), [(0x10, 0, 1), (0x12, 2, 3)]);
    });
}

/// Interfaces are known by their indices, which mean others in another network namespace.
#[test]
fn an_instance_belongs_to_its_network_namespace() {
    isolated("egress_instance::namespace", || {
        drop(load());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                let flags = nix::sched::CloneFlags::CLONE_NEWNET;
                nix::sched::unshare(flags).expect("a namespace");
                let opened = Egress::open(&dir()).map(drop);
                let loaded = Loader::new(&dir()).load().map(drop);
                [opened, loaded].map(|result| result.expect_err("another namespace"))
            });
            for error in elsewhere.join().expect("a thread") {
                assert!(
                    matches!(error, InstanceError::OtherNamespace { .. }),
                    "{error}"
                );
                assert_eq!(error.kind(), ErrorKind::Conflict);
            }
        });
        drop(load());
    });
}
