/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hashes. Those of the service directory and of the server IDs are local to one machine: the Rust
 * code that builds a generation computes them alike, and nothing else depends on them. The flow
 * hash is normative: every node of a fleet and every architecture must compute the same one.
 *
 * Words are the little-endian reading of the bytes, on every architecture.
 */
#ifndef GW_LIB_HASH_H
#define GW_LIB_HASH_H

#include "bytes.h"
#include "packet.h"
#include <bpf/bpf_helpers.h>

/* 2^64 divided by the golden ratio: a seed of zero multiplies by something useful too. */
#define GW_HASH_STEP 0x9e3779b97f4a7c15ULL

/*
 * Both local hashes, with s = (seed xor GW_HASH_STEP) | 1 and arithmetic modulo 2^64:
 *
 *   h = a polynomial in s over the words;  h ^= h >> 32;  h *= s;  hash = h >> 32
 *
 * The index is hash & mask. The fold makes every word reach the low half, so that the bits a mask
 * keeps depend on all of them; the multiplier is secret, so nobody outside can aim at one index.
 */
static __always_inline __u64 gw_hash_multiplier(__u64 seed)
{
	return (seed ^ GW_HASH_STEP) | 1;
}

static __always_inline __u32 gw_hash_finish(__u64 h, __u64 s)
{
	h ^= h >> 32;
	return (h * s) >> 32;
}

/* The key's 20 bytes as words a (bytes 0-7), b (8-15), c (16-19): h = (a * s + b) * s + c. */
static __always_inline __u32 gw_directory_hash(__u64 a, __u64 b, __u32 c, __u64 seed)
{
	__u64 s = gw_hash_multiplier(seed);

	return gw_hash_finish((a * s + b) * s + c, s);
}

/*
 * The ID's 16 bytes, zeros behind its length, as words a (bytes 0-7) and b (8-15). Byte 15 is never
 * part of an ID: its place in b takes config << 4 | length. h = a * s + b.
 */
static __always_inline __u32 gw_server_id_hash(__u8 config, __u8 length, __u64 a, __u64 b,
					       __u64 seed)
{
	__u64 s = gw_hash_multiplier(seed);

	b |= (__u64)(__u8)(config << 4 | length) << 56;
	return gw_hash_finish(a * s + b, s);
}

/*
 * Of a connection ID, under the secret of the map that holds its entry; the low 16 bits are the
 * entry's tag. Words: a (service, and the length above it), b, c (16 bytes of the connection ID), d
 * (the last four). h = ((a * s + b) * s + c) * s + d.
 */
static __always_inline __u32 gw_cid_hash(const struct gw_cid_key *key, __u64 seed)
{
	__u64 s = gw_hash_multiplier(seed);
	__u64 h = key->service | (__u64)key->length << 32;

	h = h * s + gw_le64(gw_load64(key->cid, 0));
	h = h * s + gw_le64(gw_load64(key->cid, 8));
	h = h * s + gw_le32(gw_load32(key->cid, 16));
	return gw_hash_finish(h, s);
}

/* Both words times each other, modulo 2^64. */
static __always_inline __u64 gw_multiply(__u64 a, __u64 b)
{
#ifdef GW_OFFLOAD
	/* Cards multiply words of 32 bits, and the compiler must not know what comes of it. */
	__u32 a0 = a, a1 = a >> 32, b0 = b, b1 = b >> 32;
	__u64 low;

	barrier_var(a0);
	barrier_var(b0);
	low = (__u64)a0 * b0;
	barrier_var(low);
	return low + ((__u64)(a0 * b1 + a1 * b0) << 32);
#else
	return a * b;
#endif
}

/*
 * NH over the flow key as six words, then fmix64, under the secret words k0 to k5 and f. The products
 * do not depend on each other. ports is the client's in the low half and the VIP's above it, 0 by
 * source; client has four words as they stand in the key.
 *
 *   h = fmix64(((m0+k0)*(m1+k1) + (m2+k2)*(m3+k3) + (m4+k4)*(m5+k5)) xor f)
 */
static __always_inline __u64 gw_hash_flow(const __u32 *k, __u64 f, __u32 service, __u32 ports,
					  const __u32 *client)
{
	__u64 h;

	h = (__u64)(service + k[0]) * (__u32)(ports + k[1]) +
	    (__u64)(gw_le32(client[0]) + k[2]) * (__u32)(gw_le32(client[1]) + k[3]) +
	    (__u64)(gw_le32(client[2]) + k[4]) * (__u32)(gw_le32(client[3]) + k[5]);
	h ^= f;
	h ^= h >> 33;
	h = gw_multiply(h, 0xff51afd7ed558ccdULL);
	h ^= h >> 33;
	h = gw_multiply(h, 0xc4ceb9fe1a85ec53ULL);
	h ^= h >> 33;
	return h;
}

static __always_inline __u64 gw_flow_hash_of(const struct gw_service *service, __u32 ports,
					     const __u32 *client)
{
	return gw_hash_flow(service->hash_key, service->hash_final, service->id, ports, client);
}

/* The ports of the packet's flow, as its hash takes them. */
static __always_inline __u32 gw_ports(const struct gw_packet *packet)
{
	return gw_le16(packet->client_port) | (__u32)gw_le16(packet->vip_port) << 16;
}

#endif
