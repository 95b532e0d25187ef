// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication on a card, which the kernel stands in for: what packets see of it whatever fails, what
//! is swept and when, and how flows age.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use guideway::abi;
use guideway::error::ErrorKind;
use guideway::kernel::attach::occupants;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::{Array, Hash};
use guideway::plan::PlanResult;
use guideway::quiclb::{
    detach, upgrade, Aborted, HardwareLb, InstanceError, Loader, Options, PublishError, QuicLb,
    Step,
};
use guideway::reason::Reason;

use crate::netns::{ifindex, isolated, veth};
use crate::scene::{backend, dir, document, loader, opened, publish, send, spec, PORT};

/// Clients whose flows are looked at.
const CLIENTS: u16 = 64;

pub(crate) fn on_card(name: &'static str, work: impl FnOnce() + Send + 'static) {
    isolated(name, || {
        veth(PORT, "gw-peer");
        work();
    });
}

pub(crate) fn map(name: &str) -> Map {
    Map::open_any(&dir().pin(Section::Maps, name)).expect("a pinned map")
}

/// The generations of which the card still has slots.
fn generations() -> BTreeSet<u64> {
    let slots = Hash::<abi::OffloadKey, abi::Slot>::new(map("gw_of_slot")).expect("its shape");
    let keys = slots.keys_one_by_one().expect("keys");
    keys.into_iter().map(|key| key.generation).collect()
}

fn records() -> Vec<String> {
    let mut names = dir().pins(Section::Generations).expect("pins");
    names.sort();
    names
}

pub(crate) fn backends(card: &HardwareLb) -> BTreeSet<u8> {
    (0..CLIENTS).map(|client| backend(card, client)).collect()
}

#[test]
fn a_generation_is_live_when_it_was_published() {
    on_card("offload::publish", || {
        let mut card = opened();
        assert_eq!(card.live_number().expect("read"), None);
        assert_eq!(send(&card, 0).action, libbpf_sys::XDP_PASS);

        assert_eq!(publish(&mut card, &[1, 2, 3]), 1);
        assert_eq!(card.live_number().expect("read"), Some(1));
        assert_eq!(backends(&card), [1, 2, 3].into());
        let counters = card.status().expect("read");
        let service = &counters.services[0];
        assert_eq!(service.packets, u64::from(CLIENTS));
        let by_backend: u64 = service.backends.values().sum();
        assert_eq!(by_backend, service.packets);
        assert_eq!(counters.reasons[&Reason::Forwarded], service.packets);
        assert_eq!(counters.reasons[&Reason::NoGeneration], 1);

        // The same again publishes nothing.
        let plan = card
            .plan(&spec(&document(&[1, 2, 3])), Options::default())
            .expect("a plan");
        assert_eq!(plan.document().result, PlanResult::Unchanged);
        let published = card.publish(&plan).expect("nothing to do");
        assert_eq!((published.generation, published.previous), (1, Some(1)));

        // Another process goes on where this one has ended, and flows stay where they are.
        let before: Vec<_> = (0..CLIENTS).map(|client| backend(&card, client)).collect();
        drop(card);
        let mut card = opened();
        assert_eq!(publish(&mut card, &[1, 2, 3, 4]), 2);
        let after: Vec<_> = (0..CLIENTS).map(|client| backend(&card, client)).collect();
        assert_eq!(before, after);
        assert_eq!(generations(), [2].into());
        assert_eq!(records(), ["1-record", "2-record"]);
        let newcomers: BTreeSet<_> = (100..200).map(|client| backend(&card, client)).collect();
        assert_eq!(newcomers, [1, 2, 3, 4].into());

        // What a backend has counted is its service's when it has gone.
        let gone = card.status().expect("read").services[0].backends[&1];
        assert_eq!(publish(&mut card, &[2, 3, 4]), 3);
        let service = &card.status().expect("read").services[0];
        assert_eq!(service.removed_packets, gone);
        assert!(!backends(&card).contains(&1));

        drop(card);
        let done = detach(&dir(), true).expect("purged");
        assert!(!done.detached && done.left.is_empty(), "{done:?}");
        assert!(!dir().exists().expect("looked"));
    });
}

#[test]
fn a_publication_that_ends_before_a_step_is_invisible_and_the_next_one_converges() {
    on_card("offload::steps", || {
        let swap = Step::ON_CARD.iter().position(|step| *step == Step::Swap);
        let swap = swap.expect("among them");
        let mut burned = 0;
        for (at, step) in Step::ON_CARD.into_iter().enumerate() {
            let mut card = opened();
            let before = publish(&mut card, &[1, 2]);
            assert!(before > burned, "a number that was given out: {before}");
            let plan = card
                .plan(&spec(&document(&[3, 4])), Options::default())
                .expect("a plan");
            let mut asked = Vec::new();
            let ended = card.publish_observed(&plan, 2, |next| {
                asked.push(next);
                if next == step {
                    Err(Aborted)
                } else {
                    Ok(())
                }
            });
            assert_eq!(asked, Step::ON_CARD[..=at], "in order");
            let became_live = at > swap;
            match ended {
                Err(PublishError::Aborted { step: stopped, .. }) => {
                    assert!(!became_live && stopped == step, "{step}");
                }
                Ok(published) => {
                    assert!(became_live && published.untidy.is_some(), "{step}");
                }
                Err(error) => panic!("{step}: {error}"),
            }
            // As a process that was killed: what it had begun is left as it is.
            drop(card);
            let mut card = opened();
            let live = card.live_number().expect("read").expect("some");
            assert_eq!(live > before, became_live, "{step}");
            assert_eq!(
                backends(&card),
                if became_live {
                    [3, 4].into()
                } else {
                    [1, 2].into()
                },
                "{step}"
            );
            let meta: Array<abi::Meta> = Array::new(map("gw_ql_meta")).expect("its shape");
            burned = meta.get(0).expect("read").generation_mark;
            let next = publish(&mut card, &[5, 6]);
            assert!(next > burned, "{step}: {next} was given out before");
            assert_eq!(backends(&card), [5, 6].into(), "{step}");
            assert_eq!(generations(), [next].into(), "{step}: no leftovers");
            assert!(records().contains(&format!("{next}-record")), "{step}");
            assert!(records().len() <= 3, "{step}: {:?}", records());
            burned = next;
        }
        assert!(burned > 0);
    });
}

#[test]
fn a_generation_that_is_half_written_is_invisible() {
    on_card("offload::half", || {
        let mut card = opened();
        publish(&mut card, &[1, 2]);
        // What somebody else has left takes all the room but that of some slots.
        let slots = Hash::<abi::OffloadKey, abi::Slot>::new(map("gw_of_slot")).expect("its shape");
        let room = slots.map().shape().max_entries - 251 - 100;
        let keys: Vec<_> = (0..room)
            .map(|index| abi::OffloadKey {
                generation: 77,
                service: 1,
                index,
            })
            .collect();
        let plan = card
            .plan(&spec(&document(&[3, 4])), Options::default())
            .expect("a plan");
        let error = card
            .publish_observed(&plan, 2, |step| {
                if step == Step::Fill {
                    let values = vec![abi::Slot::default(); keys.len()];
                    let keys = bytemuck::cast_slice(&keys);
                    let filled = slots
                        .map()
                        .update_batch(keys, bytemuck::cast_slice(&values));
                    filled.expect("room for them");
                }
                Ok(())
            })
            .expect_err("no room");
        assert!(
            matches!(
                error,
                PublishError::Step {
                    step: Step::Fill,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(backends(&card), [1, 2].into());
        assert!(generations().len() > 2, "half of it is there");
        let next = publish(&mut card, &[3, 4]);
        assert_eq!(generations(), [next].into());
        assert_eq!(backends(&card), [3, 4].into());
    });
}

#[test]
fn nothing_is_swept_before_the_grace_interval_is_over() {
    const GRACE: Duration = Duration::from_millis(300);
    on_card("offload::grace", || {
        let mut card = opened();
        publish(&mut card, &[1]);
        drop(card);
        // What a publication that was killed has left.
        let slots = Hash::<abi::OffloadKey, abi::Slot>::new(map("gw_of_slot")).expect("its shape");
        let left = abi::OffloadKey {
            generation: 99,
            service: 1,
            index: 0,
        };
        slots
            .update(&left, &abi::Slot::default(), Update::Insert)
            .expect("room");

        let started = Instant::now();
        let mut card = loader().grace(GRACE).load_in_kernel().expect("opened");
        assert_eq!(
            generations(),
            [1, 99].into(),
            "a start sweeps nothing by itself"
        );
        let plan = card
            .plan(&spec(&document(&[2])), Options::default())
            .expect("a plan");
        let mut swept = None;
        let mut activated = None;
        let published = card.publish_observed(&plan, 2, |step| {
            match step {
                Step::RaiseMarks => {
                    swept = Some(started.elapsed());
                    assert_eq!(generations(), [1].into());
                }
                Step::Swap => activated = Some(Instant::now()),
                Step::SweepAfter => assert_eq!(generations(), [1, 2].into()),
                _ => {}
            }
            Ok(())
        });
        assert!(published.expect("published").untidy.is_none());
        assert!(swept.expect("asked") >= GRACE, "{swept:?}");
        assert!(activated.expect("asked").elapsed() >= GRACE);
        assert_eq!(generations(), [2].into());
    });
}

/// Tells a thread to end when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn packets_follow_one_generation_while_others_are_published() {
    on_card("offload::beside", || {
        let mut card = loader()
            // Longer than a thread between two packets waits for a CPU.
            .grace(Duration::from_secs(2))
            .load_in_kernel()
            .expect("made");
        publish(&mut card, &[1, 2]);
        let path = dir().pin(Section::Programs, "gw_quiclb");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Whatever fails here, the packets end, and with them the scope.
            let ends = Ends(&ended);
            let packets = scope.spawn(|| {
                let program = guideway::kernel::program::Program::open(Path::new(&path)).unwrap();
                let mut seen = BTreeSet::new();
                while !ended.load(Ordering::Relaxed) {
                    for client in 0..CLIENTS {
                        let frame = crate::scene::query(client);
                        let ran = guideway::kernel::run::Run::new(&frame)
                            .run(&program)
                            .unwrap();
                        assert_eq!(ran.action, libbpf_sys::XDP_TX);
                        seen.insert(ran.frame[5]);
                    }
                }
                seen
            });
            for round in 0..4 {
                publish(&mut card, if round % 2 == 0 { &[3, 4] } else { &[1, 2] });
            }
            drop(ends);
            let seen = packets.join().expect("no packet was lost");
            assert_eq!(seen, [1, 2, 3, 4].into());
        });
        let counters = card.status().expect("read");
        for reason in [Reason::Internal, Reason::NoService, Reason::NoGeneration] {
            assert_eq!(counters.reasons[&reason], 0, "{reason}");
        }
    });
}

#[test]
fn flows_age_by_epochs() {
    on_card("offload::epochs", || {
        let mut card = opened();
        publish(&mut card, &[1, 2]);
        for client in 0..CLIENTS {
            backend(&card, client);
        }
        // 20 seconds are two epochs, and one more may have begun before the first packet.
        for round in 1..=3 {
            let aged = card.age().expect("aged");
            assert_eq!(
                (aged.epoch, aged.flows, aged.idle, aged.gone),
                (round, CLIENTS.into(), 0, 0)
            );
            // This one goes on.
            backend(&card, 0);
        }
        let aged = card.age().expect("aged");
        assert_eq!(
            (aged.flows, aged.idle),
            (CLIENTS.into(), u64::from(CLIENTS) - 1)
        );
        let aged = card.age().expect("aged");
        assert_eq!((aged.flows, aged.idle), (1, 0));

        // Flows of a backend that is gone go at once, unless a packet has given them to another.
        let first = backend(&card, 0);
        let others: Vec<u32> = [1, 2]
            .into_iter()
            .filter(|id| *id != u32::from(first))
            .collect();
        publish(&mut card, &others);
        let aged = card.age().expect("aged");
        assert_eq!((aged.flows, aged.idle, aged.gone), (1, 0, 1));
    });
}

#[test]
fn a_full_table_of_flows_costs_no_packet() {
    on_card("offload::full", || {
        let mut card = opened();
        publish(&mut card, &[1, 2]);
        let flows = 1024;
        for client in 0..flows + 100 {
            backend(&card, client);
        }
        let service = &card.status().expect("read").services[0];
        assert_eq!(service.refused_full, 100);
        assert_eq!(service.packets, u64::from(flows) + 100);
    });
}

#[test]
fn what_the_card_or_the_plan_refuses_changes_nothing() {
    on_card("offload::refused", || {
        // A veth runs no programs: nothing is left, and nothing runs elsewhere instead.
        let device = ifindex(PORT);
        let error = loader().load(device).expect_err("no such card");
        assert_eq!(error.kind(), ErrorKind::Kernel, "{error}");
        assert!(!dir().exists().expect("looked"));
        assert_eq!(
            dir().leftovers().expect("looked"),
            Vec::<std::path::PathBuf>::new()
        );

        let mut card = opened();
        publish(&mut card, &[1]);
        let interface = PORT.parse().expect("a name");
        card.attach(&interface)
            .expect_err("in hardware mode or not at all");
        assert_eq!(occupants(device).expect("looked"), []);

        // A plan that is no longer current.
        let plan = |card: &HardwareLb, ids: &[u32]| {
            card.plan(&spec(&document(ids)), Options::default())
                .expect("a plan")
        };
        let old = plan(&card, &[2]);
        publish(&mut card, &[1, 2]);
        let error = card.publish(&old).expect_err("stale");
        assert!(matches!(error, PublishError::Stale { .. }), "{error}");
        drop(card);

        // What is in the kernel is not on a card, and what is published there reaches none.
        let error = loader().load(device).expect_err("another device");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let message = error.to_string();
        assert!(message.contains("loaded for no network card"), "{message}");
        let remedy = error.remedy().expect("known");
        assert!(remedy.contains("--purge"), "{remedy}");
        assert_eq!(
            HardwareLb::open(&dir())
                .expect("there")
                .live_number()
                .expect("read"),
            Some(2)
        );

        // State of an older build, which has no upgrade on a card.
        let meta: Array<abi::Meta> = Array::new(map("gw_ql_meta")).expect("its shape");
        let current = meta.get(0).expect("read");
        let older = abi::Meta {
            abi_minor: current.abi_minor - 1,
            ..current
        };
        meta.set(0, &older).expect("written");
        let error = loader().load_in_kernel().expect_err("older");
        assert!(matches!(error, InstanceError::Older { .. }), "{error}");
        let error = upgrade(&dir()).expect_err("no upgrade");
        assert!(
            error.to_string().contains("runs on a network card"),
            "{error}"
        );
        meta.set(0, &current).expect("written");

        // Nobody takes it for an instance on CPUs.
        let refused = |error: InstanceError| {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                error.to_string().contains("runs on a network card"),
                "{error}"
            );
        };
        refused(QuicLb::open(&dir()).expect_err("another profile"));
        let limits = *spec(&document(&[1])).limits();
        refused(
            Loader::new(&dir(), &limits)
                .load()
                .expect_err("another profile"),
        );
        detach(&dir(), true).expect("purged");
        drop(Loader::new(&dir(), &limits).load().expect("made"));
        let error = loader().load_in_kernel().expect_err("another profile");
        assert!(error.to_string().contains("runs on CPUs"), "{error}");
    });
}
