// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The specification document of a node's egress: classes, their shards, tenants and their routes.
//!
//! A [`Spec`] comes from a JSON document ([`Spec::from_json`]). The validator reports every
//! [`Fault`] of a document at once, each with a JSON pointer, a machine name and a text; what it
//! lets through has every default filled in and cannot be changed. [`Spec::warnings`] says what
//! works but may not be what was meant.
//!
//! ```
//! use guideway::egress_spec::Spec;
//!
//! let faults = Spec::from_json(br#"{
//!     "schema": "guideway.egress.spec/v1",
//!     "node_sid": "2001:db8:ff01:1:e2a5::",
//!     "classes": [{"class": "64:ff9b::/96", "shard": []}],
//!     "tenants": [{"table": 42, "argument": "0x1000", "interfaces": ["tap0", "tap0"]}]
//! }"#).unwrap_err();
//! assert_eq!(faults.to_string(), "\
//! /node_sid: must have Argument and slot (bits 68 to 95) 0, got 2001:db8:ff01:1:e2a5:: \
//! (2001:db8:ff01:1:e000:: has)
//! /classes/0/shards: is missing
//! /classes/0/shard: unknown field shard (did you mean shards?)
//! /tenants/0/argument: must be 0x001 to 0xfff, got 0x1000
//! /tenants/0/interfaces/1: interface tap0 is already /tenants/0/interfaces/0");
//! ```
//!
//! # What a document says
//!
//! | member | holds |
//! |---|---|
//! | `schema` | [`SCHEMA`] |
//! | `node_sid` | the node's own SID, Argument and slot 0 |
//! | `encap` | a `profile`, and what differs from it: `hop_limit`, `dscp`, `ecn`, `flow_label`, `too_big`, `mss`, `icmp`, `events` |
//! | `limits` | sizes of the maps: `tenants`, `routes`, `groups`, `members`, `table_size`, `pins`, `flow_pins`, `ring_bytes` |
//! | `classes` | each `class` with its `shards`, and `hash_group`, `hash`, `pin_idle`, `reject`, `ecn` |
//! | `tenants` | each `table` and `argument` with its `interfaces` and `routes`, and `hash_table`, `pin_quota`, `icmp`, `mss` |
//!
//! A class is written `nat66`, or as the /96 prefix of its NAT64. A shard has a `sid` and a
//! `next_hop` (`interface`, `destination`, and `source` and `mtu` in place of the interface's own);
//! `null` says that nothing reaches it. The [`schema`] describes every member.
//!
//! # Routes
//!
//! Each class has a route to its own prefix, `::/0` for NAT66, in the table of every tenant,
//! whether it has shards or not: packets for a class that nobody serves are dropped, and never fall
//! through to another one. Documents do not write these routes. What a tenant's `routes` say is
//! beside them; one to the prefix of a class stands in its place, and leads to a shard, to that very
//! class or nowhere.
//!
//! # Names of interfaces
//!
//! The document names interfaces. [`Spec::resolve`] puts index, link-layer address and MTU in their
//! place, and gives what the other modules take: [`Encap`](crate::encap::Encap),
//! [`GroupSpec`](crate::group::GroupSpec)s, [`Tenant`](crate::tenant::Tenant)s and routes.
//!
//! ```
//! use guideway::egress_spec::{InterfaceFacts, Spec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/egressd/example.json"));
//! let spec = Spec::from_json(text.as_bytes())?;
//! let mac = "02:00:00:00:00:01".parse()?;
//! let resolved = spec.resolve(|name| match name.as_str() {
//!     "uplink0" => Some(InterfaceFacts { ifindex: 2, mac, mtu: 1500 }),
//!     "uplink1" => Some(InterfaceFacts { ifindex: 3, mac, mtu: 9000 }),
//!     "tap0" | "tap1" => None,
//!     _ => Some(InterfaceFacts { ifindex: 4, mac, mtu: 1460 }),
//! });
//! assert_eq!(resolved.unwrap_err().to_string(), "\
//! /tenants/0/interfaces/0: interface tap0 does not exist
//! /tenants/0/interfaces/1: interface tap1 does not exist");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod canonical;
mod field;
mod members;
mod memory;
mod resolve;
mod scalar;
pub mod schema;
mod spec;
mod validate;
mod warn;

pub use crate::document::digest::SpecDigest;
pub use crate::document::fault::{Fault, FaultCode, Faults};
pub use memory::Memory;
pub use resolve::{InterfaceFacts, Resolved, ResolvedTenant, RouteTarget};
pub use spec::{
    ClassSpec, InterfaceSpec, Limits, NextHopSpec, RouteSpec, RouteTo, ShardSpec, Spec, TenantSpec,
    SCHEMA,
};
pub(crate) use warn::UNANSWERED;
pub use warn::{Warning, WarningCode};

use crate::document::tree::Node;

impl Spec {
    /// Reads and validates a specification document.
    ///
    /// # Errors
    /// Every fault of the document, in its order. What is absent counts as standing where its
    /// object begins.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Faults> {
        validate::document(&Node::document(bytes)?)
    }
}
