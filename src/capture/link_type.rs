// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;

/// What a capture's frames begin with, by the number in the registry of link types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet frames.
    pub const ETHERNET: Self = Self(1);

    /// The registered name of types that capture tools write on common systems.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "NULL",
            1 => "ETHERNET",
            9 => "PPP",
            101 => "RAW",
            104 => "C_HDLC",
            105 => "IEEE802_11",
            108 => "LOOP",
            113 => "LINUX_SLL",
            127 => "IEEE802_11_RADIOTAP",
            189 => "USB_LINUX",
            220 => "USB_LINUX_MMAPPED",
            228 => "IPV4",
            229 => "IPV6",
            239 => "NFLOG",
            253 => "NETLINK",
            274 => "ETHERNET_MPACKET",
            276 => "LINUX_SLL2",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
