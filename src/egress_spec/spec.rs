// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The validated specification of a node, with every default filled in.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::addr::MacAddr;
use crate::document::origin::Origin;
use crate::encap::Encap;
use crate::group::{self, Class, Settings};
use crate::id::InterfaceName;
use crate::placement::{HashGroup, HashTable};
use crate::route::{Block, Prefix, TableId};
use crate::srv6::{Argument, BaseSid, Mtu};
use crate::tenant::{PinQuota, Tenant};

/// Name and version of the form of document.
pub const SCHEMA: &str = "guideway.egress.spec/v1";

/// Where what a document does not say about encapsulation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    /// [`Encap::standard`].
    Standard,
    /// [`Encap::compat`].
    Compat,
}

/// A validated specification: the egress of one node.
///
/// It can only be made by the validator ([`Spec::from_json`]) and not be changed afterwards.
/// Classes are in the order of the document, NAT66 among them; shards are in the order of their
/// SIDs, tenants of their tables, interfaces of their names, routes of their prefixes. The place
/// each had in its document takes no part in comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub(super) encap: Encap,
    pub(super) limits: Limits,
    pub(super) classes: Vec<ClassSpec>,
    pub(super) tenants: Vec<TenantSpec>,
}

impl Spec {
    /// How packets are encapsulated and answered.
    pub fn encap(&self) -> &Encap {
        &self.encap
    }

    /// The sizes of the kernel's maps.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The configured classes, each once; NAT66 is one of them.
    pub fn classes(&self) -> &[ClassSpec] {
        &self.classes
    }

    /// The tenants in the order of their tables.
    pub fn tenants(&self) -> &[TenantSpec] {
        &self.tenants
    }
}

/// Sizes of the kernel's maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Interfaces of all tenants.
    pub tenants: u32,
    /// Routes of all tenants, those of the classes included.
    pub routes: u32,
    /// Groups, their members and their tables.
    pub groups: group::Limits,
    /// Pins of source addresses.
    pub pins: u32,
    /// Pins of flows.
    pub flow_pins: u32,
    /// Bytes of the ring of events, a power of two.
    pub ring_bytes: u32,
}

/// A class and its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassSpec {
    /// The class.
    pub class: Class,
    /// The number that placement hashes for it, if the document says one.
    pub hash_group: Option<HashGroup>,
    /// How its group treats packets.
    pub settings: Settings,
    /// Its shards in the order of their SIDs.
    pub shards: Vec<ShardSpec>,
    pub(super) origin: Origin<Option<Place>>,
}

impl ClassSpec {
    /// Where the class stood in its document, as a JSON pointer; all classes for NAT66 where it did
    /// not stand there.
    pub fn pointer(&self) -> String {
        match self.origin.0 {
            Some(place) => format!("/classes/{}", place.index),
            None => "/classes".to_owned(),
        }
    }

    /// Where one of its shards stood.
    pub(super) fn shard_pointer(&self, shard: &ShardSpec) -> String {
        format!("{}/shards/{}", self.pointer(), shard.origin.0.index)
    }

    /// How many shards take new addresses.
    pub fn active(&self) -> usize {
        let active = self.shards.iter().filter(|shard| shard.is_active());
        active.count()
    }
}

/// One shard of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardSpec {
    /// What identifies it.
    pub sid: BaseSid,
    /// Its share of new addresses in relation to the others.
    pub weight: u32,
    /// Whether it gets no new addresses and keeps those pinned to it.
    pub draining: bool,
    /// How packets get to it; none while nothing reaches it.
    pub next_hop: Option<NextHopSpec>,
    pub(super) origin: Origin<Place>,
}

impl ShardSpec {
    /// Whether it takes new addresses: something reaches it, it has a weight and does not drain.
    pub fn is_active(&self) -> bool {
        self.next_hop.is_some() && self.weight > 0 && !self.draining
    }
}

/// How packets get to a shard, the interface by name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextHopSpec {
    /// The interface that packets leave by.
    pub interface: InterfaceName,
    /// Link-layer address of the next node.
    pub destination: MacAddr,
    /// Link-layer address that frames come from; none for the interface's own.
    pub source: Option<MacAddr>,
    /// The greatest packet; none for the interface's own.
    pub mtu: Option<Mtu>,
}

/// One tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantSpec {
    /// Its number.
    pub table: TableId,
    /// The number that SIDs carry for it.
    pub argument: Argument,
    /// The number that placement hashes for it.
    pub hash_table: HashTable,
    /// Pins that it may have.
    pub pin_quota: PinQuota,
    /// Whether packets that are too big, or may go nowhere, are answered.
    pub icmp: bool,
    /// Whether the segment size that TCP announces is lowered to what fits.
    pub mss: bool,
    /// Its interfaces in the order of their names.
    pub interfaces: Vec<InterfaceSpec>,
    /// Its routes beside those of the classes, or in their place, in the order of their prefixes.
    pub routes: Vec<RouteSpec>,
    pub(super) origin: Origin<Place>,
}

impl TenantSpec {
    /// What is the same at all of its interfaces.
    pub(super) fn tenant(&self) -> Tenant {
        Tenant {
            hash_table: self.hash_table,
            icmp: self.icmp,
            mss: self.mss,
            pin_quota: self.pin_quota,
            ..Tenant::new(self.table, self.argument)
        }
    }

    /// Where the tenant stood in its document, as a JSON pointer.
    pub fn pointer(&self) -> String {
        format!("/tenants/{}", self.origin.0.index)
    }

    /// Where one of its interfaces stood.
    pub(super) fn interface_pointer(&self, interface: &InterfaceSpec) -> String {
        format!("{}/interfaces/{}", self.pointer(), interface.origin.0.index)
    }

    /// Where one of its routes stood.
    pub(super) fn route_pointer(&self, route: &RouteSpec) -> String {
        format!("{}/routes/{}", self.pointer(), route.origin.0.index)
    }
}

/// An interface that brings a tenant's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceSpec {
    /// Its name.
    pub name: InterfaceName,
    /// Who answers over IPv6.
    pub gateway6: Option<Ipv6Addr>,
    /// Who answers over IPv4.
    pub gateway4: Option<Ipv4Addr>,
    pub(super) origin: Origin<Place>,
}

/// A route beside those of the classes, or in place of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteSpec {
    /// Packets to where.
    pub prefix: Prefix,
    /// Where they go.
    pub to: RouteTo,
    pub(super) origin: Origin<Place>,
}

/// Where a route leads, interfaces by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTo {
    /// To the next program, untouched.
    Pass,
    /// Nowhere.
    Block(Block),
    /// To the shards of a class.
    Class(Class),
    /// To one shard.
    Shard {
        /// The shard.
        sid: BaseSid,
        /// The way to it.
        next_hop: NextHopSpec,
    },
}

/// Where a value stood in its document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its number in reading order.
    pub(super) at: u32,
    /// Its index in its list.
    pub(super) index: usize,
}
