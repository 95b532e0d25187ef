// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Routes of tenants: where packets to a prefix go.
//!
//! The route with the longest prefix decides, among those of the tenant's table and of the packet's
//! family. Where none matches, the packet is none of ours and passes untouched.
//!
//! ```
//! use guideway::route::{Key, Route, TableId, Target};
//! use guideway::srv6::{Argument, Mtu, NextHop};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (source, destination) = ("02:00:00:00:00:01".parse()?, "02:00:00:00:00:02".parse()?);
//! let key = Key::new(TableId::new(42), "2001:db8::/32".parse()?);
//! let route = Route::new(Target::Shard {
//!     argument: Argument::new(0x2a5)?,
//!     sid: "2001:db8:ff09:10:e000::".parse()?,
//!     next_hop: NextHop::new(7, source, destination, Mtu::UNCHECKED)?,
//! });
//! // As the kernel has them.
//! assert_eq!(Key::from_row(&key.to_row())?, key);
//! assert_eq!(Route::from_row(&key, &route.to_row())?, route);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod key;
mod prefix;
mod target;

pub use key::{Key, TableId};
pub use prefix::{InvalidPrefix, Prefix};
pub use target::{Block, Origin, Route, Target};

/// A row of the kernel's maps that no writer of this library makes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{row}: {field} {value} makes no sense")]
#[non_exhaustive]
pub struct RowError {
    /// Which row.
    pub row: String,
    /// Which part of it, by its name in the ABI.
    pub field: &'static str,
    /// What stands there.
    pub value: String,
}

impl RowError {
    /// `value` in `field` of `row`.
    pub(crate) fn new(row: impl ToString, field: &'static str, value: impl ToString) -> Self {
        let (row, value) = (row.to_string(), value.to_string());
        Self { row, field, value }
    }
}
