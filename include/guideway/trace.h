/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The decision about one packet, noted only by a program loaded for tracing. */
#ifndef GW_TRACE_H
#define GW_TRACE_H

enum gw_trace_flag {
	GW_TRACE_HASHED = 1 << 0, /* hash, slot and base are set */
	GW_TRACE_START = 1 << 1, /* the packet can begin a flow */
	GW_TRACE_START_KNOWN = 1 << 2, /* the question was asked */
	GW_TRACE_CREATED_FLOW = 1 << 3, /* an entry for the flow */
	GW_TRACE_CREATED_CID = 1 << 4, /* one for the connection ID */
};

struct gw_trace_note {
	__u64 packets; /* noted since the program was loaded */
	__u64 generation;
	__u64 hash;
	__u32 service_id; /* 0: none found */
	__u32 backend_id; /* 0: none chosen or named */
	__u32 slot;
	__u16 row; /* GW_SLOT_NONE: none */
	__u16 base; /* of the slot word */
	__u8 reason; /* enum gw_reason */
	__u8 rule; /* enum gw_rule */
	__u8 flags; /* enum gw_trace_flag */
	__u8 zero[5];
};

#endif
