/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb as another build could have it: it does the same, in one instruction more. Stands for the
 * program of the build before in tests of upgrades.
 */
#include "lib/parse.h"
#define gw_parse(ctx, packet) ({ asm volatile("r0 = 0" ::: "r0"); gw_parse(ctx, packet); })
#include "../../bpf/quiclb.bpf.c"
