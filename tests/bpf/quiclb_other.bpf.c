/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb as another build could have it: it does the same, in one instruction more. Stands for the
 * program of the build before in tests of upgrades.
 */
#include "lib/count.h"
#define gw_count_reason(reason) ({ asm volatile("r0 = 0" ::: "r0"); gw_count_reason(reason); })
#include "../../bpf/quiclb.bpf.c"
