/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters, all per CPU, all monotonic. A counter never changes a verdict: where one is missing
 * the packet goes on uncounted.
 */
#ifndef GW_STATS_H
#define GW_STATS_H

#include "reasons.h"

enum gw_counter {
	/* of every packet of the service */
	GW_COUNTER_STARTS = 0, /* packets that can begin a flow */
	GW_COUNTER_QUIC_LONG = 1,
	GW_COUNTER_QUIC_SHORT = 2,
	GW_COUNTER_FIXED_BIT_CLEAR = 3,
	GW_COUNTER_VERSION_NEGOTIATION = 4,
	GW_COUNTER_RETRY = 5,
	GW_COUNTER_UNKNOWN_VERSION = 6,
	GW_COUNTER_CID_ZERO = 7,
	GW_COUNTER_CID_LONG = 8,
	GW_COUNTER_UNROUTABLE_RESERVED = 9,
	GW_COUNTER_UNROUTABLE_CONFIG = 10,
	GW_COUNTER_UNROUTABLE_SHORT = 11,
	GW_COUNTER_UNROUTABLE_LENGTH = 12,
	GW_COUNTER_UNKNOWN_SERVER_ID = 13,
	GW_COUNTER_QUARANTINED_SERVER_ID = 14,
	GW_COUNTER_CID_LEARNED = 15,
	GW_COUNTER_CID_CONFLICT = 16,
	GW_COUNTER_CID_LEN_MISMATCH = 17,
	GW_COUNTER_CID_REFUSED = 18, /* or the flow of a bound one: what comes there is not learned */
	GW_COUNTER_REBIND = 19,
	GW_COUNTER_STALE = 20,
	GW_COUNTER_ICMP = 21,
	GW_COUNTER_FRAGMENTS = 22,
	/* of entries, counted by user space's programs */
	GW_COUNTER_DELETED_IDLE = 23,
	GW_COUNTER_DELETED_CLOSED = 24,
	GW_COUNTER_DELETED_BACKEND_GONE = 25,
	GW_COUNTER_DELETED_REDUNDANT = 26,
	GW_COUNTER_RESURRECTED = 27,
	GW_COUNTER_IMPORTED = 28,
	/* outcomes of placement by flow: exactly one for each packet so placed */
	GW_COUNTER_PLAIN = 32,
	GW_COUNTER_HIT = 33,
	GW_COUNTER_RESELECTED = 34,
	GW_COUNTER_START_INSERTED = 35,
	GW_COUNTER_BASE_INSERTED = 36,
	GW_COUNTER_HELD_DEFAULT = 37,
	GW_COUNTER_ALL_INSERTED = 38,
	GW_COUNTER_RACED = 39,
	GW_COUNTER_REFUSED_HIGH = 40,
	GW_COUNTER_REFUSED_FULL = 41,
	GW_COUNTER_REFUSED_BUSY = 42,
	GW_COUNTER_DEAD_USED = 43,
	GW_COUNTER_NO_ENTRY = 44,
	GW_COUNTER_NO_BACKEND = 45,
	/* beside the outcomes */
	GW_COUNTER_TAG_MISMATCH = 46,
	GW_COUNTER_AT_RISK = 47,
	GW_COUNTERS = 48,
};

struct gw_service_stats {
	__u64 packets; /* that found the service, whatever became of them */
	__u64 bytes; /* frame lengths */
	__u64 rules[GW_RULES]; /* forwarded, by the rule that placed them */
	__u64 counters[GW_COUNTERS]; /* enum gw_counter */
};

struct gw_backend_stats {
	__u64 packets;
	__u64 bytes;
};

struct gw_reason_stats {
	__u64 packets[GW_REASONS];
};

#endif
