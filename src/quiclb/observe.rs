// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Gathers what a plan needs to know of this machine.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

use crate::addr::MacAddr;
use crate::id::InterfaceName;
use crate::kernel::attach::interface_index;
use crate::kernel::mtu::mtu;
use crate::kernel::{clock, SysError};
use crate::plan::{Device, World};

/// The interfaces and addresses of the calling thread's network namespace, now.
///
/// # Errors
/// The kernel does not list them.
pub fn observe() -> Result<World, SysError> {
    let listed =
        getifaddrs().map_err(|errno| SysError::from_nix("list", "the interfaces", errno))?;
    let mut devices = BTreeMap::new();
    let mut addresses = Vec::new();
    for entry in listed {
        let mac = entry
            .address
            .as_ref()
            .and_then(|address| address.as_link_addr())
            .map(|link| link.addr());
        if let Ok(name) = entry.interface_name.parse::<InterfaceName>() {
            let known = devices.entry(name).or_insert(None);
            *known = known.or(mac.flatten().filter(|mac| *mac != [0; 6]).map(MacAddr::new));
        }
        if let Some(address) = entry.address {
            let v4 = address.as_sockaddr_in().map(|at| IpAddr::V4(at.ip()));
            let v6 = address.as_sockaddr_in6().map(|at| IpAddr::V6(at.ip()));
            addresses.extend(v4.or(v6));
        }
    }
    let devices = devices.into_iter().filter_map(|(name, mac)| {
        // Gone again since it was listed: as if it had never been there.
        let index = interface_index(name.as_str()).ok()?;
        let mtu = mtu(name.as_str()).ok()?;
        Some(Device::new(name, index, mac, mtu))
    });
    Ok(World::new(devices.collect(), addresses, clock::boot_ns()))
}
