/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * To the transport header of an IPv6 packet. Placement, pins and labels look at the first next header
 * alone and never come here: this is for lengths and answers.
 */
#ifndef GW_EGRESS_WALK_H
#define GW_EGRESS_WALK_H

#include "run.h"

/*
 * In memory whose beginning nothing but a helper writes: there the verifier loses the numbers, and
 * without CAP_PERFMON it would tell all the ways apart by them (see gw_forget()).
 */
struct gw_walk {
	/* an extension header */
	__u8 next;
	__u8 length;
	union {
		__be16 fragment; /* if it is one of those */
		__u8 routing[2]; /* its type, and the segments that are left, likewise */
	};
	/* what it is, and where from the beginning of the frame */
	__u16 at;
	__u8 protocol;
	__u8 segments_left; /* in any: not 0 */
} __attribute__((aligned(8)));

/* Where a transport header is, from the beginning of the frame, and which; {}: it was not found. */
struct gw_transport {
	__u16 at;
	__u8 protocol;
};

/* What gw_walk_ipv6() answers. */
#define gw_transport(found) ((struct gw_transport){ .at = (found), .protocol = (found) >> 16 })
/* Whether the packet is on its way to another address first (RFC 8200, 4.4). */
#define gw_has_segments_left(found) ((found) >> 24 != 0)
#define gw_walked(walk) ((__u32)(walk).segments_left << 24 | (__u32)(walk).protocol << 16 | (walk).at)

/* Finds nothing in a fragment but the first, in what is cut off, or behind too many headers. */
GW_GLOBAL __u32 gw_walk_ipv6(struct __sk_buff *skb)
{
	struct gw_walk walk = { .at = GW_ETH_BYTES + GW_IPV6_BYTES };

	if (bpf_skb_load_bytes(skb, GW_ETH_BYTES + 6, &walk.protocol, sizeof(walk.protocol)))
		return 0;
#pragma unroll
	for (int i = 0; i < GW_MAX_EXT_HEADERS; i++) {
		if (!gw_is_walked(walk.protocol))
			return gw_walked(walk);
		if (bpf_skb_load_bytes(skb, walk.at, &walk, 4))
			return 0;
		if (walk.protocol == GW_EXT_FRAGMENT &&
		    bpf_ntohs(walk.fragment) & GW_IPV6_FRAGMENT_OFFSET)
			return 0;
		walk.segments_left |= walk.protocol == GW_EXT_ROUTING ? walk.routing[1] : 0;
		walk.at += gw_ext_bytes(walk.protocol, walk.length);
		walk.protocol = walk.next;
		gw_forget();
	}
	return gw_is_walked(walk.protocol) ? 0 : gw_walked(walk);
}

static __always_inline struct gw_transport gw_find_transport(const struct gw_egress_run *run)
{
	if (run->family == GW_FAMILY_IPV6 && gw_is_walked(run->protocol))
		return gw_transport(gw_walk_ipv6(run->skb));
	return (struct gw_transport){ .at = run->l4_at, .protocol = run->protocol };
}

#endif
