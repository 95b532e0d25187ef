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
	__uint(max_entries, GW_MAX_SERVICES);
} gw_ql_rules SEC(".maps");

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
