// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What bindings need to know of the live generation, kept until another one is live.

use std::sync::{Arc, Mutex, PoisonError};

use super::table::Binder;
use crate::affinity::{BackendView, ServiceView};
use crate::id::ServiceId;
use crate::plan::Live;
use crate::quiclb::error::InstanceError;
use crate::quiclb::instance::{entries, QuicLb};
use crate::service::{BackendState, Service};

/// What a handle of an instance keeps to bind connection IDs with.
#[derive(Debug, Default)]
pub(in crate::quiclb) struct Registry {
    view: Mutex<Option<Arc<View>>>,
    binder: Mutex<Option<Arc<Binder>>>,
}

/// The live generation as bindings see it.
#[derive(Debug)]
pub(super) struct View {
    /// The kernel's number of its map: no two generations have one.
    map_id: u32,
    pub(super) live: Live,
    /// By number of the service.
    services: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    view: ServiceView,
    /// Index among the services of the specification.
    index: usize,
    stats: u32,
}

impl View {
    fn new(map_id: u32, live: Live) -> Self {
        let mut services: Vec<_> = live
            .placed()
            .enumerate()
            .map(|(index, (service, record))| Entry {
                view: ServiceView {
                    id: service.id,
                    vip: service.vip,
                    protocol: service.protocol,
                    port: service.port,
                    contract: service.cid_contract(),
                    admits: true,
                    backends: service
                        .backends
                        .iter()
                        .filter_map(|backend| {
                            let placed = record.backend(backend.id.get())?;
                            Some(BackendView {
                                id: backend.id,
                                row: placed.row,
                                incarnation: placed.incarnation,
                                usable: backend.state != BackendState::Unhealthy,
                            })
                        })
                        .collect(),
                },
                index,
                stats: record.stats,
            })
            .collect();
        services.sort_by_key(|entry| entry.view.id);
        Self {
            map_id,
            live,
            services,
        }
    }

    fn entry(&self, service: ServiceId) -> Option<&Entry> {
        let id = |entry: &Entry| entry.view.id;
        let index = self.services.binary_search_by_key(&service, id).ok()?;
        self.services.get(index)
    }

    /// A service: its specification and what bindings see of it.
    pub(super) fn service(&self, service: ServiceId) -> Option<(&Service, &ServiceView)> {
        let entry = self.entry(service)?;
        let service = self.live.spec().services().get(entry.index)?;
        Some((service, &entry.view))
    }

    /// Index of the counters of a service.
    pub(super) fn stats(&self, service: ServiceId) -> Option<u32> {
        self.entry(service).map(|entry| entry.stats)
    }

    /// All services by number, with the indices of their counters.
    pub(super) fn services(&self) -> impl Iterator<Item = (&ServiceView, u32)> {
        self.services.iter().map(|entry| (&entry.view, entry.stats))
    }
}

impl QuicLb {
    /// The live generation as bindings see it; none before the first publication.
    pub(super) fn view(&self) -> Result<Option<Arc<View>>, InstanceError> {
        let mut kept = locked(&self.registry.view);
        loop {
            let Some(map_id) = self.maps.slot.live_id()? else {
                return Ok(None);
            };
            if let Some(view) = kept.as_ref().filter(|view| view.map_id == map_id) {
                return Ok(Some(Arc::clone(view)));
            }
            let live = self.live_record()?;
            // What was read belongs to that generation only if it is still the live one.
            if self.maps.slot.live_id()? == Some(map_id) {
                *kept = live.map(|live| Arc::new(View::new(map_id, live)));
            }
        }
    }

    /// The program that writes bindings.
    pub(super) fn binder(&self) -> Result<Arc<Binder>, InstanceError> {
        let mut kept = locked(&self.registry.binder);
        if let Some(binder) = kept.as_ref() {
            return Ok(Arc::clone(binder));
        }
        let maps = &self.maps;
        let shared = [
            maps.flows.map(),
            maps.cids.map(),
            maps.levels.map(),
            maps.collection.map(),
            maps.services.map(),
        ];
        let seed = self.cid_seed()?;
        let binder = Binder::load(&shared, &entries(&maps.meta.get(0)?), seed)?;
        Ok(Arc::clone(kept.insert(Arc::new(binder))))
    }

    /// The secret of the tags of connection IDs.
    pub(super) fn cid_seed(&self) -> Result<u64, InstanceError> {
        Ok(self.maps.collection.get(0)?.cid_seed)
    }
}

/// What a thread that panicked left in such a lock is whole: it is written in one step.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
