// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The driver: runs of a program on one frame, each with another source address.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::measure;
use super::node::{Node, Way};
use super::programs::{Programs, Use};

/// To the next program.
pub(crate) const PASS: u32 = u32::MAX;
pub(crate) const REDIRECT: u32 = 7;
/// The destination address of all that leaves.
pub(crate) const DMAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
/// Bytes that fit a test run.
const LONG_BYTES: usize = 3_400;
const ROOM_BYTES: usize = 40;

/// As many sources as are measured together: more than caches hold of their pins.
pub(crate) const MANY: u32 = 1 << 15;

/// The sources that packets come from: so many, a power of two, from one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The driver, and the programs that it calls.
pub(crate) struct Driver {
    driver: OwnedFd,
    state: MapHandle,
    target: MapHandle,
    /// Packets until now.
    counter: Cell<u32>,
    pub(crate) egress: OwnedFd,
    pub(crate) nothing: OwnedFd,
    pub(crate) grow: OwnedFd,
    pub(crate) floor: OwnedFd,
    pub(crate) bare_pin: OwnedFd,
    shrink: OwnedFd,
}

impl Driver {
    /// Around the maps of a node.
    pub(crate) fn load(node: &Node) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/egress_bench.bpf.o"));
        let programs = Programs::load(bytes, |name| match node.shared(name) {
            Some(map) => Use::Shared(map),
            None => Use::Own,
        });
        Self {
            driver: programs.program("gw_drive"),
            state: programs.map("bench_drive"),
            target: programs.map("bench_target"),
            counter: Cell::new(0),
            egress: programs.program("gw_egress"),
            nothing: programs.program("gw_nothing"),
            grow: programs.program("gw_grow"),
            floor: programs.program("gw_floor"),
            bare_pin: programs.program("gw_bare_pin"),
            shrink: programs.program("gw_shrink"),
        }
    }

    /// Nanoseconds of CPU time of one run of `program` behind the driver. The last run must end with
    /// `action`, and leave a frame for the shard if that is a redirect.
    pub(crate) fn time(
        &self,
        program: &OwnedFd,
        frame: &[u8],
        sources: Sources,
        repeat: u32,
        action: u32,
    ) -> f64 {
        let mut state = Vec::new();
        for number in [
            self.counter.get(),
            sources.count - 1,
            frame.len() as u32,
            sources.first,
            Way::Pinned.table().get(),
            Way::Pinned.group().map_or(0, |group| group.get().into()),
        ] {
            state.extend(number.to_ne_bytes());
        }
        state.extend(ETHERNET);
        state.extend([0; 2]);
        let zero = 0_u32.to_ne_bytes();
        let set = self.state.update(&zero, &state, MapFlags::ANY);
        set.expect("the driver's state");
        let fd = program.as_raw_fd().to_ne_bytes();
        let set = self.target.update(&zero, &fd, MapFlags::ANY);
        set.expect("a target of the driver");

        let before = measure::cpu_time();
        let ran = run(self.driver.as_fd(), frame, repeat);
        let time = measure::cpu_time() - before;
        self.counter.set(self.counter.get().wrapping_add(repeat));
        assert_eq!(ran.action, action);
        if action == REDIRECT {
            assert_eq!(ran.frame.len(), frame.len() + ROOM_BYTES);
            assert_eq!((&ran.frame[..6], ran.frame[20]), (&DMAC[..], 41));
        }
        time.as_nanos() as f64 / f64::from(repeat)
    }

    /// Nanoseconds of taking the room away again, which is a part of the driver's work where the
    /// program made some.
    pub(crate) fn undo(&self) -> f64 {
        let mut frame = vec![0x60; LONG_BYTES];
        frame[..14].copy_from_slice(&ETHERNET);
        let repeat = (LONG_BYTES / ROOM_BYTES - 4) as u32;
        let [taken, nothing] = [&self.shrink, &self.nothing].map(|program| {
            let ran = run(program.as_fd(), &frame, repeat);
            assert_eq!(ran.action, PASS);
            ran.ns
        });
        taken - nothing
    }
}

struct Ran {
    action: u32,
    frame: Vec<u8>,
    /// Of one run, as the kernel measured it.
    ns: f64,
}

fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> Ran {
    let mut output = vec![0; frame.len() + 256];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: output.as_mut_ptr().cast(),
        data_size_out: output.len() as u32,
        repeat: repeat as i32,
        ..Default::default()
    };
    // SAFETY: each pointer leads to as many bytes as the size beside it says and outlives the call;
    // the descriptor is open.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    output.truncate(options.data_size_out as usize);
    Ran {
        action: options.retval,
        frame: output,
        ns: options.duration.into(),
    }
}
