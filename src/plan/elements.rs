// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A network card's form of a generation: elements of hash tables, with the generation's number in
//! each key.

use super::generation::{Generation, PlacedService};
use super::image::{
    backend_record, config_record, flags, fragments, keys, routing, server_id_record, unhealthy,
    unknown_server_id,
};
use crate::abi;
use crate::hash::FlowHashKey;
use crate::service::{Routing, Service};

/// The elements of one generation, each list in an order of its own that is always the same.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Elements {
    /// Number of the generation.
    pub number: u64,
    /// The rows of all services, empty ones included.
    pub rows: Vec<(abi::OffloadKey, abi::Backend)>,
    /// The slots of all services.
    pub slots: Vec<(abi::OffloadKey, abi::Slot)>,
    /// What is agreed for connection IDs.
    pub configs: Vec<(abi::OffloadKey, abi::OffloadConfig)>,
    /// Server IDs, those in quarantine included.
    pub ids: Vec<(abi::OffloadIdKey, abi::OffloadId)>,
    /// The services, and their entries for fragments.
    pub services: Vec<(abi::OffloadServiceKey, abi::OffloadService)>,
    /// What all services have in common.
    pub generation: abi::OffloadGeneration,
}

impl Elements {
    /// The elements of `generation`, under its number.
    pub fn build(generation: &Generation) -> Self {
        let number = generation.number;
        let (hash_key, hash_final) = FlowHashKey::new(generation.spec.hash_seed()).parts();
        let mut elements = Self {
            number,
            rows: Vec::new(),
            slots: Vec::new(),
            configs: Vec::new(),
            ids: Vec::new(),
            services: services(generation),
            generation: abi::OffloadGeneration {
                hash_final,
                hash_key,
            },
        };
        for (service, placed) in generation.services() {
            elements.add(generation, service, placed);
        }
        elements
    }

    fn add(&mut self, generation: &Generation, service: &Service, placed: &PlacedService) {
        let key = |index: u32| abi::OffloadKey {
            generation: generation.number,
            service: service.id.get(),
            index,
        };
        let rows = placed.rows.iter().map(|row| {
            row.as_ref()
                .map_or_else(abi::Backend::default, backend_record)
        });
        self.rows.extend((0..).map(key).zip(rows));
        self.slots
            .extend((0..).map(key).zip(placed.slots.iter().copied()));
        if service.quic.routing != Routing::ServerId || !service.reads_quic() {
            return;
        }
        self.configs
            .extend(service.quic.configs.iter().map(|config| {
                let record = config_record(config, &generation.contexts);
                let value = abi::OffloadConfig {
                    server_id_len: record.server_id_len,
                    nonce_len: record.nonce_len,
                    cid_len: record.cid_len,
                    mode: record.mode,
                    encodes_length: record.encodes_length,
                    zero: [0; 3],
                };
                (key(config.config_id.into()), value)
            }));
        self.ids.extend(placed.server_ids.iter().map(|id| {
            let record = server_id_record(id);
            let key = abi::OffloadIdKey {
                generation: generation.number,
                service: service.id.get(),
                config: record.config,
                length: record.length,
                zero: [0; 2],
                bytes: record.bytes,
            };
            let value = abi::OffloadId {
                row: record.row,
                zero: 0,
                flags: record.flags,
            };
            (key, value)
        }));
    }
}

fn services(generation: &Generation) -> Vec<(abi::OffloadServiceKey, abi::OffloadService)> {
    let entry = |(key, index, shared): (abi::ServiceKey, usize, bool)| {
        let service = &generation.spec.services()[index];
        let placed = &generation.services[index];
        let value = if shared {
            abi::OffloadService {
                flags: abi::ServiceFlag::GW_SERVICE_SHARED.0,
                stats: abi::Index::GW_INDEX_NONE.0,
                fragments: fragments(service),
                ..Default::default()
            }
        } else {
            abi::OffloadService {
                id: service.id.get(),
                slots: placed.slots.len() as u32,
                flags: flags(service, placed),
                stats: placed.stats,
                backends: placed.rows.len() as u16,
                routing: routing(service),
                fragments: fragments(service),
                unknown_server_id: unknown_server_id(service),
                unhealthy: unhealthy(service),
                short_dcid_len: service.short_dcid_len,
                zero: 0,
            }
        };
        let key = abi::OffloadServiceKey {
            generation: generation.number,
            service: key,
            zero: 0,
        };
        (key, value)
    };
    keys(generation).into_iter().map(entry).collect()
}
