/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters: per CPU, reached by index, one look-up for each of reason, service and backend, at the
 * packet's end. A missing one changes nothing but the numbers.
 */
#ifndef GW_LIB_COUNTERS_H
#define GW_LIB_COUNTERS_H

#include "count.h"

static __always_inline void gw_count_reason(__u32 reason)
{
	__u32 zero = 0;
	struct gw_reason_stats *stats = bpf_map_lookup_elem(&gw_ql_reason, &zero);

	if (stats)
		stats->packets[reason & (GW_REASONS - 1)]++;
}

static __always_inline void gw_count_service(const struct gw_packet *packet)
{
	struct gw_service_stats *stats = bpf_map_lookup_elem(&gw_ql_stats, &packet->stats);
	__u64 counted = packet->counted;

	if (!stats)
		return;
	stats->packets++;
	stats->bytes += packet->frame_bytes;
	if (packet->reason == GW_REASON_FORWARDED)
		stats->rules[packet->rule & (GW_RULES - 1)]++;
#pragma unroll
	for (int i = 0; i < GW_MAX_COUNTED; i++) {
		__u32 counter = (counted & 0xff) - 1;

		gw_opaque(counter);
		if (counter >= GW_COUNTERS)
			break;
		stats->counters[counter]++;
		counted >>= 8;
	}
}

static __always_inline void gw_count_backend(const struct gw_packet *packet)
{
	struct gw_backend_stats *stats;

	if (packet->reason != GW_REASON_FORWARDED)
		return;
	stats = bpf_map_lookup_elem(&gw_ql_backend, &packet->backend_stats);
	if (!stats)
		return;
	stats->packets++;
	stats->bytes += packet->frame_bytes;
}

#endif
