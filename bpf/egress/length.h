/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a packet is whole, and fits: the length field of its outer header, and the link. */
#ifndef GW_EGRESS_LENGTH_H
#define GW_EGRESS_LENGTH_H

#include "walk.h"

/*
 * Bytes of the headers of a segment, up to its payload; 0 if they cannot be told, as of what is neither
 * TCP nor UDP. UDP that is to be fragmented instead counts as if it were to be segmented.
 */
static __always_inline __u32 gw_segment_header_bytes(const struct gw_egress_run *run)
{
	struct gw_transport found = gw_find_transport(run);
	__u8 offset;

	if (found.protocol == GW_PROTO_UDP)
		return found.at - GW_ETH_BYTES + 8;
	if (found.protocol != GW_PROTO_TCP ||
	    bpf_skb_load_bytes(run->skb, found.at + 12, &offset, sizeof(offset)))
		return 0;
	return found.at - GW_ETH_BYTES + (offset >> 4) * 4;
}

/*
 * Whether the inner header says a length that a packet that is not to be segmented can have. A jumbogram
 * (RFC 2675) says 0.
 */
static __always_inline bool gw_is_whole(const struct gw_egress_run *run)
{
	__u32 end = GW_ETH_BYTES + run->inner_bytes;

	if (run->inner_bytes < GW_IPV4_BYTES || end < run->l4_at || end > run->skb->len)
		return false;
	return run->family == GW_FAMILY_IPV4 || run->inner_bytes > GW_IPV6_BYTES ||
	       run->protocol != GW_EXT_HOP_BY_HOP;
}

static __always_inline int gw_check_length(struct gw_egress_run *run)
{
	/* What crosses the link at a time. Behind the packet's end the frame goes on at times. */
	__u32 bytes = run->skb->len - GW_ETH_BYTES;
	__u32 answered = GW_PROFILE_ICMP_TOO_BIG;

	if (!run->skb->gso_size) {
		if (!gw_is_whole(run))
			return GW_EGRESS_DROP_PARSE;
	} else if (bytes > 0xffff) {
		/* Too long for its own length field, where it has 0. */
		return GW_EGRESS_DROP_TOO_LONG;
	}
	if (run->inner_bytes > 0xffff)
		return GW_EGRESS_DROP_TOO_LONG;
	if (!run->link_mtu)
		return GW_NEXT;
	if (run->skb->gso_size) {
		__u32 header_bytes = gw_segment_header_bytes(run);

		/* The payload of a segment is as its sender was told: no MTU would tell more. */
		if (header_bytes)
			bytes = header_bytes + run->skb->gso_size;
		else
			answered = 0;
	}
	if (bytes + GW_EGRESS_OUTER_BYTES <= run->link_mtu)
		return GW_NEXT;
	run->answered = (run->profile & answered) != 0;
	return GW_EGRESS_DROP_TOO_BIG;
}

#endif
