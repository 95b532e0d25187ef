/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses of both families in 16 bytes, as the keys have them. */
#ifndef GW_LIB_ADDRESS_H
#define GW_LIB_ADDRESS_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* Four words as loaded; an IPv4 address is the first, the rest is zero. */
struct gw_address {
	__u32 words[4];
};

static __always_inline void gw_set_ipv4(struct gw_address *address, __be32 ipv4)
{
	address->words[0] = ipv4;
	address->words[1] = 0;
	address->words[2] = 0;
	address->words[3] = 0;
}

static __always_inline bool gw_same_address(const struct gw_address *a, const struct gw_address *b)
{
	return !((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) |
		 (a->words[2] ^ b->words[2]) | (a->words[3] ^ b->words[3]));
}

#endif
