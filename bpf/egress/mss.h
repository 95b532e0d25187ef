/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maximum segment size that a tenant's TCP announces, lowered to what fits the way back. The one
 * change that is made to inner packets beside answers.
 */
#ifndef GW_EGRESS_MSS_H
#define GW_EGRESS_MSS_H

#include "run.h"

enum gw_tcp {
	GW_TCP_BYTES = 20,
	GW_TCP_OFFSET_AT = 12,
	GW_TCP_CHECKSUM_AT = 16,
	GW_TCP_SYN = 0x02,
	GW_TCP_END = 0,
	GW_TCP_NOTHING = 1,
	GW_TCP_MSS = 2,
	GW_TCP_MSS_BYTES = 4,
	/* Options that are looked at. */
	GW_MAX_TCP_OPTIONS = 20,
};

/* As struct gw_walk: what only a helper writes begins the word. */
struct gw_option_walk {
	/* an option; some have only the kind */
	__u8 kind;
	__u8 length;
	__be16 rest;
	/* where it is, from the beginning of the frame */
	__u16 at;
	__u16 zero;
} __attribute__((aligned(8)));

/*
 * Lowers one option to so much; whether the packet is whole. At an odd place it is in two words of the
 * checksum, the bytes of each swapped.
 */
GW_GLOBAL int gw_lower_option(struct __sk_buff *skb, __u32 at, __u32 option_at, __u32 most)
{
	__be16 lower = bpf_htons(most), mss;

	if (bpf_skb_load_bytes(skb, option_at + 2, &mss, sizeof(mss)) || bpf_ntohs(mss) <= most ||
	    bpf_skb_store_bytes(skb, option_at + 2, &lower, sizeof(lower), 0))
		return true;
	if ((option_at - at) & 1) {
		mss = __builtin_bswap16(mss);
		lower = __builtin_bswap16(lower);
	}
	return !bpf_l4_csum_replace(skb, at + GW_TCP_CHECKSUM_AT, mss, lower, sizeof(lower));
}

/*
 * Lowers it in a SYN, whose header is at a place in the frame and ends within the packet; whether the
 * packet is whole. Each of several: receivers heed the last one, or the first.
 */
GW_GLOBAL int gw_lower_mss(struct __sk_buff *skb, __u32 at, __u32 end, __u32 most)
{
	struct gw_option_walk walk = { .at = at + GW_TCP_BYTES };
	struct {
		__u8 offset;
		__u8 flags;
	} tcp;

	if (bpf_skb_load_bytes(skb, at + GW_TCP_OFFSET_AT, &tcp, sizeof(tcp)) ||
	    !(tcp.flags & GW_TCP_SYN) || at + (tcp.offset >> 4) * 4 > end)
		return true;
	end = at + (tcp.offset >> 4) * 4;
#pragma unroll
	for (int i = 0; i < GW_MAX_TCP_OPTIONS; i++) {
		if (walk.at + GW_TCP_MSS_BYTES > end ||
		    bpf_skb_load_bytes(skb, walk.at, &walk, GW_TCP_MSS_BYTES) ||
		    walk.kind == GW_TCP_END)
			return true;
		if (walk.kind != GW_TCP_NOTHING && walk.length < 2)
			return true;
		if (walk.kind == GW_TCP_MSS && walk.length == GW_TCP_MSS_BYTES &&
		    !gw_lower_option(skb, at, walk.at, most))
			return false;
		walk.at += walk.kind == GW_TCP_NOTHING ? 1 : walk.length;
		gw_forget();
	}
	return true;
}

/* The same if that is wanted, and the packet may be one. No fragment has all that the checksum is of. */
static __always_inline int gw_clamp_mss(const struct gw_egress_run *run)
{
	__u32 most, most4;

	if (!(run->profile & GW_PROFILE_MSS_CLAMP) || !(run->tenant_flags & GW_TENANT_MSS) ||
	    run->protocol != GW_PROTO_TCP || run->fragment ||
	    run->l4_at < GW_ETH_BYTES + GW_IPV4_BYTES)
		return GW_NEXT;
	/* Both, or clang chooses the place where one is (see gw_advance()). */
	most = *(const volatile __u16 *)&run->config->mss6;
	most4 = *(const volatile __u16 *)&run->config->mss4;
	if (run->family == GW_FAMILY_IPV4)
		most = most4;
	if (!most || gw_lower_mss(run->skb, run->l4_at, GW_ETH_BYTES + run->inner_bytes, most))
		return GW_NEXT;
	return GW_EGRESS_DROP_ENCAP;
}

#endif
