// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Passes over large tables. `GW_LONG=1` takes a million pins; times are printed, not judged.

use std::time::Duration;

use guideway::abi;
use guideway::egress::pins::{Rules, Scope};
use guideway::kernel::map::Update;
use guideway::route::TableId;

use crate::machine::*;
use crate::netns::isolated;
use crate::scene::*;

/// Pins of one tenant, every other one idle for too long.
fn filled(machine: &Machine, pins: u32) {
    let now = tick();
    let row = |number: u32| {
        let key = key(number);
        let age = number % 2 * (IDLE + 2 * REFRESH + 1);
        let pin = abi::Pin {
            bind: u64::from(7 + number % 3) << 32 | u64::from(number % 3),
            last_seen_tick: now.wrapping_sub(age),
            tag: tag(&key),
        };
        (key, pin)
    };
    for first in (0..pins).step_by(4096) {
        let rows = (first..pins).take(4096).map(row);
        let (keys, values): (Vec<_>, Vec<_>) = rows.unzip();
        let map = machine.pins.map();
        let filled = map.update_batch(bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values));
        filled.expect("room");
    }
    let used = abi::PinUse {
        pins: pins.into(),
        refused: 0,
    };
    let updated = machine.pin_use.update(&TABLE, &used, Update::Any);
    updated.expect("a row");
}

#[test]
fn half_of_many_pins_go() {
    isolated("egress_pins::many::half", || {
        let long = std::env::var_os("GW_LONG").is_some();
        let pins = if long { 1_000_000 } else { 20_000 };
        let machine = Machine::with(&[("gw_pins", pins), ("gw_flow_pins", 1)]);
        pinned(&machine);
        filled(&machine, pins);
        let mut sweeper = sweeper(&machine);
        let half = u64::from(pins / 2);
        let mut shortest = Duration::MAX;
        for _ in 0..5 {
            let report = sweeper.count(Scope::All, now()).expect("a pass");
            assert_eq!((report.found.live, report.found.idle), (half, half));
            shortest = shortest.min(report.duration);
        }
        println!("{pins} pins counted by the kernel: {shortest:?}");
        let nobody = Scope::Tenant(TableId::new(TABLE + 1));
        let report = sweeper.count(nobody, now()).expect("a pass");
        assert_eq!(report.found.total(), 0);
        println!("{pins} pins that it was not about: {:?}", report.duration);
        let started = std::time::Instant::now();
        let status = self::pins(&machine).status(&Rules::default(), now());
        assert_eq!(status.expect("readable").pins.unjudged, u64::from(pins));
        println!("{pins} pins listed and counted: {:?}", started.elapsed());
        let report = sweeper.expire(now()).expect("a pass");
        assert_eq!((report.removed.idle, report.removed.total()), (half, half));
        println!("{half} of them removed: {:?}", report.duration);
        let report = sweeper.expire(now()).expect("a pass");
        assert_eq!((report.found.live, report.found.total()), (half, half));
        assert_eq!(used(&machine, TABLE), (half, 0));
        println!("{half} counted: {:?}", report.duration);
        for number in 0..100 {
            let gone = number % 2 == 1;
            assert_eq!(pin(&machine, number).is_none(), gone);
            if !gone {
                assert_eq!(counted(&machine, number), HIT);
            }
        }
    });
}
