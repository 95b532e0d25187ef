// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of a packet counts in flow mode.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::key::Family;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// The next-header value of IPv6's Fragment header.
const FRAGMENT: u8 = 44;

/// The ports of a TCP or UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// What is hashed in flow mode: protocol, ports and both addresses.
///
/// A packet has one of four constructors. They see to it that all fragments of a datagram meet in
/// one slot, although only the first has ports, and that no chain of headers has to be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowFields {
    addresses: Addresses,
    protocol: u8,
    ports: Ports,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Addresses {
    V6(Ipv6Addr, Ipv6Addr),
    V4(Ipv4Addr, Ipv4Addr),
}

impl FlowFields {
    /// An IPv4 packet that is no fragment: More Fragments is clear and the offset is 0.
    ///
    /// Only TCP (6) and UDP (17) have ports; of any other protocol none is hashed, whatever `ports`
    /// are. They are read where the header's length (IHL) says that it ends.
    #[must_use]
    pub const fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, ports: Ports) -> Self {
        Self {
            addresses: Addresses::V4(source, destination),
            protocol,
            ports: ports_of(protocol, ports),
        }
    }

    /// A fragment of an IPv4 datagram, the first included: More Fragments is set or the offset is
    /// not 0. Its protocol counts, ports do not.
    #[must_use]
    pub const fn ipv4_fragment(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8) -> Self {
        Self {
            addresses: Addresses::V4(source, destination),
            protocol,
            ports: NONE,
        }
    }

    /// An IPv6 packet, by the next-header value of its *fixed* header.
    ///
    /// With TCP (6) or UDP (17) there the ports are hashed. Any other value is hashed itself, without
    /// ports: ICMPv6, SCTP, and every extension header, whatever comes behind it. So the header
    /// chain is never walked.
    #[must_use]
    pub const fn ipv6(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: u8,
        ports: Ports,
    ) -> Self {
        Self {
            addresses: Addresses::V6(source, destination),
            protocol: next_header,
            ports: ports_of(next_header, ports),
        }
    }

    /// An IPv6 packet whose first next header is the Fragment header (44), the first fragment
    /// included, and a datagram in one fragment too. A fragment with another extension header
    /// in front of that one is [`FlowFields::ipv6`] with that header's number.
    #[must_use]
    pub const fn ipv6_fragment(source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        Self::ipv6(source, destination, FRAGMENT, NONE)
    }

    /// Whether packets of this protocol, or first next header, have ports that are hashed.
    #[must_use]
    pub const fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP)
    }

    /// The family of the addresses.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self.addresses {
            Addresses::V6(..) => Family::Ipv6,
            Addresses::V4(..) => Family::Ipv4,
        }
    }

    /// The protocol, or first next header, that is hashed.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The ports that are hashed.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        self.ports
    }

    /// The source address.
    #[must_use]
    pub const fn source(&self) -> IpAddr {
        match self.addresses {
            Addresses::V6(source, _) => IpAddr::V6(source),
            Addresses::V4(source, _) => IpAddr::V4(source),
        }
    }

    /// The destination address.
    #[must_use]
    pub const fn destination(&self) -> IpAddr {
        match self.addresses {
            Addresses::V6(_, destination) => IpAddr::V6(destination),
            Addresses::V4(_, destination) => IpAddr::V4(destination),
        }
    }
}

const NONE: Ports = Ports {
    source: 0,
    destination: 0,
};

const fn ports_of(protocol: u8, ports: Ports) -> Ports {
    if FlowFields::has_ports(protocol) {
        ports
    } else {
        NONE
    }
}
