/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters on a card: one word in an element, to which threads add at once. A missing one changes
 * nothing but the numbers.
 */
#ifndef GW_OFFLOAD_COUNTERS_H
#define GW_OFFLOAD_COUNTERS_H

#include "lib/count.h"

static __always_inline void gw_add(void *map, __u32 index, __u32 number)
{
	__u64 *counter = bpf_map_lookup_elem(map, &index);

	if (counter)
		__sync_fetch_and_add(counter, number);
}

static __always_inline void gw_count_reason(__u32 reason)
{
	gw_add(&gw_of_reason, reason, 1);
}

static __always_inline void gw_count_service(const struct gw_packet *packet)
{
	__u32 at = packet->stats * GW_OFFLOAD_COUNTERS;
	__u64 counted = packet->counted;

	if (packet->stats >= GW_OFFLOAD_SERVICE_STATS)
		return;
	gw_add(&gw_of_stats, at + GW_OFFLOAD_PACKETS_AT, 1);
	gw_add(&gw_of_stats, at + GW_OFFLOAD_BYTES_AT, packet->frame_bytes);
	if (packet->reason == GW_REASON_FORWARDED)
		gw_add(&gw_of_stats, at + GW_OFFLOAD_RULES_AT + packet->rule, 1);
#pragma unroll
	for (int i = 0; i < GW_MAX_COUNTED; i++) {
		if (!(counted & 0xff))
			break;
		gw_add(&gw_of_stats, at + (counted & 0xff) - 1, 1);
		counted >>= 8;
	}
}

static __always_inline void gw_count_backend(const struct gw_packet *packet)
{
	__u32 index = packet->backend_stats;
	struct gw_backend_stats *stats;

	if (packet->reason != GW_REASON_FORWARDED)
		return;
	stats = bpf_map_lookup_elem(&gw_of_backend, &index);
	if (!stats)
		return;
	__sync_fetch_and_add(&stats->packets, 1);
	__sync_fetch_and_add(&stats->bytes, packet->frame_bytes);
}

#endif
