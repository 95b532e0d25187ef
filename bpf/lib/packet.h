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
#define GW_PAYLOAD_BYTES 24 /* what is kept of a payload in the window */

/* Of QUIC's long headers, version-independent. */
enum {
	GW_QUIC_LONG = 0x80, /* in the first byte */
	GW_QUIC_LONG_BYTES = 6, /* up to the length of the DCID */
};

/*
 * In a map and not on the stack: header bytes are loaded from it at any alignment, and the verifier
 * forgets the values that pass through it.
 */
struct gw_packet {
	__u64 window[GW_WINDOW_WORDS]; /* a copy of header bytes */

	/* the flow, always in the direction of the client's packets */
	struct gw_address client;
	struct gw_address vip;
	__be16 client_port;
	__be16 vip_port;

	/* the frame */
	__u32 frame_bytes;
	__u32 offset; /* where reading stands */
	__u32 end; /* where what is being read ends */

	__u8 family;
	__u8 protocol;
	__u8 direct; /* the bytes at offset can be read in place */
	__u8 fragment;
	__u8 icmp; /* an error about a packet of the flow */
	__u8 start; /* can begin a flow */

	/* the decision */
	__u8 rule;
	__u8 cid_len; /* of the connection ID that was read, for events */
	__u32 cid_offset;
	__u32 reason;
	__u64 hash;
	__u32 slot; /* GW_INDEX_NONE until the flow was hashed */
	__u16 row;
	__u16 base; /* of the slot word */
	__u32 action;

	/* for an event */
	__u64 generation;
	__u32 service_id;
	__u32 backend_id;
};

#endif
