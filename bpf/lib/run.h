/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of the program. */
#ifndef GW_LIB_RUN_H
#define GW_LIB_RUN_H

#include "maps/quiclb.h"
#include "verifier.h"

/*
 * What a step returns: GW_CONTINUE, or why the packet leaves as gw_leaves(reason), which is never 0
 * because only the last step forwards.
 */
#define GW_CONTINUE 0
#define gw_leaves(reason) (-(int)(reason))

/* Every step reads it and adds to it. */
struct gw_run {
	struct xdp_md *ctx;
	struct gw_packet *packet; /* all that is not a pointer */

	/* the snapshot, and what the packet found in it */
	void *cells;
	const struct gw_generation *generation;
	const struct gw_service *service;
	const struct gw_backend *backend;
	struct gw_service_stats *stats;
};

/* Memory for this run; it still holds what the one before left. */
static __always_inline int gw_begin(struct gw_run *run)
{
	__u32 zero = 0;
	struct gw_packet *packet = bpf_map_lookup_elem(&gw_ql_packet, &zero);

	if (!packet)
		return gw_leaves(GW_REASON_INTERNAL);
	packet->rule = GW_RULE_NONE;
	packet->slot = GW_INDEX_NONE;
	packet->row = GW_SLOT_NONE;
	packet->base = GW_SLOT_NONE;
	run->packet = packet;
	return GW_CONTINUE;
}

/* What events and notes say of the records that were found. */
static __always_inline void gw_keep_names(const struct gw_run *run)
{
	struct gw_packet *packet = run->packet;

	packet->generation = run->generation ? run->generation->number : 0;
	packet->service_id = run->service ? run->service->id : 0;
	packet->backend_id = run->backend ? run->backend->id : 0;
}

#endif
