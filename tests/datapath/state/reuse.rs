// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The memory of a deleted entry is another's at once, also under the eyes of a packet that has just
//! found it. It may miss its own, but never follows another's.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::abi;
use guideway::kernel::run::Run;
use guideway::reason::Rule;

use super::case::*;
use super::world::*;
use crate::cpus::stay_on;
use crate::machine::Machine;
use crate::netns::isolated;
use crate::programs::{call_with, Programs, Use};

const PACKETS: u32 = 1_000_000;
/// So many millions, and up to so many while no packet has met a stranger.
const LEAST: u64 = 5;
const MOST: u64 = 40;

/// What tests/bpf/reuse.bpf.c takes.
#[repr(C)]
struct Reuse {
    keys: [abi::FlowKey; 2],
    entries: [abi::Binding; 2],
    times: u64,
}

/// The program of that file, around the table of `machine`.
fn load(machine: &Machine) -> OwnedFd {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/reuse.bpf.o"));
    let flows = machine.flows.map();
    let programs = Programs::load(bytes, |name| match name {
        "gw_ql_flow" => Use::Shared(flows.as_fd()),
        _ => Use::Not,
    });
    programs.program("gw_reuse")
}

#[test]
fn a_reused_entry_is_not_taken_for_its_predecessor() {
    isolated("datapath::state::reuse", || {
        let mut world = World::on(Machine::with_entries(16));
        world.publish(READY, HELD);
        let ports = [CLIENT_PORT, CLIENT_PORT + 1];
        let rows = [OTHER, DRAINING];
        let mut what = Reuse {
            keys: ports.map(|port| world.key_of("tcp", port)),
            entries: [0, 1].map(|flow| world.entry_of("tcp", ports[flow], rows[flow])),
            times: 100_000,
        };
        let frame = segment(8080, ACK, b"");
        let (other, program) = (load(&world.machine), world.machine.program());
        let stats = world.stats("tcp");
        let count = |counter: abi::Counter| world.machine.service(stats).2[counter.0 as usize];
        let done = AtomicBool::new(false);
        let millions = std::thread::scope(|scope| {
            let reusing = scope.spawn(|| {
                stay_on(1);
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(call_with(&other, &mut what), 1);
                }
            });
            let packets = scope.spawn(|| {
                stay_on(0);
                let mut millions = 0;
                while millions < LEAST || millions < MOST && count(TAG_MISMATCH) == 0 {
                    let packets = Run {
                        repeat: PACKETS,
                        ..Run::new(&frame)
                    };
                    packets.run(program).unwrap();
                    millions += 1;
                }
                millions
            });
            let millions = packets.join();
            done.store(true, Ordering::Relaxed);
            reusing.join().unwrap();
            millions.unwrap()
        });
        let placed = world.service("tcp").1;
        let to = |row| world.machine.backend(placed.backend(row).unwrap().stats)[0];
        let went = [OTHER, READY, DRAINING].map(to);
        println!("{went:?}, {} met strangers", count(TAG_MISMATCH));
        assert_eq!(went[2], 0, "followed another's entry");
        assert_eq!(went[0] + went[1], millions * u64::from(PACKETS));
        let rules = world.machine.service(stats).1;
        assert_eq!(rules[usize::from(Rule::Flow.number())], went[0]);
        // Both at it at the same time.
        assert!(went[0] > 1000 && went[1] > 1000, "{went:?}");
    });
}
