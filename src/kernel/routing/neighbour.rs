// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Entries of the IPv6 neighbour table.

use std::net::Ipv6Addr;

use nix::libc;

use crate::kernel::netlink::{attributes, put, word};

/// `struct ndmsg`: family, pad, pad, index, state, flags, type.
pub(super) const BYTES: usize = 12;
const STATE_AT: usize = 8;
const FLAGS_AT: usize = 10;

pub(super) const NTF_USE: u8 = 1 << 0;
const NTF_PROXY: u8 = 1 << 3;
const NTF_EXT_LEARNED: u8 = 1 << 4;
pub(super) const NTF_EXT_MANAGED: u32 = 1 << 0;
pub(super) const NDA_PROTOCOL: u16 = 12;
pub(super) const NDA_FLAGS_EXT: u16 = 15;

/// Where a neighbour is: index of the interface, and address.
pub type NeighbourKey = (u32, Ipv6Addr);

/// An entry of the IPv6 neighbour table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeighbourEntry {
    /// Index of the interface that leads to it.
    pub ifindex: u32,
    /// Its address.
    pub address: Ipv6Addr,
    /// Its Ethernet address, if the entry has one.
    pub mac: Option<[u8; 6]>,
    /// `NUD_*` bits.
    pub state: u16,
    /// It was put there by a control plane that keeps it itself.
    pub learned: bool,
    /// The kernel keeps it alive without packets.
    pub managed: bool,
    /// `NDA_PROTOCOL`: who put it there, 0 for unknown.
    pub protocol: u8,
}

impl NeighbourEntry {
    /// Where it is.
    #[must_use]
    pub const fn key(&self) -> NeighbourKey {
        (self.ifindex, self.address)
    }

    /// The address to send to: none while the entry is not valid.
    #[must_use]
    pub fn usable(&self) -> Option<[u8; 6]> {
        const VALID: u16 = libc::NUD_REACHABLE
            | libc::NUD_STALE
            | libc::NUD_DELAY
            | libc::NUD_PROBE
            | libc::NUD_PERMANENT
            | libc::NUD_NOARP;
        self.mac.filter(|_| self.state & VALID != 0)
    }

    /// Whether its address never changes by itself: somebody wrote it down.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        self.learned || self.state & (libc::NUD_PERMANENT | libc::NUD_NOARP) != 0
    }

    /// What a message says of an entry; `Ok(None)` for other families and for proxies.
    pub(super) fn decode(body: &[u8]) -> Result<Option<Self>, super::Malformed> {
        let malformed = super::Malformed;
        let fixed = body.get(..BYTES).ok_or(malformed)?;
        let flags = fixed[FLAGS_AT];
        if i32::from(fixed[0]) != libc::AF_INET6 || flags & NTF_PROXY != 0 {
            return Ok(None);
        }
        let (mut address, mut mac, mut protocol, mut extended) = (None, None, 0, 0);
        for (attribute, value) in attributes(&body[BYTES..]) {
            match attribute {
                libc::NDA_DST => {
                    let octets: [u8; 16] = value.try_into().map_err(|_| malformed)?;
                    address = Some(Ipv6Addr::from(octets));
                }
                // Links other than Ethernet have addresses of other lengths, and no next hop for us.
                libc::NDA_LLADDR => mac = value.try_into().ok(),
                NDA_PROTOCOL => protocol = value.first().copied().unwrap_or(0),
                NDA_FLAGS_EXT => extended = word(value, 0).ok_or(malformed)?,
                _ => {}
            }
        }
        Ok(Some(Self {
            ifindex: word(fixed, 4).ok_or(malformed)?,
            address: address.ok_or(malformed)?,
            mac,
            state: u16::from_ne_bytes([fixed[STATE_AT], fixed[STATE_AT + 1]]),
            learned: flags & NTF_EXT_LEARNED != 0,
            managed: extended & NTF_EXT_MANAGED != 0,
            protocol,
        }))
    }
}

/// A request about one neighbour.
pub(super) fn request((ifindex, address): NeighbourKey, flags: u8) -> Vec<u8> {
    let mut body = vec![0; BYTES];
    body[0] = libc::AF_INET6 as u8;
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    body[FLAGS_AT] = flags;
    put(&mut body, libc::NDA_DST, &address.octets());
    body
}
