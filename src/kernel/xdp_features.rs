// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What drivers declare about XDP, by the generic netlink family `netdev` (Linux 6.3).

use std::collections::BTreeMap;

use nix::libc;
use nix::sys::socket::SockProtocol;

use super::netlink::{attributes, put, request, word};
use super::SysError;

// Numbers of <linux/genetlink.h> and <linux/netdev.h>.
const CONTROL: u16 = 16;
const CONTROL_GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_IFINDEX: u16 = 1;
const DEVICE_XDP_FEATURES: u16 = 3;
/// `struct genlmsghdr`: command, version, pad.
const HEADER_BYTES: usize = 4;

/// What an XDP driver can do, from its own declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    const NAMES: [(u64, &'static str); 7] = [
        (1, "basic"),
        (2, "redirect"),
        (4, "ndo-xmit"),
        (8, "xsk-zerocopy"),
        (16, "hw-offload"),
        (32, "rx-sg"),
        (64, "ndo-xmit-sg"),
    ];

    /// Programs run in the driver.
    pub fn native(self) -> bool {
        self.0 & 1 != 0
    }

    /// Frames can be redirected to it. For a veth this depends on the other end, see
    /// [`Interface::peer_receives`](super::netdev::Interface::peer_receives).
    pub fn transmits(self) -> bool {
        self.0 & 4 != 0
    }

    /// The program can run on the device.
    pub fn offloads(self) -> bool {
        self.0 & 16 != 0
    }

    /// Frames in several pieces can be redirected to it.
    pub fn transmits_fragments(self) -> bool {
        self.0 & 64 != 0
    }

    /// The features by the kernel's names.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES
            .iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .map(|(_, name)| *name)
            .collect()
    }
}

/// What all drivers declare, by interface index; `None` where the kernel has no such family.
pub(super) fn of_all() -> Result<Option<BTreeMap<u32, XdpFeatures>>, SysError> {
    ask(None)
}

/// What the driver of one interface declares; `None` where the kernel has no such family.
pub(super) fn of(ifindex: u32) -> Result<Option<XdpFeatures>, SysError> {
    Ok(ask(Some(ifindex))?.and_then(|all| all.get(&ifindex).copied()))
}

fn ask(ifindex: Option<u32>) -> Result<Option<BTreeMap<u32, XdpFeatures>>, SysError> {
    let Some(family) = family()? else {
        return Ok(None);
    };
    let mut body = vec![GET_DEVICE, 1, 0, 0];
    if let Some(ifindex) = ifindex {
        put(&mut body, DEVICE_IFINDEX, &ifindex.to_ne_bytes());
    }
    let mut found = BTreeMap::new();
    let dump = ifindex.is_none();
    request(
        SockProtocol::NetlinkGeneric,
        family,
        dump,
        &body,
        "XDP features",
        |answer| {
            let (mut index, mut features) = (None, None);
            for (attribute, value) in attributes(answer.get(HEADER_BYTES..).unwrap_or_default()) {
                match attribute {
                    DEVICE_IFINDEX => index = word(value, 0),
                    DEVICE_XDP_FEATURES => features = value.try_into().ok().map(u64::from_ne_bytes),
                    _ => {}
                }
            }
            if let (Some(index), Some(features)) = (index, features) {
                found.insert(index, XdpFeatures(features));
            }
        },
    )?;
    Ok(Some(found))
}

/// The number under which the family is asked.
fn family() -> Result<Option<u16>, SysError> {
    let mut body = vec![CONTROL_GET_FAMILY, 1, 0, 0];
    put(&mut body, FAMILY_NAME, b"netdev\0");
    let mut family = None;
    let generic = SockProtocol::NetlinkGeneric;
    let asked = request(
        generic,
        CONTROL,
        false,
        &body,
        "netlink family netdev",
        |answer| {
            let mut found = attributes(answer.get(HEADER_BYTES..).unwrap_or_default());
            let id = found.find(|(attribute, _)| *attribute == FAMILY_ID);
            family = id
                .and_then(|(_, id)| id.try_into().ok())
                .map(u16::from_ne_bytes);
        },
    );
    match asked {
        Err(error) if error.errno == libc::ENOENT => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(family),
    }
}
