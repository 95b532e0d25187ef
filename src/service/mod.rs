// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer's specification document: what an instance serves, validated and typed.

mod canonical;
mod choice;
mod draft;
mod fault;
mod field;
mod ident;
mod members;
mod reader;
mod scalar;
pub mod schema;
mod spec;
mod tree;
mod validate;
mod warn;

pub use canonical::{Redacted, SpecDigest};
pub use draft::{BackendDraft, CidConfigDraft, LimitsDraft, QuicDraft, ServiceDraft, SpecDraft};
pub use fault::{Fault, FaultCode, Faults, Warning, WarningCode};
pub use ident::service_id;
pub use spec::{
    Backend, BackendState, CidConfig, Fragments, HashOf, Limits, Mode, Protocol, Quic, Routing,
    Service, SourceMac, Spec, Tracking, Unhealthy, UnknownServerId,
};

impl Spec {
    /// Reads and validates a specification document.
    ///
    /// # Errors
    /// Every fault of the document, in its order. What is absent counts as standing where its
    /// object begins.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Faults> {
        match tree::Node::parse(bytes) {
            Ok(root) => validate::document(&root),
            Err(error) => {
                let message = format!("is not JSON: {error}");
                Err(Fault::new("", FaultCode::Json, message).into())
            }
        }
    }

    /// Validates a specification made in Rust, by the same rules as a document.
    ///
    /// # Errors
    /// Every fault, with the pointers that the same members have in a document.
    pub fn new(draft: &SpecDraft) -> Result<Self, Faults> {
        validate::document(&tree::Node::number(draft.written()))
    }
}
