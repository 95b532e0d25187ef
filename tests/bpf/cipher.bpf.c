/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel's cipher costs by itself: calls on one block, by the context in slot 0. What the
 * calls need beside them is measured with gw_cipher_none.
 */
#include "maps/crypto.h"

static __always_inline int run(int encryptions, int decryptions)
{
	struct bpf_crypto_ctx *context;
	struct gw_crypto_value *value;
	struct bpf_dynptr memory;
	struct gw_block *block;
	__u32 zero = 0;

	value = bpf_map_lookup_elem(&gw_ql_crypto, &zero);
	block = bpf_map_lookup_elem(&gw_ql_block, &zero);
	if (!value || !block)
		return XDP_ABORTED;
	context = value->context;
	if (!context || bpf_dynptr_from_mem(block, sizeof(*block), 0, &memory))
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < encryptions; i++)
		if (bpf_crypto_encrypt(context, &memory, &memory, NULL))
			return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < decryptions; i++)
		if (bpf_crypto_decrypt(context, &memory, &memory, NULL))
			return XDP_ABORTED;
	return XDP_TX;
}

SEC("xdp.frags")
int gw_cipher_none(struct xdp_md *ctx)
{
	return run(0, 0);
}

SEC("xdp.frags")
int gw_cipher_one(struct xdp_md *ctx)
{
	return run(0, 1);
}

SEC("xdp.frags")
int gw_cipher_three(struct xdp_md *ctx)
{
	return run(3, 0);
}

SEC("xdp.frags")
int gw_cipher_four(struct xdp_md *ctx)
{
	return run(4, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
