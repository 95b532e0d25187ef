// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Flows in use while somebody sweeps.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::clock::monotonic_ns;
use guideway::kernel::map::Map;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::cpus::stay_on;
use crate::machine::*;
use crate::netns::isolated;
use crate::programs::{call, Programs, Use};
use crate::stops::Stops;

/// What tests/bpf/touch.bpf.c takes and tells.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Touch {
    pub(crate) random: u64,
    pub(crate) first: u32,
    pub(crate) flows: u32,
    pub(crate) times: u32,
    pub(crate) in_order: u32,
    pub(crate) manner: u32,
    pub(crate) zero: u32,
    pub(crate) idle_ns: u64,
    pub(crate) hits: u64,
    pub(crate) revived: u64,
    pub(crate) dead: u64,
    pub(crate) inserted: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
}

/// What is done to flows, as it is numbered there.
pub(crate) const INSERT: u32 = 1;
const HUNT: u32 = 2;
const HUNT_QUICKLY: u32 = 3;
const HUNT_CARELESSLY: u32 = 4;

/// A flow as tests/bpf/touch.bpf.c has it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct TouchFlow {
    key: abi::FlowKey,
    entry: abi::Binding,
    touched_ns: u64,
}

// SAFETY: `repr(C)`, integers only, and no padding: 8, 24 and 56 bytes.
unsafe impl Zeroable for Touch {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Touch {}

// SAFETY: `repr(C)`, integers only, and no padding: 24, 24 and 8 bytes.
unsafe impl Zeroable for TouchFlow {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for TouchFlow {}

/// The program that touches flows.
pub(crate) struct Toucher {
    program: OwnedFd,
    flows: MapHandle,
    state: MapHandle,
}

impl Toucher {
    /// Around a table of flows, for `flows` of them.
    pub(crate) fn new(table: &Map, flows: u32) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/touch.bpf.o"));
        let programs = Programs::load(bytes, |name| match name {
            "gw_ql_flow" => Use::Shared(table.as_fd()),
            "touch_flows" => Use::OwnOf(flows),
            _ => Use::Own,
        });
        Self {
            program: programs.program("gw_touch"),
            flows: programs.map("touch_flows"),
            state: programs.map("touch_state"),
        }
    }

    /// Says which flows the next ones from `first` on are.
    pub(crate) fn set(&self, first: u32, flows: &[(abi::FlowKey, abi::Binding)]) {
        for (chunk, first) in flows.chunks(4096).zip((first..).step_by(4096)) {
            let keys: Vec<u32> = (first..first + chunk.len() as u32).collect();
            let values: Vec<TouchFlow> = chunk
                .iter()
                .map(|&(key, entry)| TouchFlow {
                    key,
                    entry,
                    touched_ns: 0,
                })
                .collect();
            let (count, values) = (keys.len() as u32, bytemuck::cast_slice(&values));
            self.flows
                .update_batch(
                    bytemuck::cast_slice(&keys),
                    values,
                    count,
                    MapFlags::ANY,
                    MapFlags::ANY,
                )
                .expect("flows");
        }
    }

    pub(crate) fn touch(&self, touch: &mut Touch) {
        let zero = 0_u32.to_ne_bytes();
        self.state
            .update(&zero, bytemuck::bytes_of(touch), MapFlags::ANY)
            .expect("the state");
        call(&self.program);
        let state = self.state.lookup(&zero, MapFlags::ANY).expect("the state");
        *touch = bytemuck::pod_read_unaligned(&state.expect("the state"));
    }
}

/// Flows of a service with the entries they get.
pub(crate) fn flows(service: &Service, count: u32) -> Vec<(abi::FlowKey, abi::Binding)> {
    (0..count)
        .map(|number| {
            let flow = Flow::new(service, number);
            let mut entry = flow.entry(0, service.rows[0], 0, 0);
            entry.seen_ns = 0;
            (flow.key, entry)
        })
        .collect()
}

/// A service that remembers all flows.
pub(crate) fn service(id: u32) -> Service {
    Service {
        id,
        all: true,
        source: false,
        slots: vec![(0, PLAIN); 251],
        rows: vec![11],
    }
}

/// Sweeps on one processor while flows are touched on another, and gives what both saw. A flow is
/// remembered for so short a time that many are forgotten all along.
fn race(mut touch: Touch, time: Duration, pause: Duration) -> (Touch, abi::SweepCounts) {
    let service = service(0x77);
    let mut machine = Machine::new(
        std::slice::from_ref(&service),
        touch.flows + touch.flows / 4,
    );
    // A toucher that its processor is taken from notes a time later than the sweep could know of.
    machine.flow_idle_ns = touch.idle_ns + touch.idle_ns / 10;
    let toucher = Toucher::new(machine.flows.map(), touch.flows);
    toucher.set(0, &flows(&service, touch.flows));
    let end = AtomicBool::new(false);
    let mut counts = abi::SweepCounts::zeroed();
    std::thread::scope(|scope| {
        let touching = scope.spawn(|| {
            stay_on(0);
            while !end.load(Ordering::Relaxed) {
                toucher.touch(&mut touch);
            }
        });
        let _stops = Stops(&end);
        stay_on(1);
        let started = Instant::now();
        while started.elapsed() < time {
            let found = machine.sweep(monotonic_ns()).services[0].flows;
            for (sum, deleted) in counts.deleted.iter_mut().zip(found.deleted) {
                *sum += deleted;
            }
            counts.resurrected += found.resurrected;
            counts.lost += found.lost;
            std::thread::sleep(pause);
        }
        end.store(true, Ordering::Relaxed);
        touching.join().expect("the toucher");
    });
    println!("{touch:?}\n{counts:?}");
    let counted = machine.counter(0, abi::Counter::GW_COUNTER_RESURRECTED);
    assert_eq!(counts.resurrected, counted);
    (touch, counts)
}

#[test]
fn no_flow_in_use_is_ever_deleted() {
    isolated("sweep::race", || {
        let long = std::env::var_os("GW_LONG").is_some();
        let race = |flows: u32, seconds: u64, idle_ms: u64| {
            let touch = Touch {
                random: 0x1234_5678,
                flows,
                times: 200_000,
                idle_ns: idle_ms * 1_000_000,
                ..Touch::default()
            };
            let pause = Duration::from_millis(idle_ms / 10);
            let (touch, counts) = race(touch, Duration::from_secs(seconds), pause);
            assert_eq!((touch.lost, counts.lost, touch.refused), (0, 0, 0));
            // Otherwise nothing was tried.
            assert!(counts.deleted[0] > 1000 && touch.revived > 100);
        };
        race(65_536, if long { 600 } else { 4 }, 200);
        if long {
            race(1_048_576, 600, 4000);
        }
    });
}

#[test]
fn a_flow_whose_packet_comes_while_it_is_deleted_is_put_back() {
    isolated("sweep::hunt", || {
        let hunt = |manner: u32| {
            let touch = Touch {
                flows: 64,
                times: 20_000,
                manner,
                idle_ns: 100_000_000,
                ..Touch::default()
            };
            // Both processors have to be at it at the same moment, which others may keep busy.
            let races =
                (0..10).map(|_| race(touch, Duration::from_secs(2), Duration::from_micros(100)));
            let races = races.scan(0, |dead, (touch, counts)| {
                let enough = *dead > 20;
                *dead += touch.dead;
                (!enough).then_some((touch.dead, touch.lost, counts.lost))
            });
            races.fold((0, 0, 0), |sum, race| {
                (sum.0 + race.0, sum.1 + race.1, sum.2 + race.2)
            })
        };
        for as_specified in [HUNT, HUNT_QUICKLY] {
            let (dead, lost, no_room) = hunt(as_specified);
            assert_eq!((lost, no_room), (0, 0));
            assert!(dead > 20, "{dead} came at that moment");
        }
        // A packet that does not care loses its flow, and that is seen.
        let (dead, lost, _) = hunt(HUNT_CARELESSLY);
        assert!(lost > 0, "none of {dead}");
    });
}
