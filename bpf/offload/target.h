/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A card sends what it received out of the same port: nobody takes a redirected frame from it. */
#ifndef GW_OFFLOAD_TARGET_H
#define GW_OFFLOAD_TARGET_H

#include "lib/run.h"

static __always_inline int gw_choose_exit(const struct gw_backend *backend)
{
	return backend->flags & GW_BACKEND_TX ? XDP_TX : XDP_DROP;
}

#endif
