/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known about the packet under way, apart from pointers. */
#ifndef GW_LIB_PACKET_H
#define GW_LIB_PACKET_H

#include "guideway/abi.h"
#include "address.h"

enum {
	GW_PROTOCOL_ICMP = 1,
	GW_PROTOCOL_TCP = 6,
	GW_PROTOCOL_UDP = 17,
	GW_PROTOCOL_ICMPV6 = 58,
};

#define GW_WINDOW_WORDS 5
#define GW_PAYLOAD_BYTES 24 /* what is looked at of a payload */

/* Of QUIC's long headers, version-independent. */
enum {
	GW_QUIC_LONG = 0x80, /* in the first byte */
	GW_QUIC_LONG_BYTES = 6, /* up to the length of the DCID */
};

/* What is looked at of a connection ID, read as little-endian words. */
struct gw_cid {
	__u8 first; /* config and length bits */
	__u64 a; /* bytes 1 to 8 */
	__u64 b; /* bytes 9 to 16 */
	/*
	 * How many bytes there are: all that it has, if exact (long headers); otherwise all that
	 * follow, and it may end before. Bytes behind mean nothing.
	 */
	__u32 bytes;
	__u8 exact;
};

enum gw_quic_form {
	GW_QUIC_IS_LONG,
	GW_QUIC_IS_SHORT, /* or anything else that does not tell what it is */
	GW_QUIC_IS_QUOTED, /* by an ICMP error; the connection ID is the server's, empty if unknown */
	GW_QUIC_IS_OTHER, /* another protocol */
	GW_QUIC_IS_MALFORMED,
};

/* What a connection ID says. */
enum gw_named {
	GW_NAMED_NOTHING, /* not asked */
	GW_NAMED_BACKEND, /* by packet->row; it may be unhealthy or gone */
	GW_NAMED_UNKNOWN,
	GW_NAMED_QUARANTINED,
	GW_NAMED_RESERVED, /* from here on it carries no server ID, and why */
	GW_NAMED_NO_CONFIG,
	GW_NAMED_TOO_SHORT,
	GW_NAMED_OTHER_LENGTH,
	GW_NAMED_INTERNAL, /* the generation contradicts itself */
};

/* Whether it carries a server ID, of a backend or not. */
static __always_inline bool gw_names_server(__u8 named)
{
	return named == GW_NAMED_BACKEND || named == GW_NAMED_UNKNOWN ||
	       named == GW_NAMED_QUARANTINED;
}

/* A payload as far as it matters here: its first bytes as little-endian words, and what they say. */
struct gw_quic {
	__u64 words[2];
	__u32 bytes; /* of the payload; words beyond mean nothing */
	enum gw_quic_form form;
	__u8 first;
	__u32 version; /* long headers */
	int type; /* long headers */
	struct gw_cid cid;
};

/*
 * In a map and not on the stack: header bytes are loaded from it at any alignment, and the verifier
 * forgets the values that pass through it.
 */
struct gw_packet {
	__u64 window[GW_WINDOW_WORDS]; /* a copy of header bytes */

	/* the flow, always in the direction of the client's packets; the service follows later */
	union {
		struct gw_flow_key flow;
		struct {
			__u32 service_id;
			__be16 client_port;
			__be16 vip_port;
			struct gw_address client;
		};
	};
	struct gw_address vip;

	/* the frame */
	__u32 frame_bytes;
	__u32 offset; /* where reading stands */
	__u32 end; /* where what is being read ends */

	/* set to 0 before anything is read */
	__u8 family;
	__u8 protocol;
	__u8 direct; /* the bytes at offset can be read in place */
	__u8 fragment;
	__u8 icmp; /* an error about a packet of the flow */
	__u8 start; /* can begin a flow */
	__u8 asked_start; /* it is known whether it can */
	__u8 cid_len; /* of the connection ID that was read, for events */
	__u8 passive; /* placed like its flow, but creates and changes nothing */
	__u8 ends; /* hints that it gives, GW_BINDING_FIN and GW_BINDING_RST */
	__u8 goes_on; /* hints that it takes back */
	__u8 teaches; /* its connection ID is the server's and bound to nothing */
	__u8 event; /* what it is reported for if it is forwarded, enum gw_event_kind; 0: nothing */
	__u8 created; /* enum gw_trace_flag */
	__u64 counted; /* counters of the service to increment, one more than each, a byte each */
	__u64 generation;
	__u32 backend_id;

	/* set to "none" before anything is read */
	__u32 stats; /* index of the service's counters */
	__u32 backend_stats;
	__u32 slot;
	__u16 row;
	__u16 base; /* of the slot word */

	/* kept from packet to packet: the tick in which this CPU last asked the clock, and what it said */
	__u64 tick;
	__u64 tick_ns;

	/* set with what gives them a meaning */
	struct gw_quic quic; /* where the service reads it */
	struct gw_cid_key cid_key; /* where it may be bound */
	__u64 hash; /* with slot */
	__u16 tag; /* of its flow's entry, as is strange */
	__u8 strange; /* what was found in place of its flow's entry is not its own */
	__u32 events_per_second; /* with generation */
	__u32 cid_offset; /* with cid_len */
	__u32 reason;
	__u32 action; /* of a forwarded packet, as is rule */
	__u8 rule;
	__u8 named; /* with quic; enum gw_named */
	__u8 may_be_start; /* with quic: is a start, or of a version whose starts are not known */
};

/* The rule that placed a forwarded packet. */
static __always_inline __u8 gw_rule_of(const struct gw_packet *packet)
{
	return packet->reason == GW_REASON_FORWARDED ? packet->rule : GW_RULE_NONE;
}

#endif
