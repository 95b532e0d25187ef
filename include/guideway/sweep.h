/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space and the programs that it calls to collect flow state tell each other. */
#ifndef GW_SWEEP_H
#define GW_SWEEP_H

#include "limits.h"

/* Entries that the tables of flow state hold. */
struct gw_occupancy {
	__u64 flows;
	__u64 cids;
};

#endif
