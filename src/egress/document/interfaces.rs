// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The names of this machine's interfaces.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::egress::warnings;
use crate::kernel::attach::interface_name;
use crate::kernel::netdev::{self, Interface};
use crate::kernel::SysError;

/// An interface as documents name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfaceName {
    /// Its index.
    pub ifindex: u32,
    /// Its name; none where it does not exist any more.
    pub name: Option<String>,
}

impl InterfaceName {
    /// What the interface with this index is called now.
    pub(crate) fn of(ifindex: u32) -> Self {
        let name = interface_name(ifindex);
        Self { ifindex, name }
    }
}

impl std::fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "index {} (gone)", self.ifindex),
        }
    }
}

/// Something about a tenant's interface that works and may lose packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct InterfaceAdvice {
    /// The interface.
    pub interface: InterfaceName,
    /// What it is, and what to do about it.
    pub message: String,
}

/// The interfaces of the calling thread's network namespace at one moment.
#[derive(Debug, Default)]
pub(super) struct Interfaces(BTreeMap<u32, Interface>);

impl Interfaces {
    pub(super) fn read() -> Result<Self, SysError> {
        let interfaces = netdev::all()?.into_iter();
        Ok(Self(interfaces.map(|one| (one.index, one)).collect()))
    }

    /// The interface with this index.
    pub(super) fn get(&self, ifindex: u32) -> Option<&Interface> {
        self.0.get(&ifindex)
    }

    /// The index of the interface of this name.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let mut all = self.0.values();
        all.find(|one| one.name == name).map(|one| one.index)
    }

    /// What to call the interface with this index.
    pub(super) fn name(&self, ifindex: u32) -> InterfaceName {
        let name = self.get(ifindex).map(|interface| interface.name.clone());
        InterfaceName { ifindex, name }
    }

    pub(super) fn names<'a>(
        &self,
        indices: impl IntoIterator<Item = &'a u32>,
    ) -> Vec<InterfaceName> {
        indices.into_iter().map(|&index| self.name(index)).collect()
    }

    /// What is to be known of those of these that are there, when they bring packets of tenants.
    pub(super) fn advice<'a>(
        &self,
        indices: impl IntoIterator<Item = &'a u32>,
    ) -> Vec<InterfaceAdvice> {
        let found = indices.into_iter().filter_map(|&index| self.get(index));
        let advice = found.flat_map(|interface| {
            let warnings = warnings(interface).into_iter();
            warnings.map(|warning| InterfaceAdvice {
                interface: self.name(interface.index),
                message: warning.to_string(),
            })
        });
        advice.collect()
    }
}
