/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a packet left the program, and which rule placed it. Numbers are append-only: they index
 * pinned counters and appear in events.
 */
#ifndef GW_REASONS_H
#define GW_REASONS_H

enum gw_reason {
	GW_REASON_FORWARDED = 0,
	/* passed to the host, untouched */
	GW_REASON_NO_GENERATION = 1,
	GW_REASON_NOT_IP = 2,
	GW_REASON_VLAN_DEPTH = 3,
	GW_REASON_SHORT_FRAME = 4,
	GW_REASON_BAD_IPV4 = 5,
	GW_REASON_BAD_IPV6 = 6,
	GW_REASON_EXT_HEADERS = 7,
	GW_REASON_ROUTING_HEADER = 8,
	GW_REASON_L4_OTHER = 9,
	GW_REASON_BAD_L4 = 10,
	GW_REASON_NO_SERVICE = 11,
	GW_REASON_ICMP_OTHER = 12,
	GW_REASON_ICMP_BAD = 13,
	GW_REASON_ICMP_NO_SERVICE = 14,
	GW_REASON_FRAGMENT_PASS = 15,
	GW_REASON_NOT_QUIC = 16,
	GW_REASON_BAD_QUIC = 17,
	/* dropped: ours, but nowhere to go */
	GW_REASON_FRAGMENT_DROP = 32,
	GW_REASON_UNKNOWN_SERVER_ID = 33,
	GW_REASON_QUARANTINED_SERVER_ID = 34,
	GW_REASON_UNHEALTHY = 35,
	GW_REASON_NO_BACKEND = 36,
	GW_REASON_NO_TARGET = 37,
	/* aborted: a generation that contradicts itself */
	GW_REASON_INTERNAL = 63,
	GW_REASONS = 64,
};

enum gw_rule {
	GW_RULE_SERVER_ID = 0,
	GW_RULE_CID_REGISTERED = 1,
	GW_RULE_CID_IMPORTED = 2,
	GW_RULE_CID_LEARNED = 3,
	GW_RULE_FLOW = 4,
	GW_RULE_PREVIOUS = 5,
	GW_RULE_TABLE = 6,
	GW_RULE_RESELECT = 7,
	GW_RULES = 8,
	GW_RULE_NONE = 255,
};

#endif
