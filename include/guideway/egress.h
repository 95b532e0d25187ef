/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tenants, their routes, and how their packets are encapsulated. Numbers are in host order where no
 * be is said; zero members are zero.
 */
#ifndef GW_EGRESS_H
#define GW_EGRESS_H

#include "limits.h"

enum gw_egress_limit {
	/* Unless they are set before the program is loaded. */
	GW_EGRESS_TENANTS = 16384,
	GW_EGRESS_ROUTES = 32768,
	GW_EGRESS_GROUPS = 8,
	GW_EGRESS_MEMBERS = 64,
	GW_EGRESS_SLOTS = 1021,
	GW_EGRESS_PINS = 65536,
	GW_EGRESS_FLOW_PINS = 1,
	GW_EGRESS_RING_BYTES = 262144,
	/* What they may be set to. */
	GW_EGRESS_MAX_TENANTS = 65536,
	GW_EGRESS_MAX_ROUTES = 1048576,
	GW_EGRESS_MAX_GROUPS = 64,
	GW_EGRESS_MAX_MEMBERS = 256,
	GW_EGRESS_MAX_SLOTS = 65537,
	GW_EGRESS_MAX_PINS = 4194304,
	/* Bytes in front of the inner packet. */
	GW_EGRESS_OUTER_BYTES = 40,
	GW_EGRESS_MIN_MTU = 1320,
};

enum gw_family {
	GW_FAMILY_IPV6 = 0,
	GW_FAMILY_IPV4 = 1,
};

enum gw_tenant_flag {
	GW_TENANT_ENABLED = 1 << 0,
	GW_TENANT_ICMP = 1 << 1, /* answers packets that are too big or unreachable */
	GW_TENANT_MSS = 1 << 2,
};

/* By ifindex. Rows of one table_id are one tenant. */
struct gw_tenant {
	__u32 ifindex; /* its own key: an element is reused at once */
	__u32 table_id;
	__u32 hash_table; /* what the placement hash begins with */
	__u32 zero;
	__u16 argument; /* of the outer source address */
	__u16 flags; /* enum gw_tenant_flag */
	__u32 pin_quota; /* pins that it may have; 0xffffffff: no limit */
	__u64 zero2;
	__u8 gateway6[16]; /* who answers it; zero: nobody */
	__u8 gateway4[4];
	__u8 zero3[12];
};

/* Longest prefix first. */
struct gw_route_key {
	__u32 prefixlen; /* GW_ROUTE_KEY_BITS and those of the address */
	__u32 table_id;
	__u8 family; /* enum gw_family */
	__u8 zero[3];
	__u8 address[16]; /* IPv4 in the first four bytes */
};

enum gw_route_key_bits {
	GW_ROUTE_KEY_BITS = 64,
};

enum gw_route_kind {
	GW_ROUTE_INVALID = 0,
	GW_ROUTE_PASS = 1, /* somebody else's: untouched */
	GW_ROUTE_SHARD = 2,
	GW_ROUTE_GROUP = 3,
	GW_ROUTE_BLOCK = 4,
};

enum gw_block_action {
	GW_BLOCK_DROP = 0,
	GW_BLOCK_UNREACHABLE = 1, /* answered */
};

/* Where a frame goes; at the same place in a route and in a member of a group. */
struct gw_next_hop {
	__u32 ifindex;
	__u32 mtu; /* of the link; 0: not checked */
	__u8 dmac[6];
	__u8 smac[6];
};

struct gw_route {
	__u8 kind; /* enum gw_route_kind */
	__u8 action; /* enum gw_block_action */
	__u16 origin; /* 0: kept in line by the control loop; else by another writer */
	__u16 argument; /* of the outer destination */
	__u16 zero;
	__u32 group_id;
	__u32 incarnation; /* of the group */
	__u32 fnv12; /* placement hash after 12 bytes, by source */
	__u32 fnv5; /* after 5, by flow */
	struct gw_next_hop next_hop;
	__u32 zero2;
	__u8 sid[16]; /* of the shard, without Argument */
};

enum gw_egress_profile {
	GW_PROFILE_DSCP_COPY = 1 << 0,
	GW_PROFILE_FLOW_LABEL = 1 << 1,
	GW_PROFILE_ECN_NORMAL = 1 << 2, /* RFC 6040 */
	GW_PROFILE_ICMP_TOO_BIG = 1 << 3,
	GW_PROFILE_MSS_CLAMP = 1 << 4,
	GW_PROFILE_DSCP_FIXED = 1 << 5,
};

/* One frozen map of one entry, swapped as a whole. */
struct gw_egress_config {
	__u8 node_sid[16]; /* of the outer source address; zero: nothing is forwarded */
	__u32 profile; /* enum gw_egress_profile */
	__u8 hop_limit;
	__u8 dscp; /* with GW_PROFILE_DSCP_FIXED */
	__u16 zero;
	__u16 mss6;
	__u16 mss4;
	__u32 icmp_rate; /* answers per second and CPU */
	__u32 icmp_burst;
	__u32 event_rate; /* events per second, CPU and kind */
	__u32 event_burst;
	__u8 zero2[84];
};

/* Numbers are append-only: they index a pinned map. A packet ends in one of the first 64. */
enum gw_egress_counter {
	/* outcomes */
	GW_EGRESS_PASS = 0,
	GW_EGRESS_SHARD = 1,
	GW_EGRESS_GROUP = 2,
	GW_EGRESS_ICMP_SENT = 3,
	GW_EGRESS_UNREACH_SENT = 4,
	/* not ours: the next program decides */
	GW_EGRESS_SKIP_SHORT = 16,
	GW_EGRESS_SKIP_NOT_IP = 17,
	GW_EGRESS_SKIP_NO_TENANT = 18,
	GW_EGRESS_SKIP_LOCAL = 19,
	GW_EGRESS_SKIP_NO_SOURCE = 20,
	GW_EGRESS_SKIP_NO_ROUTE = 21,
	/* ours, and dropped */
	GW_EGRESS_DROP_BAD_ROUTE = 32,
	GW_EGRESS_DROP_BLOCKED = 33,
	GW_EGRESS_DROP_GROUP_ABSENT = 34,
	GW_EGRESS_DROP_GROUP_DISABLED = 35,
	GW_EGRESS_DROP_GROUP_EMPTY = 36,
	GW_EGRESS_DROP_STALE_ROUTE = 37,
	GW_EGRESS_DROP_BAD_SNAPSHOT = 38,
	GW_EGRESS_DROP_MEMBER_DEAD = 39,
	GW_EGRESS_DROP_PARSE = 40,
	GW_EGRESS_DROP_TOO_LONG = 41,
	GW_EGRESS_DROP_TOO_BIG = 42,
	GW_EGRESS_DROP_ICMP_LIMITED = 43,
	GW_EGRESS_DROP_ENCAP = 44,
	GW_EGRESS_DROP_REDIRECT = 45,
	/* how a member was chosen */
	GW_EGRESS_PIN_HIT = 64,
	GW_EGRESS_MAGLEV = 65,
	GW_EGRESS_PIN_STALE = 66,
	GW_EGRESS_PIN_NEW = 67,
	GW_EGRESS_PIN_FULL = 68,
	GW_EGRESS_PIN_QUOTA = 69,
	GW_EGRESS_PIN_BUSY = 70,
	GW_EGRESS_PIN_TORN = 71,
	GW_EGRESS_PIN_REPLACED = 72,
	GW_EGRESS_PIN_REMOVED_IDLE = 73,
	GW_EGRESS_PIN_REMOVED_STALE = 74,
	GW_EGRESS_PIN_REMOVED_TENANT = 75,
	GW_EGRESS_PIN_REMOVED_CALL = 76,
	GW_EGRESS_EVENT_SENT = 80,
	GW_EGRESS_EVENT_SUPPRESSED = 81,
	GW_EGRESS_EVENT_LOST = 82,
	GW_EGRESS_COUNTERS = 128,
};

/*
 * The counter that an event is about: every drop but one that was asked for, and what became of a pin
 * that was old or could not be made.
 */
enum gw_egress_event_kind {
	GW_EGRESS_EVENT_BAD_ROUTE = GW_EGRESS_DROP_BAD_ROUTE,
	GW_EGRESS_EVENT_GROUP_ABSENT = GW_EGRESS_DROP_GROUP_ABSENT,
	GW_EGRESS_EVENT_GROUP_DISABLED = GW_EGRESS_DROP_GROUP_DISABLED,
	GW_EGRESS_EVENT_GROUP_EMPTY = GW_EGRESS_DROP_GROUP_EMPTY,
	GW_EGRESS_EVENT_STALE_ROUTE = GW_EGRESS_DROP_STALE_ROUTE,
	GW_EGRESS_EVENT_BAD_SNAPSHOT = GW_EGRESS_DROP_BAD_SNAPSHOT,
	GW_EGRESS_EVENT_MEMBER_DEAD = GW_EGRESS_DROP_MEMBER_DEAD,
	GW_EGRESS_EVENT_PARSE = GW_EGRESS_DROP_PARSE,
	GW_EGRESS_EVENT_TOO_LONG = GW_EGRESS_DROP_TOO_LONG,
	GW_EGRESS_EVENT_TOO_BIG = GW_EGRESS_DROP_TOO_BIG,
	GW_EGRESS_EVENT_ICMP_LIMITED = GW_EGRESS_DROP_ICMP_LIMITED,
	GW_EGRESS_EVENT_ENCAP = GW_EGRESS_DROP_ENCAP,
	GW_EGRESS_EVENT_REDIRECT = GW_EGRESS_DROP_REDIRECT,
	GW_EGRESS_EVENT_PIN_STALE = GW_EGRESS_PIN_STALE, /* and another CPU's by now */
	GW_EGRESS_EVENT_PIN_FULL = GW_EGRESS_PIN_FULL,
	GW_EGRESS_EVENT_PIN_QUOTA = GW_EGRESS_PIN_QUOTA,
	GW_EGRESS_EVENT_PIN_BUSY = GW_EGRESS_PIN_BUSY,
	GW_EGRESS_EVENT_PIN_REPLACED = GW_EGRESS_PIN_REPLACED,
};

/* One event, in the ring: a sample, for people. Nothing depends on reading it. */
struct gw_egress_event {
	__u16 kind; /* enum gw_egress_event_kind */
	__u16 bytes; /* of the event */
	__u32 suppressed; /* of this kind on this CPU since the last one */
	__u64 time_ns; /* coarse monotonic clock */
	__u32 ifindex; /* of the tenant */
	__u32 table_id;
	__u32 group_id; /* GW_INDEX_NONE: the packet's route leads to none */
	__u32 detail; /* of a pin its slot, of a drop the ifindex it was to leave by, 0 if none was chosen */
	__u8 source[16]; /* of the packet; IPv4 as ::ffff:a.b.c.d */
};

/* Of one slot of a group. */
struct gw_shard_stats {
	__u64 packets;
	__u64 bytes; /* before encapsulation */
};

#endif
