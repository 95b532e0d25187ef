/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space and the program that binds connection IDs for it tell each other. */
#ifndef GW_BIND_H
#define GW_BIND_H

#include "affinity.h"

enum gw_bind_operation {
	/* Add the entry wanted; there must be none. */
	GW_BIND_INSERT = 0,
	/* Put it in place of the entry expected. */
	GW_BIND_EXCHANGE = 1,
	/* Delete the entry expected. */
	GW_BIND_DELETE = 2,
};

enum gw_bind_result {
	GW_BIND_DONE = 0,
	/* There is another entry than expected, or one where there should be none: it is in expected. */
	GW_BIND_OTHER = 1,
	/* There is no entry where there should be one. */
	GW_BIND_MISSING = 2,
	GW_BIND_FULL = 3,
	/* The kernel could not take its lock: try again. */
	GW_BIND_BUSY = 4,
	/* No such operation. */
	GW_BIND_UNKNOWN = 5,
};

struct gw_bind_request {
	struct gw_cid_key key;
	__u32 operation; /* enum gw_bind_operation */
	/* The tags of both are the program's affair. */
	struct gw_binding expected;
	struct gw_binding wanted;
	__u32 result; /* enum gw_bind_result */
	__u32 stats; /* index of the service's counters, if an import is to be counted */
};

#endif
