// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The rules of the hash, transcribed as directly as they can be: 44 bytes, one after the other.

use std::net::{IpAddr, Ipv6Addr};

/// What a packet has, by the names of the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) hash_table: u32,
    pub(crate) hash_group: u8,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// IPv4: the protocol. IPv6: the first next header.
    pub(crate) protocol: u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// IPv4: More Fragments or an offset.
    pub(crate) is_fragment: bool,
}

/// The bytes in source mode.
pub(crate) fn source_key(packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![
        (packet.hash_table % 256) as u8,
        (packet.hash_table / 256 % 256) as u8,
        (packet.hash_table / 65_536 % 256) as u8,
        (packet.hash_table / 16_777_216) as u8,
        u8::from(packet.source.is_ipv4()),
        0,
        packet.hash_group,
        0,
        0,
        0,
        0,
        0,
    ];
    bytes.extend(padded(packet.source));
    bytes.extend([0; 16]);
    bytes
}

/// The bytes in flow mode.
pub(crate) fn flow_key(packet: &Packet) -> Vec<u8> {
    let mut bytes = source_key(packet);
    bytes[5] = packet.protocol;
    if (packet.protocol == 6 || packet.protocol == 17) && !packet.is_fragment {
        bytes[8] = (packet.source_port / 256) as u8;
        bytes[9] = (packet.source_port % 256) as u8;
        bytes[10] = (packet.destination_port / 256) as u8;
        bytes[11] = (packet.destination_port % 256) as u8;
    }
    bytes.truncate(28);
    bytes.extend(padded(packet.destination));
    bytes
}

fn padded(address: IpAddr) -> Vec<u8> {
    let mut bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    bytes.resize(16, 0);
    bytes
}

/// FNV-1a with 32 bits, in arithmetic that cannot overflow.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    let mut state: u64 = 2_166_136_261;
    for byte in bytes {
        state = (state ^ u64::from(*byte)) * 16_777_619 % (1 << 32);
    }
    state as u32
}

/// The canonical text of an address that maps no IPv4 address (RFC 5952, section 4): no leading
/// zeros, lower case, `::` for the longest run of two or more zero fields, the first of equals.
pub(crate) fn text(address: Ipv6Addr) -> String {
    let fields: Vec<String> = address
        .octets()
        .chunks(2)
        .map(|pair| format!("{:x}", u32::from(pair[0]) * 256 + u32::from(pair[1])))
        .collect();
    let run = |start: usize| {
        fields[start..]
            .iter()
            .take_while(|field| *field == "0")
            .count()
    };
    let (mut start, mut length) = (0, 1);
    for at in 0..8 {
        if run(at) > length {
            (start, length) = (at, run(at));
        }
    }
    if length < 2 {
        return fields.join(":");
    }
    let (before, after) = (&fields[..start], &fields[start + length..]);
    format!("{}::{}", before.join(":"), after.join(":"))
}
