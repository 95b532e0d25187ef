// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Frames, written out by hand: what tenants send, and what shards are to get.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

pub(crate) fn ethernet(destination: [u8; 6], source: [u8; 6], kind: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(destination);
    frame.extend(source);
    frame.extend(kind.to_be_bytes());
    frame
}

fn tenant_ethernet(kind: u16) -> Vec<u8> {
    ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], kind)
}

/// Ports and as many bytes of payload.
pub(crate) fn ports(source: u16, destination: u16, bytes: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(source.to_be_bytes());
    payload.extend(destination.to_be_bytes());
    payload.resize(bytes, 0x5a);
    payload
}

/// A frame with an IPv6 packet.
pub(crate) fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = tenant_ethernet(0x86dd);
    frame.extend([0x6b, 0xa1, 0x23, 0x45]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, 64]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(payload);
    frame
}

/// A frame with an IPv4 packet; `fragment` is its word of flags and offset.
pub(crate) fn ipv4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = tenant_ethernet(0x0800);
    frame.extend([0x45, 0xba]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(payload);
    frame
}

/// What comes out of a tenant's frame in the profile `compat`: the specification's section 8.1.
pub(crate) fn encapsulated(
    frame: &[u8],
    (dmac, smac): ([u8; 6], [u8; 6]),
    source: &str,
    destination: &str,
) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address").octets();
    let inner = &frame[14..];
    let mut out = ethernet(dmac, smac, 0x86dd);
    out.extend([0x60, 0, 0, 0]);
    out.extend((inner.len() as u16).to_be_bytes());
    out.push(if inner[0] >> 4 == 4 { 4 } else { 41 });
    out.push(64);
    out.extend(address(source));
    out.extend(address(destination));
    out.extend(inner);
    out
}

/// The Internet checksum (RFC 1071) of bytes in which its own field is 0.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum of the transport of a frame's packet, with its pseudo header:
/// 0 if the one that is there is right. Of a packet without options and extension headers.
pub(crate) fn transport_checksum(frame: &[u8]) -> u16 {
    let ip = &frame[14..];
    let (mut summed, protocol, transport) = match ip[0] >> 4 {
        4 => (ip[12..20].to_vec(), ip[9], &ip[20..]),
        _ => (ip[8..40].to_vec(), ip[6], &ip[40..]),
    };
    summed.extend((transport.len() as u32).to_be_bytes());
    summed.extend([0, 0, 0, protocol]);
    summed.extend(transport);
    checksum(&summed)
}

/// The same frame with the checksums of its IPv4 header and of its TCP, UDP or ICMPv6.
pub(crate) fn with_checksums(mut frame: Vec<u8>) -> Vec<u8> {
    let (protocol, transport) = match frame[14] >> 4 {
        4 => (frame[23], 34),
        _ => (frame[20], 54),
    };
    if transport == 34 {
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let at = transport
        + match protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
    frame[at..at + 2].fill(0);
    let sum = transport_checksum(&frame);
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}
