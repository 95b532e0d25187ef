// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Prefixes of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::group::Class;
use crate::placement::Family;

/// The addresses that agree in their first bits. IPv6 before IPv4, then by address and length.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// What is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPrefix {
    /// The text has another form.
    #[error("{text:?} is not an address, '/' and a length")]
    Text {
        /// The text.
        text: String,
    },
    /// More bits than an address has.
    #[error("prefix {address}/{bits} has {bits} bits, more than {max}")]
    Length {
        /// The address.
        address: IpAddr,
        /// How many bits.
        bits: u32,
        /// How many an address of its family has.
        max: u8,
    },
    /// Bits behind the prefix are set.
    #[error("prefix {address}/{bits} has host bits set; the prefix is {prefix}")]
    HostBits {
        /// The address.
        address: IpAddr,
        /// How many bits count.
        bits: u8,
        /// The prefix that the address is in.
        prefix: Prefix,
    },
}

impl Prefix {
    /// All of IPv6.
    pub const DEFAULT_IPV6: Self = Self {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        bits: 0,
    };
    /// All of IPv4.
    pub const DEFAULT_IPV4: Self = Self {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        bits: 0,
    };

    /// The first `bits` of `address`, whose other bits are zero.
    ///
    /// # Errors
    /// More bits than the address has, or others that are not zero.
    pub fn new(address: IpAddr, bits: u32) -> Result<Self, InvalidPrefix> {
        let max = max_bits(address);
        let short = u8::try_from(bits).ok().filter(|&bits| bits <= max);
        let Some(bits) = short else {
            return Err(InvalidPrefix::Length { address, bits, max });
        };
        let prefix = Self {
            address: masked(address, bits),
            bits,
        };
        if prefix.address != address {
            return Err(InvalidPrefix::HostBits {
                address,
                bits,
                prefix,
            });
        }
        Ok(prefix)
    }

    /// Its first address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Which version of IP it is of.
    #[must_use]
    pub const fn family(self) -> Family {
        Family::of(self.address)
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && masked(address, self.bits) == self.address
    }
}

const fn max_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V6(_) => 128,
        IpAddr::V4(_) => 32,
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let drop = u32::from(max_bits(address).saturating_sub(bits));
    match address {
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(drop).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(drop).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
    }
}

impl From<Class> for Prefix {
    /// The prefix of tenants' routes to the class.
    fn from(class: Class) -> Self {
        let (address, bits) = class.prefix();
        Self {
            address: address.into(),
            bits,
        }
    }
}

impl Ord for Prefix {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |prefix: &Self| (prefix.family(), prefix.address, prefix.bits);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(address, bits)| {
            // A number has no sign here.
            let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
            let bits = bits.parse().ok().filter(|_| digits)?;
            Some((address.parse().ok()?, bits))
        });
        let (address, bits) = parts.ok_or_else(|| InvalidPrefix::Text {
            text: text.to_owned(),
        })?;
        Self::new(address, bits)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
