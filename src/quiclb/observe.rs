// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Gathers what a plan needs to know of this machine.

use std::collections::BTreeMap;

use super::attachment::hook;
use super::contexts::{decryption, needed};
use super::error::InstanceError;
use super::root_array::shared;
use crate::addr::MacAddr;
use crate::kernel::netdev::{self, Interface, XdpFeatures};
use crate::kernel::statedir::StateDir;
use crate::kernel::{clock, memory, SysError};
use crate::plan::{Device, Peer, World};
use crate::service::Spec;

/// The interfaces and addresses of the calling thread's network namespace, now.
///
/// # Errors
/// The kernel does not list them.
pub fn observe() -> Result<World, SysError> {
    let interfaces = netdev::all()?;
    let features = netdev::all_xdp_features()?;
    let addresses = netdev::addresses()?;
    let by_index: BTreeMap<u32, &Interface> = interfaces
        .iter()
        .map(|interface| (interface.index, interface))
        .collect();
    let devices = interfaces.iter().filter_map(|interface| {
        let features = features
            .as_ref()
            .and_then(|all| all.get(&interface.index).copied());
        device(interface, features, &by_index)
    });
    let mut world = World::new(
        devices.collect(),
        addresses.into_iter().map(|found| found.address).collect(),
        clock::boot_ns(),
    );
    world.monotonic_ns = clock::monotonic_ns();
    world.available_memory_bytes = memory::available_bytes();
    Ok(world)
}

/// The machine as [`observe`] sees it, what is where the specification wants the program, and whether
/// keys can be used if it has any.
pub(super) fn observe_for(dir: &StateDir, spec: &Spec) -> Result<World, InstanceError> {
    let mut world = observe()?;
    match spec.root_array() {
        Some(place) => world.root_array = Some(shared(dir, place, spec.interface())?),
        None if world.device(spec.interface()).is_some() => {
            world.hook = Some(hook(dir, spec.interface())?);
        }
        None => {}
    }
    if needed(spec) {
        world.decryption = decryption();
    }
    Ok(world)
}

/// What is known of one interface. A question that cannot be answered leaves its answer open.
fn device(
    interface: &Interface,
    features: Option<XdpFeatures>,
    by_index: &BTreeMap<u32, &Interface>,
) -> Option<Device> {
    let name = interface.name.parse().ok()?;
    let mut device = Device::new(name, interface.index, mac(interface), interface.mtu);
    device.up = Some(interface.up);
    device.carrier = Some(interface.carrier);
    device.driver = interface.driver().ok().flatten().map(|driver| driver.name);
    device.gro = interface.gro().ok().flatten();
    device.transmit_checksum_offload = interface.tx_checksum().ok().flatten();
    let channels = interface.channels().ok().flatten();
    device.transmit_queues = Some(channels.map_or(interface.tx_queues, |channels| channels.tx));
    let Some(index) = peer_index(interface) else {
        device.xdp_transmit = features.map(XdpFeatures::transmits);
        device.xdp_transmit_frags = features.map(XdpFeatures::transmits_fragments);
        return Some(device);
    };
    // A veth can transmit whenever it runs programs. What its driver declares depends on the other
    // end, and so speaks of that.
    device.xdp_transmit = features.map(XdpFeatures::native);
    device.xdp_transmit_frags = device.xdp_transmit;
    let peer = match interface.peer {
        netdev::Peer::Here(_) => by_index.get(&index).copied(),
        _ => None,
    };
    let polls = interface.receives(features, peer).ok().flatten();
    device.peer = Some(
        match peer.and_then(|peer| Some((peer, peer.name.parse().ok()?))) {
            Some((peer, name)) => Peer::Seen {
                name,
                mac: mac(peer),
                polls,
                transmit_checksum_offload: peer.tx_checksum().ok().flatten(),
            },
            None => Peer::OutOfSight { polls },
        },
    );
    Some(device)
}

fn peer_index(interface: &Interface) -> Option<u32> {
    match interface.peer {
        netdev::Peer::Here(index) | netdev::Peer::Elsewhere(index) => Some(index),
        netdev::Peer::None => None,
    }
}

fn mac(interface: &Interface) -> Option<MacAddr> {
    Some(interface.mac)
        .filter(|mac| *mac != [0; 6])
        .map(MacAddr::new)
}
