/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow state: which backend a flow or a connection ID is bound to, where the table alone would
 * answer wrongly. Both maps hold the same kind of value. Words are in host order where no be is
 * said.
 */
#ifndef GW_AFFINITY_H
#define GW_AFFINITY_H

#include "limits.h"

/*
 * Identity of a flow, 24 bytes; an IPv4 address fills the first four of address, the rest is zero.
 * The service implies VIP, family and protocol.
 */
struct gw_flow_key {
	__u32 service;
	__be16 client_port;
	__be16 vip_port;
	__u8 address[16];
};

/* 28 bytes; those behind the connection ID are zero. */
struct gw_cid_key {
	__u32 service;
	__u8 length; /* 1 to 20 */
	__u8 zero[3];
	__u8 cid[GW_MAX_CID_BYTES];
};

/*
 * The first eight bytes are one aligned word, read and exchanged whole: so the tag, which tells
 * whose value this is, and the backend always belong together. The memory of a deleted entry is
 * reused at once, and a reader may see a stranger's value: one whose tag differs is a miss.
 */
struct gw_binding {
	__u16 tag; /* flows: low bits of the full key's hash; connection IDs: gw_cid_tag */
	__u16 row;
	__u32 incarnation; /* of the row's backend; never 0 */
	/*
	 * Coarse monotonic time of a recent packet. Of a registered connection ID: the end of its time
	 * to live, 0 for none; packets leave it alone.
	 */
	__u64 seen_ns;
	__u32 state; /* enum gw_binding_state */
	__u32 hash; /* placement hash of the flow, or of the flow that taught the connection ID */
};

enum gw_binding_state {
	/* the phase */
	GW_BINDING_PHASE = 3 << 0,
	GW_BINDING_LIVE = 0,
	GW_BINDING_EXPIRING = 1, /* idle when the last sweep saw it; the next deletes it */
	GW_BINDING_DEAD = 2, /* about to be deleted */
	GW_BINDING_TOUCHED = 3, /* dead, and a packet came: the sweep must put it back */
	/* the flow looks closed: it may be forgotten sooner */
	GW_BINDING_FIN = 1 << 2,
	GW_BINDING_RST = 1 << 3,
	/* where it comes from */
	GW_BINDING_ORIGIN = 3 << 4,
	GW_BINDING_TRAFFIC = 0 << 4,
	GW_BINDING_REGISTERED = 1 << 4,
	GW_BINDING_IMPORTED = 2 << 4,
	/* connection IDs learned from this flow, at most GW_MAX_LEARNED */
	GW_BINDING_LEARNED_SHIFT = 8,
	GW_BINDING_LEARNED = 15 << 8,
};

/* What may still be inserted for a service. */
enum gw_level {
	GW_LEVEL_ALL = 0,
	GW_LEVEL_RESERVE = 1, /* what a change of the table needs, starts excepted */
	GW_LEVEL_NONE = 2,
};

/* By the counter index of the service. User space sets levels; the program raises them when full. */
struct gw_admission {
	__u32 flows; /* enum gw_level */
	__u32 cids;
	/* Coarse monotonic time of a recent insert in an open slot that was refused, or found no lock. */
	__u64 refused_ns;
};

/* One per instance; user space alone writes it. */
struct gw_collection {
	__u64 cid_seed; /* of gw_cid_tag; drawn when the map is made */
	/* A publication that has returned, and when: no packet sees an older generation since. */
	__u64 returned_generation;
	__u64 returned_ns; /* monotonic clock */
	/* The generation that is being replaced by one in which slots are open no more; 0: none. */
	__u64 closing_generation;
	/* the last complete sweep */
	__u64 swept_ns; /* when it ended, monotonic clock; 0: none yet */
	__u64 sweep_duration_ns;
	__u64 sweep_period_ns; /* that the collector keeps */
	__u64 flows;
	__u64 learned;
	__u64 registered;
	__u64 imported;
	__u64 blast_radius;
};

/*
 * By the counter index of a backend: the entries that are bound to it, as the last complete sweep
 * counted them. User space alone writes it.
 */
struct gw_bound {
	__u32 incarnation; /* of the backend that they were counted for */
	__u32 flows;
	__u32 cids;
	__u32 zero;
};

#endif
