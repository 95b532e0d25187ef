// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a tenant's frame says, as far as it is looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Packet;
use crate::abi::Limit;
use crate::flow_label::Subject;
use crate::placement::{Family, FlowFields, Ports};
use crate::reason::egress::End;

pub(super) const ETHERNET_BYTES: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// The protocols whose segments' headers are known.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;
/// Router and neighbour solicitations and advertisements, and redirects.
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// More Fragments, and the offset.
const IPV4_FRAGMENT: u16 = 0x3fff;
const IPV4_OFFSET: u16 = 0x1fff;
const IPV4_DONT_FRAGMENT: u16 = 0x4000;
/// The offset in an IPv6 Fragment header.
const IPV6_OFFSET: u16 = 0xfff8;
const PORTS_BYTES: usize = 4;
const UDP_BYTES: usize = 8;
/// Where a TCP header says how long it is.
const TCP_OFFSET: usize = 12;
const MAX_EXT_HEADERS: u32 = Limit::GW_MAX_EXT_HEADERS.0;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// So many bytes of a frame; none if it ends before.
pub(super) fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

/// The version of IP that a frame carries, by its EtherType.
pub(super) fn family(packet: &Packet<'_>) -> Result<Family, End> {
    let ethernet: [u8; ETHERNET_BYTES] = bytes(packet.frame, 0).ok_or(End::Short)?;
    let [.., high, low] = ethernet;
    match be16(high, low) {
        _ if packet.tagged => Err(End::NotIp),
        IPV4 => Ok(Family::Ipv4),
        IPV6 => Ok(Family::Ipv6),
        _ => Err(End::NotIp),
    }
}

/// A tenant's packet: its IP header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inner<'a> {
    packet: &'a Packet<'a>,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The first next header of IPv6.
    protocol: u8,
    pub(super) traffic_class: u8,
    /// Of IPv6.
    label: u32,
    /// All of it, as its header says.
    pub(super) bytes: u32,
    /// Where the header ends, from the beginning of the frame.
    l4_at: usize,
    /// Any part of an IPv4 packet.
    fragment: bool,
    /// A part of an IPv4 packet, and not the first.
    pub(super) later_fragment: bool,
    /// It may not be cut up; IPv4.
    pub(super) dont_fragment: bool,
}

impl<'a> Inner<'a> {
    /// Reads the fixed header, and refuses what stays on the link.
    pub(super) fn parse(packet: &'a Packet<'a>, family: Family) -> Result<Self, End> {
        match family {
            Family::Ipv4 => Self::ipv4(packet),
            Family::Ipv6 => Self::ipv6(packet),
        }
    }

    fn ipv6(packet: &'a Packet<'a>) -> Result<Self, End> {
        let header: [u8; IPV6_BYTES] = bytes(packet.frame, ETHERNET_BYTES).ok_or(End::Short)?;
        let [a, b, c, d, length_high, length_low, protocol, _hop_limit, addresses @ ..] = header;
        if a >> 4 != 6 {
            return Err(End::Short);
        }
        let [source, destination] = halves(addresses).map(Ipv6Addr::from);
        let l4_at = ETHERNET_BYTES + IPV6_BYTES;
        let discovers = protocol == ICMPV6
            && bytes(packet.frame, l4_at).is_some_and(|[kind]| NEIGHBOUR_DISCOVERY.contains(&kind));
        if destination.is_multicast() || destination.is_unicast_link_local() || discovers {
            return Err(End::Local);
        }
        let first = u32::from_be_bytes([a, b, c, d]);
        Ok(Self {
            packet,
            source: source.into(),
            destination: destination.into(),
            protocol,
            traffic_class: (first >> 20) as u8,
            label: first & 0xf_ffff,
            bytes: IPV6_BYTES as u32 + u32::from(be16(length_high, length_low)),
            l4_at,
            fragment: false,
            later_fragment: false,
            dont_fragment: true,
        })
    }

    fn ipv4(packet: &'a Packet<'a>) -> Result<Self, End> {
        let header: [u8; IPV4_BYTES] = bytes(packet.frame, ETHERNET_BYTES).ok_or(End::Short)?;
        let [first, traffic_class, length_high, length_low, _, _, fragment_high, fragment_low, rest @ ..] =
            header;
        let [_ttl, protocol, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = rest;
        if first >> 4 != 4 {
            return Err(End::Short);
        }
        let destination = Ipv4Addr::new(d0, d1, d2, d3);
        let fragment = be16(fragment_high, fragment_low);
        if destination.is_multicast() || destination.is_broadcast() {
            return Err(End::Local);
        }
        Ok(Self {
            packet,
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: destination.into(),
            protocol,
            traffic_class,
            label: 0,
            bytes: be16(length_high, length_low).into(),
            l4_at: ETHERNET_BYTES + usize::from(first & 0xf) * 4,
            fragment: fragment & IPV4_FRAGMENT != 0,
            later_fragment: fragment & IPV4_OFFSET != 0,
            dont_fragment: fragment & IPV4_DONT_FRAGMENT != 0,
        })
    }

    /// The number that the outer header has for it as its next header.
    pub(super) const fn number(&self) -> u8 {
        match self.source {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 41,
        }
    }

    /// Whether all of its header is in so many bytes, and it is one; of IPv4.
    pub(super) const fn has_header(&self, packet_bytes: usize) -> bool {
        let bytes = self.l4_at - ETHERNET_BYTES;
        IPV4_BYTES <= bytes && bytes <= packet_bytes
    }

    /// Where its TCP header is, from the beginning of the frame; none of fragments, of other protocols,
    /// and behind extension headers.
    pub(super) fn whole_tcp(&self) -> Option<usize> {
        let is_one = self.protocol == TCP && !self.fragment;
        (is_one && self.l4_at >= ETHERNET_BYTES + IPV4_BYTES).then_some(self.l4_at)
    }

    /// What a group that places by flow hashes.
    pub(super) fn flow(&self) -> Result<FlowFields, End> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                if self.l4_at < ETHERNET_BYTES + IPV4_BYTES {
                    Err(End::Parse)
                } else if self.fragment {
                    let protocol = self.protocol;
                    Ok(FlowFields::ipv4_fragment(source, destination, protocol))
                } else {
                    let ports = self.ports().ok_or(End::Parse)?;
                    Ok(FlowFields::ipv4(source, destination, self.protocol, ports))
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ports = self.ports().ok_or(End::Parse)?;
                Ok(FlowFields::ipv6(source, destination, self.protocol, ports))
            }
            // A packet has addresses of one family.
            _ => Err(End::Parse),
        }
    }

    /// The ports, zeros where the protocol has none or a fragment need not have them; none where the
    /// packet is cut off before their end. What pads the frame is none of it.
    fn ports(&self) -> Option<Ports> {
        if self.fragment || !FlowFields::has_ports(self.protocol) {
            return Some(Ports::default());
        }
        // One that is to be segmented may be too long to say how long it is.
        let whole = self.packet.gso_bytes != 0;
        if !whole && self.l4_at + PORTS_BYTES > ETHERNET_BYTES + self.bytes as usize {
            return None;
        }
        let [a, b, c, d] = bytes(self.packet.frame, self.l4_at)?;
        Some(Ports {
            source: be16(a, b),
            destination: be16(c, d),
        })
    }

    /// What its flow label stands for.
    pub(super) fn label_subject(&self) -> Subject {
        if self.label != 0 {
            return Subject::Label(self.label);
        }
        // What is cut off has none: the label is no reason to drop it.
        let ports = self.ports().unwrap_or_default();
        Subject::Ports {
            protocol: self.protocol,
            source: ports.source,
            destination: ports.destination,
        }
    }

    /// The bytes behind Ethernet, some of which may pad the frame.
    pub(super) fn frame_bytes(&self) -> usize {
        self.packet.frame.len().saturating_sub(ETHERNET_BYTES)
    }

    /// Whether its header says a length that it can have. One that is to be segmented may be too long to
    /// say so; nothing else is, so a jumbogram (RFC 2675) is none.
    pub(super) fn is_whole(&self) -> bool {
        let (said, held) = (self.bytes as usize, self.frame_bytes());
        let is_jumbo = self.source.is_ipv6() && said == IPV6_BYTES && self.protocol == HOP_BY_HOP;
        let header_bytes = IPV4_BYTES.max(self.l4_at - ETHERNET_BYTES);
        self.packet.gso_bytes != 0 || (header_bytes..=held).contains(&said) && !is_jumbo
    }

    /// How much of it crosses the link at a time: a segment, if it will be segmented. Behind its end by
    /// its own header the frame goes on at times.
    pub(super) fn crossing_bytes(&self) -> u32 {
        match self.segment_bytes() {
            Some(bytes) if self.packet.gso_bytes != 0 => bytes,
            _ => self.frame_bytes() as u32,
        }
    }

    /// Whether its sender can do something about its size. The payload of a segment is as it is told to
    /// be, so where the headers of a segment cannot be told no MTU can.
    pub(super) fn has_told_size(&self) -> bool {
        self.packet.gso_bytes == 0 || self.segment_bytes().is_some()
    }

    /// A segment with its headers; none where those cannot be told.
    fn segment_bytes(&self) -> Option<u32> {
        let header_bytes = self.segment_header_bytes()?;
        Some(header_bytes.saturating_add(self.packet.gso_bytes))
    }

    /// The headers of a segment, of TCP and UDP.
    fn segment_header_bytes(&self) -> Option<u32> {
        let (at, protocol) = self.transport()?;
        let l4_bytes = match protocol {
            UDP => UDP_BYTES,
            TCP => {
                let [offset] = bytes(self.packet.frame, at + TCP_OFFSET)?;
                usize::from(offset >> 4) * 4
            }
            _ => return None,
        };
        Some((at - ETHERNET_BYTES + l4_bytes) as u32)
    }

    /// Where the transport header is, from the beginning of the frame, and which. Of later fragments,
    /// of what is cut off and behind too many headers there is none.
    pub(super) fn transport(&self) -> Option<(usize, u8)> {
        self.walk(|_, _| ())
    }

    /// Whether it goes to another address before the last (RFC 8200, 4.4).
    pub(super) fn has_segments_left(&self) -> bool {
        let mut left = false;
        self.walk(|protocol, [.., segments]| left |= protocol == ROUTING && segments != 0);
        left
    }

    /// Shows the beginning of each extension header, and answers as [`transport`](Self::transport).
    fn walk(&self, mut show: impl FnMut(u8, [u8; 4])) -> Option<(usize, u8)> {
        let (mut at, mut protocol) = (self.l4_at, self.protocol);
        if self.source.is_ipv4() {
            return Some((at, protocol));
        }
        // One more look than there may be headers: at what is behind the last.
        for headers in 0..=MAX_EXT_HEADERS {
            let unit = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8,
                AUTHENTICATION => 4,
                FRAGMENT => 0,
                _ => return Some((at, protocol)),
            };
            if headers == MAX_EXT_HEADERS {
                return None;
            }
            let header = bytes(self.packet.frame, at)?;
            show(protocol, header);
            let [next, length, high, low] = header;
            if protocol == FRAGMENT && be16(high, low) & IPV6_OFFSET != 0 {
                return None;
            }
            // The first eight bytes do not count.
            at += 8 + unit * usize::from(length);
            protocol = next;
        }
        None
    }
}

/// Two addresses behind each other.
fn halves(addresses: [u8; 32]) -> [[u8; 16]; 2] {
    let halves: &[[u8; 16]; 2] = bytemuck::cast_ref(&addresses);
    *halves
}
