// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The validated specification of an instance, with every default filled in.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::addr::MacAddr;
use crate::document::choice::choice;
use crate::document::origin::Origin;
use crate::hash::HashSeed;
use crate::id::{BackendId, InstanceId, InterfaceName, ServiceId};
use crate::maglev::TableSize;
use crate::quic::lb;

choice! {
    /// How the program is attached to its interface.
    pub enum Mode {
        /// In the driver.
        Native = "native",
        /// In the kernel's generic hook, which every device has.
        Generic = "generic",
        /// On the network card.
        Offload = "offload",
    }
}

choice! {
    /// Which source address a forwarded frame leaves with.
    pub enum SourceMac {
        /// The one it came with.
        Keep = "keep",
        /// That of the interface it leaves through.
        Interface = "interface",
    }
}

choice! {
    /// Transport protocol of a service.
    #[non_exhaustive]
    pub enum Protocol {
        /// UDP, which carries QUIC.
        Udp = "udp",
        /// TCP.
        Tcp = "tcp",
    }
}

impl Protocol {
    /// The protocol's number in the IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }
}

choice! {
    /// What of a packet indexes the table.
    pub enum HashOf {
        /// The client's address and port.
        Flow = "flow",
        /// The client's address alone.
        Source = "source",
    }
}

choice! {
    /// Which flows get an entry in the flow map.
    pub enum Tracking {
        /// Every flow.
        All = "all",
        /// The flows that the table alone would misplace after a change.
        Exceptions = "exceptions",
    }
}

choice! {
    /// What happens to IP fragments addressed to a service.
    pub enum Fragments {
        /// Dropped and counted.
        Drop = "drop",
        /// Left to the host.
        Pass = "pass",
        /// Sent where the client's other packets go.
        Route = "route",
    }
}

choice! {
    /// What names the backend of a QUIC packet.
    pub enum Routing {
        /// Server ID in the connection ID (QUIC-LB).
        ServerId = "server-id",
        /// Connection IDs seen on a flow are bound to its backend.
        Learned = "learned",
        /// The flow alone.
        Tuple = "tuple",
    }
}

choice! {
    /// What happens to a packet in mid-flow whose server ID belongs to no backend.
    pub enum UnknownServerId {
        /// Dropped and counted.
        Drop = "drop",
        /// Placed by its flow.
        Fallback = "fallback",
    }
}

choice! {
    /// What happens to a packet in mid-flow whose server ID names an unhealthy backend.
    pub enum Unhealthy {
        /// Placed by its flow.
        Fallback = "fallback",
        /// Dropped and counted.
        Drop = "drop",
    }
}

choice! {
    /// What the operator says about a backend.
    pub enum BackendState {
        /// Takes new flows.
        Ready = "ready",
        /// Keeps its flows and takes no new ones.
        Draining = "draining",
        /// Takes nothing.
        Unhealthy = "unhealthy",
    }
}

/// A validated specification: one instance and all its services.
///
/// It can only be made by the validator ([`Spec::from_json`], [`Spec::new`]) and not be changed
/// afterwards. Services are in the order of their names, backends of their ids, configs of their
/// config ids; the place each had in the document it came from is in [`Service::pointer`] and
/// [`Backend::pointer`] and takes no part in comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub(super) instance_id: InstanceId,
    pub(super) interface: InterfaceName,
    pub(super) mode: Mode,
    pub(super) root_array: Option<RootArray>,
    pub(super) hash_seed: HashSeed,
    pub(super) source_mac: SourceMac,
    pub(super) events_per_second: u32,
    pub(super) limits: Limits,
    pub(super) services: Vec<Service>,
}

impl Spec {
    /// The instance's name.
    pub fn instance_id(&self) -> InstanceId {
        self.instance_id
    }

    /// The interface where clients' packets arrive.
    pub fn interface(&self) -> &InterfaceName {
        &self.interface
    }

    /// How the program is attached; with a [`root_array`](Self::root_array), how the program is
    /// that calls it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The place in the array of the interface's owner from which the program is called instead of
    /// being attached; none where it is attached.
    pub fn root_array(&self) -> Option<&RootArray> {
        self.root_array.as_ref()
    }

    /// The secret of the flow hash.
    pub fn hash_seed(&self) -> HashSeed {
        self.hash_seed
    }

    /// Which source address forwarded frames leave with.
    pub fn source_mac(&self) -> SourceMac {
        self.source_mac
    }

    /// Most events of one kind per second and CPU; 0 turns them off.
    pub fn events_per_second(&self) -> u32 {
        self.events_per_second
    }

    /// The sizes of the instance's maps.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The services in the order of their names; at least one.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The service of this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        let index = self
            .services
            .binary_search_by(|service| service.name.as_str().cmp(name))
            .ok()?;
        self.services.get(index)
    }
}

/// A place in a pinned array of programs, from which the root program on an interface that has
/// another owner calls this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RootArray {
    pub(super) path: PathBuf,
    pub(super) index: u32,
}

impl RootArray {
    /// Where the array is pinned; absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The index in the array.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl std::fmt::Display for RootArray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index {} of {}", self.index, self.path.display())
    }
}

/// Sizes of what an instance may use; `flows`, `cids` and `slots` are fixed when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Entries of the flow map.
    pub flows: u32,
    /// Entries of the map of connection IDs.
    pub cids: u32,
    /// Largest table of a service.
    pub slots: u32,
    /// Memory of all maps together, in MiB.
    pub memory_mib: u32,
}

/// One service: a virtual address, protocol and port with its backends and rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Service {
    /// Unique name.
    pub name: String,
    /// The number derived from name, address, protocol and port.
    pub id: ServiceId,
    /// Virtual address.
    pub vip: IpAddr,
    /// Port.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Length of the connection IDs in short headers; 0 when unknown.
    pub short_dcid_len: u8,
    /// Whether what is not QUIC is left to the host.
    pub quic_only: bool,
    /// Slots of the table.
    pub maglev_table_size: TableSize,
    /// What of a packet indexes the table.
    pub hash: HashOf,
    /// Which flows get an entry.
    pub tracking: Tracking,
    /// A flow without packets for so long is dead.
    pub flow_idle: Duration,
    /// A learned or imported connection ID without packets for so long is dead.
    pub cid_idle: Duration,
    /// For so long after a change the first packets of a QUIC handshake count as mid-flow.
    pub handshake_grace: Duration,
    /// What happens to fragments.
    pub fragments: Fragments,
    /// How connection IDs are read; meaningless unless [`Service::reads_quic`].
    pub quic: Quic,
    /// Backends in the order of their ids.
    pub backends: Vec<Backend>,
    pub(super) origin: Origin,
}

impl Service {
    /// Whether connection IDs are read: a UDP service that is QUIC only or not routed by tuple.
    pub fn reads_quic(&self) -> bool {
        self.protocol == Protocol::Udp && (self.quic_only || self.quic.routing != Routing::Tuple)
    }

    /// Where the service stood in the document it came from, as a JSON pointer.
    pub fn pointer(&self) -> String {
        format!("/services/{}", self.origin.0)
    }

    /// The backend with this id.
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        let index = self
            .backends
            .binary_search_by_key(&id, |backend| backend.id)
            .ok()?;
        self.backends.get(index)
    }
}

/// How a service reads connection IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quic {
    /// What names the backend.
    pub routing: Routing,
    /// Forms of the servers' connection IDs in the order of their config ids; only with
    /// [`Routing::ServerId`].
    pub configs: Vec<CidConfig>,
    /// What happens to a server ID that belongs to nobody.
    pub unknown_server_id: UnknownServerId,
    /// What happens to a server ID whose backend is unhealthy.
    pub unhealthy: Unhealthy,
    /// A server ID that left is given to nobody else for so long.
    pub quarantine: Duration,
}

/// One form of connection ID that carries a server ID (QUIC-LB).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CidConfig {
    /// The number in the first three bits of the connection ID, 0 to 6.
    pub config_id: u8,
    /// Bytes of server ID.
    pub server_id_len: u8,
    /// Bytes of nonce.
    pub nonce_len: u8,
    /// Bytes behind the nonce.
    pub extra_len: u8,
    /// Key that hides server ID and nonce; without one they are in clear.
    pub key: Option<lb::Key>,
    /// Whether the first byte's low five bits give the length of the connection ID less one.
    pub encodes_length: bool,
    pub(super) decoder: lb::Config,
    pub(super) origin: Origin,
}

impl CidConfig {
    /// Length of the connection IDs in bytes.
    pub fn cid_len(&self) -> u8 {
        1 + self.server_id_len + self.nonce_len + self.extra_len
    }

    /// The same config as reader of connection IDs.
    pub fn decoder(&self) -> &lb::Config {
        &self.decoder
    }

    /// Where the config stood among its service's in the document it came from.
    pub fn position(&self) -> usize {
        self.origin.0
    }
}

/// One backend of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backend {
    /// Number, unique in the service.
    pub id: BackendId,
    /// Interface that leads to it.
    pub interface: InterfaceName,
    /// Its link-layer address.
    pub mac: MacAddr,
    /// Share of the table relative to the others.
    pub weight: u16,
    /// What the operator says about it.
    pub state: BackendState,
    /// Server IDs in its connection IDs, in the document's order.
    pub server_ids: Vec<lb::ServerId>,
    pub(super) origin: (Origin, Origin),
}

impl Backend {
    /// Whether the backend takes new flows: ready, and of a weight above 0.
    pub fn takes_new_flows(&self) -> bool {
        self.state == BackendState::Ready && self.weight > 0
    }

    /// Where the backend stood in the document it came from, as a JSON pointer.
    pub fn pointer(&self) -> String {
        format!(
            "/services/{}/backends/{}",
            self.origin.0 .0, self.origin.1 .0
        )
    }
}
