// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The pins of an instance as it is kept on bpffs.

use bytemuck::bytes_of;
use guideway::abi;
use guideway::egress::pins::{Fate, Standings};
use guideway::egress::{Loader, Writer};
use guideway::group::{allocate, plan, Candidate, Class, Classes, Context, GroupSpec, Limits};
use guideway::kernel::map::{Map, Update};
use guideway::kernel::statedir::{Section, StateRoot};
use guideway::srv6::{Mtu, NextHop};

use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

/// Opens group 0 with one shard, in slot 0 and generation 1.
fn publish(writer: &mut Writer) {
    let mac = |text: &str| text.parse().expect("an address");
    let (source, destination) = (mac("02:00:00:00:00:01"), mac("02:00:00:00:00:02"));
    let hop = NextHop::new(1, source, destination, Mtu::UNCHECKED).expect("complete");
    let sid = shard(0x10).to_string().parse().expect("a SID");
    let spec = GroupSpec {
        candidates: vec![Candidate::new(sid, hop)],
        ..GroupSpec::default()
    };
    let classes = Classes::new([], Limits::default()).expect("classes");
    let places = allocate(&classes, &[], |_| 0, Limits::default());
    let place = places.of(Class::Nat66).expect("a place");
    let planned = plan(None, &place, &spec, &Context::default()).expect("a plan");
    let mut published = writer.publish(&[planned]).expect("a plan that fits");
    published.remove(0).expect("published");
}

#[test]
fn an_instance_hands_out_its_pins() {
    isolated("egress_pins::instance", || {
        let dir = StateRoot::default().egress();
        let mut writer = Loader::new(&dir).load().expect("an instance");
        publish(&mut writer);
        let map = |name| Map::open_any(&dir.pin(Section::Maps, name)).expect("a map");
        let now = now();
        for number in 0..6 {
            let key = key(number);
            let pin = abi::Pin {
                // The last two are of a tenure that never was.
                bind: (1 + u64::from(number / 4)) << 32,
                last_seen_tick: now.get(),
                tag: tag(&key),
            };
            let inserted = map("gw_pins").update(bytes_of(&key), bytes_of(&pin), Update::Insert);
            inserted.expect("room");
        }
        let used = abi::PinUse {
            pins: 6,
            refused: 2,
        };
        let counted = map("gw_pin_use").update(bytes_of(&TABLE), bytes_of(&used), Update::Insert);
        counted.expect("room");
        let standings = |live, stale| Standings {
            live,
            stale,
            ..Standings::default()
        };
        let status = writer.pin_status(now).expect("readable");
        assert_eq!(status.pins, standings(4, 2));
        assert_eq!(status.drifts().count(), 0);
        let report = writer
            .sweeper()
            .expect("loaded")
            .expire(now)
            .expect("a pass");
        assert_eq!((report.found, report.removed.stale), (standings(4, 2), 2));
        let mut one = None;
        let read = writer.pins().expect("handles").for_each(|pin| {
            one = pin.ok();
            std::ops::ControlFlow::Break(())
        });
        read.expect("read");
        let one = one.expect("a pin");
        let fate = writer.sweeper().expect("loaded").remove_pin(&one);
        assert_eq!(fate.expect("a call"), Fate::Removed);
        let status = writer.pin_status(now).expect("readable");
        assert_eq!((status.pins, status.drifts().count()), (standings(3, 0), 0));
    });
}
