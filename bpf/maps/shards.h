/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What shards got. */
#ifndef GW_MAPS_SHARDS_H
#define GW_MAPS_SHARDS_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/* By group and slot: group * gw_max_members + slot. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_shard_stats);
	__uint(max_entries, GW_EGRESS_GROUPS * GW_EGRESS_MEMBERS);
} gw_shardstat SEC(".maps");

#endif
