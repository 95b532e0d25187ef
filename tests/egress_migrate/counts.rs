// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Counts that are raised from outside while packets raise them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use guideway::abi::{AdjustResult, MorePins, MoreShard, ShardStats};
use guideway::kernel::map::Map;
use guideway::kernel::routine::{Options, Source};
use guideway::kernel::statedir::Section;
use guideway::route::TableId;

use crate::netns::isolated;
use crate::scene::*;
use crate::stops::Stops;
use crate::support::*;

const ADDITIONS: u64 = 50_000;

#[test]
fn nothing_is_lost_of_a_shard_whose_counter_is_raised_under_packets() {
    isolated("egress_migrate::counts", || {
        let scene = scene(small(), 1);
        let maps = ["gw_shardstat", "gw_pin_use"];
        let maps = maps.map(|name| Map::open_any(&dir().pin(Section::Maps, name)).expect("a map"));
        let shapes = maps.each_ref().map(|map| map.shape().clone());
        let entries = shapes
            .each_ref()
            .map(|shape| (shape.name.as_str(), shape.max_entries));
        let options = Options {
            entries: &entries,
            reuse: &maps,
            ..Options::default()
        };
        let mut loaded = options.load(Source::Adjust).expect("loaded");
        let add = loaded.take("gw_add_shard").expect("a routine");
        let before = shard_counts(&open());
        let (&(group, slot), _) = before.iter().max_by_key(|(_, count)| **count).expect("one");
        let index = group * u32::from(small().groups().members()) + slot;

        let (stop, runs) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            let senders = [0, 1].map(|thread| {
                let (stop, runs, interface) = (&stop, &runs, scene.interfaces[thread]);
                scope.spawn(move || {
                    let egress = open();
                    while !stop.load(Ordering::Relaxed) {
                        for number in 0..ADDRESSES {
                            let to = "2001:db8:1::1";
                            let shard = shard_of(&egress, interface, &source(number), to);
                            assert!(shard.is_some());
                            runs.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
            });
            while runs.load(Ordering::Relaxed) == 0 && !senders.iter().any(|one| one.is_finished())
            {
                std::thread::yield_now();
            }
            for _ in 0..ADDITIONS {
                let mut context = MoreShard {
                    more: ShardStats {
                        packets: 3,
                        bytes: 0,
                    },
                    index,
                    zero: 0,
                };
                let result = add.call(&mut context).expect("called");
                assert_eq!(result, AdjustResult::GW_ADJUST_DONE.0);
            }
        });
        let sum = |counts: &BTreeMap<_, u64>| counts.values().sum::<u64>();
        let runs = runs.into_inner();
        assert!(runs > 0, "no packet came between");
        assert_eq!(
            sum(&shard_counts(&open())) - sum(&before),
            runs + 3 * ADDITIONS
        );

        let mut nowhere = MoreShard {
            index: u32::MAX,
            ..MoreShard::default()
        };
        let missing = AdjustResult::GW_ADJUST_MISSING.0;
        assert_eq!(add.call(&mut nowhere).expect("called"), missing);
        let add = loaded.take("gw_add_pins").expect("a routine");
        let of = |table_id, more| {
            let mut context = MorePins {
                more,
                table_id,
                zero: 0,
            };
            add.call(&mut context).expect("called")
        };
        let pins = || open().pins().expect("pins").usage().expect("read")[&TableId::new(7)].pins;
        let before = pins();
        assert_eq!(of(7, 5), AdjustResult::GW_ADJUST_DONE.0);
        assert_eq!(pins(), before + 5);
        assert_eq!(of(7, 5_u64.wrapping_neg()), AdjustResult::GW_ADJUST_DONE.0);
        assert_eq!(pins(), before);
        assert_eq!(of(8, 1), missing);
    });
}
