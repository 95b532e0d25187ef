// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Passes that packets interrupt on their own CPU, where an entry that the pass has just deleted is
//! the first to be used again: the walk must not follow it to where it is then.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use bytemuck::Zeroable;
use guideway::abi;
use guideway::kernel::map::Map;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::cpus::stay_on;
use crate::machine::*;
use crate::netns::isolated;
use crate::programs::{call, Programs, Use};
use crate::touch::{flows, service};

/// Entries that stay, as many that a pass deletes, and room for what comes during it.
const STAY: u32 = 50_000;
const GO: u32 = 50_000;
const ROOM: u32 = 131_072;
const PASSES: usize = 20;
const PERIOD_NS: u64 = 50_000;
/// A service that nobody knows: its entries are deleted at once.
const STRANGER: u32 = 0x99;

const EXPIRING: u32 = abi::BindingState::GW_BINDING_EXPIRING.0;

/// What tests/bpf/interrupt.bpf.c takes and tells.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Interrupt {
    timer: [u64; 2],
    period_ns: u64,
    inserted: u64,
    service: u32,
    zero: u32,
}

// SAFETY: `repr(C)`, integers only, and no padding: 40 bytes.
unsafe impl Zeroable for Interrupt {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Interrupt {}

/// Inserts on the CPU of whoever begins it.
struct Interrupts {
    begin: OwnedFd,
    end: OwnedFd,
    state: MapHandle,
}

impl Interrupts {
    fn new(table: &Map) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/interrupt.bpf.o"));
        let programs = Programs::load(bytes, |name| match name {
            "gw_ql_flow" => Use::Shared(table.as_fd()),
            _ => Use::Own,
        });
        let state = programs.map("interrupts");
        let interrupt = Interrupt {
            period_ns: PERIOD_NS,
            service: STRANGER,
            ..Zeroable::zeroed()
        };
        let (zero, bytes) = (0_u32.to_ne_bytes(), bytemuck::bytes_of(&interrupt));
        state.update(&zero, bytes, MapFlags::ANY).expect("written");
        Self {
            begin: programs.program("gw_interrupt_begin"),
            end: programs.program("gw_interrupt_end"),
            state,
        }
    }

    /// Runs `work` with interruptions; how many entries were inserted.
    fn during<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.inserted();
        assert_eq!(call(&self.begin), 0);
        let done = work();
        assert_eq!(call(&self.end), 0);
        (done, self.inserted() - before)
    }

    fn inserted(&self) -> u64 {
        let state = self.state.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let state = state.expect("readable").expect("its only entry");
        bytemuck::pod_read_unaligned::<Interrupt>(&state).inserted
    }
}

fn fill(map: &Map, entries: &[(abi::FlowKey, abi::Binding)]) {
    let (keys, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
    map.update_batch(bytemuck::cast_slice(&keys), bytemuck::cast_slice(&values))
        .expect("room");
}

/// How many entries of a service are in which state.
fn phases(machine: &Machine, id: u32) -> HashMap<u32, u32> {
    let mut phases = HashMap::new();
    machine
        .flows
        .for_each(|key, entry| {
            if key.service == id {
                *phases.entry(entry.state).or_default() += 1;
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    phases
}

/// Each pass finds all entries idle and marks them, and the next takes that back: an entry that was
/// missed has no mark, and one that was seen twice is gone.
#[test]
fn a_pass_sees_each_entry_once_while_its_own_cpu_uses_what_it_deletes() {
    isolated("sweep::interrupted", || {
        let stable = service(0x77);
        let machine = Machine::new(std::slice::from_ref(&stable), ROOM);
        let mut stay = flows(&stable, STAY);
        for (_, entry) in &mut stay {
            entry.seen_ns = NOW - FLOW_IDLE - 1;
        }
        fill(machine.flows.map(), &stay);
        let go = flows(&service(STRANGER), GO);
        let interrupts = Interrupts::new(machine.flows.map());
        stay_on(0);
        let (mut used, mut deleted) = (0, 0);
        let mut wrong = Vec::new();
        for pass in 0..PASSES {
            fill(machine.flows.map(), &go);
            let (found, inserted) = interrupts.during(|| machine.sweep(NOW));
            used += inserted;
            deleted += found.strangers.deleted.iter().sum::<u64>();
            let phases = phases(&machine, stable.id);
            if phases != HashMap::from([(EXPIRING, STAY)]) {
                wrong.push((pass, phases));
            }
            machine.sweep(NOW - FLOW_IDLE);
        }
        println!(
            "{used} came while {deleted} went, {} passes went astray",
            wrong.len()
        );
        assert!(used > 1000 && deleted > u64::from(GO));
        assert_eq!(wrong, []);
    });
}
