/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The counters of services, for every program that counts there. */
#ifndef GW_MAPS_STATS_H
#define GW_MAPS_STATS_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_service_stats);
	__uint(max_entries, GW_MAX_SERVICE_STATS);
} gw_ql_stats SEC(".maps");

#endif
