// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is kept beside a published generation, so that the next plan can continue it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::assign::{BACKEND_STATS, ROWS, SERVICE_STATS};
use super::contexts::ContextRecord;
use super::marks::Marks;
use crate::service::{Faults, Service, Spec, Tracking};

/// What a publication stored with its generation.
///
/// Rows, incarnations and counter indices are decisions that outlive a publication: without them a
/// backend would not keep its row. Times are nanoseconds since boot of the host that published;
/// those of flow state leave out the time that it was suspended.
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
    /// Of the keys of encrypted server IDs, in the order of the specification.
    #[serde(default)]
    pub(crate) contexts: Vec<ContextRecord>,
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
    /// When its counters began at zero, on the monotonic clock.
    pub(crate) since_ns: u64,
    /// Whether packets look for exact bindings of their connection IDs.
    pub(crate) exact: bool,
    /// Since when flows are tracked as they are, on the monotonic clock; none: since this
    /// publication returned.
    pub(crate) tracking_since_ns: Option<u64>,
    /// Whether they were ever tracked otherwise: then flows of that time may have no entry yet.
    pub(crate) was_tracked_otherwise: bool,
    /// End of the handshake grace on the monotonic clock; 0: none.
    pub(crate) grace_until_ns: u64,
    /// Openings without a time are those of this publication.
    pub(crate) marks: Marks,
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
    /// What it says was decided fits neither its specification nor the kernel's maps.
    #[error("the record of the generation contradicts itself: {0}")]
    Contradiction(String),
}

impl Record {
    /// Whether everything in `spec` has a place of its own, as whoever reads the record relies on.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), String> {
        ContextRecord::check(&self.contexts, spec)?;
        let mut service_stats = BTreeSet::new();
        let mut backend_stats = BTreeSet::new();
        let services = spec.services();
        if !services
            .iter()
            .map(|s| s.id.get())
            .eq(self.services.iter().map(|s| s.id))
        {
            return Err("it does not place the services of its specification".into());
        }
        for (service, placed) in services.iter().zip(&self.services) {
            let name = &service.name;
            if placed.stats >= SERVICE_STATS || !service_stats.insert(placed.stats) {
                return Err(format!("service {name} has the counters {}", placed.stats));
            }
            let backends = service.backends.iter().map(|backend| backend.id.get());
            if !backends.eq(placed.backends.iter().map(|backend| backend.id)) {
                return Err(format!("it does not place the backends of service {name}"));
            }
            let mut rows = BTreeSet::new();
            for backend in &placed.backends {
                let id = backend.id;
                if backend.row >= ROWS || !rows.insert(backend.row) {
                    return Err(format!(
                        "backend {id} of service {name} has row {}",
                        backend.row
                    ));
                }
                if backend.incarnation == 0 {
                    return Err(format!("backend {id} of service {name} has incarnation 0"));
                }
                if backend.stats >= BACKEND_STATS || !backend_stats.insert(backend.stats) {
                    let stats = backend.stats;
                    return Err(format!(
                        "backend {id} of service {name} has the counters {stats}"
                    ));
                }
            }
            placed
                .check_marks(service, &rows)
                .map_err(|reason| format!("service {name}: {reason}"))?;
        }
        let fold = self.folds.iter().find(|fold| {
            backend_stats.contains(&fold.backend_stats)
                || !service_stats.contains(&fold.service_stats)
        });
        match fold {
            Some(fold) => Err(format!(
                "counters {} of a backend that is gone are to be added to {} of a service",
                fold.backend_stats, fold.service_stats
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn service(&self, id: u32) -> Option<&ServiceRecord> {
        self.services.iter().find(|service| service.id == id)
    }

    /// The highest incarnation in use or remembered.
    pub(crate) fn highest_incarnation(&self) -> u32 {
        let placed = self.services.iter().flat_map(|service| &service.backends);
        let placed = placed.map(|backend| backend.incarnation);
        let retired = self.retired.iter().map(|backend| backend.incarnation);
        let contexts = self.contexts.iter().map(|context| context.incarnation);
        placed.chain(retired).chain(contexts).max().unwrap_or(0)
    }

    pub(crate) fn table(&self, service: u32) -> Option<&TableRecord> {
        self.tables.iter().find(|table| table.service == service)
    }

    /// Whether publishing `new` would change nothing that later plans can see, marks of slots
    /// aside. What had its time by `now_ns` they pass over.
    pub(crate) fn says_the_same(&self, new: &Record, now_ns: u64) -> bool {
        let retired = self.retired.iter().filter(|old| old.until_ns > now_ns);
        let quarantine = self.quarantine.iter().filter(|old| old.until_ns > now_ns);
        self.digest == new.digest
            && self.ifindex == new.ifindex
            && self.services.len() == new.services.len()
            && self
                .services
                .iter()
                .zip(&new.services)
                .all(|(old, new)| old.places_the_same(new))
            && self.contexts == new.contexts
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

    /// The rows of backends that are not in `after`, whoever has their rows there.
    pub(crate) fn rows_removed(&self, after: &Self) -> BTreeSet<u16> {
        let identity = |backend: &BackendRecord| (backend.row, backend.incarnation);
        let stay: BTreeSet<_> = after.backends.iter().map(identity).collect();
        let removed = self.backends.iter().map(identity);
        removed
            .filter(|backend| !stay.contains(backend))
            .map(|(row, _)| row)
            .collect()
    }

    /// Lets the handshake grace of a service begin, as it does when slots open.
    pub(crate) fn begin_grace(&mut self, service: &Service, now_ns: u64) {
        let grace = u64::try_from(service.handshake_grace.as_nanos()).unwrap_or(u64::MAX);
        if grace > 0 {
            self.grace_until_ns = now_ns.saturating_add(grace);
        }
    }

    /// Whether packets find the same, marks of slots and times aside.
    fn places_the_same(&self, other: &Self) -> bool {
        self.id == other.id
            && self.stats == other.stats
            && self.exact == other.exact
            && self.backends == other.backends
    }

    /// Whether its marks are such as the service can have. That they fit the table turns out where
    /// the table is built.
    fn check_marks(&self, service: &Service, rows: &BTreeSet<u16>) -> Result<(), String> {
        if service.tracking == Tracking::All && !self.marks.is_empty() {
            return Err("slots are marked where every flow is tracked".into());
        }
        self.marks.check(service.maglev_table_size.get(), rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Meta;
    use crate::plan::{plan, Device, Live, Options, World};
    use serde_json::{json, Value};

    /// The record of two services with two backends each, changed by `damage`, read back.
    fn read(damage: impl FnOnce(&mut Value)) -> Result<Live, RecordError> {
        let backend = |id: u32| json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"});
        let service = |name: &str, port: u16| {
            json!({"name": name, "vip": "203.0.113.80", "port": port, "maglev_table_size": 251,
                   "backends": [backend(1), backend(2)]})
        };
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "services": [service("a", 1), service("b", 2)],
        });
        let spec = Spec::from_json(document.to_string().as_bytes()).expect("valid");
        let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1);
        let world = World::new(vec![device("edge0", 2), device("lo", 1)], Vec::new(), 1);
        let plan = plan(None, &spec, &world, Options::default()).expect("a plan");
        let mut record = serde_json::to_value(plan.record()).expect("JSON");
        damage(&mut record);
        let meta: Meta = bytemuck::Zeroable::zeroed();
        Live::from_record(record.to_string().as_bytes(), &meta)
    }

    #[test]
    fn a_record_that_was_tampered_with_is_refused_with_the_reason() {
        read(|_| {}).expect("sound");
        let marks = |openings: Value, slots: &str| json!({"openings": openings, "slots": slots});
        let damages: [(&str, Value, &str); 17] = [
            (
                "/services/0/backends/0/row",
                json!(256),
                "backend 1 of service a has row 256",
            ),
            (
                "/services/0/backends/0/row",
                json!(65535),
                "backend 1 of service a has row 65535",
            ),
            (
                "/services/1/backends/1/row",
                json!(0),
                "backend 2 of service b has row 0",
            ),
            (
                "/services/1/backends/1/incarnation",
                json!(0),
                "has incarnation 0",
            ),
            (
                "/services/1/backends/1/stats",
                json!(0),
                "has the counters 0",
            ),
            (
                "/services/1/backends/1/stats",
                json!(65536),
                "has the counters 65536",
            ),
            (
                "/services/1/stats",
                json!(1024),
                "service b has the counters 1024",
            ),
            (
                "/services/1/backends/1/id",
                json!(7),
                "the backends of service b",
            ),
            (
                "/services/1/id",
                json!(7),
                "the services of its specification",
            ),
            (
                "/folds",
                json!([{"backend_stats": 3, "service_stats": 0}]),
                "counters 3 of a backend that is gone",
            ),
            (
                "/services/1/marks",
                marks(json!([]), "fb0100"),
                "service b: slot 251 of 251 is marked",
            ),
            // Slot 3 is open since opening 0, its base in row 2.
            (
                "/services/1/marks",
                marks(json!([5]), "030102"),
                "service b: slot 3 is open with base row 2",
            ),
            (
                "/services/0/marks",
                marks(json!([5]), "0301"),
                "service a: marks of slots end in the middle",
            ),
            (
                "/services/0/marks",
                marks(json!([5]), "3"),
                "service a: marks of slots must be",
            ),
            (
                "/services/0/marks",
                marks(json!([]), "030100"),
                "slot 3 is open since opening 0 of 0",
            ),
            (
                "/services/0/marks",
                marks(json!([5, 6]), "030100"),
                "no slot is open since opening 1",
            ),
            (
                "/services/0/marks",
                marks(json!([5]), "0300"),
                "no slot is open since opening 0",
            ),
        ];
        for (pointer, value, reason) in damages {
            let read = read(|record| *record.pointer_mut(pointer).expect(pointer) = value);
            let error = read.expect_err(pointer).to_string();
            assert!(error.contains(reason), "{pointer}: {error}");
        }
    }
}
