// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Base SIDs.

use std::net::Ipv6Addr;

use super::error::SidError;

/// Node-IDs from here on belong to the local block.
const LOCAL_NODE_IDS: u16 = 0xe000;

/// The base SID of a shard's SID: the same without Argument and Slot.
///
/// A SID is `Block:Node-ID:Function and Argument:Slot::` in pieces of 48, 16, 16 (4 and 12) and 16
/// bits, the rest is padding (uSID format 48+16). The Function is kept, and may be any.
///
/// # Errors
/// What cannot be the SID of a shard, see [`SidError`].
pub const fn base_sid(sid: Ipv6Addr) -> Result<Ipv6Addr, SidError> {
    if sid.is_unspecified() {
        return Err(SidError::Unspecified);
    }
    if sid.is_multicast() {
        return Err(SidError::Multicast { sid });
    }
    if sid.to_ipv4_mapped().is_some() {
        return Err(SidError::Mapped { sid });
    }
    let [a, b, c, node_id, function, _, padding_a, padding_b] = sid.segments();
    if a & 0xffc0 == 0xfe80 {
        return Err(SidError::LinkLocal { sid });
    }
    if node_id == 0 || node_id >= LOCAL_NODE_IDS {
        return Err(SidError::NodeId { sid, node_id });
    }
    if padding_a != 0 || padding_b != 0 {
        return Err(SidError::Padding { sid });
    }
    let function = function & 0xf000;
    Ok(Ipv6Addr::new(a, b, c, node_id, function, 0, 0, 0))
}
