// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Puts a specification and what was decided about it together into a generation.

use std::collections::HashMap;
use std::sync::Arc;

use super::generation::{Generation, PlacedBackend, PlacedServerId, PlacedService};
use super::record::{BackendRecord, QuarantinedId, ServiceRecord};
use super::world::World;
use crate::abi;
use crate::addr::MacAddr;
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

/// Builds the generation of `spec` with these rows, incarnations and counters.
pub(super) fn place(
    spec: Arc<Spec>,
    number: u64,
    records: &[ServiceRecord],
    quarantine: &[QuarantinedId],
    tables: &mut Tables,
) -> Result<Generation, Faults> {
    let mut services = Vec::with_capacity(spec.services().len());
    for service in spec.services() {
        let Some(record) = records.iter().find(|record| record.id == service.id.get()) else {
            let message = format!("{} has no place in the record", service.name);
            return Err(Fault::new(service.pointer(), FaultCode::Missing, message).into());
        };
        let built = tables.of(service, record)?;
        services.push(PlacedService {
            stats: record.stats,
            grace_until_ns: 0,
            rows: rows(&spec, service, record),
            exact: service.quic.routing == Routing::Learned && service.reads_quic(),
            server_ids: server_ids(service, record, quarantine),
            table: built.table,
            slots: built.slots,
        });
    }
    Ok(Generation {
        number,
        spec,
        services,
    })
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
/// one.
#[derive(Default)]
pub(super) struct Tables {
    built: HashMap<Ingredients, Built>,
}

/// A table and the slot words that packets read.
#[derive(Clone)]
struct Built {
    table: Arc<Table<u16>>,
    slots: Arc<[abi::Slot]>,
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
    fn of(&mut self, service: &Service, record: &ServiceRecord) -> Result<Built, Faults> {
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

    /// The table of `service` with the rows that its backends would have if they were all new.
    pub(super) fn anywhere(&mut self, service: &Service) -> Result<Arc<Table<u16>>, Faults> {
        // The specification allows fewer backends than a row has values.
        let members = (0..)
            .zip(&service.backends)
            .map(|(row, backend)| (backend.id.get(), row, weight(backend)))
            .collect();
        Ok(self.built(service, members)?.table)
    }

    fn built(&mut self, service: &Service, members: Vec<(u32, u16, u16)>) -> Result<Built, Faults> {
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
        self.built.insert(ingredients, built.clone());
        Ok(built)
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
    fn build(&self) -> Result<Built, String> {
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
        let table = Table::build(self.size, &members).map_err(|error| error.to_string())?;
        let slots = table
            .slots()
            .iter()
            // All plain: a slot is marked only where flow state remembers who was there before.
            .map(|&owner| abi::Slot {
                owner,
                base: abi::SlotWord::GW_SLOT_PLAIN.0 as u16,
            })
            .collect();
        Ok(Built {
            table: Arc::new(table),
            slots,
        })
    }
}
