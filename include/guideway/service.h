/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one generation of an instance holds. A generation is one frozen array of cells of
 * GW_CELL_BYTES; index 0 is its header. The header names a directory of services (open addressing,
 * one service per cell), a service names by cell index its slot words, its backends and its server
 * IDs. Nothing in it changes after it was published.
 *
 * Words are in host order where no be is said; addresses are in network order.
 */
#ifndef GW_SERVICE_H
#define GW_SERVICE_H

#include "limits.h"

/* Key of a service: 20 bytes; an IPv4 address fills the first four of vip, the rest is zero. */
struct gw_service_key {
	__u8 family; /* 4, 6; 0 marks an empty cell of the directory */
	__u8 protocol;
	__be16 port; /* 0: the entry that fragments of (vip, protocol) use */
	__u8 vip[16];
};

struct gw_generation {
	__u32 magic;
	__u32 services;
	__u64 number;
	__u64 directory_seed;
	__u32 directory_at;
	__u32 directory_mask; /* cells of the directory, less one */
	__u32 events_per_second;
	__u32 cells;
};

enum gw_service_flag {
	GW_SERVICE_QUIC = 1 << 0, /* payloads are read as QUIC */
	GW_SERVICE_QUIC_ONLY = 1 << 1,
	GW_SERVICE_HASH_SOURCE = 1 << 2,
	GW_SERVICE_TRACK_ALL = 1 << 3,
	GW_SERVICE_EXACT = 1 << 4, /* exact bindings of connection IDs may exist */
	GW_SERVICE_SHARED = 1 << 5, /* a fragment entry that stands for several services */
};

enum gw_routing {
	GW_ROUTING_TUPLE = 0,
	GW_ROUTING_LEARNED = 1,
	GW_ROUTING_SERVER_ID = 2,
};

enum gw_fragments {
	GW_FRAGMENTS_DROP = 0,
	GW_FRAGMENTS_PASS = 1,
	GW_FRAGMENTS_ROUTE = 2,
};

/* For unknown_server_id and unhealthy. */
enum gw_policy {
	GW_POLICY_DROP = 0,
	GW_POLICY_FALLBACK = 1,
};

enum gw_quic_mode {
	GW_QUIC_MODE_NONE = 0, /* no such config */
	GW_QUIC_MODE_PLAIN = 1,
	GW_QUIC_MODE_SINGLE_PASS = 2,
	GW_QUIC_MODE_THREE_PASS = 3,
	GW_QUIC_MODE_FOUR_PASS = 4,
};

/* One QUIC-LB configuration; its index is the config ID. */
struct gw_quic_config {
	__u8 server_id_len;
	__u8 nonce_len;
	__u8 cid_len;
	__u8 mode; /* enum gw_quic_mode */
	__u8 encodes_length;
	__u8 zero[3];
	__u32 crypto_slot;
	__u32 crypto_incarnation;
};

struct gw_service {
	struct gw_service_key key;
	__u32 id;
	__u32 slots; /* size of the table; 0 in a shared fragment entry */
	__u32 slots_at;
	__u32 backends_at;
	__u32 server_ids_at;
	__u32 server_ids_mask; /* entries, less one; meaningful with server-ID routing only */
	__u32 flags; /* enum gw_service_flag */
	__u64 server_id_seed;
	__u64 grace_until_ns; /* end of the handshake grace, coarse monotonic clock */
	__u64 hash_final; /* f of the flow hash */
	__u32 hash_key[6]; /* k0 to k5 of the flow hash */
	__u32 stats; /* index of its counters */
	__u16 backends; /* rows, empty ones included */
	__u8 routing; /* enum gw_routing */
	__u8 fragments; /* enum gw_fragments */
	__u8 unknown_server_id; /* enum gw_policy */
	__u8 unhealthy; /* enum gw_policy */
	__u8 short_dcid_len;
	__u8 zero;
	struct gw_quic_config configs[GW_QUIC_CONFIGS];
	__u32 zero2;
};

enum gw_backend_state {
	GW_BACKEND_MISSING = 0, /* an empty row */
	GW_BACKEND_READY = 1,
	GW_BACKEND_DRAINING = 2, /* also a ready backend of weight 0 */
	GW_BACKEND_UNHEALTHY = 3,
};

enum gw_backend_flag {
	GW_BACKEND_TX = 1 << 0, /* behind the ingress interface itself */
	GW_BACKEND_SET_SOURCE = 1 << 1, /* smac replaces the source address */
};

struct gw_backend {
	__u32 id;
	__u32 ifindex;
	__u32 incarnation; /* never 0 in an occupied row */
	__u32 stats; /* index of its counters */
	__u8 dmac[6];
	__u8 smac[6];
	__u8 state; /* enum gw_backend_state */
	__u8 flags; /* enum gw_backend_flag */
	__u8 zero[2];
};

/* A slot of the table: the row that owns it now, and its kind or base row while a change lasts. */
struct gw_slot {
	__u16 owner;
	__u16 base;
};

enum gw_server_id_flag {
	GW_SERVER_ID_USED = 1 << 0,
	GW_SERVER_ID_QUARANTINED = 1 << 1, /* row is GW_SLOT_NONE */
};

/* One server ID of a service, bytes beyond its length are zero. */
struct gw_server_id {
	__u8 config;
	__u8 length;
	__u16 row;
	__u32 flags; /* enum gw_server_id_flag; 0: empty entry */
	__u8 bytes[16];
	__u64 zero;
};

#endif
