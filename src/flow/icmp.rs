// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! ICMP errors about packets that a service sent.

use super::ip::{self, Ip, Role};
use super::{IcmpError, IcmpHeader, PROTOCOL_TCP, PROTOCOL_UDP};
use crate::reason::Reason;
use crate::service::Protocol;

const DESTINATION_UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;

const V6_DESTINATION_UNREACHABLE: u8 = 1;
const V6_PACKET_TOO_BIG: u8 = 2;
const V6_TIME_EXCEEDED: u8 = 3;

/// Reads an ICMP or ICMPv6 message that is an error about a packet; what is read of it is written
/// to `seen`.
pub(super) fn error(outer: &Ip<'_>, seen: &mut Option<IcmpHeader>) -> Result<IcmpError, Reason> {
    let header: [u8; 8] = outer.packet.read(outer.l4_offset).ok_or(Reason::IcmpBad)?;
    let seen = seen.insert(IcmpHeader {
        icmp_type: header[0],
        code: header[1],
        quoted: None,
    });
    let is_v4 = outer.source.is_ipv4();
    let is_error = match header[0] {
        DESTINATION_UNREACHABLE | TIME_EXCEEDED if is_v4 => true,
        V6_DESTINATION_UNREACHABLE | V6_PACKET_TOO_BIG | V6_TIME_EXCEEDED if !is_v4 => true,
        _ => false,
    };
    if !is_error {
        return Err(Reason::IcmpOther);
    }
    let l3_offset = outer.l4_offset + header.len();
    let quoted = if is_v4 {
        ip::v4(outer.packet, l3_offset, Role::Quoted, &mut seen.quoted)
    } else {
        ip::v6(outer.packet, l3_offset, Role::Quoted, &mut seen.quoted)
    };
    let quoted = quoted.map_err(|_| Reason::IcmpBad)?;
    if quoted.fragment || quoted.source != outer.destination {
        return Err(Reason::IcmpBad);
    }
    let protocol = match quoted.protocol {
        PROTOCOL_TCP => Protocol::Tcp,
        PROTOCOL_UDP => Protocol::Udp,
        _ => return Err(Reason::IcmpBad),
    };
    let l4: [u8; 8] = quoted
        .packet
        .read(quoted.l4_offset)
        .ok_or(Reason::IcmpBad)?;
    let source_port = u16::from_be_bytes([l4[0], l4[1]]);
    let destination_port = u16::from_be_bytes([l4[2], l4[3]]);
    if let Some(seen) = &mut seen.quoted {
        seen.ports = Some((source_port, destination_port));
    }
    let payload_at = quoted.l4_offset + l4.len();
    let payload_end = match quoted.protocol {
        PROTOCOL_UDP => {
            let udp_len = usize::from(u16::from_be_bytes([l4[4], l4[5]]));
            (quoted.l4_offset + udp_len).min(quoted.packet.end)
        }
        _ => payload_at,
    };
    if payload_end < payload_at {
        return Err(Reason::IcmpBad);
    }
    Ok(IcmpError {
        icmp_type: header[0],
        code: header[1],
        l3_offset,
        l4_offset: quoted.l4_offset,
        destination: quoted.destination,
        protocol,
        source_port,
        destination_port,
        payload: payload_at..payload_end,
    })
}
