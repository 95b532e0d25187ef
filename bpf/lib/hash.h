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

#include "guideway/abi.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define gw_le32(x) ((__u32)(x))
#define gw_le64(x) ((__u64)(x))
#else
#define gw_le32(x) __builtin_bswap32(x)
#define gw_le64(x) __builtin_bswap64(x)
#endif

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

#endif
