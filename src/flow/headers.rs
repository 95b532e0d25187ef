// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What the headers of a frame say, also of a frame that belongs to no flow.

use std::net::IpAddr;

use serde::Serialize;

use super::VlanTags;

/// The headers of a frame, as far as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The VLAN tags, outermost first; at most two.
    pub vlans: VlanTags,
    /// The last EtherType that was read, none in a frame without an Ethernet header.
    pub ethertype: Option<u16>,
    /// The IP header, unless it is cut or contradicts itself or the frame.
    pub ip: Option<IpHeader>,
    /// The ICMP or ICMPv6 header, unless it is cut.
    pub icmp: Option<IcmpHeader>,
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// The protocol's number, behind the extension headers that were walked.
    pub protocol: u8,
    /// Whether it is part of a packet.
    pub fragment: Fragment,
    /// Source and destination port of UDP and TCP, where they were read.
    pub ports: Option<(u16, u16)>,
}

/// An ICMP or ICMPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpHeader {
    /// The type.
    pub icmp_type: u8,
    /// The code.
    pub code: u8,
    /// The header of the packet that an error quotes.
    pub quoted: Option<IpHeader>,
}

/// Whether an IP packet was sent in parts, and which of them this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Fragment {
    /// It is whole; an IPv6 packet may all the same have a fragment header.
    None,
    /// Its beginning.
    First,
    /// A part without a beginning.
    Later,
}

impl Fragment {
    /// What a fragment offset and the flag for more fragments say.
    pub(super) const fn of(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Self::None,
            (0, true) => Self::First,
            _ => Self::Later,
        }
    }
}
