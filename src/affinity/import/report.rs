// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What an import tells of itself.

use serde::Serialize;

use super::{Action, Outcome};
use crate::affinity::document::CidBinding;
use crate::id::{BackendId, ServiceId};
use crate::quic::Cid;

/// Examples that are given of each reason, at most.
pub const EXAMPLES: usize = 100;

/// Why a binding was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// No service here has its number.
    UnknownService,
    /// The service of its number has another address, protocol or port.
    ServiceDiffers,
    /// The service has no backend of its number.
    UnknownBackend,
    /// The backend is neither ready nor draining, or the service reads no connection IDs.
    NotUsable,
    /// The document binds the connection ID more than once.
    DuplicateInDocument,
    /// Short headers show connection IDs of another length to the service.
    CidLength,
    /// The map is full, but for what is kept in reserve.
    TableFull,
}

/// How many bindings of a document came to what. Together they are the bindings of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ImportReport {
    /// Bound now, and not before.
    pub accepted: u64,
    /// Bound to the same backend before.
    pub unchanged: u64,
    /// Bound to another backend before, and still.
    pub kept: u64,
    /// Bound to another backend before by an import, and now as the document says.
    pub replaced: u64,
    /// Not taken.
    pub rejected: Rejected,
    /// Some of those that were not taken, or kept.
    pub examples: Examples,
}

/// How many bindings were not taken, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Rejected {
    /// No service here has their number.
    pub unknown_service: u64,
    /// The service of their number has another address, protocol or port.
    pub service_differs: u64,
    /// The service has no backend of their number.
    pub unknown_backend: u64,
    /// The backend is neither ready nor draining, or the service reads no connection IDs.
    pub not_usable: u64,
    /// The document binds the connection ID more than once.
    pub duplicate_in_document: u64,
    /// Short headers show connection IDs of another length to the service.
    pub cid_length: u64,
    /// The map is full, but for what is kept in reserve.
    pub table_full: u64,
}

impl Rejected {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self {
            unknown_service,
            service_differs,
            unknown_backend,
            not_usable,
            duplicate_in_document,
            cid_length,
            table_full,
        } = self;
        unknown_service
            + service_differs
            + unknown_backend
            + not_usable
            + duplicate_in_document
            + cid_length
            + table_full
    }
}

/// Bindings that were not taken, at most 100 of each reason, the first in the order of
/// services and connection IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Examples {
    /// Bound to another backend here.
    pub kept: Vec<Example>,
    /// No service here has their number.
    pub unknown_service: Vec<Example>,
    /// The service of their number has another address, protocol or port.
    pub service_differs: Vec<Example>,
    /// The service has no backend of their number.
    pub unknown_backend: Vec<Example>,
    /// The backend is neither ready nor draining, or the service reads no connection IDs.
    pub not_usable: Vec<Example>,
    /// The document binds the connection ID more than once.
    pub duplicate_in_document: Vec<Example>,
    /// Short headers show connection IDs of another length to the service.
    pub cid_length: Vec<Example>,
    /// The map is full, but for what is kept in reserve.
    pub table_full: Vec<Example>,
}

/// One binding of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Example {
    /// Number of the service.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub service_id: ServiceId,
    /// The connection ID in hexadecimal.
    #[serde(serialize_with = "crate::affinity::document::hexadecimal")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cid: Cid,
    /// The backend that the document binds it to.
    #[cfg_attr(feature = "schema", schemars(with = "u32"))]
    pub backend: BackendId,
    /// The backend that it is bound to here, where that is why it was not taken.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub bound_to: Option<BackendId>,
}

impl ImportReport {
    /// All bindings.
    pub fn total(&self) -> u64 {
        self.accepted + self.unchanged + self.kept + self.replaced + self.rejected.total()
    }

    pub(super) fn reject(&mut self, why: Rejection, service: ServiceId, binding: &CidBinding) {
        self.refuse(
            why,
            Example {
                service_id: service,
                cid: binding.cid,
                backend: binding.backend,
                bound_to: None,
            },
        );
    }

    fn refuse(&mut self, why: Rejection, example: Example) {
        let (rejected, examples) = (&mut self.rejected, &mut self.examples);
        let (number, list) = match why {
            Rejection::UnknownService => {
                (&mut rejected.unknown_service, &mut examples.unknown_service)
            }
            Rejection::ServiceDiffers => {
                (&mut rejected.service_differs, &mut examples.service_differs)
            }
            Rejection::UnknownBackend => {
                (&mut rejected.unknown_backend, &mut examples.unknown_backend)
            }
            Rejection::NotUsable => (&mut rejected.not_usable, &mut examples.not_usable),
            Rejection::DuplicateInDocument => (
                &mut rejected.duplicate_in_document,
                &mut examples.duplicate_in_document,
            ),
            Rejection::CidLength => (&mut rejected.cid_length, &mut examples.cid_length),
            Rejection::TableFull => (&mut rejected.table_full, &mut examples.table_full),
        };
        *number += 1;
        push(list, example);
    }

    pub(super) fn keep(&mut self, service: ServiceId, binding: &CidBinding, bound: BackendId) {
        self.kept += 1;
        let example = Example {
            service_id: service,
            cid: binding.cid,
            backend: binding.backend,
            bound_to: Some(bound),
        };
        push(&mut self.examples.kept, example);
    }

    /// Adds what came of an action.
    pub fn count(&mut self, action: &Action, outcome: Outcome) {
        let example = Example {
            service_id: ServiceId::new(action.key.service),
            cid: action.key.cid,
            backend: action.backend,
            bound_to: None,
        };
        match outcome {
            Outcome::Written if action.replaces => self.replaced += 1,
            Outcome::Written => self.accepted += 1,
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Kept => {
                self.kept += 1;
                push(&mut self.examples.kept, example);
            }
            Outcome::Full => self.refuse(Rejection::TableFull, example),
        }
    }
}

fn push(list: &mut Vec<Example>, example: Example) {
    if list.len() < EXAMPLES {
        list.push(example);
    }
}
