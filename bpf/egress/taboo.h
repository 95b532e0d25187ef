/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which packets no ICMP error may answer, whatever becomes of them. */
#ifndef GW_EGRESS_TABOO_H
#define GW_EGRESS_TABOO_H

#include "run.h"

enum gw_icmp_type {
	GW_ICMP4_UNREACHABLE = 3,
	GW_ICMP4_SOURCE_QUENCH = 4,
	GW_ICMP4_REDIRECT = 5,
	GW_ICMP4_TIME_EXCEEDED = 11,
	GW_ICMP4_PARAMETER_PROBLEM = 12,
	GW_ICMP4_CODE_TOO_BIG = 4,
	GW_ICMP6_UNREACHABLE = 1,
	GW_ICMP6_TOO_BIG = 2,
	GW_ICMP6_FIRST_QUERY = 128,
	GW_ICMP6_REDIRECT = 137,
};

/* The bit of a destination MAC that means many. */
#define GW_MULTICAST_MAC 1

/*
 * Whether a packet is never answered: it came to many, its source is not one host, it is part of a
 * datagram whose beginning is told, an error itself or a redirect (RFC 1122, 3.2.2; RFC 1812, 4.3.2.7; RFC 4443,
 * 2.4). No short cuts: the verifier walks through each way.
 */
static __always_inline bool gw_is_taboo4(const struct gw_ipv4_frame *frame)
{
	__u8 first = frame->source[0];

	return (frame->dmac[0] & GW_MULTICAST_MAC) | (first == 0) | (first == 127) |
	       (first >= 224) | ((frame->fragment & bpf_htons(GW_IPV4_FRAGMENT_OFFSET)) != 0);
}

static __always_inline bool gw_is_taboo6(const struct gw_ipv6_frame *frame)
{
	__u32 high = gw_load32(frame->source, 0) | gw_load32(frame->source, 4) |
		     gw_load32(frame->source, 8);

	return (frame->dmac[0] & GW_MULTICAST_MAC) | (frame->source[0] == 0xff) |
	       ((high == 0) & (gw_load_be32(frame->source, 12) <= 1));
}

/* What is cut off before its type may be an error. */
static __always_inline bool gw_is_error4(struct __sk_buff *skb, const struct gw_answering *of)
{
	const __u64 errors = 1 << GW_ICMP4_UNREACHABLE | 1 << GW_ICMP4_SOURCE_QUENCH |
			     1 << GW_ICMP4_REDIRECT | 1 << GW_ICMP4_TIME_EXCEEDED |
			     1 << GW_ICMP4_PARAMETER_PROBLEM;
	__u8 type;

	if (of->protocol != GW_PROTO_ICMP)
		return false;
	if (bpf_skb_load_bytes(skb, of->transport_at, &type, sizeof(type)))
		return true;
	return type < 64 && errors >> type & 1;
}

static __always_inline bool gw_is_error6(struct __sk_buff *skb, const struct gw_answering *of)
{
	__u8 type;

	if (of->protocol != GW_PROTO_ICMPV6)
		return false;
	return bpf_skb_load_bytes(skb, of->transport_at, &type, sizeof(type)) ||
	       type < GW_ICMP6_FIRST_QUERY || type == GW_ICMP6_REDIRECT;
}

#endif
