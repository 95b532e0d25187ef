// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A specification before validation, to be made in Rust.

use std::time::Duration;

use super::members::{backend, config, limits, quic, root, root_array, service};
use super::spec::{
    Backend, BackendState, CidConfig, Fragments, HashOf, Limits, Mode, Protocol, Quic, RootArray,
    Routing, Service, SourceMac, Spec, Tracking, Unhealthy, UnknownServerId,
};
use crate::document::field::Written;
use crate::document::tree::Value;
use crate::document::write::Object;
use crate::hash::HashSeed;
use crate::quic::lb::Key;

/// An instance to be validated by [`Spec::new`]. What is `None` takes its default.
///
/// ```
/// use guideway::service::{BackendDraft, ServiceDraft, Spec, SpecDraft};
///
/// let spec = Spec::new(&SpecDraft {
///     services: vec![ServiceDraft {
///         maglev_table_size: Some(4093),
///         backends: vec![
///             BackendDraft::new(1, "vm-edge-a", "02:00:00:00:01:01"),
///             BackendDraft { weight: Some(3), ..BackendDraft::new(2, "vm-edge-b", "02:00:00:00:01:02") },
///         ],
///         ..ServiceDraft::new("quic-api", "203.0.113.80", 443)
///     }],
///     ..SpecDraft::new("1d9016f2-8957-42bc-9dd7-32d684d76446", "edge0")
/// })?;
/// assert_eq!(spec.services()[0].backends[1].weight, 3);
/// # Ok::<(), guideway::service::Faults>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecDraft {
    /// The instance's UUID as text.
    pub instance_id: String,
    /// The interface where clients' packets arrive.
    pub interface: String,
    /// How the program is attached.
    pub mode: Option<Mode>,
    /// The place from which the program is called instead of being attached.
    pub root_array: Option<RootArrayDraft>,
    /// The secret of the flow hash.
    pub hash_seed: Option<HashSeed>,
    /// Which source address forwarded frames leave with.
    pub source_mac: Option<SourceMac>,
    /// Most events of one kind per second and CPU.
    pub events_per_second: Option<u32>,
    /// The sizes of the instance's maps.
    pub limits: LimitsDraft,
    /// The services.
    pub services: Vec<ServiceDraft>,
}

/// [`RootArray`] before validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootArrayDraft {
    /// Where the array is pinned.
    pub path: String,
    /// The index in the array.
    pub index: u32,
}

/// [`Limits`] before validation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitsDraft {
    /// Entries of the flow map.
    pub flows: Option<u32>,
    /// Entries of the map of connection IDs.
    pub cids: Option<u32>,
    /// Largest table of a service.
    pub slots: Option<u32>,
    /// Memory of all maps together, in MiB.
    pub memory_mib: Option<u32>,
}

/// A [`Service`] before validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceDraft {
    /// Unique name.
    pub name: String,
    /// Virtual address as text.
    pub vip: String,
    /// Port.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Option<Protocol>,
    /// Length of the connection IDs in short headers.
    pub short_dcid_len: Option<u8>,
    /// Whether what is not QUIC is left to the host.
    pub quic_only: Option<bool>,
    /// Slots of the table, a prime.
    pub maglev_table_size: Option<u32>,
    /// What of a packet indexes the table.
    pub hash: Option<HashOf>,
    /// Which flows get an entry.
    pub tracking: Option<Tracking>,
    /// A flow without packets for so long is dead.
    pub flow_idle: Option<Duration>,
    /// A learned or imported connection ID without packets for so long is dead.
    pub cid_idle: Option<Duration>,
    /// For so long after a change the first packets of a QUIC handshake count as mid-flow.
    pub handshake_grace: Option<Duration>,
    /// What happens to fragments.
    pub fragments: Option<Fragments>,
    /// How connection IDs are read.
    pub quic: Option<QuicDraft>,
    /// The backends.
    pub backends: Vec<BackendDraft>,
}

/// [`Quic`] before validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuicDraft {
    /// What names the backend.
    pub routing: Option<Routing>,
    /// Forms of the servers' connection IDs; only with [`Routing::ServerId`].
    pub configs: Option<Vec<CidConfigDraft>>,
    /// What happens to a server ID that belongs to nobody.
    pub unknown_server_id: Option<UnknownServerId>,
    /// What happens to a server ID whose backend is unhealthy.
    pub unhealthy: Option<Unhealthy>,
    /// A server ID that left is given to nobody else for so long.
    pub quarantine: Option<Duration>,
}

/// A [`CidConfig`] before validation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CidConfigDraft {
    /// The number in the first three bits of the connection ID.
    pub config_id: u8,
    /// Bytes of server ID.
    pub server_id_len: u8,
    /// Bytes of nonce.
    pub nonce_len: u8,
    /// Bytes behind the nonce.
    pub extra_len: u8,
    /// Key that hides server ID and nonce.
    pub key: Option<Key>,
    /// Whether the first byte gives the length.
    pub encodes_length: bool,
}

/// A [`Backend`] before validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendDraft {
    /// Number, unique in the service.
    pub id: u32,
    /// Interface that leads to it.
    pub interface: String,
    /// Its link-layer address as text.
    pub mac: String,
    /// Share of the table relative to the others.
    pub weight: Option<u16>,
    /// What the operator says about it.
    pub state: Option<BackendState>,
    /// Server IDs in its connection IDs, as hexadecimal text; only with [`Routing::ServerId`].
    pub server_ids: Option<Vec<String>>,
}

impl SpecDraft {
    /// An instance without services.
    pub fn new(instance_id: impl ToString, interface: impl ToString) -> Self {
        Self {
            instance_id: instance_id.to_string(),
            interface: interface.to_string(),
            ..Self::default()
        }
    }

    /// The document of the draft, members in canonical order.
    pub(super) fn written(&self) -> Value {
        let Self {
            instance_id,
            interface,
            mode,
            root_array,
            hash_seed,
            source_mac,
            events_per_second,
            limits,
            services,
        } = self;
        Object::default()
            .put(&root::INSTANCE_ID, Some(instance_id))
            .put(&root::INTERFACE, Some(interface))
            .put(&root::MODE, mode.as_ref())
            .put(&root::ROOT_ARRAY, root_array.as_ref())
            .put(&root::HASH_SEED, hash_seed.as_ref())
            .put(&root::SOURCE_MAC, source_mac.as_ref())
            .put(&root::EVENTS_PER_SECOND, events_per_second.as_ref())
            .put(&root::LIMITS, Some(limits))
            .put(&root::SERVICES, Some(services))
            .done()
    }
}

impl ServiceDraft {
    /// A UDP service without backends.
    pub fn new(name: impl ToString, vip: impl ToString, port: u16) -> Self {
        Self {
            name: name.to_string(),
            vip: vip.to_string(),
            port,
            ..Self::default()
        }
    }
}

impl BackendDraft {
    /// A ready backend of weight 1.
    pub fn new(id: u32, interface: impl ToString, mac: impl ToString) -> Self {
        Self {
            id,
            interface: interface.to_string(),
            mac: mac.to_string(),
            ..Self::default()
        }
    }
}

impl Written for RootArrayDraft {
    fn written(&self) -> Value {
        let Self { path, index } = self;
        Object::default()
            .put(&root_array::PATH, Some(path))
            .put(&root_array::INDEX, Some(index))
            .done()
    }
}

impl Written for LimitsDraft {
    fn written(&self) -> Value {
        let Self {
            flows,
            cids,
            slots,
            memory_mib,
        } = self;
        Object::default()
            .put(&limits::FLOWS, flows.as_ref())
            .put(&limits::CIDS, cids.as_ref())
            .put(&limits::SLOTS, slots.as_ref())
            .put(&limits::MEMORY_MIB, memory_mib.as_ref())
            .done()
    }
}

impl Written for ServiceDraft {
    fn written(&self) -> Value {
        let Self {
            name,
            vip,
            port,
            protocol,
            short_dcid_len,
            quic_only,
            maglev_table_size,
            hash,
            tracking,
            flow_idle,
            cid_idle,
            handshake_grace,
            fragments,
            quic,
            backends,
        } = self;
        Object::default()
            .put(&service::NAME, Some(name))
            .put(&service::VIP, Some(vip))
            .put(&service::PORT, Some(port))
            .put(&service::PROTOCOL, protocol.as_ref())
            .put(&service::SHORT_DCID_LEN, short_dcid_len.as_ref())
            .put(&service::QUIC_ONLY, quic_only.as_ref())
            .put(&service::MAGLEV_TABLE_SIZE, maglev_table_size.as_ref())
            .put(&service::HASH, hash.as_ref())
            .put(&service::TRACKING, tracking.as_ref())
            .put(&service::FLOW_IDLE, flow_idle.as_ref())
            .put(&service::CID_IDLE, cid_idle.as_ref())
            .put(&service::HANDSHAKE_GRACE, handshake_grace.as_ref())
            .put(&service::FRAGMENTS, fragments.as_ref())
            .put(&service::QUIC, quic.as_ref())
            .put(&service::BACKENDS, Some(backends))
            .done()
    }
}

impl Written for QuicDraft {
    fn written(&self) -> Value {
        let Self {
            routing,
            configs,
            unknown_server_id,
            unhealthy,
            quarantine,
        } = self;
        Object::default()
            .put(&quic::ROUTING, routing.as_ref())
            .put(&quic::CONFIGS, configs.as_ref())
            .put(&quic::UNKNOWN_SERVER_ID, unknown_server_id.as_ref())
            .put(&quic::UNHEALTHY, unhealthy.as_ref())
            .put(&quic::QUARANTINE, quarantine.as_ref())
            .done()
    }
}

impl Written for CidConfigDraft {
    fn written(&self) -> Value {
        let Self {
            config_id,
            server_id_len,
            nonce_len,
            extra_len,
            key,
            encodes_length,
        } = self;
        Object::default()
            .put(&config::CONFIG_ID, Some(config_id))
            .put(&config::SERVER_ID_LEN, Some(server_id_len))
            .put(&config::NONCE_LEN, Some(nonce_len))
            .put(&config::EXTRA_LEN, Some(extra_len))
            .put(&config::KEY, Some(key))
            .put(&config::ENCODES_LENGTH, Some(encodes_length))
            .done()
    }
}

impl Written for BackendDraft {
    fn written(&self) -> Value {
        let Self {
            id,
            interface,
            mac,
            weight,
            state,
            server_ids,
        } = self;
        Object::default()
            .put(&backend::ID, Some(id))
            .put(&backend::INTERFACE, Some(interface))
            .put(&backend::MAC, Some(mac))
            .put(&backend::WEIGHT, weight.as_ref())
            .put(&backend::STATE, state.as_ref())
            .put(&backend::SERVER_ID, server_ids.as_ref())
            .done()
    }
}

/// Every member that the specification may have, with its value in force: to be changed and
/// validated again.
impl From<&Spec> for SpecDraft {
    fn from(spec: &Spec) -> Self {
        let Limits {
            flows,
            cids,
            slots,
            memory_mib,
        } = spec.limits;
        Self {
            instance_id: spec.instance_id.to_string(),
            interface: spec.interface.to_string(),
            mode: Some(spec.mode),
            root_array: spec.root_array.as_ref().map(RootArrayDraft::from),
            hash_seed: Some(spec.hash_seed),
            source_mac: Some(spec.source_mac),
            events_per_second: Some(spec.events_per_second),
            limits: LimitsDraft {
                flows: Some(flows),
                cids: Some(cids),
                slots: Some(slots),
                memory_mib: Some(memory_mib),
            },
            services: spec.services.iter().map(ServiceDraft::from).collect(),
        }
    }
}

impl From<&RootArray> for RootArrayDraft {
    fn from(place: &RootArray) -> Self {
        Self {
            path: place.path.display().to_string(),
            index: place.index,
        }
    }
}

impl From<&Service> for ServiceDraft {
    fn from(service: &Service) -> Self {
        let is_udp = service.protocol == Protocol::Udp;
        let has_server_ids = is_udp && service.quic.routing == Routing::ServerId;
        Self {
            name: service.name.clone(),
            vip: service.vip.to_string(),
            port: service.port,
            protocol: Some(service.protocol),
            short_dcid_len: Some(service.short_dcid_len),
            quic_only: Some(service.quic_only),
            maglev_table_size: Some(service.maglev_table_size.get()),
            hash: Some(service.hash),
            tracking: Some(service.tracking),
            flow_idle: Some(service.flow_idle),
            cid_idle: Some(service.cid_idle),
            handshake_grace: Some(service.handshake_grace),
            fragments: Some(service.fragments),
            quic: is_udp.then(|| QuicDraft::from(&service.quic)),
            backends: service
                .backends
                .iter()
                .map(|backend| BackendDraft {
                    server_ids: has_server_ids.then(|| texts(&backend.server_ids)),
                    ..BackendDraft::from(backend)
                })
                .collect(),
        }
    }
}

impl From<&Quic> for QuicDraft {
    fn from(quic: &Quic) -> Self {
        let has_configs = quic.routing == Routing::ServerId;
        let configs = || quic.configs.iter().map(CidConfigDraft::from).collect();
        Self {
            routing: Some(quic.routing),
            configs: has_configs.then(configs),
            unknown_server_id: Some(quic.unknown_server_id),
            unhealthy: Some(quic.unhealthy),
            quarantine: Some(quic.quarantine),
        }
    }
}

impl From<&CidConfig> for CidConfigDraft {
    fn from(config: &CidConfig) -> Self {
        Self {
            config_id: config.config_id,
            server_id_len: config.server_id_len,
            nonce_len: config.nonce_len,
            extra_len: config.extra_len,
            key: config.key,
            encodes_length: config.encodes_length,
        }
    }
}

/// Server IDs are there if the backend has any.
impl From<&Backend> for BackendDraft {
    fn from(backend: &Backend) -> Self {
        Self {
            id: backend.id.get(),
            interface: backend.interface.to_string(),
            mac: backend.mac.to_string(),
            weight: Some(backend.weight),
            state: Some(backend.state),
            server_ids: (!backend.server_ids.is_empty()).then(|| texts(&backend.server_ids)),
        }
    }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}
