// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The document in which bindings of connection IDs travel from one instance to another.

mod guard;
mod read;
mod text;

use std::net::IpAddr;

use serde::Serialize;

pub(crate) use guard::{Guard, Stop};
pub(crate) use read::read;
pub(crate) use text::hexadecimal;
pub use text::rfc3339;

use super::Origin;
use crate::id::{BackendId, ServiceId};
use crate::quic::Cid;
use crate::service::{Fault, Protocol};

/// Text of [`AffinityDocument`]'s member `schema`.
pub const AFFINITY_SCHEMA: &str = "guideway.affinity/v1";

/// Bindings of connection IDs to backends, as one instance had them.
///
/// Services are in the order of their numbers, bindings in that of their connection IDs: equal
/// state gives equal bytes, apart from the time of the export. What one service binds twice stays
/// in it twice; [`reconcile`](super::reconcile) rejects both.
///
/// Its JSON is what serialising gives: `serde_json::to_writer` needs no second copy of it.
///
/// ```
/// use guideway::affinity::{AffinityDocument, ReadOptions};
///
/// let text = br#"{"schema": "guideway.affinity/v1", "exported_at": "2026-07-31T08:00:00Z",
///     "instance": "1d9016f2-8957-42bc-9dd7-32d684d76446", "services": [
///     {"id": 2362823311, "name": "quic-api", "vip": "203.0.113.80", "protocol": "udp", "port": 443,
///      "bindings": [{"cid": "c46001", "backend": 2, "origin": "learned", "last_seen_ns": 7}]}]}"#;
/// let document = AffinityDocument::from_json(text, &ReadOptions::default())?;
/// assert_eq!(document.bindings(), 1);
///
/// let cut = AffinityDocument::from_json(&text[..300], &ReadOptions::default());
/// assert_eq!(cut.unwrap_err().to_string(), "ends in the middle, at line 4 column 58");
/// # Ok::<(), guideway::affinity::DocumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(description = "Bindings of connection IDs to backends, as one instance had them.")
)]
pub struct AffinityDocument {
    schema: AffinitySchema,
    /// When the state was read, in the form of RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    exported_at: String,
    /// UUID of the instance whose state it is.
    instance: String,
    /// The services with bindings.
    services: Vec<ServiceBindings>,
}

/// Names the form of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum AffinitySchema {
    /// The first form.
    #[serde(rename = "guideway.affinity/v1")]
    V1,
}

/// The bindings of one service.
///
/// An importer takes them only for a service with the same number, address, protocol and port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceBindings {
    /// Number of the service.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "u32", range(min = 1, max = 4294967295_u32))
    )]
    pub id: ServiceId,
    /// Its name, for people.
    pub name: String,
    /// Virtual address.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "String", extend("anyOf" = [{"format": "ipv4"}, {"format": "ipv6"}]))
    )]
    pub vip: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Port.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub port: u16,
    /// Connection IDs with their backends.
    pub bindings: Vec<CidBinding>,
}

/// One connection ID and its backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CidBinding {
    /// The connection ID: 1 to 20 bytes in hexadecimal.
    #[serde(serialize_with = "hexadecimal")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "String", regex(pattern = "^([0-9A-Fa-f]{2}){1,20}$"))
    )]
    pub cid: Cid,
    /// The operator's number of the backend.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "u32", range(min = 1, max = 4294967295_u32))
    )]
    pub backend: BackendId,
    /// How the exporting instance came to it.
    pub origin: BindingOrigin,
    /// When a packet with it last came, in nanoseconds of the exporting host's monotonic clock; 0
    /// if that is not known. For people: an importer counts from the import.
    pub last_seen_ns: u64,
}

/// How an instance came to a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BindingOrigin {
    /// From a packet.
    Learned,
    /// From the server's control plane.
    Registered,
    /// From another instance.
    Imported,
}

impl BindingOrigin {
    /// Every origin.
    pub const ALL: [Self; 3] = [Self::Learned, Self::Registered, Self::Imported];

    /// The text of this value in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::Registered => "registered",
            Self::Imported => "imported",
        }
    }
}

impl From<Origin> for BindingOrigin {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Traffic => Self::Learned,
            Origin::Registered => Self::Registered,
            Origin::Imported => Self::Imported,
        }
    }
}

impl AffinityDocument {
    /// The document of these services; `exported_at` is a time in the form of RFC 3339. Services
    /// without bindings are left out.
    pub fn new(
        exported_at: impl Into<String>,
        instance: impl Into<String>,
        services: Vec<ServiceBindings>,
    ) -> Self {
        let mut document = Self {
            schema: AffinitySchema::V1,
            exported_at: exported_at.into(),
            instance: instance.into(),
            services,
        };
        document.services.retain(|of| !of.bindings.is_empty());
        document.sort();
        document
    }

    /// Brings services and bindings in order; what is said of one service in several places comes
    /// together.
    fn sort(&mut self) {
        let identity = |of: &ServiceBindings| (of.id, of.vip, of.protocol, of.port);
        self.services.sort_by_key(identity);
        self.services.dedup_by(|next, first| {
            let same = identity(next) == identity(first);
            if same {
                first.bindings.append(&mut next.bindings);
            }
            same
        });
        for service in &mut self.services {
            // Every member counts, so that equal state has one order.
            service
                .bindings
                .sort_unstable_by_key(|of| (of.cid, of.backend, of.origin, of.last_seen_ns));
        }
    }

    /// Reads a document that is in memory.
    ///
    /// Members may stand in any order; those that this version does not know are passed over unless
    /// [`ReadOptions::strict`] says otherwise. A file is better read with
    /// [`quiclb::read_affinity`](crate::quiclb::read_affinity), which never holds it whole.
    ///
    /// # Errors
    /// What is wrong with it, with its place. A document that is cut off anywhere is refused.
    pub fn from_json(json: &[u8], options: &ReadOptions) -> Result<Self, DocumentError> {
        let mut guard = Guard::new(options.limit_bytes);
        match guard.pass(json) {
            Ok(()) => read(serde_json::Deserializer::from_slice(json), options),
            // What is wrong before the place where it goes too far comes first.
            Err((at, stop)) => {
                let before = serde_json::Deserializer::from_slice(&json[..at]);
                match read(before, options) {
                    Ok(_) | Err(DocumentError::Truncated { .. }) => Err(stop.error()),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The canonical text, without a newline at its end.
    pub fn to_json(&self) -> Vec<u8> {
        // Plain data with text keys always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// When the state was read, in the form of RFC 3339.
    pub fn exported_at(&self) -> &str {
        &self.exported_at
    }

    /// UUID of the instance whose state it is.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The services in the order of their numbers.
    pub fn services(&self) -> &[ServiceBindings] {
        &self.services
    }

    /// Number of bindings of all services.
    pub fn bindings(&self) -> usize {
        self.services.iter().map(|of| of.bindings.len()).sum()
    }
}

/// How a document is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Longest document that is read.
    pub limit_bytes: u64,
    /// Refuse members that this version does not know.
    pub strict: bool,
    /// Read a document that also holds rows of flows, and leave those out, instead of refusing it.
    /// A flow belongs to a path, not to a connection, so its row is wrong on any instance that sees
    /// other paths.
    pub without_flows: bool,
}

impl Default for ReadOptions {
    /// Up to 256 MiB, unknown members passed over, no flows.
    fn default() -> Self {
        Self {
            limit_bytes: 256 << 20,
            strict: false,
            without_flows: false,
        }
    }
}

/// Why a document cannot be read. Lines and columns count from 1, columns in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is not JSON.
    #[error("is not JSON: {what} at line {line} column {column}")]
    #[non_exhaustive]
    Json {
        /// What is wrong.
        what: String,
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It ends before it is complete.
    #[error("ends in the middle, at line {line} column {column}")]
    #[non_exhaustive]
    Truncated {
        /// Where it ends.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// A later version wrote it.
    #[error("has the schema {found}, which is newer than {AFFINITY_SCHEMA}")]
    #[non_exhaustive]
    NewerSchema {
        /// What it says of itself.
        found: String,
    },
    /// It is another kind of document.
    #[error("has the schema {found}, not {AFFINITY_SCHEMA}")]
    #[non_exhaustive]
    OtherSchema {
        /// What it says of itself, shortened if need be.
        found: String,
    },
    /// A member is missing, unknown, doubled, or holds what it must not.
    #[error("{fault} (line {line} column {column})")]
    #[non_exhaustive]
    Member {
        /// Which, and what is wrong with it.
        fault: Fault,
        /// Where reading stopped.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It holds rows of flows, which were not asked for.
    #[error(
        "holds rows of flows, which belong to paths and not to connections: \
         they are taken by no instance"
    )]
    Flows,
    /// It is longer than the limit.
    #[error("is longer than {limit_bytes} bytes")]
    #[non_exhaustive]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// Objects and lists lie in each other deeper than in any such document.
    #[error("is nested more than {depth} deep, at byte {at}")]
    #[non_exhaustive]
    TooDeep {
        /// The most.
        depth: u32,
        /// Byte at which it goes deeper, from 0.
        at: u64,
    },
    /// A text is longer than in any such document.
    #[error("has a text of more than {limit_bytes} bytes, at byte {at}")]
    #[non_exhaustive]
    LongText {
        /// The most.
        limit_bytes: u32,
        /// Byte at which the text goes beyond, from 0.
        at: u64,
    },
}

impl DocumentError {
    /// The member at fault, if it is one member's.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Member { fault, .. } => Some(fault),
            _ => None,
        }
    }
}
