/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups of shards, and the pins that hold a tenant's address to one. A group is published as a
 * snapshot, one immutable value: its header, then the members by slot, then the Maglev table, whose
 * words are slots, and zeros up to a multiple of eight bytes.
 */
#ifndef GW_GROUP_H
#define GW_GROUP_H

#include "egress.h"

enum gw_group_layout {
	GW_GROUP_LAYOUT = 1,
};

enum gw_group_flag {
	GW_GROUP_ENABLED = 1 << 0,
	GW_GROUP_HASH_FLOW = 1 << 1, /* by flow, else by source address */
	GW_GROUP_CLOSING = 1 << 2,
	GW_GROUP_REJECT = 1 << 3, /* answers while it is empty */
};

enum gw_class_kind {
	GW_CLASS_NAT66 = 1,
	GW_CLASS_NAT64 = 2,
};

struct gw_group_header {
	__u32 layout; /* GW_GROUP_LAYOUT */
	__u32 flags; /* enum gw_group_flag */
	__u32 incarnation; /* never 0 */
	__u32 publication;
	__u32 next_slot_generation;
	__u32 table_size;
	__u16 slots_used; /* the highest in use and one */
	__u16 candidates;
	__u16 active;
	__u16 ineligible;
	__u32 pin_idle_ticks; /* 0: no pins */
	__u32 pin_refresh_ticks;
	__u8 hash_group;
	__u8 class_kind; /* enum gw_class_kind */
	__u8 class_bits;
	__u8 zero;
	__u32 profile; /* added to that of all */
	__u8 class_prefix[16];
	__u64 table_digest;
	__u64 published_ns; /* CLOCK_REALTIME, for people */
	__u32 pin_idle_seconds;
	__u32 zero2;
	__u8 zero3[40];
};

enum gw_member_flag {
	GW_MEMBER_ALIVE = 1 << 0,
	GW_MEMBER_DRAINING = 1 << 1, /* keeps its pins and gets no others */
};

struct gw_member {
	__u8 sid[16]; /* without Argument */
	__u32 flags; /* enum gw_member_flag */
	__u32 generation; /* of its tenure of the slot; 0: nobody's */
	struct gw_next_hop next_hop;
	__u32 weight;
	/* Counters of the slot when it became the member's. */
	__u64 base_packets;
	__u64 base_bytes;
};

enum gw_table_word {
	GW_TABLE_NONE = 0xffff,
};

/* Of a tenant's address in a group that places by source. */
struct gw_pin_key {
	__u32 table_id;
	__u8 family; /* enum gw_family */
	__u8 group_id;
	__u16 zero;
	__u8 source[16];
};

/* Of one flow, in a group that places by flow. */
struct gw_flow_pin_key {
	__u32 table_id;
	__u8 family;
	__u8 protocol;
	__u8 group_id;
	__u8 zero;
	__be16 source_port;
	__be16 destination_port;
	__u8 source[16];
	__u8 destination[16];
};

enum gw_pin_state {
	GW_PIN_LIVE = 0,
	GW_PIN_DEAD = 1, /* about to be deleted */
};

/* The parts of gw_pin.bind. */
enum gw_pin_bind {
	GW_PIN_GENERATION_SHIFT = 32,
	GW_PIN_STATE_SHIFT = 24,
	GW_PIN_SEQUENCE_SHIFT = 16,
	GW_PIN_SLOT_SHIFT = 0,
};

struct gw_pin {
	__u64 bind; /* slot, its generation, and how often the pin was replaced */
	__u32 last_seen_tick;
	__u32 tag; /* of the key: an element is reused at once */
};

/* The coarse monotonic clock in ns, shifted: 1.07 s. */
enum gw_tick {
	GW_TICK_SHIFT = 30,
};

/* By table_id. */
struct gw_pin_use {
	__u64 pins; /* of both kinds */
	__u64 refused; /* for want of quota */
};

#endif
