/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sweep where the kernel can lock no bucket to delete from. A packet comes to a claimed entry in
 * that moment if its flow has been closed by the client.
 */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

static __always_inline long gw_busy_delete(void *map, const void *key)
{
	struct gw_binding *value = bpf_map_lookup_elem(map, key);
	__u32 state;

	if (value && value->state & GW_BINDING_FIN) {
		state = value->state;
		__sync_val_compare_and_swap(&value->state, state, state | GW_BINDING_TOUCHED);
	}
	return -16; /* EBUSY */
}

#define bpf_map_delete_elem gw_busy_delete
#include "sweep.bpf.c"
