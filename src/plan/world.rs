// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a plan needs to know of the machine, as plain data: gathered elsewhere, or made up.

use std::net::IpAddr;

use crate::addr::MacAddr;
use crate::id::InterfaceName;
use crate::service::Mode;

/// The machine that a plan is made for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct World {
    /// The interfaces of the network namespace; none: nothing was asked of any machine, and a plan
    /// made against this world names no interface index and cannot be applied.
    pub devices: Option<Vec<Device>>,
    /// Addresses that this host owns itself.
    pub addresses: Vec<IpAddr>,
    /// What is on the hook where the instance's program is or is to be; none if nobody looked.
    pub hook: Option<Hook>,
    /// What is at the instance's place in a root array, for a specification that has one; none if
    /// nobody looked. Such a specification has nothing to do with `hook`.
    pub root_array: Option<Shared>,
    /// Whether programs can decrypt server IDs; none if nobody looked. Then keys are not refused
    /// here, but by the publication, if it cannot make use of them.
    pub decryption: Option<Decryption>,
    /// Nanoseconds since boot, suspended time included.
    pub boot_ns: u64,
    /// Nanoseconds since boot without suspended time: the clock of flow state.
    pub monotonic_ns: u64,
    /// Bytes of memory that a new instance can have; none if nobody looked.
    pub available_memory_bytes: Option<u64>,
}

impl World {
    /// The world of a plan that asks nothing of any machine.
    pub fn offline() -> Self {
        Self::default()
    }

    /// A machine with these interfaces and addresses, `boot_ns` nanoseconds after its boot, that was
    /// never suspended.
    pub fn new(devices: Vec<Device>, addresses: Vec<IpAddr>, boot_ns: u64) -> Self {
        Self {
            devices: Some(devices),
            addresses,
            hook: None,
            root_array: None,
            decryption: None,
            boot_ns,
            monotonic_ns: boot_ns,
            available_memory_bytes: None,
        }
    }

    /// The interface of this name.
    pub fn device(&self, name: &InterfaceName) -> Option<&Device> {
        self.devices
            .as_ref()?
            .iter()
            .find(|device| device.name == *name)
    }
}

/// What an instance finds on the hook of its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hook {
    /// Nothing, or its own program.
    Free,
    /// Somebody else's program, described in words.
    Occupied(String),
}

/// What an instance finds where the interface has another owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shared {
    /// What is at its place in the owner's array.
    pub place: Place,
    /// The owner's program on the interface, described in words, and how it runs; none if there is
    /// none.
    pub root: Option<(String, Mode)>,
}

impl Shared {
    /// What is at the place, and what runs on the interface.
    pub fn new(place: Place, root: Option<(String, Mode)>) -> Self {
        Self { place, root }
    }
}

/// What is at an instance's place in an array of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Nothing, or its own program.
    Free,
    /// Somebody else's program, described in words.
    Occupied(String),
    /// There is no such place: why, in words.
    Missing(String),
}

/// Whether programs can decrypt server IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decryption {
    /// They can.
    Works,
    /// They were compiled by a compiler that cannot express it.
    NotBuilt {
        /// The compiler, in its own words.
        compiler: String,
    },
    /// The kernel cannot do it.
    Missing {
        /// Which kernel that is.
        release: String,
        /// What it lacks, in words.
        what: String,
    },
}

/// One network interface. What could not be found out is `None`, and is never taken for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its name.
    pub name: InterfaceName,
    /// Its index.
    pub index: u32,
    /// Its own link-layer address.
    pub mac: Option<MacAddr>,
    /// Largest payload of a frame in bytes.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: Option<bool>,
    /// Whether there is a carrier: something that is up at the other end.
    pub carrier: Option<bool>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Whether its driver transmits redirected frames (`ndo_xdp_xmit`).
    pub xdp_transmit: Option<bool>,
    /// Whether its driver transmits redirected frames of several buffers.
    pub xdp_transmit_frags: Option<bool>,
    /// Whether received frames are merged (GRO), which makes a veth poll (NAPI).
    pub gro: Option<bool>,
    /// Whether checksums of sent frames are left to the device.
    pub transmit_checksum_offload: Option<bool>,
    /// Transmit queues.
    pub transmit_queues: Option<u32>,
    /// The other end of a veth pair.
    pub peer: Option<Peer>,
}

impl Device {
    /// An interface of which nothing is known but this.
    pub fn new(name: InterfaceName, index: u32, mac: Option<MacAddr>, mtu: u32) -> Self {
        Self {
            name,
            index,
            mac,
            mtu,
            up: None,
            carrier: None,
            driver: None,
            xdp_transmit: None,
            xdp_transmit_frags: None,
            gro: None,
            transmit_checksum_offload: None,
            transmit_queues: None,
            peer: None,
        }
    }
}

/// The other end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// In another network namespace.
    OutOfSight {
        /// Whether it polls, by what the driver at this end says.
        polls: Option<bool>,
    },
    /// In this one.
    Seen {
        /// Its name.
        name: InterfaceName,
        /// Its link-layer address.
        mac: Option<MacAddr>,
        /// Whether it polls: it has an XDP program, or merges received frames.
        polls: Option<bool>,
        /// Whether checksums of frames that it sends are left to the device.
        transmit_checksum_offload: Option<bool>,
    },
}
