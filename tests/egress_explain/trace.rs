// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames through a private copy of the program: as the live one, which it leaves alone.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use guideway::capture::Frame;
use guideway::egress::explain::Verdict;
use guideway::egress::trace::{TraceDocument, TraceError};
use guideway::egress::{Egress, Limits, Loader};
use guideway::error::ErrorKind;
use guideway::group::Class;
use guideway::kernel::map::Map;
use guideway::kernel::run::{Classified, ClassifierRun};
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::PerCpuArray;
use guideway::oracle::egress::PinFate;
use guideway::reason::egress::{End, Selection};

use crate::chance::Random;
use crate::netns::{isolated, veth};
use crate::scene::*;
use crate::support::*;

fn trace(egress: &Egress, frames: &[Vec<u8>], ifindex: u32) -> TraceDocument {
    let frames = (0..).zip(frames);
    let frames = frames.map(|(index, bytes)| Frame::new(index, bytes));
    let traced = egress.trace(frames, ifindex);
    traced.unwrap_or_else(|error| panic!("{error}"))
}

fn run(egress: &Egress, frame: &[u8], ifindex: u32) -> Classified {
    let run = ClassifierRun {
        frame,
        ifindex,
        gso_bytes: 0,
        mark: 0,
        priority: 0,
    };
    run.run(egress.program()).expect("a run")
}

/// All that packets change of an instance.
fn state(egress: &Egress) -> String {
    let map = |name| Map::open_any(&dir().pin(Section::Maps, name)).expect("a map");
    let stats = PerCpuArray::<u64>::new(map("gw_eg_stat")).expect("counters");
    let slots = PerCpuArray::<guideway::abi::ShardStats>::new(map("gw_shardstat"));
    let mut text = String::new();
    stats
        .for_each(|index, cpus| text += &format!("{index} {cpus:?}\n"))
        .expect("readable");
    slots
        .expect("counters")
        .for_each(|index, cpus| text += &format!("{index} {cpus:?}\n"))
        .expect("readable");
    let mut pins = BTreeMap::new();
    let seen = egress.pins().expect("pins").for_each(|pin| {
        let pin = pin.expect("a pin");
        pins.insert(pin.holder, format!("{pin:?}"));
        ControlFlow::Continue(())
    });
    seen.expect("readable");
    let usage = egress.pins().expect("pins").usage().expect("readable");
    text + &format!("{pins:?}\n{usage:?}")
}

#[test]
fn a_trace_is_what_the_live_program_would_do_and_leaves_it_alone() {
    isolated("egress_explain::trace", || {
        let scene = scene();
        let mut random = Random::new(0x77ace);
        let mut make = |count| Vec::from_iter((0..count).map(|_| random_frame(&mut random)));
        // Some have pins already.
        for frame in make(20) {
            run(&scene.writer, &frame, scene.inside);
        }
        let frames = make(400);
        let before = state(&scene.writer);
        let document = trace(&scene.writer, &frames, scene.inside);
        assert_eq!(state(&scene.writer), before);
        assert!(document.pins_copied > 0);
        assert!(document.program.is_live);
        let summary = &document.summary;
        assert_eq!((summary.packets, summary.errors), (400, 0));
        assert_eq!(summary.disagreements, 0, "{:#?}", document.packets);
        let mut fates = Vec::new();
        for (packet, frame) in document.packets.iter().zip(&frames) {
            let ran = run(&scene.writer, frame, scene.inside);
            let verdict = match packet.verdict.expect("a verdict") {
                Verdict::Next => PASSED,
                Verdict::Drop => DROPPED,
                Verdict::Redirect | Verdict::Answer => SENT,
            };
            assert_eq!(ran.action, verdict, "{packet:#?}");
            let output: String = ran.frame.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(packet.output.as_ref(), Some(&output), "{packet:#?}");
            let explain = packet.explain.as_ref().expect("explained");
            assert_eq!(explain.end, packet.end);
            if let Some(member) = &explain.member {
                assert!(packet.shard.is_none() || packet.shard == Some(member.sid));
            }
            fates.extend(explain.pin.and_then(|pin| pin.fate));
        }
        for fate in [PinFate::Followed, PinFate::New, PinFate::NoQuota] {
            assert!(fates.contains(&fate), "{fate:?} was never seen");
        }
        for end in [End::Group, End::Shard, End::IcmpSent, End::NoRoute] {
            assert!(summary.by_end.contains_key(&end), "{end} was never seen");
        }
    });
}

#[test]
fn a_full_table_of_pins_is_as_full_in_a_trace() {
    isolated("egress_explain::full", || {
        let (inside, _) = veth("gw-inside", "gw-tenant");
        let limits = Limits::default().with_pins(3).expect("a limit");
        let loaded = Loader::new(&dir()).limits(limits).load();
        let mut writer = loaded.expect("an instance");
        configure(&mut writer);
        publish(&mut writer, Class::Nat66, &[0x10, 0x11]);
        serve(&writer, inside, TABLE, &[Class::Nat66]);
        let make = |number| frame(&source6(number).to_string(), "2001:4860::1");
        let count = |document: &TraceDocument, of| {
            let packets = document.packets.iter();
            packets
                .filter(|packet| packet.counters.contains(&of))
                .count()
        };
        // One place is taken, by none of these.
        run(&writer, &make(1), inside);
        let others: Vec<_> = (2..7).map(make).collect();
        let document = trace(&writer, &others, inside);
        assert_eq!(document.pins_copied, 0);
        let seen = (
            count(&document, Selection::PinNew),
            count(&document, Selection::PinFull),
            document.summary.disagreements,
        );
        assert_eq!(seen, (2, 3, 0), "{document:#?}");
        // All are, again by others.
        for number in 8..10 {
            run(&writer, &make(number), inside);
        }
        let document = trace(&writer, &others, inside);
        let full = count(&document, Selection::PinFull);
        assert_eq!((full, document.summary.disagreements), (5, 0));
        let with_one = [vec![make(1)], others].concat();
        let document = trace(&writer, &with_one, inside);
        assert_eq!(document.pins_copied, 1);
        let hits = count(&document, Selection::PinHit);
        let full = count(&document, Selection::PinFull);
        assert_eq!((hits, full, document.summary.disagreements), (1, 5, 0));
    });
}

#[test]
fn frames_that_cannot_be_run_and_interfaces_of_nobody_are_errors() {
    isolated("egress_explain::unusable", || {
        let scene = scene();
        let long = [random_frame(&mut Random::new(1)), vec![0; 9000]].concat();
        let document = trace(&scene.writer, &[vec![0; 4], long], scene.inside);
        for packet in &document.packets {
            assert!(packet.error.is_some(), "{packet:?}");
            assert_eq!((packet.verdict, packet.end), (None, None));
        }
        assert_eq!(document.summary.errors, 2);
        // A disabled tenant's pass.
        let good = frame(&source6(1).to_string(), "2001:4860::1");
        let document = trace(&scene.writer, &[good], scene.disabled);
        assert_eq!(document.packets[0].end, Some(End::NoTenant));
        assert_eq!(document.summary.disagreements, 0);

        let none: [Frame<'_>; 0] = [];
        let error = scene.writer.trace(none, scene.foreign).expect_err("nobody");
        assert!(matches!(error, TraceError::NoTenant { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}
