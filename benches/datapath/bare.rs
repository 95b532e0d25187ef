// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Operations on the table of flows without the load balancer around them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use guideway::kernel::map::Map;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::programs::{call, Programs, Use};

/// What is done with each packet's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is read out of the packet, which all others do as well.
    Key,
    /// Look-up, and the time of the last packet is written in place.
    Hit,
    Miss,
    /// Look-up and insert.
    Insert,
}

impl Operation {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Key, "gw_bare_key"),
        (Self::Hit, "gw_bare_hit"),
        (Self::Miss, "gw_bare_miss"),
        (Self::Insert, "gw_bare_insert"),
    ];
}

/// The programs of tests/bpf/state.bpf.c.
pub(crate) struct Bare {
    operations: [OwnedFd; Operation::ALL.len()],
    forget: OwnedFd,
    state: MapHandle,
}

impl Bare {
    /// Around this table.
    pub(crate) fn load(flows: &Map) -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/state.bpf.o"));
        let programs = Programs::load(bytes, |name| match name {
            "gw_ql_flow" => Use::Shared(flows.as_fd()),
            "gw_ql_cid" => Use::Not,
            _ => Use::Own,
        });
        Self {
            operations: Operation::ALL.map(|(_, name)| programs.program(name)),
            forget: programs.program("gw_forget_flows"),
            state: programs.map("state_bare"),
        }
    }

    /// The program that does this, from now on with keys of this service.
    pub(crate) fn program(&self, operation: Operation, service: u32) -> BorrowedFd<'_> {
        let mut state = [0; 16];
        state[..4].copy_from_slice(&service.to_ne_bytes());
        self.state
            .update(&0_u32.to_ne_bytes(), &state, MapFlags::ANY)
            .expect("the service");
        self.operations[operation as usize].as_fd()
    }

    /// Packets for which it was done since then.
    pub(crate) fn done(&self) -> u64 {
        let state = self.state.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let state = state.expect("readable").expect("an element");
        u64::from_ne_bytes(state[8..].try_into().expect("eight bytes"))
    }

    /// Empties the table.
    pub(crate) fn forget(&self) {
        call(&self.forget);
    }
}
