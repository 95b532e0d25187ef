/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sizes that both sides rely on. */
#ifndef GW_LIMITS_H
#define GW_LIMITS_H

enum gw_abi {
	/* "GWQL", the first word of every generation and of the meta map. */
	GW_ABI_MAGIC = 0x4757514c,
	/* "GWEG", the first word of the meta map of the egress datapath. */
	GW_ABI_EGRESS_MAGIC = 0x47574547,
	/* The layout of a load balancer's maps, and of the egress datapath's. */
	GW_ABI_MAJOR = 2,
	GW_ABI_MINOR = 1,
	GW_ABI_EGRESS_MAJOR = 2,
	GW_ABI_EGRESS_MINOR = 0,
};

enum gw_limit {
	/* A generation is an array of cells; every record in it lies within one cell. */
	GW_CELL_BYTES = 256,
	GW_CELL_SLOTS = 64,
	GW_CELL_BACKENDS = 8,
	GW_CELL_SERVER_IDS = 8,
	/*
	 * Room of each generation, used or not, unless it is set before the program is loaded:
	 * 24 MiB.
	 */
	GW_GENERATION_CELLS = 98304,
	/* Probes of the open-addressed tables: services by key, server IDs by bytes. */
	GW_MAX_PROBES = 8,
	GW_MAX_SERVICES = 1024,
	/* Services with their entries for fragments: the number of service counters. */
	GW_MAX_SERVICE_STATS = 1024,
	GW_MAX_BACKENDS = 256,
	GW_MAX_BACKEND_STATS = 65536,
	GW_MAX_TARGETS = 4096,
	GW_MAX_CID_BYTES = 20,
	GW_MAX_SERVER_ID_BYTES = 15,
	GW_QUIC_CONFIGS = 8,
	GW_KEY_BYTES = 16,
	/* Keys of encrypted server IDs, of all services together. */
	GW_MAX_CRYPTO_CONTEXTS = 1024,
	GW_MAX_VLAN_TAGS = 2,
	GW_MAX_EXT_HEADERS = 6,
	GW_MAX_EXT_BYTES = 512,
	/* Connection IDs that one flow may teach. */
	GW_MAX_LEARNED = 8,
	/* Entries of flow state, unless they are set before the program is loaded. */
	GW_FLOWS = 1048576,
	GW_CIDS = 262144,
	GW_EVENT_RING_BYTES = 1048576,
};

/* Slot words and row numbers: "no backend" and the kinds of a slot. */
enum gw_slot_word {
	GW_SLOT_NONE = 0xffff,
	GW_SLOT_PLAIN = 0xffff,
	GW_SLOT_HELD = 0xfffe,
};

/* Index of a counter that does not exist. */
enum gw_index {
	GW_INDEX_NONE = 0xffffffff,
};

#endif
