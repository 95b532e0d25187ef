/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interfaces that packets may leave by. */
#ifndef GW_LIB_TARGET_H
#define GW_LIB_TARGET_H

#include "run.h"

/* XDP_DROP where the backend's interface is not one of them. */
static __always_inline int gw_choose_exit(const struct gw_backend *backend)
{
	if (backend->flags & GW_BACKEND_TX)
		return XDP_TX;
	return bpf_redirect_map(&gw_ql_dev, backend->ifindex, XDP_DROP);
}

#endif
