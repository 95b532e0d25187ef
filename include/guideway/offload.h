/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the program on a network card finds. The maps of such a card are hash tables and arrays
 * whose key and value take 64 bytes together, and a value is read at constant offsets only: so each
 * record is an element of its own, and the number of the generation is in its key. Packets follow
 * the number in struct gw_offload_active, which is written last.
 *
 * Words are in host order where no be is said; addresses are in network order.
 */
#ifndef GW_OFFLOAD_H
#define GW_OFFLOAD_H

#include "service.h"

enum gw_offload_limit {
	/* What the maps have room for: twice what a generation may have, for the next beside the live. */
	GW_OFFLOAD_SERVICES = 4096, /* their entries for fragments included */
	GW_OFFLOAD_CONFIGS = 4096,
	GW_OFFLOAD_SERVER_IDS = 16384,
	GW_OFFLOAD_BACKENDS = 16384,
	GW_OFFLOAD_SLOTS = 524288,
	/* Flows, unless it is set before the program is loaded. */
	GW_OFFLOAD_FLOWS = 65536,
	/* Backends with counters. */
	GW_OFFLOAD_BACKEND_STATS = 16384,
	/* Services with counters, and the counters of each: of it, by rule, packets and bytes. */
	GW_OFFLOAD_SERVICE_STATS = 1024,
	GW_OFFLOAD_COUNTERS = 64,
	GW_OFFLOAD_RULES_AT = 48,
	GW_OFFLOAD_PACKETS_AT = 56,
	GW_OFFLOAD_BYTES_AT = 57,
};

/* The generation that packets follow; 0: none. */
struct gw_offload_active {
	__u64 generation;
};

/* By the number of the generation. */
struct gw_offload_generation {
	__u64 hash_final; /* f of the flow hash */
	__u32 hash_key[6]; /* k0 to k5 of the flow hash */
};

struct gw_offload_service_key {
	__u64 generation;
	struct gw_service_key service;
	__u32 zero;
};

struct gw_offload_service {
	__u32 id;
	__u32 slots; /* size of the table; 0 in a shared fragment entry */
	__u32 flags; /* enum gw_service_flag */
	__u32 stats; /* index of its counters */
	__u16 backends; /* rows, empty ones included */
	__u8 routing; /* enum gw_routing */
	__u8 fragments; /* enum gw_fragments */
	__u8 unknown_server_id; /* enum gw_policy */
	__u8 unhealthy; /* enum gw_policy */
	__u8 short_dcid_len;
	__u8 zero;
};

/* Of a service's configs of connection IDs, rows and slots. */
struct gw_offload_key {
	__u64 generation;
	__u32 service;
	__u32 index; /* config ID, row or slot */
};

struct gw_offload_config {
	__u8 server_id_len;
	__u8 nonce_len;
	__u8 cid_len;
	__u8 mode; /* enum gw_quic_mode */
	__u8 encodes_length;
	__u8 zero[3];
};

/* Bytes beyond the length are zero. */
struct gw_offload_id_key {
	__u64 generation;
	__u32 service;
	__u8 config;
	__u8 length;
	__u8 zero[2];
	__u8 bytes[16];
};

struct gw_offload_id {
	__u16 row; /* GW_SLOT_NONE: in quarantine */
	__u16 zero;
	__u32 flags; /* enum gw_server_id_flag */
};

/* By struct gw_flow_key. The first word is that of struct gw_binding. */
struct gw_offload_binding {
	__u16 tag; /* low bits of the full key's hash */
	__u16 row;
	__u32 incarnation; /* of the row's backend; never 0 */
	__u32 epoch; /* of a recent packet */
	__u32 zero;
};

/* User space advances it from time to time, in place of a clock. */
struct gw_offload_epoch {
	__u32 epoch;
	__u32 zero;
};

#endif
