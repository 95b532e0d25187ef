/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_egress as another build could have it: it does the same, in one instruction more. Stands for the
 * program of the build before in tests of upgrades.
 */
#include "egress/run.h"
#include "egress/parse.h"
#define gw_classify(run) ({ asm volatile("r0 = 0" ::: "r0"); gw_classify(run); })
#include "../../bpf/egress.bpf.c"
