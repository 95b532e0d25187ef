// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which shard of a group carries a tenant's packet: the hash of the packet, the slot of the hash,
//! the owner of the slot.
//!
//! ```
//! use guideway::maglev::TableSize;
//! use guideway::placement::{place, HashKey, HashTable, Scope, Shard};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shards = [
//!     Shard::new("2001:db8:ff09:10:e000::".parse()?),
//!     Shard::new("2001:db8:ff09:11:e000::".parse()?),
//!     Shard::new("2001:db8:ff09:12:e000::".parse()?),
//! ];
//! let key = HashKey::source(Scope::of(HashTable(42)), "2001:db8:aaaa::7".parse()?);
//! let placement = place(TableSize::SHARD, &shards, &key)?;
//! assert_eq!(placement.hash, 0x0c29_e964);
//! assert_eq!(placement.slot, 941);
//! assert_eq!(placement.shard, Some(shards[0].sid));
//! # Ok(())
//! # }
//! ```
//!
//! # The hash
//!
//! FNV-1a with 32 bits over 44 bytes; `slot = hash % M`. What a mode does not use is zero, and is
//! hashed all the same.
//!
//! | bytes | content | source mode | flow mode |
//! |---|---|---|---|
//! | 0-3 | [`HashTable`], little-endian on every machine | yes | yes |
//! | 4 | [`Family`] | yes | yes |
//! | 5 | protocol | 0 | yes |
//! | 6 | [`HashGroup`] | yes | yes |
//! | 7 | 0 | | |
//! | 8-9, 10-11 | source and destination port, as on the wire | 0 | yes |
//! | 12-27 | source address; IPv4 in the first four bytes | yes | yes |
//! | 28-43 | destination address, likewise | 0 | yes |
//!
//! In *source* mode everything that one address sends goes to one shard, whatever its protocol and
//! ports (RFC 4787, REQ-2: paired pooling). In *flow* mode the flows of one address spread;
//! [`FlowFields`] says what of a packet counts.
//!
//! The same bits come out of a [`HashKey`] and of the folded states [`Fnv5`] and [`Fnv12`], which
//! begin with what is the same for all packets of a route.
//!
//! # The table
//!
//! A [`Table`](crate::maglev::Table) whose keys are the canonical texts (RFC 5952) of the base SIDs
//! of the active shards, see [`member_key`]. With equal weights and 1,021 slots every slot belongs
//! to the shard that the shard groups of datum-cloud/galactic give it, and equal keys of packets
//! meet in equal slots: nodes of both kinds agree. [`upstream_compatible`] tells whether a group is
//! one of these.
#![forbid(unsafe_code)]
// The result is the same on every machine.
#![deny(clippy::host_endian_bytes)]

mod error;
mod flow;
mod folded;
mod key;
mod shards;

pub use error::ShardError;
pub use flow::{FlowFields, Ports};
pub use folded::{Fnv12, Fnv5};
pub use key::{Family, HashGroup, HashKey, HashTable, Scope};
pub use shards::{member_key, place, upstream_compatible, Placement, Shard, ShardTable};
