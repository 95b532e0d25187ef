// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use crate::hash::FlowKey;
use crate::id::ServiceId;
use crate::service::Protocol;

/// A packet that belongs to a flow. Offsets and ranges count bytes of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The VLAN tags, outermost first.
    pub vlans: VlanTags,
    /// The EtherType behind them.
    pub ethertype: u16,
    /// Where the IP header begins.
    pub l3_offset: usize,
    /// Where the header of the protocol begins; in a fragment, the data.
    pub l4_offset: usize,
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// The protocol's number, behind all extension headers that are walked.
    pub protocol: u8,
    /// What the protocol says.
    pub l4: L4,
}

/// What stands behind the IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum L4 {
    /// A datagram.
    Udp(Udp),
    /// A segment.
    Tcp(Tcp),
    /// An ICMP error about a packet of the other direction.
    IcmpError(IcmpError),
    /// A fragment of this protocol, the first or a later one.
    Fragment(Protocol),
}

/// A UDP datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Udp {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The payload.
    pub payload: Range<usize>,
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The flags.
    pub flags: TcpFlags,
    /// The data; empty at the packet's end if the options are cut.
    pub payload: Range<usize>,
}

/// An ICMP error, and the packet it quotes: one that the destination sent, or seems to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// The type.
    pub icmp_type: u8,
    /// The code.
    pub code: u8,
    /// Where the quoted IP header begins.
    pub l3_offset: usize,
    /// Where the quoted UDP or TCP header begins.
    pub l4_offset: usize,
    /// To whom the quoted packet was sent; its source is the destination of the error.
    pub destination: IpAddr,
    /// The quoted packet's protocol.
    pub protocol: Protocol,
    /// The port from which it was sent.
    pub source_port: u16,
    /// The port to which it was sent.
    pub destination_port: u16,
    /// As much of a UDP payload as is quoted; empty for TCP.
    pub payload: Range<usize>,
}

/// A flow as the client's packets name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The protocol.
    pub protocol: Protocol,
    /// The client's address.
    pub client: IpAddr,
    /// The client's port; 0 in fragments, whose port is not known.
    pub client_port: u16,
    /// The service's address, of the same family.
    pub vip: IpAddr,
    /// The service's port; 0 in fragments.
    pub vip_port: u16,
}

impl Flow {
    /// What the flow is known by in the service that its VIP, protocol and port belong to.
    pub fn key(&self, service: ServiceId) -> FlowKey {
        FlowKey::new(service, self.client_port, self.vip_port, self.client)
    }
}

impl Parsed {
    /// The flow that decides where the packet goes. For an ICMP error it is the forward direction
    /// of the flow whose returning packet is quoted.
    pub fn flow(&self) -> Flow {
        let (protocol, client_port, vip_port) = match &self.l4 {
            L4::Udp(udp) => (Protocol::Udp, udp.source_port, udp.destination_port),
            L4::Tcp(tcp) => (Protocol::Tcp, tcp.source_port, tcp.destination_port),
            L4::IcmpError(icmp) => (icmp.protocol, icmp.destination_port, icmp.source_port),
            L4::Fragment(protocol) => (*protocol, 0, 0),
        };
        let client = match &self.l4 {
            L4::IcmpError(icmp) => icmp.destination,
            L4::Udp(_) | L4::Tcp(_) | L4::Fragment(_) => self.source,
        };
        Flow {
            protocol,
            client,
            client_port,
            vip: self.destination,
            vip_port,
        }
    }
}

/// The flags of a TCP header, in their order there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// The first segment of a direction.
    pub const SYN: Self = Self(0x02);
    /// The connection is gone.
    pub const RST: Self = Self(0x04);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);

    /// Whether all of these flags are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether the segment can be a connection's first: SYN without ACK.
    pub const fn starts_flow(self) -> bool {
        self.contains(Self::SYN) && !self.contains(Self::ACK)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpFlags({:#04x})", self.0)
    }
}

/// The VLAN IDs of a frame: none, one or two, outermost first.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct VlanTags {
    ids: [u16; Self::MAX],
    len: u8,
}

impl VlanTags {
    /// The most tags that are read.
    pub const MAX: usize = 2;

    /// The VLAN IDs.
    pub fn ids(&self) -> &[u16] {
        &self.ids[..usize::from(self.len)]
    }

    pub(super) fn is_full(&self) -> bool {
        self.ids().len() == Self::MAX
    }

    /// Adds an inner tag where there is room.
    pub(super) fn push(&mut self, id: u16) {
        if let Some(slot) = self.ids.get_mut(usize::from(self.len)) {
            *slot = id;
            self.len += 1;
        }
    }
}

impl fmt::Debug for VlanTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
