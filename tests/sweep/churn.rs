// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Passes over a full table in use: nothing is missed and nothing seen twice.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::kernel::map::Map;

use crate::cpus::stay_on;
use crate::machine::*;
use crate::netns::isolated;
use crate::stops::Stops;
use crate::touch::{flows, service, Touch, Toucher, INSERT};

const MILLION: u32 = 1_000_000;
/// The service whose flows stay.
const STABLE: u32 = 0x77;

/// Inserts flows of a second service, over and over, while `work` runs.
fn while_others_come(machine: &Machine, table: u32, work: impl FnOnce()) -> u64 {
    let newcomers = service(0x88);
    let toucher = Toucher::new(machine.flows.map(), table);
    toucher.set(0, &flows(&newcomers, table));
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let coming = scope.spawn(|| {
            stay_on(0);
            let mut touch = Touch {
                flows: table,
                times: 10_000,
                in_order: 1,
                manner: INSERT,
                ..Touch::default()
            };
            while !end.load(Ordering::Relaxed) {
                toucher.touch(&mut touch);
                touch.first = (touch.first + touch.times) % table;
                touch.flows = (table - touch.first).min(touch.times);
            }
            touch.inserted
        });
        let _stops = Stops(&end);
        stay_on(1);
        work();
        end.store(true, Ordering::Relaxed);
        coming.join().expect("newcomers")
    })
}

fn fill(map: &Map, flows: &[(guideway::abi::FlowKey, guideway::abi::Binding)]) {
    for chunk in flows.chunks(65_536) {
        let keys: Vec<_> = chunk.iter().map(|(key, _)| *key).collect();
        let values: Vec<_> = chunk.iter().map(|(_, value)| *value).collect();
        map.update_batch(bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values))
            .expect("room");
    }
}

#[test]
fn a_pass_sees_each_of_a_million_entries_once_while_others_come_and_go() {
    isolated("sweep::million", || {
        let (stable, coming) = (service(STABLE), service(0x88));
        let room = 300_000;
        let machine = Machine::new(&[stable.clone(), coming], MILLION + room);
        let mut entries = flows(&stable, MILLION);
        for (_, entry) in &mut entries {
            entry.seen_ns = NOW;
        }
        fill(machine.flows.map(), &entries);
        let inserted = while_others_come(&machine, room / 2, || {
            let mut seen = 0;
            for pass in 0..6 {
                // Every other pass finds all idle and marks them: one that it misses stays unmarked,
                // and one that it sees twice is deleted.
                let marks = pass % 2 == 1;
                // Newcomers were seen at a time that is long ago by now: two passes delete them,
                // and their elements are used again at once.
                let found = machine.sweep(if marks { NOW + 2 * FLOW_IDLE } else { NOW });
                let flows = &found.services[0].flows;
                let marked = if marks { u64::from(MILLION) } else { 0 };
                assert_eq!(
                    (flows.entries, flows.expiring),
                    (u64::from(MILLION), marked),
                    "pass {pass}"
                );
                assert_eq!(flows.deleted, [0; 4]);
                seen += found.services[1].flows.deleted.iter().sum::<u64>();
            }
            assert!(seen > 10_000, "only {seen} newcomers were deleted");
            // Batches see all of them once, too.
            let (mut keys, mut read) = (HashSet::new(), 0);
            machine
                .flows
                .for_each(|key, _| {
                    if key.service == STABLE {
                        read += 1;
                        keys.insert(*bytemuck::cast_ref::<_, [u8; 24]>(key));
                    }
                    ControlFlow::Continue(())
                })
                .expect("read");
            assert_eq!((read, keys.len()), (MILLION, MILLION as usize));
        });
        assert!(inserted > u64::from(room) / 4, "only {inserted} newcomers");
        if let Some(occupancy) = machine.occupancy() {
            let mut left = 0;
            let mut different = HashSet::new();
            machine
                .flows
                .for_each(|key, _| {
                    left += 1;
                    different.insert(*bytemuck::cast_ref::<_, [u8; 24]>(key));
                    ControlFlow::Continue(())
                })
                .expect("read");
            // The kernel's number, and every batch together, each key once.
            assert_eq!(occupancy.flows, left);
            assert_eq!(different.len() as u64, left);
            assert!(left >= u64::from(MILLION));
        }
    });
}
