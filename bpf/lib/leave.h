/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that belong to nobody here. */
#ifndef GW_LIB_LEAVE_H
#define GW_LIB_LEAVE_H

#include "run.h"

static __always_inline int gw_no_service(const struct gw_run *run)
{
	return gw_leaves(run->packet->icmp ? GW_REASON_ICMP_NO_SERVICE : GW_REASON_NO_SERVICE);
}

#endif
