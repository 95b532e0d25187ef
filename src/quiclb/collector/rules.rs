// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The services of a generation as a sweep needs them: where packets look, and how long they
//! remember.

use std::collections::BTreeMap;

use super::CollectError;
use crate::abi;
use crate::affinity::collect::Patience;
use crate::hash::FlowHashKey;
use crate::kernel::publish::{Generation, CELL_BYTES};
use crate::plan::Live;
use crate::service::{HashOf, Tracking};

/// One service.
#[derive(Debug, Clone)]
pub(super) struct ServiceRules {
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) tracking: Tracking,
    pub(super) hash_of: HashOf,
    pub(super) patience: Patience,
    /// The cell of its record.
    pub(super) cell: u32,
    pub(super) record: abi::Service,
}

/// What a sweep of one generation goes by.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Number of the generation.
    pub(super) generation: u64,
    /// Cells that it uses.
    pub(super) cells: u32,
    pub(super) hash: FlowHashKey,
    /// In the order of their ids.
    pub(super) services: Vec<ServiceRules>,
    /// Incarnations of the backends by the index of their counters; 0 where there is none.
    pub(super) incarnations: Vec<u32>,
}

impl Rules {
    /// Reads them from the cells of the live generation, which packets read, too.
    pub(super) fn of(live: &Live, cells: &Generation) -> Result<Self, CollectError> {
        let header: abi::Generation = record(&cells.cell(0)?);
        let mut records = BTreeMap::new();
        for index in 0..=header.directory_mask {
            let cell = header.directory_at + index;
            let service: abi::Service = record(&cells.cell(cell)?);
            // Port 0 is where fragments look.
            if service.key.family != 0 && service.key.port != 0 {
                records.insert(service.id, (cell, service));
            }
        }
        let services = live.spec().services().iter().map(|service| {
            let id = service.id.get();
            let found = records.get(&id).filter(|_| header.number == live.number());
            let (cell, record) = *found.ok_or_else(|| CollectError::Generation {
                number: live.number(),
                service: service.name.clone(),
            })?;
            Ok(ServiceRules {
                name: service.name.clone(),
                id,
                tracking: service.tracking,
                hash_of: service.hash,
                patience: Patience::of(service),
                cell,
                record,
            })
        });
        let mut services: Vec<_> = services.collect::<Result<_, CollectError>>()?;
        services.sort_by_key(|service| service.id);
        let mut incarnations = Vec::new();
        for backend in live.placed().flat_map(|(_, record)| &record.backends) {
            let index = backend.stats as usize;
            incarnations.resize(incarnations.len().max(index + 1), 0);
            incarnations[index] = backend.incarnation;
        }
        Ok(Self {
            generation: live.number(),
            cells: header.cells,
            hash: FlowHashKey::new(live.spec().hash_seed()),
            services,
            incarnations,
        })
    }

    /// Room to count the entries of each backend.
    pub(super) fn none_bound(&self) -> Vec<abi::Bound> {
        let bound = |&incarnation| abi::Bound {
            incarnation,
            ..Default::default()
        };
        self.incarnations.iter().map(bound).collect()
    }

    /// Place of a service.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.services
            .binary_search_by_key(&id, |service| service.id)
            .ok()
    }
}

/// The record at the beginning of a cell.
pub(super) fn record<R: bytemuck::Pod>(cell: &[u8; CELL_BYTES]) -> R {
    bytemuck::pod_read_unaligned(&cell[..size_of::<R>()])
}
