/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Internet checksums (RFC 1071) of headers, and of a quoted packet. */
#ifndef GW_EGRESS_QUOTE_H
#define GW_EGRESS_QUOTE_H

#include "walk.h"

static __always_inline __u16 gw_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* How often that is done for the longest answer. */
#define GW_MAX_SUMS 3

static __always_inline struct gw_scratch *gw_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&gw_eg_scratch, &zero);
}

/* The sum of bytes of a frame, as the machine loads them; more than there are, or may be: -1. */
GW_GLOBAL __s64 gw_sum_frame(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	struct gw_scratch *scratch = gw_scratch();
	__s64 sum = 0;

	if (!scratch)
		return -1;
#pragma unroll
	for (int i = 0; i < GW_MAX_SUMS; i++) {
		const __u32 most = sizeof(scratch->summed);
		__u32 last = (bytes < most ? bytes : most) - 1;

		if (!gw_is_below(last, most))
			break;
		/* Always all of it: what is 0 counts nothing. */
		__builtin_memset(scratch->summed, 0, most);
		if (bpf_skb_load_bytes(skb, at, scratch->summed, last + 1))
			return -1;
		sum = bpf_csum_diff(NULL, 0, (__be32 *)scratch->summed, most, sum);
		at += most;
		bytes -= last + 1;
	}
	return bytes ? -1 : sum;
}

/*
 * The sum of the quoted bytes as they will be on the wire. If the transport's checksum is yet to be made,
 * by a device, its field holds the sum of the pseudo header; made, all from the transport header on comes
 * to the complement of that.
 */
static __always_inline __s64 gw_sum_quote(struct __sk_buff *skb, const struct gw_answering *of)
{
	__u32 field_at = of->transport_at + (of->protocol == GW_PROTO_TCP ? 16 : 6);
	__be16 field;
	__s64 sum;

	if ((of->protocol != GW_PROTO_TCP && of->protocol != GW_PROTO_UDP) ||
	    field_at + sizeof(field) > GW_ETH_BYTES + of->bytes ||
	    bpf_skb_load_bytes(skb, field_at, &field, sizeof(field)) || field != of->pseudo_sum)
		return gw_sum_frame(skb, GW_ETH_BYTES, of->bytes);
	sum = gw_sum_frame(skb, GW_ETH_BYTES, of->transport_at - GW_ETH_BYTES);
	return sum < 0 ? sum : sum + (__u16)~field;
}

#endif
