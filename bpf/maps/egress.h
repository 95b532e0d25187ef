/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the egress program. */
#ifndef GW_MAPS_EGRESS_H
#define GW_MAPS_EGRESS_H

#include "pins.h"
#include "shards.h"

/* Set before the program is loaded. */
const volatile __u32 gw_max_groups = GW_EGRESS_GROUPS;
const volatile __u32 gw_table_size = GW_EGRESS_SLOTS;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct gw_tenant);
	__uint(max_entries, GW_EGRESS_TENANTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} gw_tenants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct gw_route_key);
	__type(value, struct gw_route);
	__uint(max_entries, GW_EGRESS_ROUTES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} gw_routes SEC(".maps");

/* A template of what is swapped, by size only as that of gw_groups. */
struct gw_eg_conf {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct gw_egress_config));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_RDONLY_PROG);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, sizeof(__u32));
	__uint(max_entries, 1);
	__array(values, struct gw_eg_conf);
} gw_eg_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, GW_EGRESS_RING_BYTES);
} gw_eg_events SEC(".maps");

/* What is left of what may be done so often, and what was not done since it was. */
struct gw_egress_bucket {
	__u64 refilled_ns;
	__u32 tokens;
	__u32 suppressed;
};

/* By the counter of what is limited. Working state: nobody else reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_egress_bucket);
	__uint(max_entries, GW_EGRESS_COUNTERS);
} gw_eg_bucket SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_scratch);
	__uint(max_entries, 1);
} gw_eg_scratch SEC(".maps");

#endif
