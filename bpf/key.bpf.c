/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes contexts of the kernel's cipher out of keys, which takes a program that may sleep, and tries
 * one.
 */
#include "maps/crypto.h"

#define GW_EINVAL 22

SEC("syscall")
int gw_put_key(struct gw_key_request *request)
{
	struct bpf_crypto_params params = {
		.type = "skcipher",
		.algo = "ecb(aes)",
		.key_len = GW_KEY_BYTES,
	};
	__u32 slot = request->slot, incarnation = request->incarnation;
	struct bpf_crypto_ctx *context, *before;
	struct gw_crypto_value *value;
	int error = 0;

	for (int i = 0; i < GW_KEY_BYTES; i++)
		params.key[i] = request->key[i];
	context = bpf_crypto_ctx_create(&params, sizeof(params), &error);
	if (!context)
		return error;
	value = bpf_map_lookup_elem(&gw_ql_crypto, &slot);
	if (!value) {
		bpf_crypto_ctx_release(context);
		return -GW_EINVAL;
	}
	/* Whoever reads in between finds a context that is not the one he looks for. */
	value->incarnation = 0;
	before = bpf_kptr_xchg(&value->context, context);
	if (before)
		bpf_crypto_ctx_release(before);
	value->incarnation = incarnation;
	return 0;
}

/* Decrypts the first bytes of a frame by the context in slot 0, in the frame. */
SEC("xdp")
int gw_try_key(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct bpf_crypto_ctx *context;
	struct gw_crypto_value *value;
	struct bpf_dynptr memory;
	struct gw_block *block;
	__u64 *words = data;
	__u32 zero = 0;

	value = bpf_map_lookup_elem(&gw_ql_crypto, &zero);
	block = bpf_map_lookup_elem(&gw_ql_block, &zero);
	if (!value || !block || data + sizeof(*block) > data_end)
		return XDP_ABORTED;
	context = value->context;
	block->words[0] = words[0];
	block->words[1] = words[1];
	if (!context || bpf_dynptr_from_mem(block, sizeof(*block), 0, &memory) ||
	    bpf_crypto_decrypt(context, &memory, &memory, NULL))
		return XDP_ABORTED;
	words[0] = block->words[0];
	words[1] = block->words[1];
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
