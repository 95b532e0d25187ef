/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two flows of which one has an entry at a time, in the same memory, at full speed: what a sweep and
 * packets of new flows do to each other's entries.
 */
#include "maps/affinity.h"

struct reuse {
	struct gw_flow_key keys[2];
	struct gw_binding entries[2];
	__u64 times;
};

static long reuse_once(__u32 index, struct reuse *reuse)
{
	struct gw_flow_key key = reuse->keys[index & 1];
	struct gw_binding entry = reuse->entries[index & 1];
	struct gw_flow_key former = reuse->keys[~index & 1];

	bpf_map_delete_elem(&gw_ql_flow, &former);
	bpf_map_update_elem(&gw_ql_flow, &key, &entry, BPF_NOEXIST);
	return 0;
}

SEC("syscall")
int gw_reuse(struct reuse *ctx)
{
	struct reuse reuse = *ctx;

	return bpf_loop(reuse.times, reuse_once, &reuse, 0) == (long)reuse.times;
}

char _license[] SEC("license") = "Dual BSD/GPL";
