/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters: per CPU, reached by index. A missing one changes nothing but the numbers. */
#ifndef GW_LIB_COUNT_H
#define GW_LIB_COUNT_H

#include "run.h"

/* A counter of the packet's service; a constant. */
#define gw_count(run, counter)                                                       \
	do {                                                                         \
		if ((run)->stats) {                                                  \
			void *at = (run)->stats;                                     \
			gw_advance(at, offsetof(struct gw_service_stats, counters) + \
					       (counter) * sizeof(__u64));           \
			++*(__u64 *)at;                                              \
		}                                                                    \
	} while (0)

static __always_inline void gw_count_reason(__u32 reason)
{
	__u32 zero = 0;
	struct gw_reason_stats *stats = bpf_map_lookup_elem(&gw_ql_reason, &zero);

	if (stats)
		stats->packets[reason & (GW_REASONS - 1)]++;
}

/* The service's packet, whatever becomes of it. */
static __always_inline void gw_count_service(const struct gw_run *run)
{
	if (!run->stats)
		return;
	run->stats->packets++;
	run->stats->bytes += run->packet->frame_bytes;
}

static __always_inline void gw_count_forwarded(const struct gw_run *run)
{
	struct gw_backend_stats *stats;

	if (run->stats)
		run->stats->rules[run->packet->rule & (GW_RULES - 1)]++;
	stats = bpf_map_lookup_elem(&gw_ql_backend, &run->backend->stats);
	if (!stats)
		return;
	stats->packets++;
	stats->bytes += run->packet->frame_bytes;
}

#endif
