// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Every member of the document, object by object, in canonical order.

pub(super) mod root {
    use super::{class, encap, limits, tenant};
    use crate::document::field::{nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::{node_sid, schema};
    use crate::srv6::NodeSid;

    pub(in crate::egress_spec) static SCHEMA: Field<&str> =
        schema("Name and version of this form of document.");
    pub(in crate::egress_spec) static NODE_SID: Field<NodeSid> = node_sid(
        "node_sid",
        "SID of the node: with a tenant's Argument, the outer source address of its packets.",
    );
    pub(in crate::egress_spec) static ENCAP: Field<()> = nested(
        "encap",
        Need::Optional,
        Shape::Object(&encap::TABLE),
        "How packets are encapsulated and answered.",
    );
    pub(in crate::egress_spec) static LIMITS: Field<()> = nested(
        "limits",
        Need::Optional,
        Shape::Object(&limits::TABLE),
        "Sizes of the kernel's maps.",
    );
    pub(in crate::egress_spec) static CLASSES: Field<()> = nested(
        "classes",
        Need::Required,
        Shape::List {
            min: 0,
            max: limits::MAX.groups as usize,
            of: &Shape::Object(&class::TABLE),
        },
        "Kinds of translation and their shards. Each has a route of its own in the table of every \
         tenant. Without nat66 it is there all the same, first and without shards.",
    );
    pub(in crate::egress_spec) static TENANTS: Field<()> = nested(
        "tenants",
        Need::Required,
        Shape::List {
            min: 0,
            max: limits::MAX.tenants as usize,
            of: &Shape::Object(&tenant::TABLE),
        },
        "Whose packets are forwarded.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "Specification of the egress of one node.",
        fields: &[&SCHEMA, &NODE_SID, &ENCAP, &LIMITS, &CLASSES, &TENANTS],
    };
}

pub(super) mod encap {
    use super::{mss, rate};
    use crate::document::field::{boolean, choice, integer, nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::dscp;
    use crate::egress_spec::spec::Profile;
    use crate::encap::{Dscp, Ecn};

    pub(in crate::egress_spec) static PROFILE: Field<Profile> = choice(
        "profile",
        Need::Default(Profile::Standard),
        "Where the other members get their defaults from.",
    );
    pub(in crate::egress_spec) static HOP_LIMIT: Field<u8> = integer(
        "hop_limit",
        Need::Optional,
        (1, 255),
        "Outer hop limit. 64 in both profiles.",
    );
    pub(in crate::egress_spec) static DSCP: Field<Dscp> = dscp(
        "dscp",
        "Outer DSCP: zero, a copy of the inner packet's, or always this number. Copy in standard, \
         zero in compat.",
    );
    pub(in crate::egress_spec) static ECN: Field<Ecn> = choice(
        "ecn",
        Need::Optional,
        "Outer ECN field (RFC 6040). Normal needs shards that merge the outer mark. Compatibility \
         in both profiles.",
    );
    pub(in crate::egress_spec) static FLOW_LABEL: Field<bool> = boolean(
        "flow_label",
        Need::Optional,
        "Whether the outer flow label stands for the inner flow (RFC 6438). True in standard, \
         false in compat.",
    );
    pub(in crate::egress_spec) static TOO_BIG: Field<bool> = boolean(
        "too_big",
        Need::Optional,
        "Whether who sends too big a packet is told the size that fits. True in both profiles.",
    );
    pub(in crate::egress_spec) static MSS: Field<()> = nested(
        "mss",
        Need::Optional,
        Shape::Object(&mss::TABLE),
        "Segment sizes that TCP of tenants with mss may announce at most. None in both profiles.",
    );
    pub(in crate::egress_spec) static ICMP: Field<()> = nested(
        "icmp",
        Need::Optional,
        Shape::Object(&rate::TABLE),
        "Answers by ICMP of each CPU. 1000 per second and 100 at once in both profiles.",
    );
    pub(in crate::egress_spec) static EVENTS: Field<()> = nested(
        "events",
        Need::Optional,
        Shape::Object(&rate::TABLE),
        "Events of each kind and CPU. 100 per second and 100 at once in both profiles.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "How packets are encapsulated and answered.",
        fields: &[
            &PROFILE,
            &HOP_LIMIT,
            &DSCP,
            &ECN,
            &FLOW_LABEL,
            &TOO_BIG,
            &MSS,
            &ICMP,
            &EVENTS,
        ],
    };
}

pub(super) mod mss {
    use crate::document::field::{integer, Field, Need, Table};

    pub(in crate::egress_spec) static IPV6: Field<u16> = integer(
        "ipv6",
        Need::Default(0),
        (0, 65_535),
        "Bytes over IPv6; 0 is no limit.",
    );
    pub(in crate::egress_spec) static IPV4: Field<u16> = integer(
        "ipv4",
        Need::Default(0),
        (0, 65_535),
        "Bytes over IPv4; 0 is no limit.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "Segment sizes of TCP.",
        fields: &[&IPV6, &IPV4],
    };
}

pub(super) mod rate {
    use crate::document::field::{integer, Field, Need, Table};

    const RATE: (u64, u64) = (0, 1_000_000);

    pub(in crate::egress_spec) static PER_SECOND: Field<u32> =
        integer("per_second", Need::Optional, RATE, "Times per second.");
    pub(in crate::egress_spec) static BURST: Field<u32> =
        integer("burst", Need::Optional, RATE, "Times at once.");

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "How often something is done at most.",
        fields: &[&PER_SECOND, &BURST],
    };
}

pub(super) mod limits {
    use crate::abi::EgressLimit as L;
    use crate::document::field::{integer, prime, Field, Need, Table};
    use crate::document::scalar::Number;

    /// What all limits may be at most.
    pub(in crate::egress_spec) struct Ceilings {
        pub(in crate::egress_spec) tenants: u32,
        pub(in crate::egress_spec) routes: u32,
        pub(in crate::egress_spec) groups: u32,
        pub(in crate::egress_spec) members: u32,
        pub(in crate::egress_spec) table_size: u32,
        pub(in crate::egress_spec) pins: u32,
        pub(in crate::egress_spec) ring_bytes: u32,
    }

    pub(in crate::egress_spec) const MAX: Ceilings = Ceilings {
        tenants: L::GW_EGRESS_MAX_TENANTS.0,
        routes: L::GW_EGRESS_MAX_ROUTES.0,
        groups: L::GW_EGRESS_MAX_GROUPS.0,
        members: L::GW_EGRESS_MAX_MEMBERS.0,
        table_size: L::GW_EGRESS_MAX_SLOTS.0,
        pins: L::GW_EGRESS_MAX_PINS.0,
        ring_bytes: 1 << 26,
    };
    /// The smallest table.
    pub(in crate::egress_spec) const MIN_TABLE_SIZE: u32 = 2;
    /// The smallest ring: a page, where pages are small.
    pub(in crate::egress_spec) const MIN_RING_BYTES: u32 = 1 << 12;
    /// Flow pins of a node where some class hashes by flow.
    pub(in crate::egress_spec) const FLOW_PINS: u32 = L::GW_EGRESS_PINS.0;
    /// Flow pins of any other node.
    pub(in crate::egress_spec) const NO_FLOW_PINS: u32 = L::GW_EGRESS_FLOW_PINS.0;

    pub(in crate::egress_spec) static TENANTS: Field<u32> = integer(
        "tenants",
        Need::Default(L::GW_EGRESS_TENANTS.0),
        (1, MAX.tenants as u64),
        "Interfaces of all tenants.",
    );
    pub(in crate::egress_spec) static ROUTES: Field<u32> = integer(
        "routes",
        Need::Default(L::GW_EGRESS_ROUTES.0),
        (1, MAX.routes as u64),
        "Routes of all tenants, those of the classes included.",
    );
    pub(in crate::egress_spec) static GROUPS: Field<u32> = integer(
        "groups",
        Need::Default(L::GW_EGRESS_GROUPS.0),
        (1, MAX.groups as u64),
        "Groups: one for each class, nat66 included.",
    );
    pub(in crate::egress_spec) static MEMBERS: Field<u32> = integer(
        "members",
        Need::Default(L::GW_EGRESS_MEMBERS.0),
        (1, MAX.members as u64),
        "Shards of each class.",
    );
    pub(in crate::egress_spec) static TABLE_SIZE: Field<Number> = prime(
        "table_size",
        L::GW_EGRESS_SLOTS.0,
        (MIN_TABLE_SIZE, MAX.table_size),
        "Slots of each group's table: a prime.",
    );
    pub(in crate::egress_spec) static PINS: Field<u32> = integer(
        "pins",
        Need::Default(L::GW_EGRESS_PINS.0),
        (1, MAX.pins as u64),
        "Pins of source addresses.",
    );
    pub(in crate::egress_spec) static FLOW_PINS_OF: Field<u32> = integer(
        "flow_pins",
        Need::Optional,
        (1, MAX.pins as u64),
        "Pins of flows. 65536 if a class hashes by flow, else 1.",
    );
    pub(in crate::egress_spec) static RING_BYTES: Field<u32> = integer(
        "ring_bytes",
        Need::Default(L::GW_EGRESS_RING_BYTES.0),
        (MIN_RING_BYTES as u64, MAX.ring_bytes as u64),
        "Bytes of the ring of events: a power of two, and whole pages of the machine.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "Sizes of the kernel's maps, fixed when they are made.",
        fields: &[
            &TENANTS,
            &ROUTES,
            &GROUPS,
            &MEMBERS,
            &TABLE_SIZE,
            &PINS,
            &FLOW_PINS_OF,
            &RING_BYTES,
        ],
    };
}

pub(super) mod class {
    use std::time::Duration;

    use super::{limits, shard};
    use crate::document::field::{boolean, choice, duration, nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::{class, hash_group};
    use crate::encap::Ecn;
    use crate::group::{Class, HashMode, PinIdle};
    use crate::placement::HashGroup;

    pub(in crate::egress_spec) static CLASS: Field<Class> = class(
        "class",
        "The kind of translation: nat66, or the /96 prefix of a NAT64.",
    );
    pub(in crate::egress_spec) static HASH_GROUP: Field<HashGroup> = hash_group(
        "hash_group",
        "Number that placement hashes for the class. 0 for nat66; a NAT64 gets the lowest that is \
         free when it is first seen, and keeps it.",
    );
    pub(in crate::egress_spec) static HASH: Field<HashMode> = choice(
        "hash",
        Need::Default(HashMode::Source),
        "What of a packet decides its shard: the source address, or addresses, protocol and ports.",
    );
    pub(in crate::egress_spec) static PIN_IDLE: Field<Duration> = duration(
        "pin_idle",
        // The default of PinIdle.
        Need::Default(Duration::from_secs(7440)),
        (0, PinIdle::MAX_SECONDS),
        "For so long a pin outlives its last packet; 0 makes no pins.",
    );
    pub(in crate::egress_spec) static REJECT: Field<bool> = boolean(
        "reject",
        Need::Default(false),
        "Whether packets that find no shard are answered instead of dropped without a word.",
    );
    pub(in crate::egress_spec) static ECN: Field<Ecn> = choice(
        "ecn",
        Need::Optional,
        "Outer ECN field of this class. That of encap; compatibility does not undo its normal.",
    );
    pub(in crate::egress_spec) static SHARDS: Field<()> = nested(
        "shards",
        Need::Required,
        Shape::List {
            min: 0,
            max: limits::MAX.members as usize,
            of: &Shape::Object(&shard::TABLE),
        },
        "The shards that do it.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "A kind of translation and the shards that do it.",
        fields: &[
            &CLASS,
            &HASH_GROUP,
            &HASH,
            &PIN_IDLE,
            &REJECT,
            &ECN,
            &SHARDS,
        ],
    };
}

pub(super) mod shard {
    use super::next_hop;
    use crate::document::field::{boolean, integer, nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::base_sid;
    use crate::srv6::BaseSid;

    pub(in crate::egress_spec) static SID: Field<BaseSid> =
        base_sid("sid", "SID of the shard with Argument and slot 0.");
    pub(in crate::egress_spec) static WEIGHT: Field<u32> = integer(
        "weight",
        Need::Default(1),
        (0, 65_535),
        "Share of new addresses relative to the other shards; with 0 it keeps those it has.",
    );
    pub(in crate::egress_spec) static DRAINING: Field<bool> = boolean(
        "draining",
        Need::Default(false),
        "Whether the shard gets no new addresses and keeps those pinned to it.",
    );
    pub(in crate::egress_spec) static NEXT_HOP: Field<()> = nested(
        "next_hop",
        Need::Required,
        Shape::Nullable(&Shape::Object(&next_hop::TABLE)),
        "The way to the shard; null while nothing reaches it.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "One shard of a class.",
        fields: &[&SID, &WEIGHT, &DRAINING, &NEXT_HOP],
    };
}

pub(super) mod next_hop {
    use crate::addr::MacAddr;
    use crate::document::field::{interface, mac, Field, Need, Table};
    use crate::egress_spec::field::mtu;
    use crate::id::InterfaceName;
    use crate::srv6::Mtu;

    /// The MTU of the loopback interface, the greatest of any.
    pub(in crate::egress_spec) const MAX_MTU: u64 = 65_536;

    pub(in crate::egress_spec) static INTERFACE: Field<InterfaceName> =
        interface("interface", "Interface that packets leave by.");
    pub(in crate::egress_spec) static DESTINATION: Field<MacAddr> = mac(
        "destination",
        Need::Required,
        "Unicast link-layer address of the next node.",
    );
    pub(in crate::egress_spec) static SOURCE: Field<MacAddr> = mac(
        "source",
        Need::Optional,
        "Link-layer address that frames come from. The interface's own.",
    );
    pub(in crate::egress_spec) static MTU: Field<Mtu> = mtu(
        "mtu",
        MAX_MTU,
        "Greatest packet in bytes, encapsulation included: 0 for unchecked, or at least 1320. \
         The interface's own.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "How an encapsulated packet leaves the node.",
        fields: &[&INTERFACE, &DESTINATION, &SOURCE, &MTU],
    };
}

pub(super) mod tenant {
    use super::{interface, limits, route};
    use crate::document::field::{boolean, nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::{argument, hash_table, pin_quota, table};
    use crate::placement::HashTable;
    use crate::route::TableId;
    use crate::srv6::Argument;
    use crate::tenant::PinQuota;

    pub(in crate::egress_spec) static TABLE_ID: Field<TableId> =
        table("table", "Number of the tenant, unique.");
    pub(in crate::egress_spec) static ARGUMENT: Field<Argument> = argument(
        "argument",
        "Number that SIDs carry for the tenant, unique: 1 to 4095, or text such as 0x2a5.",
    );
    pub(in crate::egress_spec) static HASH_TABLE: Field<HashTable> = hash_table(
        "hash_table",
        "Number that placement hashes for the tenant, equal on nodes that shall agree. The table.",
    );
    pub(in crate::egress_spec) static PIN_QUOTA: Field<PinQuota> = pin_quota(
        "pin_quota",
        "Pins that the tenant may have. A sixteenth of limits.pins, at least 1024.",
    );
    pub(in crate::egress_spec) static ICMP: Field<bool> = boolean(
        "icmp",
        Need::Default(true),
        "Whether packets that are too big, or may go nowhere, are answered.",
    );
    pub(in crate::egress_spec) static MSS: Field<bool> = boolean(
        "mss",
        Need::Default(false),
        "Whether the segment size that TCP announces is lowered to encap.mss.",
    );
    pub(in crate::egress_spec) static INTERFACES: Field<()> = nested(
        "interfaces",
        Need::Required,
        Shape::List {
            min: 0,
            max: limits::MAX.tenants as usize,
            of: &Shape::AnyOf(&[Shape::Interface, Shape::Object(&interface::TABLE)]),
        },
        "Interfaces that bring the tenant's packets: names, or objects.",
    );
    pub(in crate::egress_spec) static ROUTES: Field<()> = nested(
        "routes",
        Need::Optional,
        Shape::List {
            min: 0,
            max: limits::MAX.routes as usize,
            of: &Shape::Object(&route::TABLE),
        },
        "Routes beside those of the classes, or in their place.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "Whose packets some interfaces bring, and where they go.",
        fields: &[
            &TABLE_ID,
            &ARGUMENT,
            &HASH_TABLE,
            &PIN_QUOTA,
            &ICMP,
            &MSS,
            &INTERFACES,
            &ROUTES,
        ],
    };
}

pub(super) mod interface {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use crate::document::field::{interface, Field, Table};
    use crate::egress_spec::field::{gateway4, gateway6};
    use crate::id::InterfaceName;

    pub(in crate::egress_spec) static NAME: Field<InterfaceName> =
        interface("name", "Name of the interface, unique among all tenants.");
    pub(in crate::egress_spec) static GATEWAY6: Field<Ipv6Addr> = gateway6(
        "gateway6",
        "Address that answers over IPv6. Nobody answers without it.",
    );
    pub(in crate::egress_spec) static GATEWAY4: Field<Ipv4Addr> = gateway4(
        "gateway4",
        "Address that answers over IPv4. Nobody answers without it.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "An interface of a tenant.",
        fields: &[&NAME, &GATEWAY6, &GATEWAY4],
    };
}

pub(super) mod route {
    use super::route_shard;
    use crate::document::field::{nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::{prefix, CLASS};
    use crate::route::Prefix;

    /// What a route may say in place of a destination.
    pub(in crate::egress_spec) const ACTIONS: [&str; 3] = ["pass", "block", "unreachable"];

    pub(in crate::egress_spec) static PREFIX: Field<Prefix> =
        prefix("prefix", "Prefix of the destination, unique in the table.");
    pub(in crate::egress_spec) static TO: Field<()> = nested(
        "to",
        Need::Required,
        Shape::AnyOf(&[
            Shape::Choice(&ACTIONS),
            CLASS,
            Shape::Object(&route_shard::TABLE),
        ]),
        "Where packets go: to the next program untouched (pass), nowhere (block), nowhere with an \
         answer (unreachable), to the shards of a class, or to one shard.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "Where a tenant's packets to a prefix go.",
        fields: &[&PREFIX, &TO],
    };
}

pub(super) mod route_shard {
    use super::next_hop;
    use crate::document::field::{nested, Field, Need, Shape, Table};
    use crate::egress_spec::field::base_sid;
    use crate::srv6::BaseSid;

    pub(in crate::egress_spec) static SID: Field<BaseSid> =
        base_sid("sid", "SID of the shard with Argument and slot 0.");
    pub(in crate::egress_spec) static NEXT_HOP: Field<()> = nested(
        "next_hop",
        Need::Required,
        Shape::Object(&next_hop::TABLE),
        "The way to the shard.",
    );

    pub(in crate::egress_spec) static TABLE: Table = Table {
        about: "One shard that a route leads to.",
        fields: &[&SID, &NEXT_HOP],
    };
}
