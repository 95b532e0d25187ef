// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Many connection IDs at once, from many sides.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use guideway::affinity::Origin;
use guideway::quiclb::{QuicLb, RegisterError, Registration};
use serde_json::json;

use crate::instance::*;
use crate::{isolated, netns};

#[test]
fn each_entry_of_many_has_its_own_result() {
    isolated("bindings::many", || {
        machine();
        let writer = published(&two());
        let (table, of) = (Table::of(&writer), service(&two()));
        let registration = |number: u32, backend: u32| Registration {
            service: of,
            cid: numbered(number),
            backend: id(backend),
            ttl: None,
        };
        writer
            .register(of, &numbered(1), id(2), None)
            .expect("free");
        table.set(of, &numbered(2), learned(place(&writer, 2)));
        let mut all: Vec<_> = (0..100).map(|number| registration(number, 1)).collect();
        all[7].backend = id(9);
        all[8].cid = cid("c460");
        all[9].ttl = Some(Duration::ZERO);
        let results = writer.register_many(&all).expect("tried");
        assert_eq!(results.len(), 100);
        for (number, result) in results.iter().enumerate() {
            let expected = match number {
                1 => matches!(result, Err(RegisterError::Conflict { .. })),
                7 => matches!(result, Err(RegisterError::UnknownBackend { .. })),
                8 => matches!(result, Err(RegisterError::Contract { .. })),
                9 => matches!(result, Err(RegisterError::NoTime)),
                _ => result.is_ok(),
            };
            assert!(expected, "{number}: {result:?}");
        }
        assert_eq!(table.dump().len(), 97);
        let found = table.get(of, &numbered(2)).expect("registered");
        assert_eq!((found.row, found.incarnation), place(&writer, 1));
        assert!(writer.register_many(&[]).expect("nothing").is_empty());
    });
}

#[test]
fn of_many_who_want_one_connection_id_one_gets_it() {
    isolated("bindings::race", || {
        machine();
        let backends: Vec<_> = (1..=8).map(|id| backend(id, "vm-a")).collect();
        let writer = published(&document(&backends));
        let (table, of) = (Table::of(&writer), service(&two()));
        let dir = dir(&two());
        for round in 0..50 {
            let wanted = numbered(round);
            // Half of the rounds begin with something learned.
            if round % 2 == 0 {
                table.set(of, &wanted, learned(place(&writer, 8)));
            }
            let results: Vec<_> = std::thread::scope(|scope| {
                let each = (1..=4).map(|backend| {
                    // Each as a process of its own would.
                    let balancer = QuicLb::open(&dir).expect("open");
                    scope.spawn(move || balancer.register(of, &wanted, id(backend), None))
                });
                let threads: Vec<_> = each.collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("a result"))
                    .collect()
            });
            let winners: Vec<_> = (1..=4).filter(|&of| results[of - 1].is_ok()).collect();
            assert_eq!(winners.len(), 1, "{round}: {results:?}");
            let found = table.get(of, &wanted).expect("registered");
            let winner = place(&writer, winners[0] as u32);
            assert_eq!((found.row, found.incarnation), winner);
            assert_eq!((found.origin, found.seen_ns), (Origin::Registered, 0));
            for result in results {
                match result {
                    Ok(()) => {}
                    Err(RegisterError::Conflict { backend, .. }) => {
                        assert_eq!(backend.get() as usize, winners[0]);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
}

#[test]
fn registrations_survive_learning_at_full_speed() {
    isolated("bindings::churn", || {
        machine();
        let writer = published(&two());
        let (of, dir) = (service(&two()), dir(&two()));
        let (place, done) = (place(&writer, 1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let stop = Stop(&done);
            // Learns the same connection IDs, as packets do.
            let (learner, done) = (Table::of(&writer), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for number in 0..128 {
                        learner.learn(of, &numbered(number), learned(place));
                    }
                }
            });
            let threads: Vec<_> = (0..2)
                .map(|part| {
                    let balancer = QuicLb::open(&dir).expect("open");
                    scope.spawn(move || {
                        for round in 0..6 {
                            for number in 0..16 {
                                let wanted = numbered(number * 8 + part);
                                balancer
                                    .register(of, &wanted, id(2), None)
                                    .expect("registered");
                            }
                            if round < 5 {
                                for number in 0..16 {
                                    let wanted = numbered(number * 8 + part);
                                    assert!(balancer.unregister(of, &wanted).expect("ended"));
                                }
                            }
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            drop(stop);
            ended
                .into_iter()
                .for_each(|ended| ended.expect("no failure"));
        });
        let table = Table::of(&writer);
        let wanted = crate::instance::place(&writer, 2);
        for number in 0..16 {
            for part in 0..2 {
                let found = table
                    .get(of, &numbered(number * 8 + part))
                    .expect("registered");
                assert_eq!((found.row, found.incarnation), wanted);
                assert_eq!((found.origin, found.seen_ns), (Origin::Registered, 0));
            }
        }
    });
}

#[test]
fn an_export_ends_however_much_is_published() {
    isolated("bindings::published", || {
        const COUNT: u32 = 120_000;
        machine();
        let mut document = two();
        document["limits"]["cids"] = json!(COUNT);
        let mut writer = published(&document);
        let of = service(&document);
        let all: Vec<_> = (0..COUNT)
            .map(|number| Registration {
                service: of,
                cid: numbered(number),
                backend: id(1 + number % 2),
                ttl: None,
            })
            .collect();
        let results = writer.register_many(&all).expect("tried");
        assert!(results.iter().all(Result::is_ok));
        let exporter = QuicLb::open(&dir(&document)).expect("open");
        let (done, publications) = (AtomicBool::new(false), AtomicU64::new(0));
        let (exported, meanwhile) = std::thread::scope(|scope| {
            let publishing = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let number = publications.load(Ordering::Relaxed);
                    document["services"][0]["cid_idle"] = json!(300 + number % 2);
                    publish(&mut writer, &document);
                    publications.store(number + 1, Ordering::Relaxed);
                }
            });
            let count = || publications.load(Ordering::Relaxed);
            assert!(netns::within(Duration::from_secs(60), || count() > 0));
            let before = count();
            let exported = exporter.export();
            let meanwhile = count() - before;
            done.store(true, Ordering::Relaxed);
            publishing.join().expect("published");
            (exported.expect("a document"), meanwhile)
        });
        println!("{meanwhile} publications");
        assert_eq!(exported.bindings(), COUNT as usize);
    });
}
