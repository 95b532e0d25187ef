/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Contexts of the kernel's cipher, for encrypted server IDs: one for each key. They are kernel
 * objects and outlive generations, which name them by slot and incarnation.
 */
#ifndef GW_CRYPTO_H
#define GW_CRYPTO_H

#include "limits.h"

/* A slot as user space sees it. Writing one gives its context up. */
struct gw_crypto_slot {
	__u64 context; /* the kernel's alone: read as 0 */
	__u32 incarnation; /* tells the tenants of a slot apart; 0: empty */
	__u32 zero;
};

/* What gw_put_key is asked. */
struct gw_key_request {
	__u32 slot;
	__u32 incarnation;
	__u8 key[GW_KEY_BYTES];
};

#endif
