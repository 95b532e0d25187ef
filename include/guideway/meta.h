/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the pinned maps of an instance mean, and the numbers that only ever rise. */
#ifndef GW_META_H
#define GW_META_H

#include "limits.h"

struct gw_meta {
	__u32 magic;
	__u16 abi_major;
	__u16 abi_minor;
	__u8 instance[16];
	__u64 generation_mark; /* highest generation number ever given out */
	__u32 incarnation_mark; /* highest incarnation ever given out */
	__u32 flows; /* sizes fixed when the instance was made */
	__u32 cids;
	__u32 slots;
	__u32 cells; /* that each generation has room for */
	__u32 zero;
};

#endif
