/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many pins each tenant has. */
#ifndef GW_MAPS_PIN_USE_H
#define GW_MAPS_PIN_USE_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/* By table. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct gw_pin_use);
	__uint(max_entries, GW_EGRESS_TENANTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} gw_pin_use SEC(".maps");

#endif
