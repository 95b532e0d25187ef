/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The event ring: a sample of what happened, for people. Nothing depends on reading it. */
#ifndef GW_EVENTS_H
#define GW_EVENTS_H

#include "limits.h"

enum gw_event_kind {
	GW_EVENT_FLOW_START = 0,
	GW_EVENT_RESELECT = 1,
	GW_EVENT_NO_BACKEND = 2,
	GW_EVENT_UNKNOWN_SERVER_ID = 3,
	GW_EVENT_CID_LEARNED = 4,
	GW_EVENT_CID_CONFLICT = 5,
	GW_EVENT_REFUSED_FULL = 6,
	GW_EVENT_BAD_PACKET = 7,
	GW_EVENT_NOT_QUIC = 8,
	GW_EVENT_FRAGMENT = 9,
	GW_EVENT_REBIND = 10,
	GW_EVENT_STALE = 11,
	GW_EVENT_KINDS = 16,
};

struct gw_event {
	__u64 time_ns; /* coarse monotonic clock */
	__u64 generation;
	__u32 service_id;
	__u32 backend_id;
	__u32 ifindex; /* ingress */
	__u32 suppressed; /* of this kind on this CPU since the last record */
	__u16 kind; /* enum gw_event_kind */
	__u8 rule; /* enum gw_rule */
	__u8 reason; /* enum gw_reason */
	__u8 family;
	__u8 protocol;
	__u8 cid_len;
	__u8 zero;
	__be16 source_port;
	__be16 destination_port;
	__u32 slot; /* GW_INDEX_NONE where the flow was not hashed */
	__u8 source[16];
	__u8 cid[GW_MAX_CID_BYTES];
	__u32 zero2;
};

/* Per CPU and kind: what may still be reported, and what was not. */
struct gw_event_bucket {
	__u64 refilled_ns;
	__u64 empty_jiffies; /* when it was last found empty: no need to look again in that tick */
	__u32 tokens;
	__u32 suppressed; /* since the last record, carried by the next one */
	__u64 emitted;
	__u64 suppressed_total;
	__u64 lost; /* the ring had no room */
};

#endif
