// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The interfaces of this machine: indices for names, and names for indices.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Error;
use crate::addr::MacAddr;
use crate::egress_spec::{InterfaceFacts, Resolved, Spec};
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

impl std::fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "index {} (gone)", self.ifindex),
        }
    }
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

    pub(super) fn resolve(&self, spec: &Spec) -> Result<Resolved, Error> {
        let by_name: BTreeMap<_, _> = self
            .0
            .values()
            .map(|one| (one.name.as_str(), one))
            .collect();
        let facts = |one: &&Interface| InterfaceFacts {
            ifindex: one.index,
            mac: MacAddr::new(one.mac),
            mtu: one.mtu,
        };
        spec.resolve(|name| by_name.get(name.as_str()).map(facts))
            .map_err(Error::Faults)
    }
}

/// Puts the interfaces of the calling thread's network namespace in the place of their names.
///
/// # Errors
/// [`Error::Faults`] names every interface that does not exist or does not do; or the kernel does
/// not list its interfaces.
pub fn resolve(spec: &Spec) -> Result<Resolved, Error> {
    Interfaces::read()?.resolve(spec)
}
