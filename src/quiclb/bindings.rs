// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Exact bindings of connection IDs: registering them, and taking them from one instance to another.
//!
//! A server's control plane registers every connection ID before the server sends it; from then on
//! packets with it go to that backend, whatever address they come from. Registering takes no lock:
//! it writes single entries, each so that packets and everybody else who writes the same entry see
//! the old binding or the new one.

mod error;
mod export;
mod import;
mod read;
mod table;
mod usage;
mod view;

use std::ops::ControlFlow;
use std::time::Duration;

pub use error::RegisterError;
pub use export::{ExportSchema, Exported};
pub use import::{ImportError, ImportSchema, Imported};
pub use read::{read_affinity, ReadError};
pub use usage::UseBindingsError;
pub(super) use view::Registry;

use self::table::{Judged, Settled, Table};
use self::view::View;
use super::instance::QuicLb;
use crate::affinity::{cid_tag, BackendView, Binding, CidKey, Origin, Phase, ServiceView};
use crate::id::{BackendId, ServiceId};
use crate::kernel::{barrier, clock};
use crate::quic::Cid;

/// A connection ID to be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The service whose packets have it.
    pub service: ServiceId,
    /// The connection ID.
    pub cid: Cid,
    /// The backend that issued it.
    pub backend: BackendId,
    /// How long it is valid from now on; none: until it is unregistered or its backend is removed.
    pub ttl: Option<Duration>,
}

impl QuicLb {
    /// Binds a connection ID to a backend. Packets follow it when the call has returned; a server
    /// sends the connection ID only then.
    ///
    /// Registering it again for the same backend changes its time to live and nothing else. A
    /// binding that was learned or imported makes way. Packets never prolong or delete a registered
    /// binding: it ends with [`unregister`](Self::unregister), its time to live, or its backend.
    ///
    /// A packet that comes while the backend is unhealthy is placed anew by the table, and rebinds
    /// the connection ID, registered as it is, to the backend that it gets: packets do not go back
    /// when the first one recovers, and registering for it again is a
    /// [`Conflict`](RegisterError::Conflict) until the connection ID is unregistered.
    ///
    /// A call takes some microseconds; the first one loads a program, and one that replaces what was
    /// learned takes 8 to 30 ms, until no packet acts upon that any more. Takes CAP_BPF, and no
    /// lock. Minimum kernel: 6.1.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing is bound anew then.
    pub fn register(
        &self,
        service: ServiceId,
        cid: &Cid,
        backend: BackendId,
        ttl: Option<Duration>,
    ) -> Result<(), RegisterError> {
        let registration = Registration {
            service,
            cid: *cid,
            backend,
            ttl,
        };
        let mut results = self.register_many(&[registration])?;
        results.pop().unwrap_or(Ok(()))
    }

    /// Registers many connection IDs at once. The result of each is in its place; those that fail do
    /// not keep the others back.
    ///
    /// # Errors
    /// None could be tried: nothing is published, or the instance cannot be read or written.
    pub fn register_many(
        &self,
        registrations: &[Registration],
    ) -> Result<Vec<Result<(), RegisterError>>, RegisterError> {
        let view = self.view()?.ok_or(RegisterError::NothingPublished)?;
        let binder = self.binder()?;
        let table = Table {
            cids: &self.maps.cids,
            binder: &binder,
            stats: None,
        };
        let mut results = Vec::with_capacity(registrations.len());
        let mut overtaken = Vec::new();
        for (index, registration) in registrations.iter().enumerate() {
            let wanted = Wanted::of(&view, registration);
            results.push(wanted.and_then(|wanted| {
                if wanted.write(table)? {
                    overtaken.push((index, wanted));
                }
                Ok(())
            }));
        }
        settle(table, overtaken, &mut results)?;
        Ok(results)
    }

    /// Ends the registration of a connection ID; whether it was registered. What was learned or
    /// imported stays.
    ///
    /// # Errors
    /// The instance cannot be read or written, or others held on to the entry.
    pub fn unregister(&self, service: ServiceId, cid: &Cid) -> Result<bool, RegisterError> {
        let key = CidKey::new(service, *cid);
        self.unregister_key(&key, |entry| entry.origin == Origin::Registered)
    }

    /// Ends all registrations of a backend; how many there were.
    ///
    /// # Errors
    /// The live generation has no such service or backend, or as [`unregister`](Self::unregister).
    pub fn unregister_backend(
        &self,
        service: ServiceId,
        backend: BackendId,
    ) -> Result<u64, RegisterError> {
        let view = self.view()?.ok_or(RegisterError::NothingPublished)?;
        let (_, of, backend) = place(&view, service, backend)?;
        let belongs = |entry: &Binding| {
            let bound = (entry.row, entry.incarnation) == (backend.row, backend.incarnation);
            bound && entry.origin == Origin::Registered
        };
        let mut keys = Vec::new();
        self.for_each_binding(|key, entry| {
            if key.service == of.id.get() && belongs(entry) {
                keys.push(*key);
            }
        })?;
        let mut ended = 0;
        for key in &keys {
            ended += u64::from(self.unregister_key(key, belongs)?);
        }
        Ok(ended)
    }

    fn unregister_key(
        &self,
        key: &CidKey,
        judge: impl FnMut(&Binding) -> bool,
    ) -> Result<bool, RegisterError> {
        let binder = self.binder()?;
        let table = Table {
            cids: &self.maps.cids,
            binder: &binder,
            stats: None,
        };
        let deleted = table.delete(key, judge)?;
        deleted.ok_or(RegisterError::Busy { cid: key.cid })
    }

    /// Calls `each` with every entry of the table that is whole.
    fn for_each_binding(
        &self,
        mut each: impl FnMut(&CidKey, &Binding),
    ) -> Result<(), super::InstanceError> {
        let seed = self.cid_seed()?;
        self.maps.cids.for_each(|key, value| {
            let entry = Binding::from_abi(value);
            // A stranger's value is what is left of an entry that was just deleted.
            if let (Some(id), true) = (CidKey::from_abi(key), entry.tag == cid_tag(key, seed)) {
                each(&id, &entry);
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}

/// The service and backend of these numbers.
fn place(
    view: &View,
    service: ServiceId,
    backend: BackendId,
) -> Result<(&crate::service::Service, &ServiceView, BackendView), RegisterError> {
    let (spec, of) = view
        .service(service)
        .ok_or(RegisterError::UnknownService { service })?;
    let backend = of
        .backend(backend)
        .ok_or_else(|| RegisterError::UnknownBackend {
            service: spec.name.clone(),
            backend,
        })?;
    Ok((spec, of, *backend))
}

/// A registration, and what it comes to.
struct Wanted<'a> {
    key: CidKey,
    service: &'a ServiceView,
    backend: BackendId,
    entry: Binding,
}

impl<'a> Wanted<'a> {
    fn of(view: &'a View, registration: &Registration) -> Result<Self, RegisterError> {
        let Registration {
            service,
            cid,
            backend,
            ttl,
        } = *registration;
        let (spec, of, backend) = place(view, service, backend)?;
        spec.admits_cid(&cid)
            .map_err(|why| RegisterError::Contract {
                service: spec.name.clone(),
                cid,
                why,
            })?;
        if !view.looks_up(spec) {
            let service = spec.name.clone();
            return Err(RegisterError::Unused { service });
        }
        if ttl == Some(Duration::ZERO) {
            return Err(RegisterError::NoTime);
        }
        let now_ns = clock::monotonic_coarse_ns();
        Ok(Self {
            key: CidKey::new(service, cid),
            service: of,
            backend: backend.id,
            entry: Binding {
                tag: 0,
                row: backend.row,
                incarnation: backend.incarnation,
                seen_ns: ttl.map_or(0, |ttl| now_ns.saturating_add(nanoseconds(ttl))),
                phase: Phase::Live,
                fin: false,
                rst: false,
                origin: Origin::Registered,
                learned: 0,
                hash: 0,
            },
        })
    }

    /// Writes the entry; whether packets may still write it as well, because they had made the one
    /// before it.
    fn write(&self, table: Table<'_>) -> Result<bool, RegisterError> {
        let (cid, wanted) = (self.key.cid, self.entry);
        let now_ns = clock::monotonic_coarse_ns();
        let settled = table.write(&self.key, |entry| match entry {
            Some(entry) if entry.origin == Origin::Registered && entry.holds(now_ns) => {
                match self.service.bound(entry) {
                    Some(bound) if bound.id != self.backend => Judged::Leave(Some(bound.id)),
                    Some(_) if entry.seen_ns == wanted.seen_ns && entry.phase == Phase::Live => {
                        Judged::Leave(None)
                    }
                    _ => Judged::Write(wanted),
                }
            }
            _ => Judged::Write(wanted),
        })?;
        match settled {
            Settled::Written { before } => {
                Ok(before.is_some_and(|before| before.origin != Origin::Registered))
            }
            Settled::Left(None) => Ok(false),
            Settled::Left(Some(backend)) => Err(RegisterError::Conflict { cid, backend }),
            Settled::Full => Err(RegisterError::MapFull {
                capacity: table.cids.map().shape().max_entries,
            }),
            Settled::Busy => Err(RegisterError::Busy { cid }),
        }
    }
}

/// How often an entry is written that packets may have written as well. Only one that a sweep has
/// deleted and packets have made again in between is written more than twice.
const ROUNDS: usize = 4;

/// Writes those once more that packets may have written as well, when no packet is left that took
/// the entry for its own: the time of a packet would be the end of the binding. A sweep may have
/// come by meanwhile, found it at its end and deleted it, so an entry that is missing is made again.
fn settle(
    table: Table<'_>,
    mut overtaken: Vec<(usize, Wanted<'_>)>,
    results: &mut [Result<(), RegisterError>],
) -> Result<(), RegisterError> {
    for _ in 1..ROUNDS {
        if overtaken.is_empty() {
            return Ok(());
        }
        barrier::wait_for_packets()?;
        overtaken.retain(|(index, wanted)| match wanted.write(table) {
            Ok(again) => again,
            Err(error) => {
                if let Some(result) = results.get_mut(*index) {
                    *result = Err(error);
                }
                false
            }
        });
    }
    for (index, wanted) in overtaken {
        if let Some(result) = results.get_mut(index) {
            let cid = wanted.key.cid;
            *result = Err(RegisterError::Busy { cid });
        }
    }
    Ok(())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
