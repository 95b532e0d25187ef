// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Puts a specification and what was decided about it together into a generation.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::generation::{Generation, PlacedBackend, PlacedServerId, PlacedService};
use super::record::{BackendRecord, QuarantinedId, ServiceRecord};
use super::world::World;
use crate::abi;
use crate::addr::MacAddr;
use crate::affinity::Slots;
use crate::id::{BackendId, ServiceId};
use crate::maglev::{Member, Table, TableSize};
use crate::service::{
    Backend, BackendState, Fault, FaultCode, Faults, Routing, Service, SourceMac, Spec,
};

/// Fills in what depends on the machine: interface indices and source addresses.
pub(super) fn resolve(services: &mut [ServiceRecord], spec: &Spec, world: &World) {
    let ingress = world.device(spec.interface());
    for (record, service) in services.iter_mut().zip(spec.services()) {
        for (placed, backend) in record.backends.iter_mut().zip(&service.backends) {
            let Some(target) = world.device(&backend.interface) else {
                continue;
            };
            placed.ifindex = target.index;
            // A frame sent back where it came from must not keep the sender's address.
            let own = spec.source_mac() == SourceMac::Interface
                || ingress.is_some_and(|ingress| ingress.index == target.index);
            placed.source_mac = target.mac.filter(|_| own).map(MacAddr::octets);
        }
    }
}

/// A generation with what is known of its slots beside their words.
pub(super) struct Placed {
    pub(super) generation: Generation,
    /// Of each service, in their order.
    pub(super) slots: Vec<Slots>,
}

impl Placed {
    /// The service of this number, with its slots.
    pub(super) fn service(&self, id: ServiceId) -> Option<(&Service, &PlacedService, &Slots)> {
        let mut services = self.generation.services().zip(&self.slots);
        let found = services.find(|((service, _), _)| service.id == id);
        found.map(|((service, placed), slots)| (service, placed, slots))
    }
}

/// Builds the generation of `spec` with these rows, incarnations and counters. `slots` gives what
/// becomes of the slots of a service, from their owners.
pub(super) fn place(
    spec: Arc<Spec>,
    number: u64,
    records: &[ServiceRecord],
    quarantine: &[QuarantinedId],
    tables: &mut Tables,
    mut slots: impl FnMut(&Service, &ServiceRecord, &[u16]) -> Result<Slots, String>,
) -> Result<Placed, Faults> {
    let mut services = Vec::with_capacity(spec.services().len());
    let mut all_slots = Vec::with_capacity(spec.services().len());
    for service in spec.services() {
        let Some(record) = records.iter().find(|record| record.id == service.id.get()) else {
            let message = format!("{} has no place in the record", service.name);
            return Err(Fault::new(service.pointer(), FaultCode::Missing, message).into());
        };
        let table = tables.of(service, record)?;
        let slots = slots(service, record, table.slots())
            .map_err(|reason| Fault::new(service.pointer(), FaultCode::Missing, reason))?;
        services.push(PlacedService {
            stats: record.stats,
            grace_until_ns: record.grace_until_ns,
            rows: rows(&spec, service, record),
            exact: looks_for_exact(service, record),
            server_ids: server_ids(service, record, quarantine),
            table,
            slots: tables.words(&slots),
        });
        all_slots.push(slots);
    }
    Ok(Placed {
        generation: Generation {
            number,
            spec,
            services,
            contexts: Vec::new(),
        },
        slots: all_slots,
    })
}

/// Whether packets look for an exact binding of their connection ID.
pub(crate) fn looks_for_exact(service: &Service, record: &ServiceRecord) -> bool {
    service.reads_quic() && (record.exact || service.quic.routing == Routing::Learned)
}

fn rows(spec: &Spec, service: &Service, record: &ServiceRecord) -> Vec<Option<PlacedBackend>> {
    let len = record
        .backends
        .iter()
        .map(|backend| usize::from(backend.row) + 1)
        .max();
    let mut rows = vec![None; len.unwrap_or(0)];
    for backend in &service.backends {
        let Some(placed) = record.backend(backend.id.get()) else {
            continue;
        };
        rows[usize::from(placed.row)] = Some(backend_in(spec, backend, placed));
    }
    rows
}

fn backend_in(spec: &Spec, backend: &Backend, placed: &BackendRecord) -> PlacedBackend {
    PlacedBackend {
        id: backend.id,
        row: placed.row,
        incarnation: placed.incarnation,
        stats: placed.stats,
        ifindex: placed.ifindex,
        transmit: backend.interface == *spec.interface(),
        mac: backend.mac,
        source_mac: placed.source_mac.map(MacAddr::new),
        state: match backend.state {
            BackendState::Ready if backend.weight == 0 => BackendState::Draining,
            state => state,
        },
    }
}

/// Each server ID under each config that has its length.
fn server_ids(
    service: &Service,
    record: &ServiceRecord,
    quarantine: &[QuarantinedId],
) -> Vec<PlacedServerId> {
    if service.quic.routing != Routing::ServerId {
        return Vec::new();
    }
    let named = service.backends.iter().flat_map(|backend| {
        let row = record.backend(backend.id.get()).map(|placed| placed.row);
        backend.server_ids.iter().map(move |id| (*id, row))
    });
    let reserved = quarantine
        .iter()
        .filter(|entry| entry.service == record.id)
        .filter_map(|entry| Some((entry.server_id.parse().ok()?, None)));
    named
        .chain(reserved)
        .flat_map(|(server_id, row)| {
            let len = server_id.as_bytes().len();
            let configs = service.quic.configs.iter();
            configs
                .filter(move |config| usize::from(config.server_id_len) == len)
                .map(move |config| PlacedServerId {
                    config_id: config.config_id,
                    server_id,
                    row,
                })
        })
        .collect()
}

/// Builds tables and remembers them by what they are made of: services with equal backends share
/// one, and the words of their slots as long as these are equal.
#[derive(Default)]
pub(super) struct Tables {
    built: HashMap<Ingredients, Arc<Table<u16>>>,
    words: HashSet<Words>,
}

/// Slot words that are equal if their contents are.
#[derive(Clone)]
struct Words(Arc<[abi::Slot]>);

impl Words {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.bytes() == other.bytes()
    }
}

impl Eq for Words {}

impl Hash for Words {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.bytes());
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Ingredients {
    size: TableSize,
    /// Id, row and weight of each backend; a weight of 0 takes no slot.
    members: Vec<(u32, u16, u16)>,
}

impl Tables {
    /// The table of `service` with the rows that `record` gives its backends.
    ///
    /// A backend's key is its id in decimal, so equal ids and weights give equal tables on every
    /// machine, whatever rows and interfaces are there.
    fn of(&mut self, service: &Service, record: &ServiceRecord) -> Result<Arc<Table<u16>>, Faults> {
        let members = service
            .backends
            .iter()
            .filter_map(|backend| {
                let row = record.backend(backend.id.get())?.row;
                Some((backend.id.get(), row, weight(backend)))
            })
            .collect();
        self.built(service, members)
    }

    /// The table of `service` with these rows, each backend's by its id.
    pub(super) fn with_rows(
        &mut self,
        service: &Service,
        row: impl Fn(BackendId) -> u16,
    ) -> Result<Arc<Table<u16>>, Faults> {
        let backends = service.backends.iter();
        let members = backends.map(|backend| (backend.id.get(), row(backend.id), weight(backend)));
        self.built(service, members.collect())
    }

    fn built(
        &mut self,
        service: &Service,
        members: Vec<(u32, u16, u16)>,
    ) -> Result<Arc<Table<u16>>, Faults> {
        let ingredients = Ingredients {
            size: service.maglev_table_size,
            members,
        };
        if let Some(built) = self.built.get(&ingredients) {
            return Ok(built.clone());
        }
        // A validated specification has distinct ids, few backends and a prime size; what is
        // refused here all the same is shown where the size stands.
        let built = ingredients.build().map_err(|message| {
            let pointer = format!("{}/maglev_table_size", service.pointer());
            Faults::from(Fault::new(pointer, FaultCode::Capacity, message))
        })?;
        let built = Arc::new(built);
        self.built.insert(ingredients, built.clone());
        Ok(built)
    }

    /// The words of these slots: those of equal ones before, if there were any.
    fn words(&mut self, slots: &Slots) -> Arc<[abi::Slot]> {
        let words = Words(slots.words().clone());
        if let Some(known) = self.words.get(&words) {
            return known.0.clone();
        }
        self.words.insert(words.clone());
        words.0
    }
}

/// The weight by which a backend gets slots.
fn weight(backend: &Backend) -> u16 {
    if backend.takes_new_flows() {
        backend.weight
    } else {
        0
    }
}

impl Ingredients {
    fn build(&self) -> Result<Table<u16>, String> {
        let keys: Vec<_> = self.members.iter().map(|(id, ..)| id.to_string()).collect();
        let members: Vec<_> = self
            .members
            .iter()
            .zip(&keys)
            .map(|(&(_, row, weight), key)| Member {
                key: key.as_bytes(),
                index: row,
                weight: weight.into(),
                eligible: weight > 0,
            })
            .collect();
        Table::build(self.size, &members).map_err(|error| error.to_string())
    }
}
