// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every member of the document, object by object, in canonical order.

/// Most entries of a flow or connection ID map.
const MAX_ENTRIES: u64 = 16_777_216;
const SECONDS_PER_DAY: u64 = 86_400;
/// From a second to a week.
const IDLE: (u64, u64) = (1, 7 * SECONDS_PER_DAY);

pub(super) mod root {
    use super::{limits, root_array, service};
    use crate::document::field::{
        choice, integer, interface, nested, uuid, Field, Need, Shape, Table,
    };
    use crate::hash::HashSeed;
    use crate::id::{InstanceId, InterfaceName};
    use crate::service::field::seed;
    use crate::service::spec::{Mode, SourceMac};

    pub(in crate::service) static INSTANCE_ID: Field<InstanceId> =
        uuid("instance_id", "Names the instance.");
    pub(in crate::service) static INTERFACE: Field<InterfaceName> =
        interface("interface", "Interface where clients' packets arrive.");
    pub(in crate::service) static MODE: Field<Mode> = choice(
        "mode",
        Need::Default(Mode::Native),
        "How the program is attached to the interface.",
    );
    pub(in crate::service) static ROOT_ARRAY: Field<()> = nested(
        "root_array",
        Need::Optional,
        Shape::Nullable(&Shape::Object(&root_array::TABLE)),
        "Where the interface has another owner: the place in that owner's array of programs to be \
         called from, instead of being attached. The mode is then that of the owner's program.",
    );
    pub(in crate::service) static HASH_SEED: Field<HashSeed> = seed(
        "hash_seed",
        "Secret that places flows, equal on all nodes of a fleet.",
    );
    pub(in crate::service) static SOURCE_MAC: Field<SourceMac> = choice(
        "source_mac",
        Need::Default(SourceMac::Keep),
        "Source address of forwarded frames: the one they came with, or that of the interface \
         they leave through.",
    );
    pub(in crate::service) static EVENTS_PER_SECOND: Field<u32> = integer(
        "events_per_second",
        Need::Default(1000),
        (0, 100_000),
        "Most events of one kind per second and CPU; 0 turns them off.",
    );
    pub(in crate::service) static LIMITS: Field<()> = nested(
        "limits",
        Need::Optional,
        Shape::Object(&limits::TABLE),
        "Sizes of what the instance may use.",
    );
    pub(in crate::service) static SERVICES: Field<()> = nested(
        "services",
        Need::Required,
        Shape::List {
            min: 1,
            max: 1024,
            of: &Shape::Object(&service::TABLE),
        },
        "The services of the instance.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "Specification of one load balancer instance.",
        fields: &[
            &INSTANCE_ID,
            &INTERFACE,
            &MODE,
            &ROOT_ARRAY,
            &HASH_SEED,
            &SOURCE_MAC,
            &EVENTS_PER_SECOND,
            &LIMITS,
            &SERVICES,
        ],
    };
}

pub(super) mod root_array {
    use std::path::PathBuf;

    use crate::document::field::{integer, Field, Need, Table};
    use crate::service::field::path;

    pub(in crate::service) static PATH: Field<PathBuf> =
        path("path", "Where the array is pinned: an absolute path.");
    pub(in crate::service) static INDEX: Field<u32> = integer(
        "index",
        Need::Required,
        (0, u32::MAX as u64 - 1),
        "The place in the array from which the owner's program calls this one.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "A place in an array of programs.",
        fields: &[&PATH, &INDEX],
    };
}

pub(super) mod limits {
    use super::MAX_ENTRIES;
    use crate::document::field::{integer, Field, Need, Table};

    /// The smallest table, and the smallest limit of tables.
    pub(in crate::service) const MIN_SLOTS: u32 = 251;
    /// The largest table, and the largest limit of tables.
    pub(in crate::service) const MAX_SLOTS: u32 = 65_537;

    pub(in crate::service) static FLOWS: Field<u32> = integer(
        "flows",
        Need::Default(1_048_576),
        (1024, MAX_ENTRIES),
        "Entries of the flow map; fixed when the instance is made.",
    );
    pub(in crate::service) static CIDS: Field<u32> = integer(
        "cids",
        Need::Default(262_144),
        (1024, MAX_ENTRIES),
        "Entries of the map of connection IDs; fixed when the instance is made.",
    );
    pub(in crate::service) static SLOTS: Field<u32> = integer(
        "slots",
        Need::Default(MAX_SLOTS),
        (MIN_SLOTS as u64, MAX_SLOTS as u64),
        "Largest table of a service; fixed when the instance is made.",
    );
    pub(in crate::service) static MEMORY_MIB: Field<u32> = integer(
        "memory_mib",
        Need::Default(512),
        (16, 1_048_576),
        "Memory of all maps together, in MiB.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "Sizes of what an instance may use.",
        fields: &[&FLOWS, &CIDS, &SLOTS, &MEMORY_MIB],
    };
}

pub(super) mod service {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::{backend, limits, quic, IDLE};
    use crate::document::field::{
        boolean, choice, duration, integer, nested, prime, Field, Need, Shape, Table,
    };
    use crate::document::scalar::Number;
    use crate::service::field::{address, service_name};
    use crate::service::spec::{Fragments, HashOf, Protocol, Tracking};

    pub(in crate::service) static NAME: Field<String> =
        service_name("name", "Unique name of the service.");
    pub(in crate::service) static VIP: Field<IpAddr> = address(
        "vip",
        "Virtual address: a unicast address that hosts can own.",
    );
    pub(in crate::service) static PORT: Field<u16> =
        integer("port", Need::Required, (1, 65_535), "Port.");
    pub(in crate::service) static PROTOCOL: Field<Protocol> = choice(
        "protocol",
        Need::Default(Protocol::Udp),
        "Transport protocol.",
    );
    pub(in crate::service) static SHORT_DCID_LEN: Field<u8> = integer(
        "short_dcid_len",
        Need::Default(0),
        (0, 20),
        "Length of the connection IDs in short headers; 0 when unknown.",
    );
    pub(in crate::service) static QUIC_ONLY: Field<bool> = boolean(
        "quic_only",
        Need::Optional,
        "Whether what is not QUIC is left to the host. True for udp, false for tcp.",
    );
    pub(in crate::service) static MAGLEV_TABLE_SIZE: Field<Number> = prime(
        "maglev_table_size",
        limits::MAX_SLOTS,
        (limits::MIN_SLOTS, limits::MAX_SLOTS),
        "Slots of the table: a prime of at most limits.slots.",
    );
    pub(in crate::service) static HASH: Field<HashOf> = choice(
        "hash",
        Need::Default(HashOf::Flow),
        "What of a packet indexes the table: client address and port, or the address alone.",
    );
    pub(in crate::service) static TRACKING: Field<Tracking> = choice(
        "tracking",
        Need::Optional,
        "Which flows get an entry in the flow map. All for learned routing and for UDP that is \
         not QUIC, else exceptions.",
    );
    pub(in crate::service) static FLOW_IDLE: Field<Duration> = duration(
        "flow_idle",
        Need::Optional,
        IDLE,
        "A flow without packets for so long is dead. 2m for udp, 2h4m for tcp.",
    );
    pub(in crate::service) static CID_IDLE: Field<Duration> = duration(
        "cid_idle",
        Need::Default(Duration::from_secs(600)),
        IDLE,
        "A learned or imported connection ID without packets for so long is dead; only with protocol \
         udp.",
    );
    pub(in crate::service) static HANDSHAKE_GRACE: Field<Duration> = duration(
        "handshake_grace",
        Need::Optional,
        (0, 60),
        "For so long after a change the first packets of a QUIC handshake count as mid-flow. 5s \
         for QUIC by tuple with tracking exceptions, else 0.",
    );
    pub(in crate::service) static FRAGMENTS: Field<Fragments> = choice(
        "fragments",
        Need::Default(Fragments::Drop),
        "What happens to IP fragments; the same for all services of one address and protocol.",
    );
    pub(in crate::service) static QUIC: Field<()> = nested(
        "quic",
        Need::Optional,
        Shape::Object(&quic::TABLE),
        "How connection IDs are read; only with protocol udp.",
    );
    pub(in crate::service) static BACKENDS: Field<()> = nested(
        "backends",
        Need::Required,
        Shape::List {
            min: 0,
            max: 256,
            of: &Shape::Object(&backend::TABLE),
        },
        "The backends of the service.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "A virtual address, protocol and port with its backends and rules.",
        fields: &[
            &NAME,
            &VIP,
            &PORT,
            &PROTOCOL,
            &SHORT_DCID_LEN,
            &QUIC_ONLY,
            &MAGLEV_TABLE_SIZE,
            &HASH,
            &TRACKING,
            &FLOW_IDLE,
            &CID_IDLE,
            &HANDSHAKE_GRACE,
            &FRAGMENTS,
            &QUIC,
            &BACKENDS,
        ],
    };
}

pub(super) mod quic {
    use std::time::Duration;

    use super::{config, SECONDS_PER_DAY};
    use crate::document::field::{choice, duration, nested, Field, Need, Shape, Table};
    use crate::service::spec::{Routing, Unhealthy, UnknownServerId};

    pub(in crate::service) static ROUTING: Field<Routing> = choice(
        "routing",
        Need::Optional,
        "What names the backend of a packet: a server ID in its connection ID, a connection ID \
         seen on a flow, or the flow alone. Learned if short_dcid_len is at least 4, else tuple.",
    );
    pub(in crate::service) static CONFIGS: Field<()> = nested(
        "configs",
        Need::Optional,
        Shape::List {
            min: 1,
            max: 7,
            of: &Shape::Object(&config::TABLE),
        },
        "Forms of the servers' connection IDs (QUIC-LB); required for routing server-id, refused \
         otherwise.",
    );
    pub(in crate::service) static UNKNOWN_SERVER_ID: Field<UnknownServerId> = choice(
        "unknown_server_id",
        Need::Default(UnknownServerId::Drop),
        "What happens to a packet in mid-flow whose server ID belongs to no backend.",
    );
    pub(in crate::service) static UNHEALTHY: Field<Unhealthy> = choice(
        "unhealthy",
        Need::Default(Unhealthy::Fallback),
        "What happens to a packet in mid-flow whose server ID names an unhealthy backend.",
    );
    pub(in crate::service) static QUARANTINE: Field<Duration> = duration(
        "quarantine",
        Need::Default(Duration::from_secs(3600)),
        (0, 7 * SECONDS_PER_DAY),
        "A server ID that left is given to nobody else for so long.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "How a service reads connection IDs.",
        fields: &[
            &ROUTING,
            &CONFIGS,
            &UNKNOWN_SERVER_ID,
            &UNHEALTHY,
            &QUARANTINE,
        ],
    };
}

pub(super) mod config {
    use crate::document::field::{boolean, integer, Field, Need, Table};
    use crate::quic::lb::Key;
    use crate::service::field::{config_id, key};

    pub(in crate::service) static CONFIG_ID: Field<u8> = config_id(
        "config_id",
        "Number in the first three bits of the connection ID, unique in the service.",
    );
    pub(in crate::service) static SERVER_ID_LEN: Field<u8> = integer(
        "server_id_len",
        Need::Required,
        (1, 15),
        "Bytes of server ID.",
    );
    pub(in crate::service) static NONCE_LEN: Field<u8> =
        integer("nonce_len", Need::Required, (4, 18), "Bytes of nonce.");
    pub(in crate::service) static EXTRA_LEN: Field<u64> = integer(
        "extra_len",
        Need::Default(0),
        (0, u64::MAX),
        "Bytes behind the nonce; the three lengths together are at most 19.",
    );
    pub(in crate::service) static KEY: Field<Option<Key>> =
        key("key", "AES-128 key that hides server ID and nonce.");
    pub(in crate::service) static ENCODES_LENGTH: Field<bool> = boolean(
        "encodes_length",
        Need::Default(false),
        "Whether the first byte's low five bits give the length of the connection ID less one.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "One form of connection ID that carries a server ID (QUIC-LB).",
        fields: &[
            &CONFIG_ID,
            &SERVER_ID_LEN,
            &NONCE_LEN,
            &EXTRA_LEN,
            &KEY,
            &ENCODES_LENGTH,
        ],
    };
}

pub(super) mod backend {
    use crate::addr::MacAddr;
    use crate::document::field::{
        choice, integer, interface, mac, nested, Field, Need, Shape, Table,
    };
    use crate::id::InterfaceName;
    use crate::service::spec::BackendState;

    /// Most server IDs of one backend.
    pub(in crate::service) const MAX_SERVER_IDS: usize = 8;
    const ONE_SERVER_ID: Shape = Shape::Text("^([0-9A-Fa-f]{2}){1,15}$");

    pub(in crate::service) static ID: Field<u32> = integer(
        "id",
        Need::Required,
        (1, 4_294_967_295),
        "Number of the backend, unique in the service.",
    );
    pub(in crate::service) static INTERFACE: Field<InterfaceName> =
        interface("interface", "Interface that leads to the backend.");
    pub(in crate::service) static MAC: Field<MacAddr> = mac(
        "mac",
        Need::Required,
        "Unicast link-layer address of the backend.",
    );
    pub(in crate::service) static WEIGHT: Field<u16> = integer(
        "weight",
        Need::Default(1),
        (0, 65_535),
        "Share of the table relative to the other backends.",
    );
    pub(in crate::service) static STATE: Field<BackendState> = choice(
        "state",
        Need::Default(BackendState::Ready),
        "Ready takes new flows, draining keeps those it has, unhealthy takes nothing.",
    );
    pub(in crate::service) static SERVER_ID: Field<()> = nested(
        "server_id",
        Need::Optional,
        Shape::AnyOf(&[
            ONE_SERVER_ID,
            Shape::List {
                min: 0,
                max: MAX_SERVER_IDS,
                of: &ONE_SERVER_ID,
            },
        ]),
        "Server IDs in the backend's connection IDs; only with routing server-id.",
    );

    pub(in crate::service) static TABLE: Table = Table {
        about: "One backend of a service.",
        fields: &[&ID, &INTERFACE, &MAC, &WEIGHT, &STATE, &SERVER_ID],
    };
}
