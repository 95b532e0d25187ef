// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The TC hook shared with others: a place among them, never theirs, and only ours is removed. `tc`
//! and the kernel's own query tell what is attached, the programs themselves in which order they
//! run, all independently of the code under test.

#[path = "../common/capabilities.rs"]
mod capabilities;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/programs.rs"]
mod programs;

mod clsact;
mod tcx;
mod traffic;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use guideway::kernel::probe;
use guideway::kernel::program::Program;
use guideway::kernel::tc::{hook, Occupant};
use libbpf_rs::{MapCore, MapFlags};
use nix::sys::socket::{sendto, socket, AddressFamily, MsgFlags, SockFlag, SockType};
use programs::{Programs, Use};

/// Whether the kernel has TCX, by its version: no kernel that the tests meet lacks it by
/// configuration.
pub(crate) fn has_tcx() -> bool {
    probe::release().at_least(6, 6)
}

pub(crate) fn on_bpffs(name: &str) -> PathBuf {
    Path::new(netns::BPFFS).join(name)
}

/// A veth pair, and the programs of tests/bpf/classify.bpf.c.
pub(crate) struct World {
    /// Index of the interface `near`, at whose ingress everything happens.
    pub(crate) near: u32,
    far: u32,
    socket: OwnedFd,
    programs: Programs,
}

/// Names of the programs by their number.
pub(crate) const NAMES: [&str; 4] = ["", "gw_t_one", "gw_t_two", "gw_t_three"];

impl World {
    pub(crate) fn new() -> Self {
        let (near, far) = netns::veth("near", "far");
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/classify.bpf.o"));
        let programs = Programs::load(bytes, |_| Use::Own);
        for name in &NAMES[1..] {
            netns::pin(&programs.program(name), &on_bpffs(name));
        }
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).expect("a socket");
        Self {
            near,
            far,
            socket,
            programs,
        }
    }

    /// Program 1, 2 or 3 as the code under test knows it.
    pub(crate) fn program(&self, number: usize) -> Program {
        Program::open(&on_bpffs(NAMES[number])).expect("open")
    }

    /// The same as others know it.
    pub(crate) fn foreign(&self, number: usize) -> OwnedFd {
        self.programs.program(NAMES[number])
    }

    /// Has a packet with this number arrive at `near`.
    pub(crate) fn send(&self, number: u32) {
        let mut frame = [0_u8; 60];
        frame[..12].fill(2);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&number.to_ne_bytes());
        let address = netns::packet_address(self.far);
        let sent = sendto(self.socket.as_raw_fd(), &frame, &address, MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()));
    }

    /// How many packets each program saw.
    pub(crate) fn totals(&self) -> [u64; 4] {
        let map = self.programs.map("gw_t_total");
        [0, 1, 2, 3].map(|who: u32| {
            let value = map.lookup(&who.to_ne_bytes(), MapFlags::ANY);
            let value = value.expect("read").expect("in range");
            u64::from_ne_bytes(value.try_into().expect("8 bytes"))
        })
    }

    /// How often the packet with this number was seen.
    pub(crate) fn times(&self, number: u32) -> u32 {
        let map = self.programs.map("gw_t_packets");
        let value = map.lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let value = value.expect("read").expect("in range");
        u32::from_ne_bytes(value.try_into().expect("4 bytes"))
    }

    /// Sends a packet and expects that these programs see it, in this order.
    #[track_caller]
    pub(crate) fn order_is(&self, expected: &[u32]) {
        let map = self.programs.map("gw_t_order");
        let zero = 0_u32.to_ne_bytes();
        map.update(&zero, &zero, MapFlags::ANY).expect("write");
        self.send(0);
        let expected = expected.iter().fold(0, |order, who| order << 4 | who);
        let seen = || {
            let value = map
                .lookup(&zero, MapFlags::ANY)
                .expect("read")
                .expect("there");
            u32::from_ne_bytes(value.try_into().expect("4 bytes"))
        };
        netns::within(Duration::from_secs(5), || seen() == expected);
        assert_eq!(format!("{:x}", seen()), format!("{expected:x}"));
    }

    /// What the code under test sees on the hook.
    pub(crate) fn occupants(&self) -> Vec<Occupant> {
        hook(self.near).expect("look").occupants
    }
}

/// Runs `tc` in this thread's network namespace.
pub(crate) fn tc(arguments: &[&str]) -> String {
    let output = Command::new("tc").args(arguments).output();
    let output = output.expect("tc, of iproute2");
    assert!(
        output.status.success(),
        "tc {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// A filter as `tc` lists it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) protocol: String,
    pub(crate) priority: u64,
    pub(crate) kind: String,
    pub(crate) handle: String,
    pub(crate) program_id: Option<u64>,
    pub(crate) direct_action: bool,
}

/// The filters that `tc` sees at the ingress of `near`.
pub(crate) fn shown() -> Vec<Shown> {
    let text = tc(&["-json", "filter", "show", "dev", "near", "ingress"]);
    let list: serde_json::Value = serde_json::from_str(text.trim()).expect("JSON");
    let mut filters = Vec::new();
    for filter in list.as_array().expect("a list") {
        let options = &filter["options"];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        // The others are about a priority or a hash table.
        let Some(handle) = options["handle"].as_str().or(options["fh"].as_str()) else {
            continue;
        };
        filters.push(Shown {
            protocol: text(&filter["protocol"]),
            priority: filter["pref"].as_u64().expect("a number"),
            kind: text(&filter["kind"]),
            handle: handle.to_owned(),
            program_id: options["prog"]["id"].as_u64(),
            direct_action: options["direct-action"].as_bool().unwrap_or(false),
        });
    }
    filters
}
