/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb that decrypts server IDs: the same program and more. An object of its own, so that
 * compilers and kernels that cannot do it have the program without.
 */
#define GW_KEYS
#include "quiclb.bpf.c"
