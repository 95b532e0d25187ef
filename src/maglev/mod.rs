// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Maglev tables: weighted consistent hashing with one lookup per packet.
//!
//! A table of `M` slots (a prime) is filled from a set of members so that each owns a share of the
//! slots in proportion to its weight and few slots change hands when the set changes. The same set
//! of `(key, weight)` gives the same owner for every slot on every machine: a member's place
//! depends on its key alone, never on the order of the input, on an index or on an address.
//!
//! ```
//! use guideway::maglev::{Member, Table, TableSize};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let old = Table::<u16>::build(
//!     TableSize::SERVICE,
//!     &[Member::new(b"1", 0, 1), Member::new(b"2", 1, 1), Member::new(b"3", 2, 2)],
//! )?;
//! assert_eq!(old.owner(old.size().slot_by_multiply_shift(0xdead_beef)), Some(&b"3"[..]));
//!
//! let new = Table::build(
//!     TableSize::SERVICE,
//!     &[Member::new(b"3", 2, 2), Member::new(b"1", 0, 1)],
//! )?;
//! let diff = old.diff(&new)?;
//! assert_eq!(diff.forced(), 16_384);
//! assert_ne!(old.digest(), new.digest());
//! # Ok(())
//! # }
//! ```
//!
//! # The construction
//!
//! *Keys.* `h(key, seed)` is FNV-1a 64 over the key and then the seed as eight big-endian bytes. A
//! member prefers the slots `(offset + j * skip) mod M` for `j = 0, 1, 2, ...`, where
//! `offset = h(key, 0xda7a5eed0ffce7e5) mod M` and
//! `skip = h(key, 0x5eedda7a1ceb00c5) mod (M - 1) + 1`. It meets every slot once, as `M` is prime.
//!
//! *Turns.* Members with a weight above zero that are eligible are *placed*. In every round, each
//! placed member in ascending byte order of keys adds its weight to a credit; when the credit
//! reaches the largest weight among the placed, it pays that much and takes a turn: it claims the
//! next slot of its list that is still free. With equal weights that is a plain round robin. The
//! claim of the last slot ends the fill.
//!
//! These rules are a wire format between nodes: [`Digest`] compares tables across a fleet, and a
//! change of any bit needs another format name. How the slots are found is not part of it: the
//! builder leaves out most of the probes that following the text takes, and finds the same slots.
//!
//! # Choosing a size
//!
//! Shares differ by one slot in `M / N`, so `M >= 100 N` keeps the imbalance within one percent
//! ([`TableSize::recommended`]). It does not make removal free: when one of `N` members leaves,
//! some slots of the others move too, around half a percent of the table at `M = 65537`.
//! [`Table::diff`] says how many before anything is published.
#![forbid(unsafe_code)]

mod build;
mod diff;
mod digest;
mod error;
mod fill;
mod fnv;
mod keys;
mod order;
mod scratch;
mod shares;
mod size;
mod slot;
mod table;
mod tail;
mod translate;
mod turns;

pub use build::{build_into, Built, Member};
pub use diff::{Diff, MemberDiff};
pub use digest::{Digest, ParseDigestError};
pub use error::{BuildError, DiffError, SizeError};
pub use scratch::Scratch;
pub use shares::{Share, Shares, Spread};
pub use size::TableSize;
pub use slot::SlotIndex;
pub use table::Table;
