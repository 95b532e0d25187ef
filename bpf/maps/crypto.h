/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps of encrypted server IDs, and the kernel's functions around them (Linux 6.11). */
#ifndef GW_MAPS_CRYPTO_H
#define GW_MAPS_CRYPTO_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/* Only pointers to it are of interest, but the kernel wants more than a declaration. */
struct bpf_crypto_ctx {
	__u32 unused;
};

struct bpf_crypto_params {
	char type[14];
	__u8 reserved[2];
	char algo[128];
	__u8 key[256];
	__u32 key_len;
	__u32 authsize;
};

struct bpf_dynptr {
	__u64 opaque[2];
};

extern struct bpf_crypto_ctx *bpf_crypto_ctx_create(const struct bpf_crypto_params *params,
						    __u32 params__sz, int *error) __weak __ksym;
extern void bpf_crypto_ctx_release(struct bpf_crypto_ctx *context) __weak __ksym;
extern int bpf_crypto_encrypt(struct bpf_crypto_ctx *context, const struct bpf_dynptr *source,
			      const struct bpf_dynptr *destination,
			      const struct bpf_dynptr *iv) __weak __ksym;
extern int bpf_crypto_decrypt(struct bpf_crypto_ctx *context, const struct bpf_dynptr *source,
			      const struct bpf_dynptr *destination,
			      const struct bpf_dynptr *iv) __weak __ksym;

/* The kernel's side of struct gw_crypto_slot. */
struct gw_crypto_value {
	struct bpf_crypto_ctx __kptr *context;
	__u32 incarnation;
	__u32 zero;
};
_Static_assert(sizeof(struct gw_crypto_value) == sizeof(struct gw_crypto_slot), "one layout");
_Static_assert(__builtin_offsetof(struct gw_crypto_value, incarnation) ==
		       __builtin_offsetof(struct gw_crypto_slot, incarnation), "one layout");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_crypto_value);
	__uint(max_entries, GW_MAX_CRYPTO_CONTEXTS);
} gw_ql_crypto SEC(".maps");

/* What the cipher works on. It takes its memory from a map. */
struct gw_block {
	__u64 words[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_block);
	__uint(max_entries, 1);
} gw_ql_block SEC(".maps");

#endif
