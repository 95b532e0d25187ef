// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What cannot be placed on.

use std::net::Ipv6Addr;

use thiserror::Error;

use crate::maglev::BuildError;

/// An address that cannot be the SID of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SidError {
    /// `::`.
    #[error("SID :: is the unspecified address")]
    Unspecified,
    /// A group address.
    #[error("SID {sid} is a multicast address")]
    Multicast {
        /// The address.
        sid: Ipv6Addr,
    },
    /// An IPv4 address in the form of an IPv6 address.
    #[error("SID {sid} is a mapped IPv4 address")]
    Mapped {
        /// The address.
        sid: Ipv6Addr,
    },
    /// An address of `fe80::/10`.
    #[error("SID {sid} is a link-local address")]
    LinkLocal {
        /// The address.
        sid: Ipv6Addr,
    },
    /// A Node-ID that no node can have.
    #[error("SID {sid} has Node-ID {node_id:#06x}, allowed are 0x0001 to 0xdfff")]
    NodeId {
        /// The address.
        sid: Ipv6Addr,
        /// Its bits 48 to 63.
        node_id: u16,
    },
    /// Bits behind the Slot.
    #[error("SID {sid} has bits set in its last four bytes, which are padding")]
    Padding {
        /// The address.
        sid: Ipv6Addr,
    },
}

/// Shards that do not make a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A SID that no shard can have.
    #[error(transparent)]
    Sid(#[from] SidError),
    /// A SID with an Argument or Slot. Its text would give the shard other slots.
    #[error("shard {sid} has an Argument or Slot; its base SID is {base}")]
    NotBase {
        /// The SID.
        sid: Ipv6Addr,
        /// The base SID to name the shard by.
        base: Ipv6Addr,
    },
    /// One shard is given with two weights.
    #[error("shard {sid} is given with weight {first} and with weight {second}")]
    Weights {
        /// The shard.
        sid: Ipv6Addr,
        /// The lower weight.
        first: u32,
        /// The higher one.
        second: u32,
    },
    /// More shards than a group can have.
    #[error("{given} shards were given; a group has {max} at most")]
    TooMany {
        /// Different shards given.
        given: usize,
        /// The greatest number.
        max: usize,
    },
    /// More slots than a group's table can have.
    #[error("table size {requested} is too large for a group; the largest is {max}")]
    TableTooLarge {
        /// The size.
        requested: u32,
        /// The largest.
        max: u32,
    },
    /// The table cannot be built: it has fewer slots than there are shards.
    #[error(transparent)]
    Build(#[from] BuildError),
}
