// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Registering one connection ID, and ending that.

use std::time::{Duration, Instant};

use guideway::affinity::{Binding, ContractError, Origin, Phase};
use guideway::error::ErrorKind;
use guideway::id::ServiceId;
use guideway::kernel::clock;
use guideway::quiclb::{QuicLb, RegisterError, UseBindingsError};
use serde_json::json;

use crate::instance::*;
use crate::isolated;

const CID: &str = "c460000000000001";

#[test]
fn a_registered_connection_id_has_the_specified_entry() {
    isolated("bindings::entry", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let (row, incarnation) = place(&writer, 2);
        writer.register(of, &cid(CID), id(2), None).expect("free");
        let expected = Binding {
            tag: 0,
            row,
            incarnation,
            seen_ns: 0,
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin: Origin::Registered,
            learned: 0,
            hash: 0,
        };
        let found = table.get(of, &cid(CID)).expect("registered");
        assert_eq!(Binding { tag: 0, ..found }, expected);

        // Again it changes nothing, with a time to live only that.
        let before = table.dump();
        writer.register(of, &cid(CID), id(2), None).expect("ours");
        assert_eq!(table.dump(), before);
        let minute = Duration::from_secs(60);
        let from = clock::monotonic_coarse_ns();
        let registered = writer.register(of, &cid(CID), id(2), Some(minute));
        registered.expect("ours");
        let to = clock::monotonic_coarse_ns();
        let found = table.get(of, &cid(CID)).expect("registered");
        let end = 60_000_000_000;
        assert!((from + end..=to + end).contains(&found.seen_ns));
        assert_eq!(
            Binding {
                tag: 0,
                seen_ns: 0,
                ..found
            },
            expected
        );
        // And the longest there is, which is longer than the clock runs.
        let longest = writer.register(of, &cid(CID), id(2), Some(Duration::MAX));
        longest.expect("ours");
        assert_eq!(
            table.get(of, &cid(CID)).expect("registered").seen_ns,
            u64::MAX
        );
        writer.register(of, &cid(CID), id(2), None).expect("ours");
        assert_eq!(table.dump(), before);

        let error = writer.register(of, &cid(CID), id(2), Some(Duration::ZERO));
        assert!(matches!(error, Err(RegisterError::NoTime)), "{error:?}");
        assert_eq!(table.dump(), before);
    });
}

#[test]
fn a_connection_id_of_another_backend_is_a_conflict() {
    isolated("bindings::conflict", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        writer.register(of, &cid(CID), id(2), None).expect("free");
        let before = table.dump();
        let error = writer
            .register(of, &cid(CID), id(1), None)
            .expect_err("another's");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            error.to_string(),
            format!("{CID} is registered for backend 2")
        );
        match error {
            RegisterError::Conflict { cid, backend, .. } => {
                assert_eq!((cid.to_string().as_str(), backend), (CID, id(2)));
            }
            other => panic!("{other}"),
        }
        assert_eq!(table.dump(), before);
    });
}

#[test]
fn what_was_learned_or_imported_makes_way() {
    isolated("bindings::replaces", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let places = [place(&writer, 1), place(&writer, 2)];
        for origin in [Origin::Traffic, Origin::Imported] {
            for phase in [Phase::Live, Phase::Expiring] {
                for bound in places {
                    let there = Binding {
                        phase,
                        ..with_origin(learned(bound), origin)
                    };
                    table.set(of, &cid(CID), there);
                    writer
                        .register(of, &cid(CID), id(2), None)
                        .expect("stronger");
                    let found = table.get(of, &cid(CID)).expect("registered");
                    assert_eq!((found.row, found.incarnation), places[1]);
                    assert_eq!(
                        (found.origin, found.phase),
                        (Origin::Registered, Phase::Live)
                    );
                    assert_eq!(found.seen_ns, 0, "not the time of a packet");
                    table.remove(of, &cid(CID));
                }
            }
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    isolated("bindings::refused", || {
        machine();
        let mut document = two();
        let services = document["services"].as_array_mut().expect("a list");
        services.push(json!({
            "name": "tcp", "vip": "203.0.113.80", "port": 443, "protocol": "tcp",
            "maglev_table_size": 251, "backends": [backend(1, "vm-a")],
        }));
        services.push(json!({
            "name": "tuple", "vip": "203.0.113.81", "port": 443, "short_dcid_len": 8,
            "quic": {"routing": "tuple"},
            "maglev_table_size": 251, "backends": [backend(1, "vm-a")],
        }));
        let mut writer = published(&document);
        let table = Table::of(&writer);
        let number = |name: &str| spec(&document).service(name).expect("a service").id;
        let of = number("quic-api");
        writer.register(of, &cid(CID), id(1), None).expect("free");
        let before = table.dump();
        let refused = |of: ServiceId, text: &str, backend: u32| {
            let error = writer.register(of, &cid(text), id(backend), None);
            let error = error.expect_err(text);
            assert_eq!(table.dump(), before, "{error}");
            error
        };
        let error = refused(ServiceId::new(7), CID, 1);
        assert_eq!(
            error.to_string(),
            "the live generation has no service 0x00000007"
        );
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = refused(of, CID, 3);
        assert_eq!(error.to_string(), "service quic-api has no backend 3");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        for (text, len) in [("c4", 1), ("c4600000000000", 7), ("c46000000000000000", 9)] {
            let error = refused(of, text, 1);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            match error {
                RegisterError::Contract { why, .. } => {
                    let told = why.to_string();
                    assert!(matches!(why, ContractError::Length { .. }), "{told}");
                    assert!(told.contains(&format!("{len} bytes")) && told.ends_with("show 8"));
                }
                other => panic!("{other}"),
            }
        }
        let error = refused(number("tcp"), CID, 1);
        assert!(matches!(
            error,
            RegisterError::Contract {
                why: ContractError::NotQuic,
                ..
            }
        ));
        // Packets of this one do not look for bindings until somebody says so.
        let error = refused(number("tuple"), CID, 1);
        assert!(matches!(error, RegisterError::Unused { .. }), "{error}");
        assert!(
            error.to_string().contains("Writer::use_bindings"),
            "{error}"
        );

        let error = writer
            .use_bindings(&[ServiceId::new(7)])
            .expect_err("unknown");
        assert!(matches!(error, UseBindingsError::UnknownService { .. }));
        let error = writer.use_bindings(&[number("tcp")]).expect_err("no QUIC");
        assert!(matches!(error, UseBindingsError::NotQuic { .. }));
        let live = writer.live().expect("readable");
        assert!(writer
            .use_bindings(&[of])
            .expect("learned anyway")
            .is_none());
        assert_eq!(writer.live().expect("readable"), live);
        let used = writer.use_bindings(&[of, number("tuple")]).expect("used");
        assert_eq!(
            used.expect("published").previous,
            live.map(|live| live.number)
        );
        writer
            .register(number("tuple"), &cid(CID), id(1), None)
            .expect("used");
        assert!(writer
            .use_bindings(&[number("tuple")])
            .expect("used")
            .is_none());
        // It stays so in the generations that follow.
        let tuple = number("tuple");
        document["services"][0]["backends"][0]["weight"] = json!(5);
        publish(&mut writer, &document);
        writer
            .register(tuple, &numbered(7), id(1), None)
            .expect("used");
    });
}

#[test]
fn a_full_table_takes_no_more_and_loses_nothing() {
    isolated("bindings::full", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        writer.register(of, &cid(CID), id(1), None).expect("free");
        table.fill();
        let before = table.dump();
        assert_eq!(before.len(), CIDS as usize);
        let error = writer
            .register(of, &numbered(9), id(1), None)
            .expect_err("full");
        assert!(matches!(
            error,
            RegisterError::MapFull { capacity: CIDS, .. }
        ));
        assert!(error.to_string().contains("1024"), "{error}");
        assert_eq!(table.dump(), before);
        // What is there can be written, and what is ended leaves its place.
        writer.register(of, &cid(CID), id(1), None).expect("ours");
        assert!(writer.unregister(of, &cid(CID)).expect("ended"));
        writer
            .register(of, &numbered(9), id(1), None)
            .expect("room");
    });
}

#[test]
fn only_registrations_are_ended() {
    isolated("bindings::unregister", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        assert!(!writer.unregister(of, &cid(CID)).expect("nothing"));
        for origin in [Origin::Traffic, Origin::Imported] {
            let entry = with_origin(learned(place(&writer, 1)), origin);
            table.set(of, &cid(CID), entry);
            let before = table.dump();
            assert!(!writer.unregister(of, &cid(CID)).expect("not registered"));
            assert_eq!(table.dump(), before);
        }
        writer
            .register(of, &cid(CID), id(1), None)
            .expect("stronger");
        assert!(writer.unregister(of, &cid(CID)).expect("registered"));
        assert!(table.dump().is_empty());
        assert!(!writer.unregister(of, &cid(CID)).expect("ended"));

        for number in 0..40 {
            let backend = id(1 + number % 2);
            writer
                .register(of, &numbered(number), backend, None)
                .expect("free");
        }
        table.set(of, &numbered(99), learned(place(&writer, 1)));
        assert_eq!(writer.unregister_backend(of, id(1)).expect("ended"), 20);
        assert_eq!(table.dump().len(), 21);
        for number in 0..40 {
            let found = table.get(of, &numbered(number));
            assert_eq!(found.is_some(), number % 2 == 1, "{number}");
        }
        assert!(table.get(of, &numbered(99)).is_some(), "learned");
        assert_eq!(writer.unregister_backend(of, id(1)).expect("ended"), 0);
        let error = writer.unregister_backend(of, id(7)).expect_err("unknown");
        assert!(matches!(error, RegisterError::UnknownBackend { .. }));
    });
}

#[test]
fn registrations_end_with_their_time_and_their_backend() {
    isolated("bindings::ends", || {
        machine();
        // A backend for every row there is, so that a row must be used again.
        let all = |last: u32| {
            let ids = (1..=255).chain([last]);
            let mut all = document(&ids.map(|id| backend(id, "vm-a")).collect::<Vec<_>>());
            all["services"][0]["maglev_table_size"] = json!(257);
            all
        };
        let mut writer = published(&all(256));
        let (table, of) = (Table::of(&writer), service(&two()));
        let short = Duration::from_millis(50);
        writer
            .register(of, &cid(CID), id(1), Some(short))
            .expect("free");
        let error = writer
            .register(of, &cid(CID), id(2), None)
            .expect_err("still 1's");
        assert!(matches!(error, RegisterError::Conflict { .. }), "{error}");
        std::thread::sleep(Duration::from_millis(100));
        writer.register(of, &cid(CID), id(2), None).expect("over");
        assert_eq!(table.get(of, &cid(CID)).expect("bound").seen_ns, 0);

        // The backend goes, another takes its row: what was the first one's is nobody's.
        let before = place(&writer, 2);
        let mut without = all(256);
        let backends = without["services"][0]["backends"].as_array_mut();
        backends.expect("a list")[1] = backend(1000, "vm-b");
        publish(&mut writer, &without);
        let after = place(&writer, 1000);
        assert_eq!(before.0, after.0, "the row is used again");
        assert_ne!(before.1, after.1);
        let error = writer
            .register(of, &cid(CID), id(2), None)
            .expect_err("gone");
        assert!(
            matches!(error, RegisterError::UnknownBackend { .. }),
            "{error}"
        );
        assert_eq!(writer.unregister_backend(of, id(1000)).expect("none"), 0);
        writer
            .register(of, &cid(CID), id(1), None)
            .expect("nobody's");
        let found = table.get(of, &cid(CID)).expect("registered");
        assert_eq!((found.row, found.incarnation), place(&writer, 1));
    });
}

#[test]
fn registering_takes_no_lock_and_follows_the_live_generation() {
    isolated("bindings::live", || {
        machine();
        let unpublished = two();
        let loader = guideway::quiclb::Loader::new(&dir(&unpublished), spec(&unpublished).limits());
        let mut writer = loader.load().expect("made");
        let of = service(&unpublished);
        let looker = QuicLb::open(&dir(&unpublished)).expect("open");
        let error = looker
            .register(of, &cid(CID), id(1), None)
            .expect_err("nothing");
        assert!(matches!(error, RegisterError::NothingPublished), "{error}");
        publish(&mut writer, &unpublished);
        looker.register(of, &cid(CID), id(1), None).expect("free");
        publish(
            &mut writer,
            &document(&[backend(1, "vm-a"), backend(2, "vm-b"), backend(3, "vm-b")]),
        );
        looker
            .register(of, &numbered(3), id(3), None)
            .expect("published");
        let found = Table::of(&writer)
            .get(of, &numbered(3))
            .expect("registered");
        assert_eq!((found.row, found.incarnation), place(&writer, 3));
    });
}

#[test]
fn an_entry_that_is_being_deleted_is_waited_for() {
    isolated("bindings::waits", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let dying = |phase| Binding {
            phase,
            ..learned(place(&writer, 1))
        };
        table.set(of, &cid(CID), dying(Phase::Dead));
        let deleter = std::thread::spawn({
            let table = Table::of(&writer);
            move || {
                std::thread::sleep(Duration::from_millis(100));
                table.remove(of, &cid(CID));
            }
        });
        let from = Instant::now();
        writer
            .register(of, &cid(CID), id(2), None)
            .expect("free at last");
        assert!(from.elapsed() >= Duration::from_millis(90));
        deleter.join().expect("deleted");
        let found = table.get(of, &cid(CID)).expect("registered");
        assert_eq!((found.row, found.incarnation), place(&writer, 2));
        // One that never goes is not waited for without end.
        table.set(of, &cid(CID), dying(Phase::Touched));
        let error = writer
            .register(of, &cid(CID), id(2), None)
            .expect_err("held");
        assert!(matches!(error, RegisterError::Busy { .. }), "{error}");
        let error = writer.unregister(of, &cid(CID)).expect_err("held");
        assert!(matches!(error, RegisterError::Busy { .. }), "{error}");
    });
}
