// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! ICMP errors to the senders of what is dropped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::inner::{be16, bytes, Inner, ETHERNET_BYTES, ICMPV6, TCP, UDP};
use super::Packet;
use crate::encap::Rate;
use crate::reason::egress::End;
use crate::srv6::ENCAPSULATION_BYTES;
use crate::tenant::Tenant;

const ICMP: u8 = 1;
const ICMP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// How long an answer is at most, without its Ethernet header (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const MAX_BYTES4: usize = 576;
const MAX_BYTES6: usize = 1280;
/// The least MTU that is told (RFC 791, RFC 8200).
const MIN_MTU4: u32 = 68;
const MIN_MTU6: u32 = 1280;
/// Of ICMP: unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS4: [u8; 5] = [3, 4, 5, 11, 12];
/// Of ICMPv6: the types below are errors.
const FIRST_QUERY6: u8 = 128;
const REDIRECT6: u8 = 137;
const HOPS: u8 = 64;
/// Precedence of internetwork control.
const CLASS4: u8 = 0xc0;
const DONT_FRAGMENT: u16 = 0x4000;

/// The frame that goes back in place of one that is dropped for `reason`, or how that one ends without
/// an answer. `link_mtu` is that of the link that it does not fit.
pub(super) fn answer(
    packet: &Packet<'_>,
    inner: &Inner<'_>,
    tenant: &Tenant,
    rate: Rate,
    (reason, link_mtu): (End, u32),
) -> Result<Vec<u8>, End> {
    let original = Original::of(packet, inner).ok_or(reason)?;
    let may_be_cut = inner.source.is_ipv4() && !inner.dont_fragment;
    // It asked for being cut up, which is not done here.
    if original.is_taboo(inner) || (reason == End::TooBig && may_be_cut) {
        return Err(reason);
    }
    let gateway = match inner.source {
        IpAddr::V6(_) => tenant.gateway6.map(IpAddr::V6),
        IpAddr::V4(_) => tenant.gateway4.map(IpAddr::V4),
    };
    let gateway = gateway.ok_or(reason)?;
    if rate.per_second == 0 || rate.burst == 0 {
        return Err(End::IcmpLimited);
    }
    let mtu = (reason == End::TooBig).then(|| link_mtu.saturating_sub(ENCAPSULATION_BYTES));
    match (gateway, inner.source) {
        (IpAddr::V6(from), IpAddr::V6(to)) => Ok(original.answer6(inner, from, to, mtu)),
        (IpAddr::V4(from), IpAddr::V4(to)) => Ok(original.answer4(inner, from, to, mtu)),
        _ => Err(reason),
    }
}

/// What is answered.
struct Original<'a> {
    dmac: [u8; 6],
    smac: [u8; 6],
    ethertype: [u8; 2],
    /// From its IP header on, without what pads its frame.
    packet: &'a [u8],
    /// Where its transport header is, and which.
    l4_at: usize,
    protocol: u8,
    /// From there on as far as the frame goes.
    l4: &'a [u8],
}

impl<'a> Original<'a> {
    /// None of later fragments of IPv6, and of what is cut off.
    fn of(packet: &Packet<'a>, inner: &Inner<'_>) -> Option<Self> {
        let (l4_at, protocol) = inner.transport()?;
        let (ethernet, behind) = packet.frame.split_first_chunk::<ETHERNET_BYTES>()?;
        let said = match packet.gso_bytes {
            0 => inner.bytes as usize,
            _ => behind.len(),
        };
        let whole = behind.get(..said).unwrap_or(behind);
        if inner.source.is_ipv4() && !inner.has_header(whole.len()) {
            return None;
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l, ethertype @ ..] = *ethernet;
        Some(Self {
            dmac: [a, b, c, d, e, f],
            smac: [g, h, i, j, k, l],
            ethertype,
            packet: whole,
            l4_at: l4_at - ETHERNET_BYTES,
            protocol,
            l4: packet.frame.get(l4_at..).unwrap_or_default(),
        })
    }

    /// Whether it is never answered: it came to many, its source is not one host, it is part of a
    /// datagram whose beginning is told, an error itself or a redirect (RFC 1122, 3.2.2; RFC 4443, 2.4).
    fn is_taboo(&self, inner: &Inner<'_>) -> bool {
        // What is cut off before its type may be an error.
        let kind = self.l4.first();
        let is_error = match (inner.source, self.protocol) {
            (IpAddr::V6(_), ICMPV6) => {
                kind.is_none_or(|&kind| kind < FIRST_QUERY6 || kind == REDIRECT6)
            }
            (IpAddr::V4(_), ICMP) => kind.is_none_or(|kind| ERRORS4.contains(kind)),
            _ => false,
        };
        let came_to_many = self.dmac[0] & 1 != 0;
        // A checksum that is yet to be made is one with the last address, which is not looked for.
        let is_routed = inner.has_segments_left();
        came_to_many
            || !names_one_host(inner.source)
            || inner.later_fragment
            || is_error
            || is_routed
    }

    fn answer6(
        &self,
        inner: &Inner<'_>,
        from: Ipv6Addr,
        to: Ipv6Addr,
        mtu: Option<u32>,
    ) -> Vec<u8> {
        let quote = self.quote(MAX_BYTES6 - IPV6_BYTES);
        let icmp = match mtu {
            Some(mtu) => icmp_header([2, 0], mtu.max(MIN_MTU6)),
            None => icmp_header([1, 0], 0),
        };
        let bytes = ICMP_BYTES + quote.len();
        let pseudo = pseudo_sum(from.into(), to.into(), bytes, ICMPV6);
        let icmp = with_checksum(icmp, 2, self.sum(quote, inner) + pseudo);
        let length = (bytes as u16).to_be_bytes();
        let ip = [&[0x60, 0, 0, 0][..], &length, &[ICMPV6, HOPS]].concat();
        let addresses = [from.octets(), to.octets()].concat();
        [&self.ethernet(), &ip[..], &addresses, &icmp, quote].concat()
    }

    fn answer4(
        &self,
        inner: &Inner<'_>,
        from: Ipv4Addr,
        to: Ipv4Addr,
        mtu: Option<u32>,
    ) -> Vec<u8> {
        let quote = self.quote(MAX_BYTES4 - IPV4_BYTES);
        let icmp = match mtu {
            Some(mtu) => icmp_header([3, 4], mtu.clamp(MIN_MTU4, u16::MAX.into())),
            None => icmp_header([3, 0], 0),
        };
        let icmp = with_checksum(icmp, 2, self.sum(quote, inner));
        let ip = ipv4_header(from, to, IPV4_BYTES + ICMP_BYTES + quote.len());
        [&self.ethernet(), &ip[..], &icmp, quote].concat()
    }

    /// Back to who sent it.
    fn ethernet(&self) -> Vec<u8> {
        [&self.smac[..], &self.dmac, &self.ethertype].concat()
    }

    /// As much as fits so many bytes behind the ICMP header.
    fn quote(&self, most: usize) -> &'a [u8] {
        let quote = self.packet.get(..most - ICMP_BYTES);
        quote.unwrap_or(self.packet)
    }

    /// The sum of what is quoted as it will be on the wire. If its checksum is yet to be made, by a
    /// device, the field holds the sum of the pseudo header; made, all from the transport header on comes
    /// to the complement of that.
    fn sum(&self, quote: &[u8], inner: &Inner<'_>) -> u64 {
        let field_at = match self.protocol {
            TCP => Some(self.l4_at + 16),
            UDP => Some(self.l4_at + 6),
            _ => None,
        };
        let field = field_at.and_then(|at| bytes(quote, at));
        let l4_bytes = self.packet.len().saturating_sub(self.l4_at);
        let pseudo = pseudo_sum(inner.source, inner.destination, l4_bytes, self.protocol);
        match field {
            Some([high, low]) if be16(high, low) == fold(pseudo) => {
                let headers = quote.get(..self.l4_at).unwrap_or_default();
                sum(headers) + u64::from(!be16(high, low))
            }
            _ => sum(quote),
        }
    }
}

/// Whether an address is one host's on a network (RFC 1122, 3.2.2; RFC 4443, 2.4).
fn names_one_host(source: IpAddr) -> bool {
    match source {
        IpAddr::V6(source) => {
            !source.is_multicast()
                && source != Ipv6Addr::UNSPECIFIED
                && source != Ipv6Addr::LOCALHOST
        }
        IpAddr::V4(source) => {
            let [first, ..] = source.octets();
            !matches!(first, 0 | 127 | 224..)
        }
    }
}

/// Without its checksum. The rest is the MTU, or nothing.
fn icmp_header([kind, code]: [u8; 2], rest: u32) -> Vec<u8> {
    let mut header = vec![kind, code, 0, 0];
    header.extend(rest.to_be_bytes());
    header
}

fn ipv4_header(from: Ipv4Addr, to: Ipv4Addr, bytes: usize) -> Vec<u8> {
    let mut header = vec![0x45, CLASS4];
    header.extend((bytes as u16).to_be_bytes());
    header.extend([0, 0]);
    header.extend(DONT_FRAGMENT.to_be_bytes());
    header.extend([HOPS, ICMP, 0, 0]);
    header.extend([from.octets(), to.octets()].concat());
    with_checksum(header, 10, 0)
}

/// A header with its checksum (RFC 1071) at `at`, of it and of what else is summed up.
fn with_checksum(mut header: Vec<u8>, at: usize, more: u64) -> Vec<u8> {
    let checksum = !fold(sum(&header) + more);
    if let Some(field) = header.get_mut(at..at + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    header
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => be16(high, low),
        [high] => be16(high, 0),
        _ => 0,
    });
    words.map(u64::from).sum()
}

/// The sum of as many words in one (RFC 1071).
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo_sum(from: IpAddr, to: IpAddr, bytes: usize, protocol: u8) -> u64 {
    let address = |address| match address {
        IpAddr::V6(address) => sum(&address.octets()),
        IpAddr::V4(address) => sum(&address.octets()),
    };
    let [high, low] = [bytes >> 16, bytes & 0xffff].map(|half| half as u64);
    address(from) + address(to) + high + low + u64::from(protocol)
}
