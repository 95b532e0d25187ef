// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The kernel's form of a generation: one array of cells.
//!
//! Cell 0 is the header. The directory follows, an open-addressed table with one service per cell,
//! then for each service the cells of its backends, server IDs and slots. Services with equal
//! slots share them. An address and protocol with services also gets an entry with port 0, which
//! fragments find.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::contexts::PlacedContext;
use super::generation::{Generation, PlacedBackend, PlacedServerId, PlacedService};
use crate::abi;
use crate::hash::{splitmix64, FlowHashKey};
use crate::image_hash::{directory_hash, server_id_hash};
use crate::service::{
    BackendState, CidConfig, Fragments, HashOf, Routing, Service, Tracking, Unhealthy,
    UnknownServerId,
};

const CELL_BYTES: usize = abi::Limit::GW_CELL_BYTES.0 as usize;
const MAX_PROBES: u32 = abi::Limit::GW_MAX_PROBES.0;
/// Seeds tried for one table size before the table is doubled.
const SEEDS: u64 = 256;
/// A table is doubled at most so often beyond twice its entries; with 256 seeds each, far more than
/// any set of distinct keys needs.
const DOUBLINGS: u32 = 8;

/// The generation does not fit the kernel's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No seed spreads the keys well enough: two of them are equal.
    #[error("{entries} keys of {what} cannot be placed within {MAX_PROBES} probes")]
    Unplaceable {
        /// What the keys are of.
        what: &'static str,
        /// How many there are.
        entries: usize,
    },
    /// More cells than an index can name.
    #[error("the generation needs {cells} cells, more than {}", u32::MAX)]
    TooLarge {
        /// Cells needed.
        cells: usize,
    },
}

/// The cells of a generation, ready to be copied into a kernel array.
#[derive(Clone)]
pub struct Image {
    // Eight-byte elements: every record is aligned to at most eight.
    words: Vec<u64>,
}

impl std::fmt::Debug for Image {
    /// The size alone: the content holds the key of the flow hash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("cells", &self.cells())
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Bytes of one cell.
    pub const CELL_BYTES: usize = CELL_BYTES;

    /// Lays out and fills the cells of `generation`.
    ///
    /// # Errors
    /// [`ImageError`] when no layout exists; a generation from [`plan`](super::plan) always has one.
    pub fn build(generation: &Generation) -> Result<Self, ImageError> {
        let layout = Layout::of(generation)?;
        let mut image = Self {
            words: vec![0; layout.cells * CELL_BYTES / 8],
        };
        image.header(generation, &layout);
        for entry in &layout.directory.entries {
            image.put(
                layout.directory.at + entry.index,
                0,
                &layout.record(generation, entry),
            );
        }
        for ((_, placed), at) in generation.services().zip(&layout.services) {
            image.service(placed, at);
        }
        Ok(image)
    }

    /// Number of cells.
    pub fn cells(&self) -> u32 {
        // `Layout::of` has checked that the number fits.
        (self.words.len() * 8 / CELL_BYTES) as u32
    }

    /// All cells, one after the other.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    fn header(&mut self, generation: &Generation, layout: &Layout) {
        self.put(
            0,
            0,
            &abi::Generation {
                magic: abi::Abi::GW_ABI_MAGIC.0,
                services: generation.services.len() as u32,
                number: generation.number,
                directory_seed: layout.directory.seed,
                directory_at: layout.directory.at as u32,
                directory_mask: layout.directory.mask,
                events_per_second: generation.spec.events_per_second(),
                cells: layout.cells as u32,
            },
        );
    }

    fn service(&mut self, placed: &PlacedService, at: &ServiceLayout) {
        for backend in placed.rows.iter().flatten() {
            self.put(
                at.backends,
                usize::from(backend.row),
                &backend_record(backend),
            );
        }
        if let Some(ids) = &at.server_ids {
            for (index, entry) in ids.entries.iter().zip(&placed.server_ids) {
                self.put(ids.at, *index, &server_id_record(entry));
            }
        }
        let start = at.slots * CELL_BYTES / 8;
        let bytes: &[u8] = bytemuck::cast_slice(&placed.slots);
        bytemuck::cast_slice_mut(&mut self.words[start..])[..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes record number `index` of an array of such records that begins with cell `cell`.
    fn put<R: bytemuck::Pod>(&mut self, cell: usize, index: usize, record: &R) {
        let start = cell * CELL_BYTES + index * size_of::<R>();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        bytes[start..start + size_of::<R>()].copy_from_slice(bytemuck::bytes_of(record));
    }
}

/// Where everything of a generation lies; cell numbers throughout.
pub(super) struct Layout {
    pub(super) cells: usize,
    directory: Directory,
    services: Vec<ServiceLayout>,
}

struct Directory {
    at: usize,
    mask: u32,
    seed: u64,
    entries: Vec<DirectoryEntry>,
}

struct DirectoryEntry {
    key: abi::ServiceKey,
    /// Index into the generation's services; for a shared fragment entry one of those that share.
    service: usize,
    shared: bool,
    /// Cell within the directory.
    index: usize,
}

struct ServiceLayout {
    backends: usize,
    server_ids: Option<ServerIdLayout>,
    slots: usize,
}

struct ServerIdLayout {
    at: usize,
    mask: u32,
    seed: u64,
    /// Index of each of the service's server IDs, in their order.
    entries: Vec<usize>,
}

impl Layout {
    pub(super) fn of(generation: &Generation) -> Result<Self, ImageError> {
        let directory = directory(generation, 1)?;
        let mut next = 1 + directory.mask as usize + 1;
        let mut take = |records: usize, record_bytes: usize| {
            let at = next;
            next += (records * record_bytes).div_ceil(CELL_BYTES);
            at
        };
        let mut shared: HashMap<*const abi::Slot, usize> = HashMap::new();
        let mut services = Vec::with_capacity(generation.services.len());
        for (service, placed) in generation.services() {
            let backends = take(placed.rows.len(), size_of::<abi::Backend>());
            let server_ids = match service.quic.routing {
                Routing::ServerId if service.reads_quic() => {
                    let (mask, seed, entries) = server_ids(&placed.server_ids)?;
                    let at = take(mask as usize + 1, size_of::<abi::ServerId>());
                    Some(ServerIdLayout {
                        at,
                        mask,
                        seed,
                        entries,
                    })
                }
                _ => None,
            };
            let slots = *shared
                .entry(Arc::as_ptr(&placed.slots).cast())
                .or_insert_with(|| take(placed.slots.len(), size_of::<abi::Slot>()));
            services.push(ServiceLayout {
                backends,
                server_ids,
                slots,
            });
        }
        match u32::try_from(next) {
            Ok(_) => Ok(Self {
                cells: next,
                directory,
                services,
            }),
            Err(_) => Err(ImageError::TooLarge { cells: next }),
        }
    }

    /// What a directory entry holds.
    fn record(&self, generation: &Generation, entry: &DirectoryEntry) -> abi::Service {
        let service = &generation.spec.services()[entry.service];
        if entry.shared {
            return abi::Service {
                key: entry.key,
                flags: abi::ServiceFlag::GW_SERVICE_SHARED.0,
                stats: abi::Index::GW_INDEX_NONE.0,
                fragments: fragments(service),
                ..Default::default()
            };
        }
        let at = &self.services[entry.service];
        let placed = &generation.services[entry.service];
        service_record(entry.key, generation, service, placed, at)
    }
}

/// The keys that packets look for: each with the service that it leads to, or one of those that
/// share an entry for fragments, and whether it is shared.
pub(super) fn keys(generation: &Generation) -> Vec<(abi::ServiceKey, usize, bool)> {
    let mut fragment_entries: HashMap<(IpAddr, u8), (usize, bool)> = HashMap::new();
    let mut keys = Vec::new();
    for (index, service) in generation.spec.services().iter().enumerate() {
        let protocol = service.protocol.number();
        keys.push((
            service_key(service.vip, protocol, service.port),
            index,
            false,
        ));
        fragment_entries
            .entry((service.vip, protocol))
            .and_modify(|(_, shared)| *shared = true)
            .or_insert((index, false));
    }
    let mut fragment_entries: Vec<_> = fragment_entries.into_iter().collect();
    fragment_entries.sort_unstable();
    let of_fragments = fragment_entries
        .into_iter()
        .map(|((vip, protocol), (service, shared))| {
            (service_key(vip, protocol, 0), service, shared)
        });
    keys.extend(of_fragments);
    keys
}

/// Puts every key into the directory.
fn directory(generation: &Generation, at: usize) -> Result<Directory, ImageError> {
    let mut entries: Vec<_> = keys(generation)
        .into_iter()
        .map(|(key, service, shared)| DirectoryEntry {
            key,
            service,
            shared,
            index: 0,
        })
        .collect();
    let (mask, seed, places) = place("services", entries.len(), |entry, seed| {
        directory_hash(&entries[entry].key, seed)
    })?;
    for (entry, place) in entries.iter_mut().zip(places) {
        entry.index = place;
    }
    Ok(Directory {
        at,
        mask,
        seed,
        entries,
    })
}

fn server_ids(ids: &[PlacedServerId]) -> Result<(u32, u64, Vec<usize>), ImageError> {
    let keys: Vec<_> = ids.iter().map(server_id_record).collect();
    place("server IDs", keys.len(), |entry, seed| {
        let key = &keys[entry];
        server_id_hash(key.config, key.length, &key.bytes, seed)
    })
}

/// Finds a table size and seed under which every key is found within the probes that the program
/// makes; gives mask, seed and the place of each key.
fn place(
    what: &'static str,
    entries: usize,
    hash: impl Fn(usize, u64) -> u32,
) -> Result<(u32, u64, Vec<usize>), ImageError> {
    let smallest = (entries * 2).next_power_of_two().max(MAX_PROBES as usize);
    for doubling in 0..DOUBLINGS {
        let size = smallest << doubling;
        // Fixed seeds: equal generations have equal images.
        let mut state = size as u64;
        for _ in 0..SEEDS {
            let seed = splitmix64(&mut state);
            if let Some(places) = try_place(entries, size, |entry| hash(entry, seed)) {
                return Ok((size as u32 - 1, seed, places));
            }
        }
    }
    Err(ImageError::Unplaceable { what, entries })
}

fn try_place(entries: usize, size: usize, hash: impl Fn(usize) -> u32) -> Option<Vec<usize>> {
    let mut used = vec![false; size];
    (0..entries)
        .map(|entry| {
            let start = hash(entry) as usize;
            let place = (0..MAX_PROBES as usize)
                .map(|probe| (start + probe) & (size - 1))
                .find(|&place| !used[place])?;
            used[place] = true;
            Some(place)
        })
        .collect()
}

/// The key under which packets to this address, protocol and port find their service.
pub(super) fn service_key(vip: IpAddr, protocol: u8, port: u16) -> abi::ServiceKey {
    let mut key = abi::ServiceKey {
        protocol,
        port: port.to_be(),
        ..Default::default()
    };
    match vip {
        IpAddr::V4(vip) => {
            key.family = 4;
            key.vip[..4].copy_from_slice(&vip.octets());
        }
        IpAddr::V6(vip) => {
            key.family = 6;
            key.vip = vip.octets();
        }
    }
    key
}

fn service_record(
    key: abi::ServiceKey,
    generation: &Generation,
    service: &Service,
    placed: &PlacedService,
    at: &ServiceLayout,
) -> abi::Service {
    let hash = FlowHashKey::new(generation.spec.hash_seed());
    let (hash_key, hash_final) = hash.parts();
    let mut record = abi::Service {
        key,
        id: service.id.get(),
        slots: placed.slots.len() as u32,
        slots_at: at.slots as u32,
        backends_at: at.backends as u32,
        flags: flags(service, placed),
        grace_until_ns: placed.grace_until_ns,
        hash_final,
        hash_key,
        stats: placed.stats,
        backends: placed.rows.len() as u16,
        routing: routing(service),
        fragments: fragments(service),
        unknown_server_id: unknown_server_id(service),
        unhealthy: unhealthy(service),
        short_dcid_len: service.short_dcid_len,
        ..Default::default()
    };
    if let Some(ids) = &at.server_ids {
        record.server_ids_at = ids.at as u32;
        record.server_ids_mask = ids.mask;
        record.server_id_seed = ids.seed;
        for config in &service.quic.configs {
            if let Some(entry) = record.configs.get_mut(usize::from(config.config_id)) {
                *entry = config_record(config, &generation.contexts);
            }
        }
    }
    record
}

pub(super) fn flags(service: &Service, placed: &PlacedService) -> u32 {
    use abi::ServiceFlag as Flag;
    [
        (service.reads_quic(), Flag::GW_SERVICE_QUIC),
        (service.quic_only, Flag::GW_SERVICE_QUIC_ONLY),
        (service.hash == HashOf::Source, Flag::GW_SERVICE_HASH_SOURCE),
        (
            service.tracking == Tracking::All,
            Flag::GW_SERVICE_TRACK_ALL,
        ),
        (placed.exact, Flag::GW_SERVICE_EXACT),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .fold(0, |flags, (_, flag)| flags | flag.0)
}

pub(super) fn routing(service: &Service) -> u8 {
    match service.quic.routing {
        Routing::ServerId => abi::Routing::GW_ROUTING_SERVER_ID,
        Routing::Learned => abi::Routing::GW_ROUTING_LEARNED,
        Routing::Tuple => abi::Routing::GW_ROUTING_TUPLE,
    }
    .0 as u8
}

pub(super) fn unknown_server_id(service: &Service) -> u8 {
    match service.quic.unknown_server_id {
        UnknownServerId::Drop => abi::Policy::GW_POLICY_DROP,
        UnknownServerId::Fallback => abi::Policy::GW_POLICY_FALLBACK,
    }
    .0 as u8
}

pub(super) fn unhealthy(service: &Service) -> u8 {
    match service.quic.unhealthy {
        Unhealthy::Drop => abi::Policy::GW_POLICY_DROP,
        Unhealthy::Fallback => abi::Policy::GW_POLICY_FALLBACK,
    }
    .0 as u8
}

pub(super) fn fragments(service: &Service) -> u8 {
    match service.fragments {
        Fragments::Drop => abi::Fragments::GW_FRAGMENTS_DROP,
        Fragments::Pass => abi::Fragments::GW_FRAGMENTS_PASS,
        Fragments::Route => abi::Fragments::GW_FRAGMENTS_ROUTE,
    }
    .0 as u8
}

pub(super) fn config_record(config: &CidConfig, contexts: &[PlacedContext]) -> abi::QuicConfig {
    let context = contexts
        .iter()
        .find(|context| Some(context.key) == config.key);
    let mode = match (config.decoder().decoder_passes(), context) {
        (0, _) => abi::QuicMode::GW_QUIC_MODE_PLAIN,
        // A keyed config is never published as a plain one: without a context it is none at all.
        (_, None) => abi::QuicMode::GW_QUIC_MODE_NONE,
        (1, _) => abi::QuicMode::GW_QUIC_MODE_SINGLE_PASS,
        (3, _) => abi::QuicMode::GW_QUIC_MODE_THREE_PASS,
        _ => abi::QuicMode::GW_QUIC_MODE_FOUR_PASS,
    };
    abi::QuicConfig {
        server_id_len: config.server_id_len,
        nonce_len: config.nonce_len,
        cid_len: config.cid_len(),
        mode: mode.0 as u8,
        encodes_length: u8::from(config.encodes_length),
        crypto_slot: context.map_or(0, |context| context.slot),
        crypto_incarnation: context.map_or(0, |context| context.incarnation),
        ..Default::default()
    }
}

pub(super) fn backend_record(backend: &PlacedBackend) -> abi::Backend {
    let mut flags = 0;
    if backend.transmit {
        flags |= abi::BackendFlag::GW_BACKEND_TX.0;
    }
    if backend.source_mac.is_some() {
        flags |= abi::BackendFlag::GW_BACKEND_SET_SOURCE.0;
    }
    abi::Backend {
        id: backend.id.get(),
        ifindex: backend.ifindex,
        incarnation: backend.incarnation,
        stats: backend.stats,
        state: match backend.state {
            BackendState::Ready => abi::BackendState::GW_BACKEND_READY,
            BackendState::Draining => abi::BackendState::GW_BACKEND_DRAINING,
            BackendState::Unhealthy => abi::BackendState::GW_BACKEND_UNHEALTHY,
        }
        .0 as u8,
        flags: flags as u8,
        dmac: backend.mac.octets(),
        smac: backend.source_mac.map_or([0; 6], |mac| mac.octets()),
        zero: [0; 2],
    }
}

pub(super) fn server_id_record(entry: &PlacedServerId) -> abi::ServerId {
    let mut bytes = [0; 16];
    let id = entry.server_id.as_bytes();
    bytes[..id.len()].copy_from_slice(id);
    let mut flags = abi::ServerIdFlag::GW_SERVER_ID_USED.0;
    if entry.row.is_none() {
        flags |= abi::ServerIdFlag::GW_SERVER_ID_QUARANTINED.0;
    }
    abi::ServerId {
        config: entry.config_id,
        length: id.len() as u8,
        row: entry.row.unwrap_or(abi::SlotWord::GW_SLOT_NONE.0 as u16),
        flags,
        bytes,
        zero: 0,
    }
}
