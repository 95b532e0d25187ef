// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of a document an instance takes, binding by binding.
//!
//! A binding is taken if the instance has the same service and the backend is ready or draining
//! there; backends are matched by the operator's number, never by row. What is bound here already
//! stays as it is unless the [`Conflict`] policy says otherwise. Connection IDs that no short header
//! shows to the service are not taken: packets would never find them. Nothing that the exporting host
//! measured is taken over: its clock is not ours.

mod report;

use std::net::IpAddr;

pub use report::{Example, Examples, ImportReport, Rejected, Rejection, EXAMPLES};

use super::document::{AffinityDocument, CidBinding, ServiceBindings};
use super::{Binding, CidContract, CidKey, Origin, Phase};
use crate::id::{BackendId, ServiceId};
use crate::quic::Cid;
use crate::service::Protocol;

/// What becomes of a connection ID that is bound to another backend here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Conflict {
    /// The binding here stays.
    #[default]
    Keep,
    /// An earlier import is replaced; what was learned or registered here stays.
    ReplaceImported,
    /// Nothing of the document is imported. Where packets bind a connection ID while the import
    /// writes already, it stops there.
    Fail,
}

impl Conflict {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Keep, Self::ReplaceImported, Self::Fail];

    /// The text of this value on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::ReplaceImported => "replace-imported",
            Self::Fail => "fail",
        }
    }
}

/// What an import needs to know of the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceView {
    /// The services of the live generation, in the order of their numbers.
    pub services: Vec<ServiceView>,
    /// Entries that may be added before those begin that are kept in reserve.
    pub room: u64,
    /// The monotonic clock in nanoseconds.
    pub now_ns: u64,
}

/// One service as bindings see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceView {
    /// Its number.
    pub id: ServiceId,
    /// Virtual address.
    pub vip: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
    /// Which connection IDs its packets can be found by.
    pub contract: CidContract,
    /// Whether its admission level lets imports in.
    pub admits: bool,
    /// Its backends, in the order of their ids.
    pub backends: Vec<BackendView>,
}

/// One backend as bindings see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackendView {
    /// The operator's number.
    pub id: BackendId,
    /// Its row.
    pub row: u16,
    /// Tells it from others in its row.
    pub incarnation: u32,
    /// Whether it is ready or draining: packets follow bindings to it.
    pub usable: bool,
}

impl ServiceView {
    /// The backend with this id.
    pub fn backend(&self, id: BackendId) -> Option<&BackendView> {
        let index = self.backends.binary_search_by_key(&id, |of| of.id).ok()?;
        self.backends.get(index)
    }

    /// The backend that an entry names; none if that is gone.
    pub fn bound(&self, entry: &Binding) -> Option<&BackendView> {
        let mut backends = self.backends.iter();
        backends.find(|of| (of.row, of.incarnation) == (entry.row, entry.incarnation))
    }
}

impl Binding {
    /// Whether the entry binds anything at this time: it is not about to be deleted, and if it was
    /// registered for a time, that is not over.
    pub fn holds(&self, now_ns: u64) -> bool {
        !self.has_ended(now_ns) && matches!(self.phase, Phase::Live | Phase::Expiring)
    }

    /// Whether it was registered for a time that is over: packets do not find it.
    pub fn has_ended(&self, now_ns: u64) -> bool {
        self.origin == Origin::Registered && self.seen_ns != 0 && self.seen_ns <= now_ns
    }
}

/// What is to be done to one connection ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing binds it: add an entry.
    Insert,
    /// Put the new binding in place of this entry, if it is still there as it is.
    Exchange(Binding),
}

/// What one binding meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// It is to be written.
    Write(Step),
    /// The same binding.
    Same,
    /// A binding to another backend, which stays.
    Other(BackendId),
}

/// What a binding to `wanted` meets where `entry` is found; `replaces` tells of which origin a
/// binding to another backend makes way.
pub(crate) fn meet(
    service: &ServiceView,
    entry: Option<&Binding>,
    wanted: BackendId,
    now_ns: u64,
    replaces: impl FnOnce(Origin) -> bool,
) -> Meeting {
    let Some(entry) = entry else {
        return Meeting::Write(Step::Insert);
    };
    let bound = service.bound(entry).filter(|_| entry.holds(now_ns));
    match bound.map(|backend| backend.id) {
        Some(bound) if bound == wanted => Meeting::Same,
        Some(bound) if !replaces(entry.origin) => Meeting::Other(bound),
        Some(_) | None => Meeting::Write(Step::Exchange(*entry)),
    }
}

/// One entry to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// The service and connection ID.
    pub key: CidKey,
    /// The backend.
    pub backend: BackendId,
    /// Its row.
    pub row: u16,
    /// Its incarnation.
    pub incarnation: u32,
    /// How.
    pub step: Step,
    /// Whether a binding that packets follow makes way for it.
    pub replaces: bool,
}

/// What came of an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The entry is written.
    Written,
    /// Somebody else bound it to the same backend in the meantime.
    Unchanged,
    /// Somebody else bound it to another backend in the meantime, and that stays.
    Kept,
    /// There is no room.
    Full,
}

/// What a document comes to on an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconciliation {
    /// What is to be written, in the order of services and connection IDs.
    pub actions: Vec<Action>,
    /// What needs nothing done, or must not be done.
    pub report: ImportReport,
    /// Whether bindings differ and the policy lets nothing be imported then: there are no actions.
    pub refused: bool,
}

impl Reconciliation {
    /// The report of an import in which nobody else writes.
    pub fn foreseen(mut self) -> ImportReport {
        for action in &self.actions {
            self.report.count(action, Outcome::Written);
        }
        self.report
    }
}

/// Compares a document with an instance; `lookup` gives the entry that a connection ID has there.
///
/// The same document gives the same actions in whatever order it came. Where the room does not
/// suffice, the first in the order of services and connection IDs have it.
///
/// # Errors
/// Only those of `lookup`.
pub fn reconcile<E>(
    document: &AffinityDocument,
    instance: &InstanceView,
    policy: Conflict,
    mut lookup: impl FnMut(&CidKey) -> Result<Option<Binding>, E>,
) -> Result<Reconciliation, E> {
    let mut result = Reconciliation {
        actions: Vec::new(),
        report: ImportReport::default(),
        refused: false,
    };
    let mut room = instance.room;
    for bindings in document.services() {
        let service = match here(bindings, instance) {
            Ok(service) => service,
            Err(why) => {
                for binding in &bindings.bindings {
                    result.report.reject(why, bindings.id, binding);
                }
                continue;
            }
        };
        let same_cid = |one: &CidBinding, other: &CidBinding| one.cid == other.cid;
        for group in bindings.bindings.chunk_by(same_cid) {
            let [binding] = group else {
                for binding in group {
                    let why = Rejection::DuplicateInDocument;
                    result.report.reject(why, service.id, binding);
                }
                continue;
            };
            if service.contract.admits(&binding.cid).is_err() {
                let why = Rejection::CidLength;
                result.report.reject(why, service.id, binding);
                continue;
            }
            let backend = match service.backend(binding.backend) {
                Some(backend) if backend.usable => backend,
                Some(_) => {
                    result
                        .report
                        .reject(Rejection::NotUsable, service.id, binding);
                    continue;
                }
                None => {
                    let why = Rejection::UnknownBackend;
                    result.report.reject(why, service.id, binding);
                    continue;
                }
            };
            let key = CidKey::new(service.id, binding.cid);
            let entry = lookup(&key)?;
            match meet(service, entry.as_ref(), backend.id, instance.now_ns, |of| {
                policy.replaces(of)
            }) {
                Meeting::Same => result.report.unchanged += 1,
                Meeting::Other(bound) => result.report.keep(service.id, binding, bound),
                Meeting::Write(Step::Insert) if !service.admits || room == 0 => {
                    let why = Rejection::TableFull;
                    result.report.reject(why, service.id, binding);
                }
                Meeting::Write(step) => {
                    room -= u64::from(step == Step::Insert);
                    result.actions.push(Action {
                        key,
                        backend: backend.id,
                        row: backend.row,
                        incarnation: backend.incarnation,
                        step,
                        replaces: entry
                            .is_some_and(|entry| replaced(service, &entry, instance.now_ns)),
                    });
                }
            }
        }
    }
    if policy == Conflict::Fail && result.report.kept > 0 {
        result.refused = true;
        result.actions.clear();
    }
    Ok(result)
}

/// The service that the bindings are for, if the instance has it.
fn here<'a>(
    bindings: &ServiceBindings,
    instance: &'a InstanceView,
) -> Result<&'a ServiceView, Rejection> {
    let services = &instance.services;
    let service = services
        .binary_search_by_key(&bindings.id, |service| service.id)
        .ok()
        .and_then(|index| services.get(index))
        .ok_or(Rejection::UnknownService)?;
    let document = (bindings.vip, bindings.protocol, bindings.port);
    if document != (service.vip, service.protocol, service.port) {
        Err(Rejection::ServiceDiffers)
    } else if !service.contract.reads_quic {
        Err(Rejection::NotUsable)
    } else {
        Ok(service)
    }
}

/// Whether an entry binds to a backend that is there.
fn replaced(service: &ServiceView, entry: &Binding, now_ns: u64) -> bool {
    entry.holds(now_ns) && service.bound(entry).is_some()
}

impl Conflict {
    /// Whether a binding of this origin makes way for an import.
    pub(crate) fn replaces(self, origin: Origin) -> bool {
        self == Self::ReplaceImported && origin == Origin::Imported
    }
}

impl Action {
    /// The entry to be written, seen now. The tag is the writer's affair.
    pub fn binding(&self, now_ns: u64) -> Binding {
        Binding {
            tag: 0,
            row: self.row,
            incarnation: self.incarnation,
            seen_ns: now_ns,
            phase: Phase::Live,
            fin: false,
            rst: false,
            origin: Origin::Imported,
            learned: 0,
            hash: 0,
        }
    }

    /// What is bound.
    pub fn cid(&self) -> Cid {
        self.key.cid
    }
}
