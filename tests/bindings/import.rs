// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Documents out of the table and into it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use guideway::affinity::{
    AffinityDocument, Binding, BindingOrigin, CidBinding, Conflict, Origin, Phase, ServiceBindings,
};
use guideway::error::ErrorKind;
use guideway::id::ServiceId;
use guideway::kernel::clock;
use guideway::quic::Cid;
use guideway::quiclb::{ImportError, QuicLb};
use serde_json::json;

use crate::instance::*;
use crate::isolated;

/// A document that binds the numbered connection IDs of the first service to a backend.
fn binding(numbers: impl Iterator<Item = u32>, backend: u32) -> AffinityDocument {
    let spec = spec(&two());
    let of = &spec.services()[0];
    let bindings = numbers.map(|number| CidBinding {
        cid: numbered(number),
        backend: id(backend),
        origin: BindingOrigin::Learned,
        last_seen_ns: 1,
    });
    AffinityDocument::new(
        "2026-07-31T08:00:00Z",
        "elsewhere",
        vec![ServiceBindings {
            id: of.id,
            name: of.name.clone(),
            vip: of.vip,
            protocol: of.protocol,
            port: of.port,
            bindings: bindings.collect(),
        }],
    )
}

#[test]
fn exports_hold_what_packets_follow_and_nothing_else() {
    isolated("bindings::export", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let places = [place(&writer, 1), place(&writer, 2)];
        let seen_ns = clock::monotonic_coarse_ns();
        let entry = Binding {
            seen_ns,
            ..learned(places[0])
        };
        let set = |number: u32, entry: Binding| table.set(of, &numbered(number), entry);
        set(1, entry);
        set(
            2,
            Binding {
                phase: Phase::Expiring,
                ..entry
            },
        );
        set(3, with_origin(learned(places[1]), Origin::Imported));
        writer
            .register(of, &numbered(4), id(2), None)
            .expect("free");
        let hour = Some(Duration::from_secs(3600));
        writer
            .register(of, &numbered(5), id(2), hour)
            .expect("free");
        // None of these binds anything.
        set(
            10,
            Binding {
                phase: Phase::Dead,
                ..entry
            },
        );
        set(
            11,
            Binding {
                phase: Phase::Touched,
                ..entry
            },
        );
        set(
            12,
            Binding {
                incarnation: 77,
                ..entry
            },
        );
        set(13, Binding { row: 99, ..entry });
        set(
            14,
            Binding {
                seen_ns: 1,
                ..with_origin(entry, Origin::Registered)
            },
        );
        table.set(ServiceId::new(7), &numbered(15), entry);
        table.set_with_tag(of, &numbered(16), entry, 0x5a5a);

        let before = table.dump();
        // Whoever looks needs no lock.
        let document = QuicLb::open(writer.dir())
            .expect("open")
            .export()
            .expect("a document");
        assert_eq!(table.dump(), before);
        assert_eq!(document.instance(), ONE);
        assert_eq!(document.services().len(), 1);
        let found: Vec<_> = document.services()[0]
            .bindings
            .iter()
            .map(|of| (of.cid, of.backend.get(), of.origin))
            .collect();
        use BindingOrigin::*;
        let expected = [
            (1, 1, Learned),
            (2, 1, Learned),
            (3, 2, Imported),
            (4, 2, Registered),
            (5, 2, Registered),
        ];
        let expected: Vec<(Cid, u32, BindingOrigin)> = expected
            .into_iter()
            .map(|(number, backend, origin)| (numbered(number), backend, origin))
            .collect();
        assert_eq!(found, expected);
        let bindings = &document.services()[0].bindings;
        assert_eq!(bindings[0].last_seen_ns, seen_ns);
        // The end of a time to live is not when a packet came.
        assert_eq!(bindings[4].last_seen_ns, 0);
        // The same state gives the same bytes.
        let again = writer.export().expect("a document");
        assert_eq!(again.services(), document.services());
    });
}

#[test]
fn imports_leave_the_reserve_alone() {
    isolated("bindings::reserve", || {
        machine();
        let mut writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let at = place(&writer, 1);
        for number in 0..900 {
            table.set(of, &numbered(number), learned(at));
        }
        // 90 % of 1024 entries are 921.
        let document = binding(2_000..2_100, 2);
        let foreseen = writer
            .foresee_import(&document, Conflict::Keep)
            .expect("foreseen");
        let report = writer.import(&document, Conflict::Keep).expect("imported");
        assert_eq!(report, foreseen);
        assert_eq!((report.accepted, report.rejected.table_full), (21, 79));
        assert_eq!(table.dump().len(), 921);
        // What needs no new entry is taken all the same.
        let report = writer.import(&document, Conflict::Keep).expect("imported");
        assert_eq!((report.unchanged, report.rejected.table_full), (21, 79));
        // A high level keeps all out, whatever room there is.
        for number in 0..900 {
            table.remove(of, &numbered(number));
        }
        for level in [1, 2] {
            table.set_level(&writer, level);
            let report = writer.import(&document, Conflict::Keep).expect("imported");
            assert_eq!((report.unchanged, report.rejected.table_full), (21, 79));
        }
        table.set_level(&writer, 0);
        let report = writer.import(&document, Conflict::Keep).expect("imported");
        assert_eq!((report.unchanged, report.accepted), (21, 79));
        // Counted is what was added.
        let stats = writer.stats().expect("counters");
        assert_eq!(stats.services[0].counters["imported"], 100);
    });
}

#[test]
fn what_is_registered_or_learned_here_is_never_replaced() {
    isolated("bindings::policies", || {
        machine();
        let mut writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        table.set(of, &numbered(0), learned(place(&writer, 1)));
        writer
            .register(of, &numbered(1), id(1), None)
            .expect("free");
        table.set(
            of,
            &numbered(2),
            with_origin(learned(place(&writer, 1)), Origin::Imported),
        );
        let old = Binding {
            seen_ns: 5,
            ..learned(place(&writer, 2))
        };
        table.set(of, &numbered(3), old);
        let document = binding(0..5, 2);
        let before = table.dump();
        let error = writer
            .import(&document, Conflict::Fail)
            .expect_err("conflicts");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        match error {
            ImportError::Conflict { report, .. } => {
                assert_eq!((report.kept, report.accepted, report.unchanged), (3, 0, 1));
                assert_eq!(report.examples.kept.len(), 3);
            }
            other => panic!("{other}"),
        }
        assert_eq!(table.dump(), before);
        let report = writer
            .import(&document, Conflict::ReplaceImported)
            .expect("imported");
        assert_eq!((report.kept, report.replaced), (2, 1));
        assert_eq!((report.accepted, report.unchanged), (1, 1));
        let found = |number: u32| table.get(of, &numbered(number)).expect("bound");
        assert_eq!(found(0).origin, Origin::Traffic);
        assert_eq!(found(1).origin, Origin::Registered);
        assert_eq!((found(2).row, found(2).incarnation), place(&writer, 2));
        assert_eq!(found(3).seen_ns, 5, "unchanged in everything");
        // Seen now, whatever the document says.
        let now_ns = clock::monotonic_coarse_ns();
        for number in [2, 4] {
            assert_eq!(
                (found(number).origin, found(number).phase),
                (Origin::Imported, Phase::Live)
            );
            assert!(now_ns - found(number).seen_ns < 1_000_000_000);
        }
    });
}

#[test]
fn an_import_and_learning_agree_on_every_connection_id() {
    isolated("bindings::import_race", || {
        machine();
        let mut writer = published(&two());
        let of = service(&two());
        let table = Table::of(&writer);
        let places = [place(&writer, 1), place(&writer, 2)];
        let done = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            let (learner, done) = (Table::of(&writer), &done);
            scope.spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    learner.learn(of, &numbered(number % 800), learned(places[0]));
                    number += 7;
                }
            });
            let _stop = Stop(done);
            let document = binding(0..800, 2);
            writer.import(&document, Conflict::Keep).expect("imported")
        });
        assert_eq!(report.total(), 800);
        assert_eq!(report.accepted + report.kept, 800, "{report:?}");
        let (mut imported, mut kept) = (0, 0);
        for number in 0..800 {
            let found = table.get(of, &numbered(number)).expect("bound");
            match (found.origin, (found.row, found.incarnation)) {
                (Origin::Imported, at) if at == places[1] => imported += 1,
                (Origin::Traffic, at) if at == places[0] => kept += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((imported, kept), (report.accepted, report.kept));
    });
}

#[test]
fn an_instance_without_a_generation_has_nothing_and_takes_nothing() {
    isolated("bindings::unpublished", || {
        machine();
        let loader = guideway::quiclb::Loader::new(&dir(&two()), spec(&two()).limits());
        let mut writer = loader.load().expect("made");
        assert_eq!(writer.export().expect("empty").bindings(), 0);
        let error = writer
            .import(&binding(0..5, 1), Conflict::Keep)
            .expect_err("nothing");
        assert!(matches!(error, ImportError::NothingPublished), "{error}");
        let mut tcp = two();
        tcp["services"][0]["protocol"] = json!("tcp");
        tcp["services"][0]["short_dcid_len"] = json!(0);
        tcp["services"][0]["quic_only"] = json!(false);
        publish(&mut writer, &tcp);
        let report = writer
            .import(&binding(0..5, 1), Conflict::Keep)
            .expect("tried");
        assert_eq!((report.accepted, report.rejected.unknown_service), (0, 5));
        assert!(Table::of(&writer).dump().is_empty());
    });
}
