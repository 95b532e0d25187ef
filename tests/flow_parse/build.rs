// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Packets, built layer by layer from the inside out.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const CLIENT4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub(crate) const VIP4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 80);
pub(crate) const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
pub(crate) const VIP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x80);

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

pub(crate) fn ethernet(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (tag, control) in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend(control.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv4 packet from the client to the VIP, with these bytes of options.
pub(crate) fn ipv4_options(protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    ipv4_between(CLIENT4, VIP4, protocol, options, payload)
}

pub(crate) fn ipv4_between(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    options: usize,
    payload: &[u8],
) -> Vec<u8> {
    let header_len = 20 + options;
    let total_len = (header_len + payload.len()) as u16;
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(total_len.to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0xab, 0xcd]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(vec![1; options]);
    packet.extend(payload);
    packet
}

pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4_options(protocol, 0, payload))
}

/// An extension header: its number, and its bytes without the first, which names the next one.
pub(crate) type Ext = (u8, Vec<u8>);

/// An extension header of `len` bytes whose length counts in units of 8 bytes after the first.
pub(crate) fn options(number: u8, len: usize) -> Ext {
    let mut bytes = vec![(len / 8 - 1) as u8];
    bytes.extend(vec![0; len - 2]);
    (number, bytes)
}

pub(crate) fn routing(len: usize, segments_left: u8) -> Ext {
    let (number, mut bytes) = options(43, len);
    bytes[2] = segments_left;
    (number, bytes)
}

pub(crate) fn authentication(len: usize) -> Ext {
    let mut bytes = vec![(len / 4 - 2) as u8];
    bytes.extend(vec![0x77; len - 2]);
    (51, bytes)
}

pub(crate) fn fragment(offset: u16, more: bool) -> Ext {
    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
    // The second byte is reserved: a parser that took it for a length would go astray.
    (44, vec![0xff, high, low, 1, 2, 3, 4])
}

pub(crate) fn ipv6_between(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    exts: &[Ext],
    protocol: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut next: Vec<u8> = exts.iter().map(|(number, _)| *number).collect();
    next.push(protocol);
    let mut body = vec![];
    for ((_, bytes), next) in exts.iter().zip(&next[1..]) {
        body.push(*next);
        body.extend(bytes);
    }
    body.extend(payload);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend([next[0], 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(body);
    packet
}

pub(crate) fn ipv6(exts: &[Ext], protocol: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(
        &[],
        0x86dd,
        &ipv6_between(CLIENT6, VIP6, exts, protocol, payload),
    )
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![];
    datagram.extend(source.to_be_bytes());
    datagram.extend(destination.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0xaa, 0xbb]);
    datagram.extend(payload);
    datagram
}

pub(crate) fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut segment = vec![];
    segment.extend(source.to_be_bytes());
    segment.extend(destination.to_be_bytes());
    segment.extend([0; 8]);
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment
}

pub(crate) fn icmp(icmp_type: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![icmp_type, code, 0xcc, 0xdd, 0, 0, 0, 0];
    message.extend(body);
    message
}

/// A client's datagram with a payload of 6 bytes.
pub(crate) fn request() -> Vec<u8> {
    udp(50000, 443, b"hello!")
}

/// A server's datagram with a payload of 6 bytes.
pub(crate) fn reply() -> Vec<u8> {
    udp(443, 50000, b"world!")
}

/// A packet from the VIP to the client.
pub(crate) fn quoted4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_between(VIP4, CLIENT4, protocol, 0, payload)
}

pub(crate) fn quoted6(exts: &[Ext], protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv6_between(VIP6, CLIENT6, exts, protocol, payload)
}

/// An error from a router on the way about a packet of IPv4.
pub(crate) fn error4(quoted: &[u8]) -> Vec<u8> {
    let router = Ipv4Addr::new(192, 0, 2, 254);
    ethernet(
        &[],
        0x0800,
        &ipv4_between(router, VIP4, ICMP, 0, &icmp(3, 4, quoted)),
    )
}

pub(crate) fn error6(quoted: &[u8]) -> Vec<u8> {
    let router = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);
    ethernet(
        &[],
        0x86dd,
        &ipv6_between(router, VIP6, &[], ICMPV6, &icmp(2, 0, quoted)),
    )
}

pub(crate) fn with(mut frame: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for &(at, byte) in changes {
        frame[at] = byte;
    }
    frame
}
