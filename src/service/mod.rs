// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer's specification document: what an instance serves, validated and typed.
//!
//! A [`Spec`] comes from a JSON document ([`Spec::from_json`]) or from Rust ([`Spec::new`] of a
//! [`SpecDraft`]), and both ways lead through the same validator. It reports every [`Fault`] of a
//! document at once, each with a JSON pointer, a machine name and a text; what it lets through has
//! every default filled in and cannot be changed. [`Spec::warnings`] says what works but may not be
//! what was meant.
//!
//! ```
//! use guideway::service::Spec;
//!
//! let faults = Spec::from_json(br#"{
//!     "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interfac": "edge0",
//!     "services": [{"name": "dns", "vip": "127.0.0.53", "port": 53, "backends": []}]
//! }"#).unwrap_err();
//! assert_eq!(faults.to_string(), "\
//! /interface: is missing
//! /interfac: unknown field interfac (did you mean interface?)
//! /services/0/vip: must be a unicast address a host can own, 127.0.0.53 is loopback");
//! ```
//!
//! [`Spec::to_canonical_json`] is the one text of a specification, [`Spec::digest`] its name.
//! Secrets, the hash seed and the keys, are in that text and in no other: not in `Debug`, not in a
//! fault, and replaced in [`Spec::redacted`].

mod canonical;
mod draft;
mod field;
mod ident;
mod members;
mod scalar;
pub mod schema;
mod spec;
mod validate;
mod warn;

pub use crate::document::digest::SpecDigest;
pub use crate::document::fault::{Fault, FaultCode, Faults};
pub use canonical::Redacted;
pub use draft::{
    BackendDraft, CidConfigDraft, LimitsDraft, QuicDraft, RootArrayDraft, ServiceDraft, SpecDraft,
};
pub use ident::service_id;
pub use spec::{
    Backend, BackendState, CidConfig, Fragments, HashOf, Limits, Mode, Protocol, Quic, RootArray,
    Routing, Service, SourceMac, Spec, Tracking, Unhealthy, UnknownServerId,
};
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

    /// Validates a specification made in Rust, by the same rules as a document.
    ///
    /// # Errors
    /// Every fault, with the pointers that the same members have in a document.
    pub fn new(draft: &SpecDraft) -> Result<Self, Faults> {
        validate::document(&Node::number(draft.written()))
    }
}
