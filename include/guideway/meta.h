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

/* The same of the egress datapath, whose numbers are in its snapshots. */
struct gw_egress_meta {
	__u32 magic;
	__u16 abi_major;
	__u16 abi_minor;
	__u8 instance[16]; /* zeros: there is one */
	/* Sizes fixed when the maps were made. */
	__u32 tenants;
	__u32 routes;
	__u32 groups;
	__u32 members;
	__u32 table_size;
	__u32 pins;
	__u32 flow_pins;
	__u32 ring_bytes;
	__u64 namespace; /* cookie of the network namespace whose interfaces are meant */
};

#endif
