/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a pass over a hash table keeps its way when the element it is at is deleted. Its memory may
 * be in another bucket before the pass goes on, by an insert on the same CPU; kernels that look for
 * the next element only then (before Linux 6.15, unless mended) follow it there, and leave the rest of
 * their bucket out.
 */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

#define GW_WALK_ENTRIES 64

/* Full, so that what is inserted takes the memory that was freed just now. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, GW_WALK_ENTRIES);
} gw_walked SEC(".maps");

static long gw_fill(__u32 key, void *ctx)
{
	__u32 zero = 0;

	bpf_map_update_elem(&gw_walked, &key, &zero, BPF_NOEXIST);
	return 0;
}

/* Puts another entry in the place of one that was there at the beginning. */
static long gw_visit(void *map, const __u32 *at, __u32 *value, __u64 *visited)
{
	__u32 key = *at;
	__u32 zero = 0;

	if (key >= GW_WALK_ENTRIES)
		return 0;
	++*visited;
	bpf_map_delete_elem(&gw_walked, &key);
	key += GW_WALK_ENTRIES;
	bpf_map_update_elem(&gw_walked, &key, &zero, BPF_NOEXIST);
	return 0;
}

/* Called once: it wears its table out. */
SEC("syscall")
int gw_try_walk(struct gw_walk *ctx)
{
	__u64 visited = 0;
	long result;

	bpf_loop(GW_WALK_ENTRIES, gw_fill, NULL, 0);
	result = bpf_for_each_map_elem(&gw_walked, gw_visit, &visited, 0);
	ctx->entries = GW_WALK_ENTRIES;
	ctx->visited = visited;
	return result < 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
