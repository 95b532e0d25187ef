/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One run of the egress program: the packet, and what was found for it. */
#ifndef GW_EGRESS_RUN_H
#define GW_EGRESS_RUN_H

#include "../lib/verifier.h"
#include "../maps/egress.h"
#include "frame.h"

/* What a step returns when the packet goes on; else the counter that it ends in. */
#define GW_NEXT (-1)

struct gw_egress_run {
	struct __sk_buff *skb;
	const struct gw_egress_config *config;
	const struct gw_route *route;
	/* IPv4 in the first four bytes. */
	__u64 source[2];
	__u64 destination[2];
	__u32 table_id;
	__u32 pin_quota;
	__u32 inner_bytes; /* as the inner header says */
	__u32 l4_at; /* from the beginning of the frame */
	__u32 inner_label; /* IPv6 */
	__u32 group_id; /* GW_INDEX_NONE: none */
	__u16 tenant_argument;
	__u16 tenant_flags; /* enum gw_tenant_flag */
	__u8 family; /* enum gw_family */
	__u8 protocol; /* the first next header */
	__u8 fragment; /* IPv4: any part of one */
	__u8 traffic_class;
	__be16 ports[2]; /* by flow; 0 where there are none */
	/* the shard */
	__u32 link_ifindex;
	__u32 link_mtu;
	__u32 profile; /* that of all, and the group's */
	__u32 counters_at; /* of its slot */
	__u8 answered; /* its drop is, if the tenant wants answers */
	__u8 zero[5]; /* so that the outer addresses are aligned */
	struct gw_ipv6_frame outer;
} __attribute__((aligned(8)));
_Static_assert(__builtin_offsetof(struct gw_egress_run, outer) % 8 == 2, "whole words");

/*
 * Where the inner packet ends in the frame, as its header says. One that is to be segmented may be too
 * long to say so.
 */
static __always_inline __u32 gw_inner_end(const struct gw_egress_run *run)
{
	return run->skb->gso_size ? run->skb->len : GW_ETH_BYTES + run->inner_bytes;
}

#endif
