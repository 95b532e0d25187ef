/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the programs that collect flow state; they live as long as those. */
#ifndef GW_MAPS_SWEEP_H
#define GW_MAPS_SWEEP_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct gw_sweep_service);
	__uint(max_entries, GW_MAX_SERVICES + 1);
} gw_ql_rules SEC(".maps");

/* Entries that a pass judges together. */
#define GW_GROUP 64

struct gw_gathered {
	union {
		struct gw_flow_key flow;
		struct gw_cid_key cid;
	};
	struct gw_binding entry;
};

struct gw_group {
	struct gw_gathered entries[GW_GROUP];
	__u32 count;
	__u32 service; /* that the rules are of */
	__u32 failed; /* some entry could not be judged */
	__u32 zero;
};

/* Of the pass that is under way. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_group);
	__uint(max_entries, 1);
} gw_ql_group SEC(".maps");

/* By cell of the generation, a bit for each of its slots: an entry differs from the owner. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GW_GENERATION_CELLS);
} gw_ql_differ SEC(".maps");

/* By the counter index of a backend: its entries that the pass has seen so far. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_bound);
	__uint(max_entries, GW_MAX_BACKEND_STATS);
} gw_ql_tally SEC(".maps");

#endif
