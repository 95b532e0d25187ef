/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SRv6 with one segment, reduced (RFC 8986, section 5.2): a plain IPv6 header in front of the
 * inner packet, whose bytes are left alone, and the Ethernet header of the next hop.
 */
#ifndef GW_EGRESS_ENCAP_H
#define GW_EGRESS_ENCAP_H

#include "../lib/errno.h"
#include "label.h"

/* Two bytes as the first of a word in memory. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define gw_first_bytes(be16) ((__u64)(be16))
#else
#define gw_first_bytes(be16) ((__u64)(be16) << 48)
#endif

/* A SID, which a map holds aligned, with the Argument in the low twelve bits of its bytes 8 and 9. */
static __always_inline void gw_complete_sid(__u8 *to, const __u8 *sid, __u16 argument)
{
	const __u64 *words = (const __u64 *)sid;
	__u64 completed[2] = {
		words[0],
		(words[1] & ~gw_first_bytes(bpf_htons(0x0fff))) |
			gw_first_bytes(bpf_htons(argument & 0x0fff)),
	};

	__builtin_memcpy(to, completed, sizeof(completed));
}

/*
 * Makes room in such a way that the device can still segment. The kernel refuses that for what is
 * encapsulated already; a packet that is whole gets its room without.
 */
static __always_inline bool gw_make_room(struct __sk_buff *skb)
{
	const __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6;
	int error = bpf_skb_adjust_room(skb, GW_EGRESS_OUTER_BYTES, BPF_ADJ_ROOM_MAC, flags);

	if (error == -GW_EALREADY && !skb->gso_size)
		error = bpf_skb_adjust_room(skb, GW_EGRESS_OUTER_BYTES, BPF_ADJ_ROOM_MAC, 0);
	return !error;
}

/* The traffic class: DSCP, and ECN by RFC 6040 in its mode of compatibility or its normal one. */
static __always_inline __u8 gw_outer_class(const struct gw_egress_run *run)
{
	__u8 class = 0;

	if (run->profile & GW_PROFILE_DSCP_COPY)
		class = run->traffic_class & 0xfc;
	else if (run->profile & GW_PROFILE_DSCP_FIXED)
		class = run->config->dscp << 2;
	if (run->profile & GW_PROFILE_ECN_NORMAL)
		class |= run->traffic_class & 3;
	return class;
}

/*
 * Notes where the packet goes. From here on a route's shard and a group's member are the same to the
 * program, and to the verifier: all of it is copied.
 */
static __always_inline void gw_take_hop(struct gw_egress_run *run, const struct gw_next_hop *hop,
					const __u8 *sid, __u32 profile)
{
	run->link_ifindex = hop->ifindex;
	run->link_mtu = hop->mtu;
	run->profile = run->config->profile | profile;
	__builtin_memcpy(run->outer.dmac, hop->dmac, 6);
	__builtin_memcpy(run->outer.smac, hop->smac, 6);
	gw_complete_sid(run->outer.destination, sid, run->route->argument);
}

static __always_inline int gw_encapsulate(struct gw_egress_run *run)
{
	struct gw_ipv6_frame *outer = &run->outer;
	__u32 first;

	outer->type = bpf_htons(GW_ETH_IPV6);
	first = 6U << 28 | (__u32)gw_outer_class(run) << 20;
	if (run->profile & GW_PROFILE_FLOW_LABEL)
		first |= gw_flow_label(run);
	outer->version_class_label = bpf_htonl(first);
	outer->payload_bytes = bpf_htons(run->inner_bytes);
	outer->next_header = run->family == GW_FAMILY_IPV4 ? GW_PROTO_IPIP : GW_PROTO_IPV6;
	outer->hop_limit = run->config->hop_limit;
	gw_complete_sid(outer->source, run->config->node_sid, run->tenant_argument);
	if (!gw_make_room(run->skb) || bpf_skb_store_bytes(run->skb, 0, outer, sizeof(*outer), 0))
		return GW_EGRESS_DROP_ENCAP;
	return GW_NEXT;
}

#endif
