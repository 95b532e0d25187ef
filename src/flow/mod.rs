// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Reads frames as the load balancer does: which flow a packet belongs to, or why it is none.
//!
//! [`parse`] is total: any bytes give a [`Parsed`] packet or the [`Reason`] for which it passes to
//! the host. The kernel program follows the same rules, and the two are compared on random frames;
//! so the rules are written out here to the last corner. Where several apply, **the first in this
//! order gives the reason**. Nothing is read or decided beyond them: no checksum, TTL, address
//! class, option or order of extension headers.
//!
//! A header that crosses an *end* is cut. The end is that of the frame first, then the one that the
//! IP header declares: padding of the frame belongs to no packet.
//!
//! # Ethernet
//!
//! 1. Frame below 14 bytes: [`ShortFrame`](Reason::ShortFrame).
//! 2. While the EtherType is 0x8100 or 0x88a8: the third time
//!    [`VlanDepth`](Reason::VlanDepth), whatever follows; fewer than 4 bytes left `ShortFrame`;
//!    otherwise the tag is skipped. The VLAN ID is the low 12 bits of the tag; 0x9100 is no tag.
//! 3. EtherType 0x0800 is IPv4, 0x86dd IPv6, anything else, lengths included,
//!    [`NotIp`](Reason::NotIp). The version in the IP header must agree.
//!
//! # IPv4
//!
//! 1. Fewer than 20 bytes, version not 4, header length (4 IHL) below 20, total length below the
//!    header length or beyond the frame: [`BadIpv4`](Reason::BadIpv4). The packet ends at the total
//!    length.
//! 2. Fragment offset not 0, or more fragments: a *fragment*, see below.
//! 3. Protocol 6 is TCP, 17 UDP, 1 ICMP, anything else, AH included,
//!    [`L4Other`](Reason::L4Other).
//!
//! # IPv6
//!
//! 1. Fewer than 40 bytes, version not 6, payload length beyond the frame:
//!    [`BadIpv6`](Reason::BadIpv6). The packet ends at the payload length, also if that is 0.
//! 2. While the next header is hop-by-hop options 0, routing 43, fragment 44, AH 51 or destination
//!    options 60, in any order:
//!    1. It is the seventh: [`ExtHeaders`](Reason::ExtHeaders).
//!    2. Fewer than 8 bytes left: `BadIpv6`.
//!    3. A routing header of any type with segments left:
//!       [`RoutingHeader`](Reason::RoutingHeader).
//!    4. Its length is 8 for a fragment header, 4 (second byte + 2) for AH, 8 (second byte + 1)
//!       otherwise. All so far have more than 512 bytes: `ExtHeaders`. It is cut: `BadIpv6`.
//!    5. A fragment header with an offset, or with more fragments: a *fragment*. With neither it is
//!       atomic, and skipped like the others.
//! 3. Next header 6 is TCP, 17 UDP, 58 ICMPv6; mobility 135, HIP 139 and Shim6 140, which are
//!    extension headers but not walked, `ExtHeaders`; anything else, ESP 50 and "no next header"
//!    59 included, `L4Other`.
//!
//! # Fragments
//!
//! A fragment is that first and foremost, first ones and later ones alike: nothing behind the
//! header that makes it one is read. Its protocol is the one that this header names: 6 or 17 give
//! [`L4::Fragment`], anything else, ICMP and further extension headers included, `L4Other`.
//!
//! # UDP and TCP
//!
//! 1. UDP with fewer than 8 bytes, a UDP length below 8 or beyond the packet's end:
//!    [`BadL4`](Reason::BadL4). The payload ends at the UDP length.
//! 2. TCP with fewer than 20 bytes, or a data offset below 5: `BadL4`. Options may be cut; then
//!    there is no payload. Otherwise it begins behind them and ends with the packet.
//! 3. Any ports, 0 included. Port 0 stands for fragments where services are looked up, so a router
//!    must not look up a packet to port 0: it belongs to no service.
//!
//! # ICMP
//!
//! 1. Fewer than 8 bytes: [`IcmpBad`](Reason::IcmpBad).
//! 2. Not an error about a packet, i.e. in ICMP no type 3 or 11, in ICMPv6 no type 1, 2 or 3, with
//!    any code: [`IcmpOther`](Reason::IcmpOther).
//! 3. The packet quoted behind the 8 bytes is of the same IP version. It is read by the rules
//!    above, with its own count of extension headers, and every fault is `IcmpBad`. Differences:
//!    - It may be cut: its end is the outer packet's, or the one it declares if that comes first.
//!      A header of its own that is cut by either is a fault all the same.
//!    - A first fragment is read on; a fragment with an offset is a fault.
//!    - It must come from the outer destination, and be TCP or UDP with 8 bytes left. A UDP length
//!      below 8 is a fault, one beyond the end is not: there the payload just ends.

mod headers;
mod icmp;
mod ip;
mod packet;

pub use headers::{Fragment, Headers, IcmpHeader, IpHeader};
pub use packet::{Flow, IcmpError, Parsed, Tcp, TcpFlags, Udp, VlanTags, L4};

use crate::reason::Reason;
use crate::service::Protocol;
use ip::{Ip, Role};

const ETHERNET_HEADER_LEN: usize = 14;
const VLAN_TAG_LEN: usize = 4;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_QINQ: u16 = 0x88a8;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;

/// Reads an Ethernet frame; see the [module](self) for the rules.
pub fn parse(frame: &[u8]) -> Result<Parsed, Reason> {
    read(frame, &mut Headers::default())
}

/// Reads an Ethernet frame like [`parse`], and tells what was read of it also where the result is a
/// reason.
pub fn dissect(frame: &[u8]) -> (Headers, Result<Parsed, Reason>) {
    let mut headers = Headers::default();
    let parsed = read(frame, &mut headers);
    (headers, parsed)
}

fn read(frame: &[u8], seen: &mut Headers) -> Result<Parsed, Reason> {
    let (ethertype, l3_offset) = ethernet(frame, seen)?;
    let packet = Bytes {
        bytes: frame,
        end: frame.len(),
    };
    let ip = match ethertype {
        ETHERTYPE_IPV4 => ip::v4(packet, l3_offset, Role::Outer, &mut seen.ip)?,
        ETHERTYPE_IPV6 => ip::v6(packet, l3_offset, Role::Outer, &mut seen.ip)?,
        _ => return Err(Reason::NotIp),
    };
    let l4 = l4(&ip, &mut seen.icmp)?;
    if let Some(seen) = &mut seen.ip {
        seen.ports = match &l4 {
            L4::Udp(udp) => Some((udp.source_port, udp.destination_port)),
            L4::Tcp(tcp) => Some((tcp.source_port, tcp.destination_port)),
            L4::IcmpError(_) | L4::Fragment(_) => None,
        };
    }
    Ok(Parsed {
        vlans: seen.vlans,
        ethertype,
        l3_offset,
        l4_offset: ip.l4_offset,
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        l4,
    })
}

/// The EtherType behind all VLAN tags, and where its payload begins.
fn ethernet(frame: &[u8], seen: &mut Headers) -> Result<(u16, usize), Reason> {
    let frame = Bytes {
        bytes: frame,
        end: frame.len(),
    };
    let header: [u8; ETHERNET_HEADER_LEN] = frame.read(0).ok_or(Reason::ShortFrame)?;
    let mut ethertype = u16::from_be_bytes([header[12], header[13]]);
    let mut at = ETHERNET_HEADER_LEN;
    seen.ethertype = Some(ethertype);
    while matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) {
        if seen.vlans.is_full() {
            return Err(Reason::VlanDepth);
        }
        let tag: [u8; VLAN_TAG_LEN] = frame.read(at).ok_or(Reason::ShortFrame)?;
        seen.vlans
            .push(u16::from_be_bytes([tag[0], tag[1]]) & 0x0fff);
        ethertype = u16::from_be_bytes([tag[2], tag[3]]);
        seen.ethertype = Some(ethertype);
        at += VLAN_TAG_LEN;
    }
    Ok((ethertype, at))
}

fn l4(ip: &Ip<'_>, icmp: &mut Option<IcmpHeader>) -> Result<L4, Reason> {
    let protocol = match ip.protocol {
        PROTOCOL_TCP => Some(Protocol::Tcp),
        PROTOCOL_UDP => Some(Protocol::Udp),
        _ => None,
    };
    if ip.fragment {
        return protocol.map(L4::Fragment).ok_or(Reason::L4Other);
    }
    match (ip.protocol, ip.source.is_ipv4()) {
        (PROTOCOL_UDP, _) => udp(ip).map(L4::Udp).ok_or(Reason::BadL4),
        (PROTOCOL_TCP, _) => tcp(ip).map(L4::Tcp).ok_or(Reason::BadL4),
        (PROTOCOL_ICMP, true) | (PROTOCOL_ICMPV6, false) => {
            icmp::error(ip, icmp).map(L4::IcmpError)
        }
        _ => Err(Reason::L4Other),
    }
}

fn udp(ip: &Ip<'_>) -> Option<Udp> {
    let header: [u8; 8] = ip.packet.read(ip.l4_offset)?;
    let udp_end = ip.l4_offset + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = ip.l4_offset + header.len()..udp_end;
    (payload.start <= payload.end && udp_end <= ip.packet.end).then_some(Udp {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        payload,
    })
}

fn tcp(ip: &Ip<'_>) -> Option<Tcp> {
    let header: [u8; 20] = ip.packet.read(ip.l4_offset)?;
    let words = usize::from(header[12] >> 4);
    let payload_at = (ip.l4_offset + 4 * words).min(ip.packet.end);
    (words >= 5).then_some(Tcp {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        flags: TcpFlags(header[13]),
        payload: payload_at..ip.packet.end,
    })
}

/// A frame, readable up to the end of the packet in it.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl Bytes<'_> {
    /// `N` bytes from an offset on, unless they cross the end.
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes
            .get(..self.end)?
            .get(at..)?
            .first_chunk()
            .copied()
    }
}
