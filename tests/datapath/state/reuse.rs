// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The memory of a deleted entry is another's at once, also under the eyes of a packet that has just
//! found it. It may miss its own, but never follows another's.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use guideway::abi;
use guideway::kernel::run::Run;
use guideway::reason::Rule;
use libbpf_rs::ObjectBuilder;

use super::case::*;
use super::races::{stay_on, two_cpus};
use super::world::*;
use crate::machine::Machine;
use crate::netns::isolated;

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
    let mut open = ObjectBuilder::default().open_memory(bytes).unwrap();
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("gw_ql_flow") => map.reuse_fd(machine.flows.map().as_fd()).unwrap(),
            _ => map.set_autocreate(false).unwrap(),
        }
    }
    let object = open.load().unwrap();
    let program = object.progs().next().unwrap();
    program.as_fd().try_clone_to_owned().unwrap()
}

fn reuse(program: &OwnedFd, what: &mut Reuse) {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ctx_in: std::ptr::from_mut(what).cast(),
        ctx_size_in: size_of::<Reuse>() as u32,
        ..Default::default()
    };
    // SAFETY: the context has as many bytes as is said and outlives the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!((result, options.retval), (0, 1));
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
        let [this, that] = two_cpus();
        let done = AtomicBool::new(false);
        let millions = std::thread::scope(|scope| {
            let reusing = scope.spawn(|| {
                stay_on(&that);
                while !done.load(Ordering::Relaxed) {
                    reuse(&other, &mut what);
                }
            });
            let packets = scope.spawn(|| {
                stay_on(&this);
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
