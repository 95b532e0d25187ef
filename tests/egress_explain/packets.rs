// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Explained first, run through the live program then.

use std::collections::BTreeMap;

use guideway::abi::{self, EgressCounter as C};
use guideway::egress::explain::{Explain, Verdict};
use guideway::egress::pins::{Holder, Tick};
use guideway::group::GroupId;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::run::ClassifierRun;
use guideway::kernel::statedir::Section;
use guideway::kernel::typed::{Hash, PerCpuArray};
use guideway::oracle::egress::PinFate;
use guideway::reason::egress::End;
use guideway::route::TableId;

use crate::chance::Random;
use crate::netns::isolated;
use crate::scene::*;
use crate::support::*;

struct Counters(PerCpuArray<u64>);

impl Counters {
    fn open() -> Self {
        let map = Map::open_any(&dir().pin(Section::Maps, "gw_eg_stat")).expect("a map");
        Self(PerCpuArray::new(map).expect("counters"))
    }

    /// Those of packets, without those of events.
    fn read(&self) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        let read = self.0.for_each(|index, counts| {
            if index < C::GW_EGRESS_EVENT_SENT.0 {
                sums.insert(index, counts.iter().sum());
            }
        });
        read.expect("readable");
        sums
    }
}

/// What the counter of a packet's pin must be.
fn counters_of(explain: &Explain) -> Vec<u32> {
    let end = explain.end.expect("an end");
    let mut counters = vec![u32::from(end.number())];
    if let Some(pin) = &explain.pin {
        let pin = match pin.fate {
            Some(PinFate::Followed | PinFate::Refreshed) => Some(C::GW_EGRESS_PIN_HIT),
            Some(PinFate::New) => Some(C::GW_EGRESS_PIN_NEW),
            Some(PinFate::NoQuota) => Some(C::GW_EGRESS_PIN_QUOTA),
            Some(PinFate::NoRoom) => Some(C::GW_EGRESS_PIN_FULL),
            _ => None,
        };
        counters.extend(pin.map(|pin| pin.0));
    }
    let by_table = explain.member.filter(|_| {
        let fate = explain.pin.and_then(|pin| pin.fate);
        !matches!(fate, Some(PinFate::Followed | PinFate::Refreshed))
    });
    counters.extend(by_table.map(|_| C::GW_EGRESS_MAGLEV.0));
    counters.sort_unstable();
    counters
}

#[test]
fn what_is_explained_is_what_the_program_does() {
    isolated("egress_explain::packets", || {
        let scene = scene();
        let counters = Counters::open();
        let mut random = Random::new(0xe8b1);
        let mut seen = BTreeMap::<&str, u32>::new();
        for _ in 0..600 {
            let frame = random_frame(&mut random);
            let ifindex = match random.below(30) {
                0 => scene.disabled,
                1 => scene.foreign,
                _ => scene.inside,
            };
            let usage = scene.writer.pins().expect("pins").usage();
            let before = counters.read();
            let explain = scene.writer.explain(&frame, ifindex).expect("explained");
            assert_eq!(counters.read(), before, "explaining counts nothing");
            let still = scene.writer.pins().expect("pins").usage();
            assert_eq!(usage.expect("read"), still.expect("read"));

            let run = ClassifierRun {
                frame: &frame,
                ifindex,
                gso_bytes: 0,
                mark: 0,
                priority: 0,
            };
            let ran = run.run(scene.writer.program()).expect("a run");
            let action = match explain.verdict.expect("a verdict") {
                Verdict::Next => PASSED,
                Verdict::Drop => DROPPED,
                Verdict::Redirect | Verdict::Answer => SENT,
            };
            assert_eq!(ran.action, action, "{explain:#?} {frame:x?}");
            let counted: Vec<_> = counters
                .read()
                .into_iter()
                .filter(|(index, count)| before[index] != *count)
                .map(|(index, _)| index)
                .collect();
            assert_eq!(counted, counters_of(&explain), "{explain:#?} {frame:x?}");
            if explain.verdict == Some(Verdict::Redirect) {
                let hop = explain.hop.expect("a way");
                assert_eq!(ran.frame[22..38], hop.source.octets());
                assert_eq!(ran.frame[38..54], hop.destination.octets());
                assert_eq!(ran.frame[..6], hop.mac.expect("an address").octets());
                assert_eq!(frame[14..], ran.frame[54..]);
            }
            // Asked again, the pin that it got is told of, and who decides without one stays.
            if explain
                .pin
                .is_some_and(|pin| pin.fate == Some(PinFate::New))
            {
                let again = scene.writer.explain(&frame, ifindex).expect("explained");
                let (pin, member) = (again.pin.expect("a pin"), again.member.expect("a member"));
                assert_eq!(pin.fate, Some(PinFate::Followed));
                assert_eq!(pin.slot, Some(member.slot.get()));
                assert_eq!(pin.generation, Some(member.generation.get()));
                assert!(pin.idle_seconds.is_some() && pin.left_seconds > Some(0));
                assert_eq!(member.sid, explain.member.expect("a member").sid);
                assert_eq!(again.without_pin, explain.without_pin);
                assert_eq!(explain.without_pin, explain.member);
            }
            *seen.entry(explain.end.expect("an end").name()).or_default() += 1;
            if let Some(fate) = explain.pin.and_then(|pin| pin.fate) {
                let name = match fate {
                    PinFate::Followed => "followed",
                    PinFate::New => "new",
                    PinFate::NoQuota => "no quota",
                    _ => "other",
                };
                *seen.entry(name).or_default() += 1;
            }
        }
        println!("{seen:?}");
        let ends = [
            End::Pass,
            End::Shard,
            End::Group,
            End::IcmpSent,
            End::UnreachSent,
            End::NotIp,
            End::NoTenant,
            End::Local,
            End::NoRoute,
            End::Blocked,
            End::Parse,
            End::TooBig,
        ];
        let pins = ["followed", "new", "no quota"];
        for name in ends.map(End::name).into_iter().chain(pins) {
            assert!(seen.contains_key(name), "{name} was never seen: {seen:?}");
        }
    });
}

#[test]
fn a_pin_holds_what_the_table_would_move() {
    isolated("egress_explain::held", || {
        let mut scene = scene();
        let mut frames: Vec<_> = (0..QUOTA as u16)
            .map(|number| frame(&source6(0x100 + number).to_string(), "2001:4860::1"))
            .collect();
        for frame in &frames {
            let run = ClassifierRun {
                frame,
                ifindex: scene.inside,
                gso_bytes: 0,
                mark: 0,
                priority: 0,
            };
            let ran = run.run(scene.writer.program()).expect("a run");
            assert_eq!(ran.action, SENT);
        }
        // More shards: the table moves some, pins hold all.
        let numbers: Vec<u16> = (0x10..0x20).collect();
        publish(&mut scene.writer, guideway::group::Class::Nat66, &numbers);
        frames.retain(|frame| {
            let explain = scene
                .writer
                .explain(frame, scene.inside)
                .expect("explained");
            let (held, free) = (
                explain.member.expect("one"),
                explain.without_pin.expect("one"),
            );
            assert!(
                explain.why.starts_with("Its pin decides"),
                "{}",
                explain.why
            );
            assert!([0x10, 0x11, 0x12].map(sid).contains(&held.sid));
            held.sid != free.sid
        });
        assert!(!frames.is_empty(), "nobody would have moved");
    });
}

#[test]
fn a_pin_says_how_long_it_was_idle_and_how_long_it_lasts() {
    isolated("egress_explain::idle", || {
        let scene = scene();
        let frame = frame(&source6(1).to_string(), "2001:4860::1");
        let explain = || {
            let explain = scene.writer.explain(&frame, scene.inside);
            explain.expect("explained")
        };
        let member = explain().member.expect("a member");
        let holder = Holder {
            table: TableId::new(TABLE),
            group: GroupId::new(explain().group.expect("a group").group.into()).expect("one"),
            source: source6(1).into(),
            flow: None,
        };
        let pins = Map::open_any(&dir().pin(Section::Maps, "gw_pins")).expect("a map");
        let pins = Hash::<abi::PinKey, abi::Pin>::new(pins).expect("pins");
        // Idle time and interval of renewal, 7440 s and a 64th of that, in units of 1.0737 s.
        let life_ticks = 6930 + 109;
        for (idle_ticks, fate) in [
            (100, PinFate::Followed),
            (200, PinFate::Refreshed),
            (life_ticks + 5, PinFate::Replaced),
        ] {
            let row = abi::Pin {
                bind: u64::from(member.generation.get()) << 32 | u64::from(member.slot.get()),
                last_seen_tick: Tick::now().get().wrapping_sub(idle_ticks),
                tag: holder.tag(),
            };
            let put = pins.update(&holder.source_key(), &row, Update::Any);
            put.expect("room");
            let pin = explain().pin.expect("a pin");
            assert_eq!(pin.fate, Some(fate));
            let (idle, left) = (
                pin.idle_seconds.expect("told"),
                pin.left_seconds.expect("told"),
            );
            assert!(idle >= u64::from(idle_ticks), "{idle} s");
            match fate {
                PinFate::Replaced => assert_eq!(left, 0),
                _ => assert!((7556..=7558).contains(&(idle + left)), "{idle} s, {left} s"),
            }
        }
    });
}
