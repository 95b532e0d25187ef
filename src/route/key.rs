// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a route is found by.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::{Prefix, RowError};
use crate::abi;
use crate::placement::Family;

const KEY_BITS: u32 = abi::RouteKeyBits::GW_ROUTE_KEY_BITS.0;

/// Number of a tenant, whose interfaces, routes and pins carry it. Linux's number of the tenant's
/// routing table, say; any number is one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct TableId(u32);

impl TableId {
    /// The tenant of this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A tenant and a prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Whose route.
    pub table: TableId,
    /// Of packets to where.
    pub prefix: Prefix,
}

impl Key {
    /// Of this tenant and prefix.
    #[must_use]
    pub const fn new(table: TableId, prefix: Prefix) -> Self {
        Self { table, prefix }
    }

    /// As the kernel has it.
    #[must_use]
    pub fn to_row(self) -> abi::RouteKey {
        let mut row = abi::RouteKey {
            prefixlen: KEY_BITS + u32::from(self.prefix.bits()),
            table_id: self.table.get(),
            family: self.prefix.family().number(),
            ..Default::default()
        };
        match self.prefix.address() {
            IpAddr::V6(address) => row.address = address.octets(),
            IpAddr::V4(address) => row.address[..4].copy_from_slice(&address.octets()),
        }
        row
    }

    /// Reads what [`to_row`](Self::to_row) makes.
    ///
    /// # Errors
    /// Anything that it does not make.
    pub fn from_row(row: &abi::RouteKey) -> Result<Self, RowError> {
        let at = |field, value: String| {
            RowError::new(
                format_args!("key of a route of table {}", row.table_id),
                field,
                value,
            )
        };
        let [a, b, c, d, rest @ ..] = row.address;
        let address = match row.family {
            family if family == Family::Ipv6.number() => Ipv6Addr::from(row.address).into(),
            family if family == Family::Ipv4.number() && rest == [0; 12] => {
                Ipv4Addr::from([a, b, c, d]).into()
            }
            family if family == Family::Ipv4.number() => {
                return Err(at("address", format!("{:?}", row.address)))
            }
            family => return Err(at("family", family.to_string())),
        };
        if row.zero != [0; 3] {
            return Err(at("zero", format!("{:?}", row.zero)));
        }
        let bits = row.prefixlen.checked_sub(KEY_BITS);
        let prefix = bits.and_then(|bits| Prefix::new(address, bits).ok());
        let prefix = prefix.ok_or_else(|| at("prefixlen", row.prefixlen.to_string()))?;
        Ok(Self::new(TableId::new(row.table_id), prefix))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of table {}", self.prefix, self.table)
    }
}
