/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors to the senders of what is dropped. The packet itself becomes the answer: what is quoted of
 * it stays where it is, and the headers go in front of it. It leaves by the interface it came in by.
 */
#ifndef GW_EGRESS_ANSWER_H
#define GW_EGRESS_ANSWER_H

#include "../lib/bucket.h"
#include "parse.h"
#include "quote.h"
#include "taboo.h"

enum gw_answer_number {
	GW_ICMP_HEADER_BYTES = 8,
	/* With its IP header: as much as surely passes (RFC 1812, 4.3.2.3; RFC 4443, 2.4). */
	GW_MAX_ANSWER4_BYTES = 576,
	GW_MAX_ANSWER6_BYTES = 1280,
	/* The least MTU that is told (RFC 791, RFC 8200). */
	GW_MIN_MTU4 = 68,
	GW_MIN_MTU6 = 1280,
	GW_ANSWER_HOPS = 64,
	/* Precedence of internetwork control. */
	GW_ANSWER4_CLASS = 0xc0,
};

/* Whether one more may be sent now. */
static __always_inline bool gw_may_send(const struct gw_answering *of)
{
	__u32 index = GW_EGRESS_ICMP_SENT;
	struct gw_egress_bucket *bucket = bpf_map_lookup_elem(&gw_eg_bucket, &index);

	if (!bucket || !of->rate)
		return false;
	gw_refill(&bucket->refilled_ns, &bucket->tokens, bpf_ktime_get_coarse_ns(), of->rate,
		  of->burst);
	if (!bucket->tokens)
		return false;
	bucket->tokens--;
	return true;
}

/* Who answers the tenant of the interface; false: nobody. */
static __always_inline bool gw_find_gateway6(struct __sk_buff *skb, __u64 *gateway)
{
	__u32 ifindex = skb->ifindex;

#pragma unroll
	for (int i = 0; i < GW_TENANT_LOOKS; i++) {
		const struct gw_tenant *tenant = bpf_map_lookup_elem(&gw_tenants, &ifindex);

		if (!tenant)
			continue;
		gateway[0] = *(const volatile __u64 *)tenant->gateway6;
		gateway[1] = *(const volatile __u64 *)(tenant->gateway6 + 8);
		if (*(const volatile __u32 *)&tenant->ifindex == ifindex)
			return (gateway[0] | gateway[1]) != 0;
	}
	return false;
}

static __always_inline bool gw_find_gateway4(struct __sk_buff *skb, __be32 *gateway)
{
	__u32 ifindex = skb->ifindex;

#pragma unroll
	for (int i = 0; i < GW_TENANT_LOOKS; i++) {
		const struct gw_tenant *tenant = bpf_map_lookup_elem(&gw_tenants, &ifindex);

		if (!tenant)
			continue;
		*gateway = *(const volatile __be32 *)tenant->gateway4;
		if (*(const volatile __u32 *)&tenant->ifindex == ifindex)
			return *gateway != 0;
	}
	return false;
}

/* The packet's bytes, of which those that pad its frame are none. */
static __always_inline __u32 gw_packet_bytes(struct __sk_buff *skb, __u32 said)
{
	__u32 bytes = skb->len - GW_ETH_BYTES;

	return skb->gso_size || said > bytes ? bytes : said;
}

static __always_inline __u32 gw_told_mtu(__u32 link_mtu, __u32 least)
{
	__u32 mtu = link_mtu < GW_EGRESS_OUTER_BYTES ? 0 : link_mtu - GW_EGRESS_OUTER_BYTES;

	return mtu > least ? mtu : least;
}

/* The sum of a pseudo header: addresses, length and protocol. */
static __always_inline __u16 gw_pseudo6(const struct gw_ipv6_frame *frame, __u32 bytes,
					__u8 protocol)
{
	__u64 sum = bpf_htonl(bytes) + (__u64)bpf_htonl(protocol);

#pragma unroll
	for (int i = 0; i < 16; i += 4)
		sum += (__u64)gw_load32(frame->source, i) + gw_load32(frame->destination, i);
	return gw_fold(sum);
}

static __always_inline __u16 gw_pseudo4(const struct gw_ipv4_frame *frame, __u32 bytes,
					__u8 protocol)
{
	return gw_fold((__u64)gw_load32(frame->source, 0) + gw_load32(frame->destination, 0) +
		       bpf_htonl(bytes) + bpf_htonl(protocol));
}

static __always_inline void gw_swap_macs(__u8 *one, __u8 *other)
{
	__u8 kept[6];

	__builtin_memcpy(kept, one, sizeof(kept));
	__builtin_memcpy(one, other, sizeof(kept));
	__builtin_memcpy(other, kept, sizeof(kept));
}

/* Makes the packet the answer: so many bytes of it, behind Ethernet, with headers in front. */
static __always_inline int gw_send_back(struct __sk_buff *skb, const struct gw_answering *of,
					const void *headers, __u32 header_bytes)
{
	/*
	 * Also makes it one piece of our own, that nobody is to segment. The kernel refuses that for what
	 * a tenant's own tunnel left to a device, which is as it was then.
	 */
	if (bpf_skb_change_tail(skb, GW_ETH_BYTES + of->bytes, 0))
		return of->reason;
	if (bpf_skb_adjust_room(skb, header_bytes - GW_ETH_BYTES, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, 0, headers, header_bytes, 0))
		return GW_EGRESS_DROP_ENCAP;
	if (bpf_redirect(skb->ifindex, 0) != TC_ACT_REDIRECT)
		return GW_EGRESS_DROP_REDIRECT;
	return of->reason == GW_EGRESS_DROP_TOO_BIG ? GW_EGRESS_ICMP_SENT : GW_EGRESS_UNREACH_SENT;
}

/* The answer to an IPv6 packet; what is returned is how the packet ends. */
GW_GLOBAL int gw_answer6(struct __sk_buff *skb, __u32 reason, __u32 link_mtu, __u32 rate,
			 __u32 burst)
{
	const __u32 most = GW_MAX_ANSWER6_BYTES - GW_IPV6_BYTES - GW_ICMP_HEADER_BYTES;
	struct gw_scratch *scratch = gw_scratch();
	struct gw_answering *of;
	struct gw_answer6 *answer;
	struct gw_ipv6_frame *frame;
	struct gw_transport found;
	__u32 walked;
	__s64 sum;

	if (!scratch)
		return reason;
	of = &scratch->answering;
	answer = &scratch->answer6;
	frame = &answer->frame;
	if (bpf_skb_load_bytes(skb, 0, frame, sizeof(*frame)))
		return reason;
	walked = gw_walk_ipv6(skb);
	/* A checksum that is yet to be made is one with the last address, which is not looked for. */
	if (gw_has_segments_left(walked))
		return reason;
	found = gw_transport(walked);
	*of = (struct gw_answering){
		.reason = reason,
		.link_mtu = link_mtu,
		.rate = rate,
		.burst = burst,
		.bytes = gw_packet_bytes(skb, GW_IPV6_BYTES + bpf_ntohs(frame->payload_bytes)),
		.transport_at = found.at,
		.protocol = found.protocol,
	};
	gw_forget();
	if (!of->transport_at || gw_is_taboo6(frame) || gw_is_error6(skb, of))
		return of->reason;
	of->pseudo_sum =
		gw_pseudo6(frame, GW_ETH_BYTES + of->bytes - of->transport_at, of->protocol);
	__builtin_memcpy(frame->destination, frame->source, sizeof(frame->source));
	if (!gw_find_gateway6(skb, (__u64 *)frame->source))
		return of->reason;
	if (!gw_may_send(of))
		return GW_EGRESS_DROP_ICMP_LIMITED;
	if (of->bytes > most)
		of->bytes = most;
	sum = gw_sum_quote(skb, of);
	if (sum < 0)
		return GW_EGRESS_DROP_ENCAP;
	gw_swap_macs(frame->dmac, frame->smac);
	frame->version_class_label = bpf_htonl(6U << 28);
	frame->payload_bytes = bpf_htons(GW_ICMP_HEADER_BYTES + of->bytes);
	frame->next_header = GW_PROTO_ICMPV6;
	frame->hop_limit = GW_ANSWER_HOPS;
	answer->icmp = (struct gw_icmp_header){ .type = GW_ICMP6_UNREACHABLE };
	if (of->reason == GW_EGRESS_DROP_TOO_BIG) {
		answer->icmp.type = GW_ICMP6_TOO_BIG;
		answer->icmp.rest = bpf_htonl(gw_told_mtu(of->link_mtu, GW_MIN_MTU6));
	}
	gw_forget();
	sum += gw_pseudo6(frame, GW_ICMP_HEADER_BYTES + of->bytes, GW_PROTO_ICMPV6);
	sum += gw_load16(&answer->icmp, 0) + gw_fold(answer->icmp.rest);
	answer->icmp.checksum = ~gw_fold(sum);
	return gw_send_back(skb, of, frame, sizeof(*frame) + sizeof(answer->icmp));
}

/* The same for IPv4. */
GW_GLOBAL int gw_answer4(struct __sk_buff *skb, __u32 reason, __u32 link_mtu, __u32 rate,
			 __u32 burst)
{
	const __u32 most = GW_MAX_ANSWER4_BYTES - GW_IPV4_BYTES - GW_ICMP_HEADER_BYTES;
	struct gw_scratch *scratch = gw_scratch();
	struct gw_answering *of;
	struct gw_answer4 *answer;
	struct gw_ipv4_frame *frame;
	__u32 mtu;
	__s64 sum;

	if (!scratch)
		return reason;
	of = &scratch->answering;
	answer = &scratch->answer4;
	frame = &answer->frame;
	if (bpf_skb_load_bytes(skb, 0, frame, sizeof(*frame)))
		return reason;
	*of = (struct gw_answering){
		.reason = reason,
		.link_mtu = link_mtu,
		.rate = rate,
		.burst = burst,
		.bytes = gw_packet_bytes(skb, bpf_ntohs(frame->total_bytes)),
		.transport_at = GW_ETH_BYTES + (frame->version_ihl & 0xf) * 4,
		.protocol = frame->protocol,
	};
	gw_forget();
	if (of->transport_at < GW_ETH_BYTES + GW_IPV4_BYTES ||
	    GW_ETH_BYTES + of->bytes < of->transport_at || gw_is_taboo4(frame) ||
	    gw_is_error4(skb, of))
		return of->reason;
	/* It asked for being cut up, and the program cannot. */
	if (of->reason == GW_EGRESS_DROP_TOO_BIG &&
	    !(frame->fragment & bpf_htons(GW_IPV4_DONT_FRAGMENT)))
		return of->reason;
	of->pseudo_sum =
		gw_pseudo4(frame, GW_ETH_BYTES + of->bytes - of->transport_at, of->protocol);
	__builtin_memcpy(frame->destination, frame->source, sizeof(frame->source));
	if (!gw_find_gateway4(skb, (__be32 *)frame->source))
		return of->reason;
	if (!gw_may_send(of))
		return GW_EGRESS_DROP_ICMP_LIMITED;
	if (of->bytes > most)
		of->bytes = most;
	sum = gw_sum_quote(skb, of);
	if (sum < 0)
		return GW_EGRESS_DROP_ENCAP;
	gw_swap_macs(frame->dmac, frame->smac);
	frame->version_ihl = 0x45;
	frame->class = GW_ANSWER4_CLASS;
	frame->total_bytes = bpf_htons(GW_IPV4_BYTES + GW_ICMP_HEADER_BYTES + of->bytes);
	/* No fragment of it can be, so it needs no identification (RFC 6864). */
	frame->id = 0;
	frame->fragment = bpf_htons(GW_IPV4_DONT_FRAGMENT);
	frame->hops = GW_ANSWER_HOPS;
	frame->protocol = GW_PROTO_ICMP;
	frame->checksum = 0;
	frame->checksum = ~gw_fold(bpf_csum_diff(NULL, 0, (__be32 *)&frame->version_ihl,
						 GW_IPV4_BYTES, 0));
	answer->icmp = (struct gw_icmp_header){ .type = GW_ICMP4_UNREACHABLE };
	if (of->reason == GW_EGRESS_DROP_TOO_BIG) {
		mtu = gw_told_mtu(of->link_mtu, GW_MIN_MTU4);
		answer->icmp.code = GW_ICMP4_CODE_TOO_BIG;
		answer->icmp.rest = bpf_htonl(mtu < 0xffff ? mtu : 0xffff);
	}
	sum += gw_load16(&answer->icmp, 0) + gw_fold(answer->icmp.rest);
	answer->icmp.checksum = ~gw_fold(sum);
	return gw_send_back(skb, of, frame, sizeof(*frame) + sizeof(answer->icmp));
}

static __always_inline int gw_answer_instead(const struct gw_egress_run *run, int reason)
{
	const struct gw_egress_config *config = run->config;

	if (run->family == GW_FAMILY_IPV4)
		return gw_answer4(run->skb, reason, run->link_mtu, config->icmp_rate,
				  config->icmp_burst);
	return gw_answer6(run->skb, reason, run->link_mtu, config->icmp_rate, config->icmp_burst);
}

#endif
