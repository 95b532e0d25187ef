/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of the program. */
#ifndef GW_LIB_RUN_H
#define GW_LIB_RUN_H

#include "profile.h"
#include GW_PROFILE_MAPS
#include GW_PROFILE_SETTLE
#include "verifier.h"

/*
 * What a step returns: GW_CONTINUE, or why the packet leaves as gw_leaves(reason), which is never 0
 * because only the last step forwards.
 */
#define GW_CONTINUE 0
#define gw_leaves(reason) (-(int)(reason))

/*
 * Every step reads it and adds to it. Pointers are never NULL once there is a snapshot: those that
 * were not found yet lead to the generation. Without CAP_PERFMON the verifier also walks the way
 * that a mispredicted branch would take, and Linux 6.1 refuses the program if a pointer that is
 * known to be NULL is followed there ("R2 invalid mem access 'scalar'").
 */
struct gw_run {
	struct xdp_md *ctx;
	struct gw_packet *packet; /* all that is not a pointer */
	void *cells; /* the snapshot, where it is one map */
	const gw_generation_record *generation;
	const gw_service_record *service;
	const struct gw_backend *backend;
};

/* A new packet in the memory of the one before. */
static __always_inline void gw_reset(struct gw_packet *packet)
{
	packet->client = (struct gw_address){};
	packet->client_port = 0;
	packet->vip_port = 0;
	packet->family = 0;
	packet->protocol = 0;
	packet->direct = 0;
	packet->fragment = 0;
	packet->icmp = 0;
	packet->start = 0;
	packet->asked_start = 0;
	packet->cid_len = 0;
	packet->passive = 0;
	packet->ends = 0;
	packet->goes_on = 0;
	packet->teaches = 0;
	packet->event = 0;
	packet->created = 0;
	packet->counted = 0;
	packet->generation = 0;
	packet->service_id = 0;
	packet->backend_id = 0;
	packet->stats = GW_INDEX_NONE;
	packet->backend_stats = GW_INDEX_NONE;
	packet->slot = GW_INDEX_NONE;
	packet->row = GW_SLOT_NONE;
	packet->base = GW_SLOT_NONE;
}

#endif
