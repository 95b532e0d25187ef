// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The 44 bytes that are hashed.

use std::fmt;
use std::net::IpAddr;

use super::flow::{FlowFields, Ports};
use crate::abi;
use crate::hash::fnv1a_32;
use crate::maglev::TableSize;

/// The number that stands for a tenant in the hash.
///
/// By default that of the tenant's routing table. Machines that shall place a tenant's addresses
/// alike must give it one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashTable(pub u32);

/// The number that stands for a group's class in the hash: 0 for NAT66, others for the prefixes of
/// NAT64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashGroup(pub u8);

/// What a hash depends on beside the packet: tenant and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The tenant.
    pub table: HashTable,
    /// The class.
    pub group: HashGroup,
}

impl Scope {
    /// A tenant in the class of NAT66.
    #[must_use]
    pub const fn of(table: HashTable) -> Self {
        let group = HashGroup(0);
        Self { table, group }
    }
}

/// The version of IP of the tenant's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv6.
    Ipv6,
    /// IPv4.
    Ipv4,
}

impl Family {
    /// The number that is hashed: 0 for IPv6, 1 for IPv4.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ipv6 => abi::Family::GW_FAMILY_IPV6.0 as u8,
            Self::Ipv4 => abi::Family::GW_FAMILY_IPV4.0 as u8,
        }
    }

    /// The family of an address. An IPv6 address that maps an IPv4 one is an IPv6 address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V6(_) => Self::Ipv6,
            IpAddr::V4(_) => Self::Ipv4,
        }
    }
}

/// The 44 bytes that place a packet; the [module](super) says what is where.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HashKey([u8; Self::SIZE]);

impl HashKey {
    /// How many bytes.
    pub const SIZE: usize = 44;

    /// The key in source mode: of the packet, its source address alone.
    #[must_use]
    pub fn source(scope: Scope, source: IpAddr) -> Self {
        let mut key = Self::of(scope, Family::of(source));
        key.put(12, source);
        key
    }

    /// The key in flow mode.
    #[must_use]
    pub fn flow(scope: Scope, flow: &FlowFields) -> Self {
        let Ports {
            source,
            destination,
        } = flow.ports();
        let mut key = Self::of(scope, flow.family());
        key.0[5] = flow.protocol();
        key.0[8..10].copy_from_slice(&source.to_be_bytes());
        key.0[10..12].copy_from_slice(&destination.to_be_bytes());
        key.put(12, flow.source());
        key.put(28, flow.destination());
        key
    }

    fn of(scope: Scope, family: Family) -> Self {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&scope.table.0.to_le_bytes());
        bytes[4] = family.number();
        bytes[6] = scope.group.0;
        Self(bytes)
    }

    fn put(&mut self, at: usize, address: IpAddr) {
        match address {
            IpAddr::V6(address) => self.0[at..at + 16].copy_from_slice(&address.octets()),
            IpAddr::V4(address) => self.0[at..at + 4].copy_from_slice(&address.octets()),
        }
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::SIZE] {
        &self.0
    }

    /// FNV-1a with 32 bits of all 44 bytes.
    #[must_use]
    pub const fn hash32(&self) -> u32 {
        fnv1a_32(&self.0)
    }

    /// The slot in a table of this size.
    #[must_use]
    pub const fn slot(&self, size: TableSize) -> u32 {
        size.slot_by_modulo(self.hash32())
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}
