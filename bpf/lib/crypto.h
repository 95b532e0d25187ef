/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Encrypted server IDs. With GW_KEYS the program decrypts them by the kernel's cipher; without, for
 * compilers and kernels that cannot, it knows no config that has a key.
 */
#ifndef GW_LIB_CRYPTO_H
#define GW_LIB_CRYPTO_H

#include "run.h"
#include GW_PROFILE_RECORDS

/* The first bytes of a little-endian word: none for 0, all for 8 and more. */
static __always_inline __u64 gw_first_bytes(__u64 word, __u32 bytes)
{
	return bytes < 8 ? word & ((1ULL << (8 * bytes)) - 1) : word;
}

/* What stands behind the first octet of a connection ID: bytes 1 to 8 and 9 to 16. */
struct gw_plaintext {
	__u64 a;
	__u64 b;
};

#ifdef GW_KEYS

#include "maps/crypto.h"

enum {
	GW_MIN_BLOCK_BYTES = 5, /* of server ID and nonce */
	GW_MAX_BLOCK_BYTES = 19,
};

/* Half of a block, at most ten bytes. */
struct gw_half {
	__u64 a;
	__u64 b;
};

struct gw_cipher {
	struct bpf_crypto_ctx *context;
	struct bpf_dynptr memory;
	struct gw_block *block; /* what is in it */
	__u32 bytes; /* of server ID and nonce */
};

/* One pass changes a half by what the cipher makes of the other. It is its own inverse. */
static __always_inline int gw_pass(struct gw_cipher *cipher, __u64 pass, const struct gw_half *from,
				   struct gw_half *half, const struct gw_half *mask)
{
	__u64 *words = cipher->block->words;

	words[0] = gw_le64(from->a);
	words[1] = gw_le64(from->b | (__u64)cipher->bytes << 48 | pass << 56);
	if (bpf_crypto_encrypt(cipher->context, &cipher->memory, &cipher->memory, NULL))
		return -1;
	half->a ^= gw_le64(words[0]) & mask->a;
	half->b ^= gw_le64(words[1]) & mask->b;
	return 0;
}

/*
 * Undoes the passes of a Feistel network that the server ID depends on. The halves have the same
 * length; of an odd number of bytes they share the middle one, whose high bits are the left half's
 * and whose low bits are the right half's.
 */
static __always_inline int gw_undo_passes(struct gw_cipher *cipher, bool all,
					  struct gw_plaintext *text, __u64 c)
{
	__u32 bytes = (cipher->bytes + 1) / 2;
	__u32 right_at = cipher->bytes - bytes;
	struct gw_half left_mask, right_mask, left, right;
	__u64 a = text->a, b = text->b;

	left_mask.a = gw_first_bytes(~0ULL, bytes);
	left_mask.b = bytes > 8 ? gw_first_bytes(~0ULL, bytes - 8) : 0;
	right_mask = left_mask;
	if (cipher->bytes & 1) {
		right_mask.a &= ~0xf0ULL;
		if (bytes > 8)
			left_mask.b &= ~(0xfULL << (8 * (bytes - 9) & 63));
		else
			left_mask.a &= ~(0xfULL << (8 * (bytes - 1) & 63));
	}
	left.a = a & left_mask.a;
	left.b = b & left_mask.b;
	/* From 2 to 9. Below 8 a half has no more than eight bytes. */
	if (right_at < 8) {
		right.a = a >> (8 * right_at & 63) | b << (64 - 8 * right_at & 63);
		right.b = 0;
	} else if (right_at == 8) {
		right.a = b;
		right.b = c;
	} else {
		right.a = b >> 8 | c << 56;
		right.b = c >> 8;
	}
	right.a &= right_mask.a;
	right.b &= right_mask.b;

	if (gw_pass(cipher, 4, &right, &left, &left_mask) ||
	    gw_pass(cipher, 3, &left, &right, &right_mask) ||
	    gw_pass(cipher, 2, &right, &left, &left_mask))
		return -1;
	text->a = left.a;
	text->b = left.b;
	if (!all)
		return 0;
	/* The server ID reaches into the right half. */
	if (gw_pass(cipher, 1, &left, &right, &right_mask))
		return -1;
	if (right_at < 8) {
		text->a |= right.a << (8 * right_at & 63);
		text->b |= right.a >> (64 - 8 * right_at & 63);
	} else {
		text->b |= right.a << (8 * (right_at - 8) & 63);
	}
	return 0;
}

/* What follows a block's first 16 bytes, at most three. */
static __always_inline int gw_load_rest(struct xdp_md *ctx, const struct gw_packet *packet,
					__u32 bytes, __u64 *rest)
{
	const struct gw_quic *quic = &packet->quic;
	__u32 first_octet = quic->form == GW_QUIC_IS_LONG ? GW_QUIC_LONG_BYTES : 1;

	*rest = 0;
	bytes--;
	gw_opaque(bytes);
	if (bytes >= GW_MAX_BLOCK_BYTES - 16)
		return 0;
	if (bpf_xdp_load_bytes(ctx, packet->offset + first_octet + 1 + 16, rest, bytes + 1))
		return -1;
	*rest = gw_le64(*rest);
	return 0;
}

/*
 * Decrypts in place, the server ID at least: 0 if it could. The config is the first word of a
 * struct gw_quic_config, the context its second: slot, and incarnation in the upper half.
 */
GW_GLOBAL int gw_decrypt(struct xdp_md *ctx, struct gw_packet *packet, __u64 config, __u64 context,
			 struct gw_plaintext *text)
{
	__u32 nonce_len = config >> 8 & 0xff, mode = config >> 24 & 0xff;
	__u32 slot = context, zero = 0;
	struct gw_crypto_value *value;
	struct gw_cipher cipher;
	__u64 rest;

	if (!packet || !text)
		return -1;
	value = bpf_map_lookup_elem(&gw_ql_crypto, &slot);
	if (!value || value->incarnation != context >> 32)
		return -1;
	cipher.context = value->context;
	cipher.block = bpf_map_lookup_elem(&gw_ql_block, &zero);
	if (!cipher.context || !cipher.block ||
	    bpf_dynptr_from_mem(cipher.block, sizeof(*cipher.block), 0, &cipher.memory))
		return -1;

	if (mode == GW_QUIC_MODE_SINGLE_PASS) {
		cipher.block->words[0] = gw_le64(text->a);
		cipher.block->words[1] = gw_le64(text->b);
		if (bpf_crypto_decrypt(cipher.context, &cipher.memory, &cipher.memory, NULL))
			return -1;
		text->a = gw_le64(cipher.block->words[0]);
		text->b = gw_le64(cipher.block->words[1]);
		return 0;
	}
	cipher.bytes = (config & 0xff) + nonce_len;
	if (cipher.bytes < GW_MIN_BLOCK_BYTES || cipher.bytes > GW_MAX_BLOCK_BYTES ||
	    gw_load_rest(ctx, packet, cipher.bytes - 16, &rest))
		return -1;
	return gw_undo_passes(&cipher, mode == GW_QUIC_MODE_FOUR_PASS, text, rest);
}

/* Whether it could. */
static __always_inline bool gw_decrypt_server_id(const struct gw_run *run,
						 const gw_config_record *config,
						 struct gw_plaintext *text)
{
	__u64 context = config->crypto_slot | (__u64)config->crypto_incarnation << 32;

	return !gw_decrypt(run->ctx, run->packet, gw_le64(gw_load64(config, 0)), context, text);
}

#else

static __always_inline bool gw_decrypt_server_id(const struct gw_run *run,
						 const gw_config_record *config,
						 struct gw_plaintext *text)
{
	return false;
}

#endif
#endif
