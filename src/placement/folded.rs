// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The hash in two parts: what a route knows beforehand, and the packet's.
//!
//! A zero byte only multiplies, so a run of `n` of them is one multiplication by the `n`-th power
//! of the prime. A source address of IPv6 takes 16 steps and one multiplication instead of 44
//! steps, one of IPv4 four steps and one multiplication.

use std::net::IpAddr;

use super::flow::{FlowFields, Ports};
use super::key::{Family, HashGroup, HashTable, Scope};
use crate::hash::Fnv1a32;

/// The state of the hash after bytes 0 to 4, tenant and family: where flow mode goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fnv5(u32);

impl Fnv5 {
    /// The state for a route of this tenant and family.
    #[must_use]
    pub const fn new(table: HashTable, family: Family) -> Self {
        let state = Fnv1a32::new()
            .update(&table.0.to_le_bytes())
            .update(&[family.number()]);
        Self(state.finish())
    }

    /// The state that a route carries.
    #[must_use]
    pub const fn from_raw(state: u32) -> Self {
        Self(state)
    }

    /// The state as a route carries it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The hash of a packet in flow mode, equal to that of [`HashKey::flow`](super::HashKey::flow)
    /// if this is the state for the family of `flow`.
    #[must_use]
    pub fn flow(self, group: HashGroup, flow: &FlowFields) -> u32 {
        let state = Fnv1a32::resume(self.0).update(&[flow.protocol(), group.0]);
        let state = match flow.ports() {
            Ports {
                source: 0,
                destination: 0,
            } => state.zeros(5),
            ports => state
                .zeros(1)
                .update(&ports.source.to_be_bytes())
                .update(&ports.destination.to_be_bytes()),
        };
        let state = address(state, flow.source(), 0);
        address(state, flow.destination(), 0).finish()
    }
}

/// The state of the hash after bytes 0 to 11 in source mode, everything but the address: where
/// source mode goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fnv12(u32);

impl Fnv12 {
    /// The state for a route of this tenant, class and family.
    #[must_use]
    pub const fn new(scope: Scope, family: Family) -> Self {
        let state = Fnv1a32::resume(Fnv5::new(scope.table, family).get())
            .zeros(1)
            .update(&[scope.group.0])
            .zeros(5);
        Self(state.finish())
    }

    /// The state that a route carries.
    #[must_use]
    pub const fn from_raw(state: u32) -> Self {
        Self(state)
    }

    /// The state as a route carries it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The hash of a packet in source mode, equal to that of
    /// [`HashKey::source`](super::HashKey::source) if this is the state for the family of `source`.
    #[must_use]
    pub fn source(self, source: IpAddr) -> u32 {
        // The destination's place is empty.
        address(Fnv1a32::resume(self.0), source, 16).finish()
    }
}

/// The state after the 16 bytes of an address and `zeros` more.
fn address(state: Fnv1a32, address: IpAddr, zeros: u32) -> Fnv1a32 {
    match address {
        IpAddr::V6(address) => state.update(&address.octets()).zeros(zeros),
        IpAddr::V4(address) => state.update(&address.octets()).zeros(12 + zeros),
    }
}
