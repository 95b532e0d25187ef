// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! IPv4 and IPv6 headers, of a frame's packet and of a packet quoted in an ICMP error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Bytes, Fragment, IpHeader};
use crate::reason::Reason;

const MAX_EXT_HEADERS: usize = 6;
const MAX_EXT_BYTES: usize = 512;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// Which packet a header belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The frame's own: complete.
    Outer,
    /// One quoted in an ICMP error: it may be cut, and first fragments are read on.
    Quoted,
}

impl Role {
    /// Whether a fragment of this kind is not to be read on.
    fn stops_at(self, fragment: Fragment) -> bool {
        match self {
            Self::Outer => fragment != Fragment::None,
            Self::Quoted => fragment == Fragment::Later,
        }
    }
}

/// What an IP header says.
pub(super) struct Ip<'a> {
    /// The bytes up to the end of the packet.
    pub(super) packet: Bytes<'a>,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    pub(super) l4_offset: usize,
    /// A fragment that is not to be read on.
    pub(super) fragment: bool,
}

/// Reads an IPv4 header; what is read of it is written to `seen`.
pub(super) fn v4<'a>(
    bytes: Bytes<'a>,
    at: usize,
    role: Role,
    seen: &mut Option<IpHeader>,
) -> Result<Ip<'a>, Reason> {
    let bad = Reason::BadIpv4;
    let header: [u8; 20] = bytes.read(at).ok_or(bad)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < header.len() {
        return Err(bad);
    }
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let packet = packet(bytes, at + total_len, role).ok_or(bad)?;
    let l4_offset = at + header_len;
    if l4_offset > packet.end {
        return Err(bad);
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let fragment = Fragment::of(fragment & 0x1fff, fragment & 0x2000 != 0);
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let ip = IpHeader {
        source: address(12).into(),
        destination: address(16).into(),
        protocol: header[9],
        fragment,
        ports: None,
    };
    *seen = Some(ip);
    Ok(Ip {
        packet,
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        l4_offset,
        fragment: role.stops_at(fragment),
    })
}

/// Reads an IPv6 header, and walks the extension headers; what is read of them is written to
/// `seen`.
pub(super) fn v6<'a>(
    bytes: Bytes<'a>,
    at: usize,
    role: Role,
    seen: &mut Option<IpHeader>,
) -> Result<Ip<'a>, Reason> {
    let bad = Reason::BadIpv6;
    let header: [u8; 40] = bytes.read(at).ok_or(bad)?;
    if header[0] >> 4 != 6 {
        return Err(bad);
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload_at = at + header.len();
    let packet = packet(bytes, payload_at + payload_len, role).ok_or(bad)?;
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let ip = seen.insert(IpHeader {
        source: address(8).into(),
        destination: address(24).into(),
        protocol: header[6],
        fragment: Fragment::None,
        ports: None,
    });

    let mut l4_offset = payload_at;
    let mut headers = 0;
    while !role.stops_at(ip.fragment)
        && matches!(
            ip.protocol,
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
        )
    {
        headers += 1;
        if headers > MAX_EXT_HEADERS {
            return Err(Reason::ExtHeaders);
        }
        let ext: [u8; 8] = packet.read(l4_offset).ok_or(bad)?;
        if ip.protocol == ROUTING && ext[3] > 0 {
            return Err(Reason::RoutingHeader);
        }
        let units = usize::from(ext[1]);
        l4_offset += match ip.protocol {
            FRAGMENT => 8,
            AUTHENTICATION => 4 * (units + 2),
            _ => 8 * (units + 1),
        };
        if l4_offset - payload_at > MAX_EXT_BYTES {
            return Err(Reason::ExtHeaders);
        }
        if l4_offset > packet.end {
            return Err(bad);
        }
        if ip.protocol == FRAGMENT {
            let field = u16::from_be_bytes([ext[2], ext[3]]);
            ip.fragment = Fragment::of(field >> 3, field & 1 != 0);
        }
        ip.protocol = ext[0];
    }
    let fragment = role.stops_at(ip.fragment);
    if !fragment && matches!(ip.protocol, MOBILITY | HOST_IDENTITY | SHIM6) {
        return Err(Reason::ExtHeaders);
    }
    Ok(Ip {
        packet,
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        l4_offset,
        fragment,
    })
}

/// The bytes up to the end that a header declares.
fn packet(bytes: Bytes<'_>, declared_end: usize, role: Role) -> Option<Bytes<'_>> {
    let end = match role {
        Role::Outer if declared_end > bytes.end => return None,
        Role::Outer | Role::Quoted => declared_end.min(bytes.end),
    };
    Some(Bytes { end, ..bytes })
}
