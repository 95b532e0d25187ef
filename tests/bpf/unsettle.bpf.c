/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What others do to a flow's entry while packets teach connection IDs, at full speed: a sweep finds
 * it idle, and a collector admits what was just refused.
 */
#include "maps/affinity.h"

struct unsettle {
	struct gw_flow_key flow;
	__u32 stats; /* index of its service's counters */
	__u32 times;
};

static long unsettle_once(__u32 index, struct unsettle *what)
{
	struct gw_admission *admission = bpf_map_lookup_elem(&gw_ql_level, &what->stats);
	struct gw_binding *entry = bpf_map_lookup_elem(&gw_ql_flow, &what->flow);
	__u32 state;

	if (!admission || !entry)
		return 1;
	admission->cids = GW_LEVEL_ALL;
	state = *(const volatile __u32 *)&entry->state;
	if (!(state & GW_BINDING_PHASE))
		__sync_val_compare_and_swap(&entry->state, state, state | GW_BINDING_EXPIRING);
	return 0;
}

SEC("syscall")
int gw_unsettle(struct unsettle *ctx)
{
	struct unsettle what = *ctx;

	return bpf_loop(what.times, unsettle_once, &what, 0) == what.times;
}

char _license[] SEC("license") = "Dual BSD/GPL";
