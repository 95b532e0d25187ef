/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a packet fits: the length field of its outer header, and the link. */
#ifndef GW_EGRESS_LENGTH_H
#define GW_EGRESS_LENGTH_H

#include "walk.h"

/*
 * Bytes of the headers of a segment, up to its payload; 0 if they cannot be told, as of protocols that
 * no device is known to segment.
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
 * Bytes of the inner packet that cross the link at a time: a segment's, if it will be segmented, and
 * all of it where that cannot be told. Behind its end by its own header the frame goes on at times.
 */
static __always_inline __u32 gw_crossing_bytes(const struct gw_egress_run *run)
{
	__u32 bytes = run->skb->len - GW_ETH_BYTES;

	if (run->skb->gso_size) {
		__u32 header_bytes = gw_segment_header_bytes(run);

		return header_bytes ? header_bytes + run->skb->gso_size : bytes;
	}
	return bytes > run->inner_bytes ? bytes : run->inner_bytes;
}

static __always_inline int gw_check_length(struct gw_egress_run *run)
{
	/* A packet too long for its own length field has 0 there, and is to be segmented. */
	if (run->inner_bytes > 0xffff ||
	    (run->skb->gso_size && run->skb->len - GW_ETH_BYTES > 0xffff))
		return GW_EGRESS_DROP_TOO_LONG;
	if (!run->link_mtu || gw_crossing_bytes(run) + GW_EGRESS_OUTER_BYTES <= run->link_mtu)
		return GW_NEXT;
	run->answered = (run->profile & GW_PROFILE_ICMP_TOO_BIG) != 0;
	return GW_EGRESS_DROP_TOO_BIG;
}

#endif
