// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is kept beside a published generation, so that the next plan can continue it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::abi::Meta;
use crate::service::{Faults, Service, Spec};

/// What a publication stored with its generation.
///
/// Rows, incarnations and counter indices are decisions that outlive a publication: without them a
/// backend would not keep its row. Times are nanoseconds since boot of the host that published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) schema: RecordSchema,
    pub(crate) number: u64,
    pub(crate) digest: String,
    pub(crate) spec: SpecText,
    pub(crate) published_ns: u64,
    /// Seconds since 1970, for people.
    pub(crate) published_unix: u64,
    pub(crate) ifindex: u32,
    pub(crate) services: Vec<ServiceRecord>,
    /// What follows from the above and is dear to compute again.
    pub(crate) tables: Vec<TableRecord>,
    pub(crate) retired: Vec<RetiredBackend>,
    pub(crate) quarantine: Vec<QuarantinedId>,
    /// Counters of backends that this publication removed: to be added to their services'.
    pub(crate) folds: Vec<Fold>,
}

/// A canonical specification with its secrets, which `Debug` does not show.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SpecText(pub(crate) String);

impl std::fmt::Debug for SpecText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpecText(..)")
    }
}

/// Names the form of a record; another form is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RecordSchema {
    #[serde(rename = "guideway.quiclb.record/v1")]
    V1,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceRecord {
    pub(crate) id: u32,
    pub(crate) stats: u32,
    pub(crate) backends: Vec<BackendRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackendRecord {
    pub(crate) id: u32,
    pub(crate) row: u16,
    pub(crate) incarnation: u32,
    pub(crate) stats: u32,
    pub(crate) ifindex: u32,
    pub(crate) source_mac: Option<[u8; 6]>,
}

/// What a service's table came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableRecord {
    pub(crate) service: u32,
    pub(crate) digest: String,
    /// Slots by backend.
    pub(crate) slots: BTreeMap<u32, u32>,
}

/// A backend that was removed and may come back as itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetiredBackend {
    pub(crate) service: u32,
    pub(crate) identity: Identity,
    /// Lower-case hexadecimal.
    pub(crate) server_ids: Vec<String>,
    pub(crate) row: u16,
    pub(crate) incarnation: u32,
    pub(crate) until_ns: u64,
}

/// A server ID that left its backend and is reserved for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuarantinedId {
    pub(crate) service: u32,
    pub(crate) server_id: String,
    pub(crate) identity: Identity,
    pub(crate) since_ns: u64,
    pub(crate) until_ns: u64,
}

/// What makes a returning backend the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) id: u32,
    pub(crate) interface: String,
    pub(crate) mac: [u8; 6],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fold {
    pub(crate) backend_stats: u32,
    pub(crate) service_stats: u32,
}

/// A published generation as the next plan sees it, with the marks of its instance.
#[derive(Debug, Clone)]
pub struct Live {
    pub(crate) record: Record,
    pub(crate) spec: Spec,
    pub(crate) incarnation_mark: u32,
    /// Cells that each generation of the instance has room for.
    pub(crate) room_cells: u32,
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Not the JSON of a record of this version.
    #[error("the record of the generation cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// Its specification is not accepted by this version.
    #[error("the specification in the record of the generation is not valid: {0}")]
    Spec(#[from] Faults),
}

impl Live {
    /// Reads a record.
    pub(crate) fn from_record(bytes: &[u8], meta: &Meta) -> Result<Self, RecordError> {
        let record: Record = serde_json::from_slice(bytes)?;
        let spec = Spec::from_json(record.spec.0.as_bytes())?;
        Ok(Self {
            record,
            spec,
            incarnation_mark: meta.incarnation_mark,
            room_cells: meta.cells,
        })
    }

    /// Number of the generation.
    pub fn number(&self) -> u64 {
        self.record.number
    }

    /// SHA-256 over the canonical specification, 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.record.digest
    }

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The services, each with what was decided about it.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Service, &ServiceRecord)> {
        let services = self.spec.services().iter();
        services.filter_map(|service| Some((service, self.record.service(service.id.get())?)))
    }
}

impl Record {
    pub(crate) fn service(&self, id: u32) -> Option<&ServiceRecord> {
        self.services.iter().find(|service| service.id == id)
    }

    /// The highest incarnation in use or remembered.
    pub(crate) fn highest_incarnation(&self) -> u32 {
        let placed = self.services.iter().flat_map(|service| &service.backends);
        let placed = placed.map(|backend| backend.incarnation);
        let retired = self.retired.iter().map(|backend| backend.incarnation);
        placed.chain(retired).max().unwrap_or(0)
    }

    pub(crate) fn table(&self, service: u32) -> Option<&TableRecord> {
        self.tables.iter().find(|table| table.service == service)
    }

    /// Whether publishing `new` would change nothing that later plans can see. What had its time
    /// by `now_ns` they pass over.
    pub(crate) fn says_the_same(&self, new: &Record, now_ns: u64) -> bool {
        let retired = self.retired.iter().filter(|old| old.until_ns > now_ns);
        let quarantine = self.quarantine.iter().filter(|old| old.until_ns > now_ns);
        self.digest == new.digest
            && self.ifindex == new.ifindex
            && self.services == new.services
            && retired.eq(&new.retired)
            && quarantine.eq(&new.quarantine)
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}

impl ServiceRecord {
    pub(crate) fn backend(&self, id: u32) -> Option<&BackendRecord> {
        self.backends.iter().find(|backend| backend.id == id)
    }
}
