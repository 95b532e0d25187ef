// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Tenants: whose packets an interface brings.
//!
//! A tenant is what its table stands for: several interfaces may be one tenant's, whose rows then
//! differ in their gateway addresses and flags at most.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::abi::{self, TenantFlag};
use crate::placement::HashTable;
use crate::route::{RowError, TableId};
use crate::srv6::Argument;

const ENABLED: u16 = TenantFlag::GW_TENANT_ENABLED.0 as u16;
const ICMP: u16 = TenantFlag::GW_TENANT_ICMP.0 as u16;
const MSS: u16 = TenantFlag::GW_TENANT_MSS.0 as u16;

/// How many pins a tenant may have, of both kinds together. Who has no more goes where the table
/// says, without a pin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct PinQuota(pub u32);

impl PinQuota {
    /// No new pins.
    pub const NONE: Self = Self(0);
    /// As many as there is room for.
    pub const UNLIMITED: Self = Self(u32::MAX);
    /// The least of [`share_of`](Self::share_of).
    pub const MIN_SHARE: u32 = 1024;

    /// What a tenant gets unless something else is asked for: a sixteenth of all there are, and at
    /// least 1,024.
    #[must_use]
    pub const fn share_of(pins: u32) -> Self {
        let share = pins / 16;
        Self(if share < Self::MIN_SHARE {
            Self::MIN_SHARE
        } else {
            share
        })
    }
}

/// What is known of a tenant at one of its interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tenant {
    /// Whose packets they are.
    pub table: TableId,
    /// What placement hashes for the tenant.
    pub hash_table: HashTable,
    /// Of the outer source address.
    pub argument: Argument,
    /// Whether packets are looked at. Those of a disabled interface pass untouched.
    pub enabled: bool,
    /// Whether packets that are too big, or may go nowhere, are answered.
    pub icmp: bool,
    /// Whether the segment size that TCP announces is lowered to what fits.
    pub mss: bool,
    /// How many pins the tenant may have.
    pub pin_quota: PinQuota,
    /// Who answers over IPv6; nobody: packets are dropped without a word.
    pub gateway6: Option<Ipv6Addr>,
    /// Who answers over IPv4.
    pub gateway4: Option<Ipv4Addr>,
}

impl Tenant {
    /// An enabled tenant that hashes by its own number, is not answered, and has as many pins as
    /// there is room for.
    #[must_use]
    pub const fn new(table: TableId, argument: Argument) -> Self {
        Self {
            table,
            hash_table: HashTable(table.get()),
            argument,
            enabled: true,
            icmp: false,
            mss: false,
            pin_quota: PinQuota::UNLIMITED,
            gateway6: None,
            gateway4: None,
        }
    }

    /// In what a row of the same table disagrees that must be one for all of a tenant: the name in
    /// the ABI, and both values.
    #[must_use]
    pub fn contradiction(&self, other: &Self) -> Option<(&'static str, u32, u32)> {
        let shared = |tenant: &Self| {
            [
                ("argument", tenant.argument.get().into()),
                ("hash_table", tenant.hash_table.0),
                ("pin_quota", tenant.pin_quota.0),
            ]
        };
        let mut pairs = shared(self).into_iter().zip(shared(other));
        let differing = pairs.find(|((_, one), (_, two))| one != two);
        differing.map(|((name, one), (_, two))| (name, one, two))
    }

    /// As the kernel has it for interface `ifindex`.
    #[must_use]
    pub fn to_row(&self, ifindex: u32) -> abi::Tenant {
        let flag = |set, flag| if set { flag } else { 0 };
        abi::Tenant {
            ifindex,
            table_id: self.table.get(),
            hash_table: self.hash_table.0,
            argument: self.argument.get(),
            flags: flag(self.enabled, ENABLED) | flag(self.icmp, ICMP) | flag(self.mss, MSS),
            pin_quota: self.pin_quota.0,
            gateway6: self.gateway6.map_or([0; 16], |address| address.octets()),
            gateway4: self.gateway4.map_or([0; 4], |address| address.octets()),
            ..Default::default()
        }
    }

    /// Reads what [`to_row`](Self::to_row) makes, found under the key `ifindex`.
    ///
    /// # Errors
    /// Anything that it does not make: another writer's mistake, or another version's row.
    pub fn from_row(ifindex: u32, row: &abi::Tenant) -> Result<Self, RowError> {
        let at = |field, value: String| {
            RowError::new(format_args!("tenant at ifindex {ifindex}"), field, value)
        };
        if row.ifindex != ifindex {
            return Err(at("ifindex", row.ifindex.to_string()));
        }
        if row.flags & !(ENABLED | ICMP | MSS) != 0 {
            return Err(at("flags", format!("{:#x}", row.flags)));
        }
        let address6 = Ipv6Addr::from(row.gateway6);
        let address4 = Ipv4Addr::from(row.gateway4);
        let tenant = Self {
            table: TableId::new(row.table_id),
            hash_table: HashTable(row.hash_table),
            argument: Argument::new(row.argument.into())
                .map_err(|_| at("argument", format!("{:#x}", row.argument)))?,
            enabled: row.flags & ENABLED != 0,
            icmp: row.flags & ICMP != 0,
            mss: row.flags & MSS != 0,
            pin_quota: PinQuota(row.pin_quota),
            gateway6: Some(address6).filter(|address| !address.is_unspecified()),
            gateway4: Some(address4).filter(|address| !address.is_unspecified()),
        };
        if bytemuck::bytes_of(&tenant.to_row(ifindex)) != bytemuck::bytes_of(row) {
            return Err(at("zero", "is not 0 and".to_owned()));
        }
        Ok(tenant)
    }
}
