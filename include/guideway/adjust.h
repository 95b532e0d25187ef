/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space tells the programs that it calls to change counts beside packets. */
#ifndef GW_ADJUST_H
#define GW_ADJUST_H

#include "egress.h"

/* More for the shard that is counted at an index. */
struct gw_more_shard {
	struct gw_shard_stats more;
	__u32 index;
	__u32 zero;
};

/* More pins of a tenant, or fewer. */
struct gw_more_pins {
	__u64 more; /* modulo 2^64 */
	__u32 table_id;
	__u32 zero;
};

enum gw_adjust_result {
	GW_ADJUST_DONE = 0,
	GW_ADJUST_MISSING = 1, /* nothing is counted there */
};

#endif
