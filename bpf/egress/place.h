/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The placement hash: FNV-1a with 32 bits over 44 bytes, the same on every node of a fleet. A run of
 * zeros is one multiplication by a power of the prime, and the route holds the state after the bytes
 * that are its own.
 */
#ifndef GW_EGRESS_PLACE_H
#define GW_EGRESS_PLACE_H

#include "run.h"

enum gw_fnv {
	GW_FNV_PRIME = 0x01000193,
	/* The prime to the power of so many bytes. */
	GW_FNV_12 = 0xd38c7031,
	GW_FNV_16 = 0x345b8241,
};

static __always_inline __u32 gw_fnv_byte(__u32 hash, __u8 byte)
{
	return (hash ^ byte) * GW_FNV_PRIME;
}

/* An address and the zeros behind it. */
static __always_inline __u32 gw_fnv_address(__u32 hash, const __u64 *address, __u8 family)
{
	const __u8 *bytes = (const __u8 *)address;

#pragma unroll
	for (int i = 0; i < 4; i++)
		hash = gw_fnv_byte(hash, bytes[i]);
	if (family == GW_FAMILY_IPV4)
		return hash * GW_FNV_12;
#pragma unroll
	for (int i = 4; i < 16; i++)
		hash = gw_fnv_byte(hash, bytes[i]);
	return hash;
}

static __always_inline __u32 gw_hash_source(const struct gw_egress_run *run)
{
	return gw_fnv_address(run->route->fnv12, run->source, run->family) * GW_FNV_16;
}

static __always_inline __u32 gw_hash_flow(const struct gw_egress_run *run, __u8 hash_group)
{
	const __u8 *ports = (const __u8 *)run->ports;
	__u32 hash = gw_fnv_byte(run->route->fnv5, run->protocol);

	hash = gw_fnv_byte(hash, hash_group);
	hash = gw_fnv_byte(hash, 0);
#pragma unroll
	for (int i = 0; i < 4; i++)
		hash = gw_fnv_byte(hash, ports[i]);
	hash = gw_fnv_address(hash, run->source, run->family);
	return gw_fnv_address(hash, run->destination, run->family);
}

/* Whether a flow's ports are ever looked at; the first next header alone says so. */
static __always_inline bool gw_has_ports(const struct gw_egress_run *run)
{
	return !run->fragment &&
	       (run->protocol == GW_PROTO_TCP || run->protocol == GW_PROTO_UDP);
}

/*
 * Reads the ports; false: the packet ends before. Right behind an IPv6 header they are a load, as a helper
 * takes as long as the rest of a flow label. One such place is enough: on Linux 6.1 the verifier tells
 * the ways from each apart to the end. Each port by itself, which it does not tell from what a helper
 * wrote.
 */
static __always_inline bool gw_read_ports(struct __sk_buff *skb, __u32 at, __be16 to[2])
{
	const __u8 *data = (const __u8 *)(long)skb->data;

	gw_advance(data, GW_ETH_BYTES + GW_IPV6_BYTES);
	if (at != GW_ETH_BYTES + GW_IPV6_BYTES || data + 4 > (const __u8 *)(long)skb->data_end)
		return !bpf_skb_load_bytes(skb, at, to, 4);
	to[0] = gw_load16(data, 0);
	to[1] = gw_load16(data, 2);
	return true;
}

/* The same, of what is not padding of the frame. */
static __always_inline bool gw_load_ports(struct gw_egress_run *run)
{
	return run->l4_at + sizeof(run->ports) <= gw_inner_end(run) &&
	       gw_read_ports(run->skb, run->l4_at, run->ports);
}

/*
 * Takes the ports of a flow. All fragments of a datagram go together, so the first one's ports do not
 * count; of IPv6 the first next header decides, and no extension header is walked.
 */
static __always_inline int gw_take_ports(struct gw_egress_run *run)
{
	if (run->family == GW_FAMILY_IPV4 && run->l4_at < GW_ETH_BYTES + GW_IPV4_BYTES)
		return GW_EGRESS_DROP_PARSE;
	if (!gw_has_ports(run))
		return GW_NEXT;
	return gw_load_ports(run) ? GW_NEXT : GW_EGRESS_DROP_PARSE;
}

#endif
