// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The headers in front of a tenant's packet.

use std::net::Ipv6Addr;

use super::inner::{Inner, ETHERNET_BYTES};
use super::Packet;
use crate::encap::{Dscp, Ecn, Encap};
use crate::flow_label::flow_label;
use crate::reason::egress::End;
use crate::srv6::{NextHop, ENCAPSULATION_BYTES};

const ETHERTYPE_IPV6: u16 = 0x86dd;
const VERSION: u32 = 6;
const ECN_BITS: u8 = 3;

/// The way to a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) next_hop: NextHop,
    /// The shard's SID with the route's Argument.
    pub(super) destination: Ipv6Addr,
    /// Of the node, or of the group.
    pub(super) ecn: Ecn,
}

/// Whether the packet is whole, and fits the outer header's length field and the link.
pub(super) fn check_length(
    packet: &Packet<'_>,
    inner: &Inner<'_>,
    next_hop: NextHop,
) -> Result<(), End> {
    if !inner.is_whole() {
        return Err(End::Parse);
    }
    let most = usize::from(u16::MAX);
    // A packet too long for its own length field has 0 there, and is to be segmented.
    let segmented = packet.gso_bytes != 0 && inner.frame_bytes() > most;
    if segmented || inner.bytes as usize > most {
        return Err(End::TooLong);
    }
    let bytes = inner.crossing_bytes().saturating_add(ENCAPSULATION_BYTES);
    match next_hop.mtu().get() {
        0 => Ok(()),
        mtu if bytes <= mtu => Ok(()),
        _ => Err(End::TooBig),
    }
}

/// What `frame`, the packet's, becomes on the way to the shard: SRv6 with one segment, reduced (RFC
/// 8986, section 5.2).
pub(super) fn encapsulate(
    frame: &[u8],
    inner: &Inner<'_>,
    encap: &Encap,
    source: Ipv6Addr,
    hop: &Hop,
) -> Vec<u8> {
    let dscp = match encap.dscp {
        Dscp::Zero => 0,
        Dscp::Copy => inner.traffic_class >> 2,
        Dscp::Fixed(value) => value.get(),
    };
    let ecn = match hop.ecn {
        Ecn::Compatibility => 0,
        Ecn::Normal => inner.traffic_class & ECN_BITS,
    };
    let label = if encap.flow_label {
        flow_label(inner.source, inner.destination, inner.label_subject())
    } else {
        0
    };
    let first = VERSION << 28 | u32::from(dscp << 2 | ecn) << 20 | label;

    let mut out = Vec::with_capacity(frame.len() + ENCAPSULATION_BYTES as usize);
    out.extend(hop.next_hop.destination().octets());
    out.extend(hop.next_hop.source().octets());
    out.extend(ETHERTYPE_IPV6.to_be_bytes());
    out.extend(first.to_be_bytes());
    // It fits: the length is checked before.
    out.extend((inner.bytes as u16).to_be_bytes());
    out.extend([inner.number(), encap.hop_limit]);
    out.extend(source.octets());
    out.extend(hop.destination.octets());
    out.extend(frame.get(ETHERNET_BYTES..).unwrap_or_default());
    out
}
