// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! State that an older build made, with maps of an older layout, brought to this one under traffic.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use guideway::abi;
use guideway::error::ErrorKind;
use guideway::kernel::attach::XdpLink;
use guideway::kernel::map::{Map, MapKind, MapShape, Update};
use guideway::kernel::program::Program;
use guideway::kernel::statedir::{AbiVersion, Section};
use guideway::kernel::typed::Array;
use guideway::quiclb::{self, FindingCode, InstanceError, Mode, QuicLb, Status, UpgradeError};

use crate::balancer::{self, dir, running_pin, Balancer, Way};
use crate::killed::{killed, names, nothing_leaks, role};
use crate::netns::isolated;
use crate::traffic::{load_other, Stopping, PATIENCE};

/// The program of ABI 2.0.
const OLDER: &[u8] = include_bytes!("../data/quiclb-2.0/gw_quiclb.bpf.o");
const TOLD: AbiVersion = AbiVersion { major: 2, minor: 0 };
const OLDER_MAP: &str = "gw_ql_collect";
const NEWER_MAP: &str = "gw_ql_collect2";

fn map(name: &str) -> PathBuf {
    dir().pin(Section::Maps, name)
}

fn collection() -> abi::Collection {
    let map = Map::open_any(&map(NEWER_MAP)).expect("the map");
    Array::new(map).expect("its shape").get(0).expect("a value")
}

/// Makes of an instance what the older build would have made, and has it run that build's program.
fn make_older() {
    let newer = collection();
    let newer = bytemuck::bytes_of(&newer);
    let older = Map::create(
        &MapShape {
            name: OLDER_MAP.to_owned(),
            kind: MapKind::ARRAY,
            key_size: 4,
            value_size: 88,
            max_entries: 1,
            flags: 0,
        },
        None,
    )
    .expect("created");
    let value = [&newer[..24], &newer[32..]].concat();
    older
        .update(&0_u32.to_ne_bytes(), &value, Update::Any)
        .expect("written");
    older.pin(&map(OLDER_MAP)).expect("pinned");

    let before = Program::open(&running_pin()).expect("a program");
    let programs = dir().path().join("progs");
    for name in names(&programs) {
        std::fs::remove_file(programs.join(name)).expect("removed");
    }
    let maps = dir().path().join("maps");
    let program = load_other(OLDER, "gw_quiclb", &maps, &running_pin());
    let link = XdpLink::open(&dir().pin(Section::Links, "xdp")).expect("attached");
    link.update(&program, &before).expect("exchanged");
    std::fs::remove_file(map(NEWER_MAP)).expect("removed");
    // It did not decrypt.
    let _ = std::fs::remove_file(map("gw_ql_crypto"));
    let told = Map::open_any(&map("gw_ql_meta")).expect("the map");
    let told = Array::<abi::Meta>::new(told).expect("its shape");
    let mut value = told.get(0).expect("a value");
    value.abi_minor = TOLD.minor;
    told.set(0, &value).expect("written");
}

fn is_older(error: &InstanceError) {
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(matches!(error, InstanceError::Older { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("2.0") && text.contains("2.1"), "{text}");
    assert_eq!(error.remedy(), Some("upgrade the instance"));
}

/// Everything of the instance is of this layout, and nothing of the older one is left.
fn is_of_this_layout(flows: u32) {
    assert_eq!(
        dir().version().expect("a version"),
        AbiVersion { major: 2, minor: 1 }
    );
    assert!(!map(OLDER_MAP).exists());
    QuicLb::open(&dir()).expect("an instance");
    nothing_leaks(flows, &[&running_pin()], 1);
}

fn flows() -> u32 {
    Map::open_any(&map("gw_ql_flow")).expect("the map").id()
}

#[test]
fn state_of_the_layout_before_is_migrated_under_traffic() {
    isolated("exchange::layout", || {
        let balancer = Balancer::new(Way::Link(Mode::Native));
        let seed = collection().cid_seed;
        assert_ne!(seed, 0);
        let balancer = balancer.reopened(|source, sink| {
            make_older();
            let before = names(&dir().path().join("maps"));
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let sender = scope.spawn(|| source.send_until(sink, &stop, 100_000));
                let stopping = Stopping(&stop);
                // Nobody but the upgrade touches it.
                is_older(&QuicLb::open(&dir()).expect_err("older"));
                is_older(&balancer::loader().load().expect_err("older"));
                let status = Status::of(&dir()).expect("a part of it");
                let codes: Vec<_> = status.findings.iter().map(|found| found.code).collect();
                assert_eq!(codes, [FindingCode::OlderLayout], "{status:#?}");
                assert_eq!(names(&dir().path().join("maps")), before);
                assert_eq!(dir().version().expect("a version"), TOLD);

                let sent = source.sent();
                let upgraded = quiclb::upgrade_observed(&dir(), PATIENCE, |_| Ok(()));
                let upgraded = upgraded.expect("upgraded");
                assert!(upgraded.seen.packets > 0, "{upgraded:?}");
                assert_eq!((upgraded.abi.major, upgraded.abi.minor), (2, 1));
                assert!(source.sent() > sent, "packets go on");
                drop(stopping);
                sender.join().expect("all packets arrived");
            });
        });
        assert_eq!(collection().cid_seed, seed);
        balancer.nothing_is_lost_or_misplaced();
        is_of_this_layout(flows());
        let mut writer = balancer.writer;
        match writer.rollback().expect_err("of an older layout") {
            UpgradeError::NothingBefore { .. } => {}
            error => panic!("{error}"),
        }
    });
}

/// Not a test by itself: the process that the test below kills.
#[test]
fn the_process_that_is_killed() {
    let Some((_, mut steps)) = role() else {
        return;
    };
    let migrated = quiclb::upgrade_observed(&dir(), std::time::Duration::ZERO, |_| {
        steps.go_on();
        Ok(())
    });
    migrated.expect("upgraded");
    steps.go_on();
}

#[test]
fn who_is_killed_at_any_step_is_followed_by_one_who_ends_it() {
    isolated("exchange::layout_killed", || {
        let mut balancer = Balancer::new(Way::Link(Mode::Native));
        let mut step = 0;
        loop {
            let mut died = true;
            balancer = balancer.reopened(|source, sink| {
                make_older();
                died = killed("layout::the_process_that_is_killed", "upgrade", step);
                // By the one program or by the other, none is lost.
                source.send_all(sink, 1);
                quiclb::upgrade(&dir()).expect("ended");
                source.send_all(sink, 1);
                is_of_this_layout(flows());
            });
            balancer.nothing_is_lost_or_misplaced();
            if !died {
                break;
            }
            step += 1;
        }
        assert!(step > 5, "{step}");
    });
}

#[test]
fn an_older_map_that_is_another_one_changes_nothing() {
    isolated("exchange::layout_foreign", || {
        let balancer = Balancer::new(Way::Link(Mode::Native));
        drop(balancer.writer);
        make_older();
        let other = Map::create(
            &MapShape {
                name: "not_ours".to_owned(),
                kind: MapKind::ARRAY,
                key_size: 4,
                value_size: 96,
                max_entries: 1,
                flags: 0,
            },
            None,
        )
        .expect("created");
        std::fs::remove_file(map(OLDER_MAP)).expect("removed");
        other.pin(&map(OLDER_MAP)).expect("pinned");
        let listed = |directory: &str| names(&dir().path().join(directory));
        let before = ["maps", "progs", "links"].map(listed);
        let error = quiclb::upgrade(&dir()).expect_err("another map");
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
        assert!(error.to_string().contains("gw_ql_collect"), "{error}");
        assert_eq!(["maps", "progs", "links"].map(listed), before);
        assert_eq!(dir().version().expect("a version"), TOLD);
        balancer.source.send_all(&balancer.sink, 1);
        assert_eq!(balancer.sink.total(), balancer.source.sent());
        assert!(Path::new(&running_pin()).exists());
    });
}

/// What the map held begins anew: that is no reason to have no way on.
#[test]
fn without_the_older_map_the_state_is_migrated_all_the_same() {
    isolated("exchange::layout_lost", || {
        let balancer = Balancer::new(Way::Link(Mode::Native));
        let balancer = balancer.reopened(|source, sink| {
            make_older();
            std::fs::remove_file(map(OLDER_MAP)).expect("removed");
            source.send_all(sink, 1);
            quiclb::upgrade(&dir()).expect("upgraded");
            source.send_all(sink, 1);
        });
        assert_eq!(balancer.sink.total(), balancer.source.sent());
        assert_ne!(collection().cid_seed, 0);
        is_of_this_layout(flows());
    });
}
