/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* That which decrypts server IDs. */
#define GW_KEYS
#include "quiclb_other.bpf.c"
