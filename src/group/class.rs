// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Kinds of translation, and which of them a route belongs to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::limits::Limits;
use crate::placement::HashGroup;

/// The prefix of a NAT64: an IPv6 prefix of 96 bits, before the IPv4 address (RFC 6052).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nat64Prefix(Ipv6Addr);

/// No prefix of a NAT64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Nat64PrefixError {
    /// The text is no IPv6 prefix.
    #[error("NAT64 prefix is not an IPv6 address, '/' and a length")]
    Text,
    /// A prefix of IPv4.
    #[error("NAT64 prefix {address}/{bits} is an IPv4 prefix")]
    Ipv4 {
        /// Its address.
        address: std::net::Ipv4Addr,
        /// Its length.
        bits: u8,
    },
    /// Another length than 96.
    #[error("NAT64 prefix {address}/{bits} has {bits} bits, not 96")]
    Length {
        /// Its address.
        address: Ipv6Addr,
        /// Its length.
        bits: u8,
    },
    /// Something behind the 96 bits.
    #[error("NAT64 prefix {address}/96 has host bits {host:#010x}, not 0")]
    HostBits {
        /// Its address.
        address: Ipv6Addr,
        /// The last 32 bits.
        host: u32,
    },
}

impl Nat64Prefix {
    /// The length of every such prefix.
    pub const BITS: u8 = 96;
    /// The well-known prefix, `64:ff9b::/96` (RFC 6052).
    pub const WELL_KNOWN: Self = Self(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0));

    /// The prefix of `bits` bits that begins with `address`.
    ///
    /// # Errors
    /// IPv4, another length than 96 and bits set behind it.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, Nat64PrefixError> {
        let address = match address {
            IpAddr::V4(address) => return Err(Nat64PrefixError::Ipv4 { address, bits }),
            IpAddr::V6(address) => address,
        };
        if bits != Self::BITS {
            return Err(Nat64PrefixError::Length { address, bits });
        }
        // The last 32 of 128 bits.
        match address.to_bits() as u32 {
            0 => Ok(Self(address)),
            host => Err(Nat64PrefixError::HostBits { address, host }),
        }
    }

    /// The address it begins with.
    #[must_use]
    pub const fn address(self) -> Ipv6Addr {
        self.0
    }
}

impl FromStr for Nat64Prefix {
    type Err = Nat64PrefixError;

    fn from_str(text: &str) -> Result<Self, Nat64PrefixError> {
        let (address, bits) = text.split_once('/').ok_or(Nat64PrefixError::Text)?;
        let plain = bits.bytes().all(|byte| byte.is_ascii_digit());
        match (address.parse(), bits.parse()) {
            (Ok(address), Ok(bits)) if plain => Self::new(address, bits),
            _ => Err(Nat64PrefixError::Text),
        }
    }
}

impl fmt::Display for Nat64Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, Self::BITS)
    }
}

impl fmt::Debug for Nat64Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nat64Prefix({self})")
    }
}

/// A kind of translation. Kind and prefix are its identity, never a place in a list.
///
/// Its text is `nat66` or `nat64:` and the prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// IPv6 to IPv6, for `::/0`.
    Nat66,
    /// IPv6 to IPv4, for this prefix.
    Nat64(Nat64Prefix),
}

impl Class {
    /// The prefix that tenants' routes to it have: address and length.
    #[must_use]
    pub const fn prefix(self) -> (Ipv6Addr, u8) {
        match self {
            Self::Nat66 => (Ipv6Addr::UNSPECIFIED, 0),
            Self::Nat64(prefix) => (prefix.address(), Nat64Prefix::BITS),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nat66 => f.write_str("nat66"),
            Self::Nat64(prefix) => write!(f, "nat64:{prefix}"),
        }
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The classes that a node is configured for, in their order; NAT66 always is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Classes(Vec<ConfiguredClass>);

/// One class of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConfiguredClass {
    /// The class.
    pub class: Class,
    /// The number that placement hashes for it; none leaves it to
    /// [`allocate`](super::allocate).
    pub hash_group: Option<HashGroup>,
}

impl From<Class> for ConfiguredClass {
    fn from(class: Class) -> Self {
        Self {
            class,
            hash_group: None,
        }
    }
}

/// Classes that no node can have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassesError {
    /// One class twice. The numbers are places in the list.
    #[error("entries {first} and {second} are both {class}")]
    Duplicate {
        /// The class.
        class: Class,
        /// Where it is first.
        first: usize,
        /// Where it is again.
        second: usize,
    },
    /// More than groups.
    #[error("{classes} classes are configured, NAT66 included, but there is room for {groups}")]
    TooMany {
        /// Classes, with NAT66.
        classes: usize,
        /// The limit on groups.
        groups: u8,
    },
}

impl Classes {
    /// These classes; NAT66 comes first if it is not among them.
    ///
    /// # Errors
    /// A class that is there twice, and more classes than groups.
    pub fn new(
        classes: impl IntoIterator<Item = ConfiguredClass>,
        limits: Limits,
    ) -> Result<Self, ClassesError> {
        let mut list: Vec<ConfiguredClass> = classes.into_iter().collect();
        for (second, entry) in list.iter().enumerate() {
            let same = |other: &ConfiguredClass| other.class == entry.class;
            if let Some(first) = list[..second].iter().position(same) {
                return Err(ClassesError::Duplicate {
                    class: entry.class,
                    first,
                    second,
                });
            }
        }
        if list.iter().all(|entry| entry.class != Class::Nat66) {
            list.insert(0, Class::Nat66.into());
        }
        if list.len() > limits.groups().into() {
            return Err(ClassesError::TooMany {
                classes: list.len(),
                groups: limits.groups(),
            });
        }
        Ok(Self(list))
    }

    /// The classes in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ConfiguredClass> + '_ {
        self.0.iter().copied()
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn contains(&self, class: Class) -> bool {
        self.0.iter().any(|entry| entry.class == class)
    }

    /// The class of a route to this prefix: NAT66 for `::/0`, NAT64 for a configured prefix, and
    /// none, so that no rule of classes touches it, for any other.
    #[must_use]
    pub fn of_route(&self, address: IpAddr, bits: u8) -> Option<Class> {
        let IpAddr::V6(address) = address else {
            return None;
        };
        let classes = self.0.iter().map(|entry| entry.class);
        classes
            .into_iter()
            .find(|class| class.prefix() == (address, bits))
    }
}
