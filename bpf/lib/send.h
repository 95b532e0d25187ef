/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The frame on its way: new MAC addresses, nothing else, and the interface. */
#ifndef GW_LIB_SEND_H
#define GW_LIB_SEND_H

#include "bytes.h"
#include "run.h"
#include GW_PROFILE_TARGET

static __always_inline int gw_send(struct gw_run *run)
{
	const struct gw_backend *backend = run->backend;
	__u8 *data = (void *)(long)run->ctx->data;
	void *data_end = (void *)(long)run->ctx->data_end;

	run->packet->action = gw_choose_exit(backend);
	/* Before anything is written: a frame that is dropped leaves as it came. */
	if (run->packet->action == XDP_DROP)
		return gw_leaves(GW_REASON_NO_TARGET);
	if ((void *)data + 12 > data_end)
		return gw_leaves(GW_REASON_INTERNAL);
	*(__u32 *)data = gw_load32(backend->dmac, 0);
	*(__u16 *)(data + 4) = gw_load16(backend->dmac, 4);
	if (backend->flags & GW_BACKEND_SET_SOURCE) {
		*(__u16 *)(data + 6) = gw_load16(backend->smac, 0);
		*(__u32 *)(data + 8) = gw_load32(backend->smac, 2);
	}
	return GW_CONTINUE;
}

#endif
