/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames as the egress program reads and writes them. */
#ifndef GW_EGRESS_FRAME_H
#define GW_EGRESS_FRAME_H

#include "guideway/abi.h"
#include "lib/ip.h"

enum gw_wire {
	GW_ETH_BYTES = 14,
	GW_ETH_IPV4 = 0x0800,
	GW_ETH_IPV6 = 0x86dd,
	GW_PROTO_ICMP = 1,
	GW_PROTO_IPIP = 4,
	GW_PROTO_TCP = 6,
	GW_PROTO_UDP = 17,
	GW_PROTO_IPV6 = 41,
	GW_PROTO_ICMPV6 = 58,
};

/* A frame up to the end of its IPv6 header; what is put in front of the inner packet is one. */
struct gw_ipv6_frame {
	__u8 dmac[6];
	__u8 smac[6];
	__be16 type;
	__be32 version_class_label;
	__be16 payload_bytes;
	__u8 next_header;
	__u8 hop_limit;
	__u8 source[16];
	__u8 destination[16];
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct gw_ipv6_frame) == GW_ETH_BYTES + GW_EGRESS_OUTER_BYTES, "no padding");

struct gw_icmp_header {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest; /* the MTU, or nothing */
};

/* A frame up to the end of its IPv4 header without options. */
struct gw_ipv4_frame {
	__u8 dmac[6];
	__u8 smac[6];
	__be16 type;
	__u8 version_ihl;
	__u8 class;
	__be16 total_bytes;
	__be16 id;
	__be16 fragment;
	__u8 hops;
	__u8 protocol;
	__be16 checksum;
	__u8 source[4];
	__u8 destination[4];
} __attribute__((packed, aligned(2)));

struct gw_answer4 {
	__u16 zero; /* so that addresses are aligned */
	struct gw_ipv4_frame frame;
	struct gw_icmp_header icmp;
} __attribute__((aligned(8)));
_Static_assert(__builtin_offsetof(struct gw_answer4, icmp) == 2 + GW_ETH_BYTES + GW_IPV4_BYTES, "");

struct gw_answer6 {
	__u16 zero; /* so that addresses are aligned */
	struct gw_ipv6_frame frame;
	struct gw_icmp_header icmp;
} __attribute__((aligned(8)));
_Static_assert(__builtin_offsetof(struct gw_answer6, icmp) == 2 + GW_ETH_BYTES + GW_IPV6_BYTES, "");

/* What is being answered, and how. */
struct gw_answering {
	__u32 reason; /* enum gw_egress_counter */
	__u32 link_mtu;
	__u32 rate;
	__u32 burst;
	__u32 bytes; /* of the packet, then those that are quoted */
	__u16 transport_at; /* from the beginning of the frame */
	__u16 pseudo_sum; /* of the transport's pseudo header */
	__u8 protocol; /* the transport's */
	__u8 zero[7];
};

/*
 * Where answers are made. Not on the stack, which is short; and without CAP_PERFMON a program cannot sum
 * up what is in a frame.
 */
struct gw_scratch {
	union {
		struct gw_answer4 answer4;
		struct gw_answer6 answer6;
	};
	struct gw_answering answering;
	__u64 summed[64]; /* as much as the helper takes */
};

#endif
