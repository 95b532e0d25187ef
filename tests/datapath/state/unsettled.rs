// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A flow's count of the connection IDs learned from it, while others write the same word.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::abi;
use guideway::affinity::Origin;
use guideway::kernel::run::Run;

use super::case::*;
use super::world::*;
use crate::cpus::stay_on;
use crate::machine::Machine;
use crate::netns::isolated;
use crate::programs::{call_with, Programs, Use};

/// What tests/bpf/unsettle.bpf.c takes.
#[repr(C)]
struct Unsettle {
    flow: abi::FlowKey,
    stats: u32,
    times: u32,
}

/// The program of that file, around the tables of `machine`.
fn load(machine: &Machine) -> OwnedFd {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/unsettle.bpf.o"));
    let (flows, levels) = (machine.flows.map(), machine.levels.map());
    let programs = Programs::load(bytes, |name| match name {
        "gw_ql_flow" => Use::Shared(flows.as_fd()),
        "gw_ql_level" => Use::Shared(levels.as_fd()),
        _ => Use::Not,
    });
    programs.program("gw_unsettle")
}

/// Whether the flow and the level were there each time.
fn run(program: &OwnedFd, what: &mut Unsettle) -> bool {
    call_with(program, what) == 1
}

/// The table of connection IDs is full, so that all that is counted is taken back.
#[test]
fn a_flow_that_teaches_nothing_loses_no_place() {
    isolated("datapath::state::unsettled", || {
        const ROOM: u8 = 16;
        let mut world = World::on(Machine::with_entries(ROOM.into()));
        world.publish(READY, PLAIN);
        for number in 0..ROOM {
            let cid = [0x10 + number; 8];
            let entry = world.cid_entry("bound", &cid, OTHER, Origin::Registered);
            world.put_cid("bound", &cid, entry);
        }
        world.put_flow("learned", world.flow_entry("learned", OTHER));
        let mut what = Unsettle {
            flow: world.key_of("learned", CLIENT_PORT),
            stats: world.stats("learned"),
            times: 100_000,
        };
        let stats = what.stats;
        let frame = datagram(445, &short(&[0xa1; 8]));
        let (unsettle, program) = (load(&world.machine), world.machine.program());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let unsettling = scope.spawn(|| {
                stay_on(1);
                while !done.load(Ordering::Relaxed) {
                    assert!(run(&unsettle, &mut what));
                }
            });
            let packets = scope.spawn(|| {
                stay_on(0);
                for _ in 0..20 {
                    let packets = Run {
                        repeat: 100_000,
                        ..Run::new(&frame)
                    };
                    packets.run(program).unwrap();
                }
            });
            let packets = packets.join();
            done.store(true, Ordering::Relaxed);
            packets.unwrap();
            unsettling.join().unwrap();
        });
        let (_, _, counters) = world.machine.service(stats);
        let count = |counter: abi::Counter| counters[counter.0 as usize];
        assert_eq!(count(HIT), 2_000_000);
        assert_eq!([CID_LEARNED, CID_CONFLICT].map(count), [0, 0]);
        assert!(count(CID_REFUSED) > 1000);
        assert_eq!(world.flow("learned").unwrap().learned, 0);
    });
}
