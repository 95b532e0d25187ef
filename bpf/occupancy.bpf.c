/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the entries of flow state without a look at any of them: the kernel keeps the numbers, and
 * has a function for them since Linux 6.6. An object of its own, because only kernels with type
 * information can resolve it.
 */
#include "maps/affinity.h"

/* Only its address is of interest. */
struct bpf_map {
	__u32 id;
};

extern __s64 bpf_map_sum_elem_count(const struct bpf_map *map) __ksym;

SEC("syscall")
int gw_occupancy(struct gw_occupancy *ctx)
{
	ctx->flows = bpf_map_sum_elem_count((void *)&gw_ql_flow);
	ctx->cids = bpf_map_sum_elem_count((void *)&gw_ql_cid);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
