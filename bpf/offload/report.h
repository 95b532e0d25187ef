/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A card tells nothing about single packets. */
#ifndef GW_OFFLOAD_REPORT_H
#define GW_OFFLOAD_REPORT_H

#include "lib/run.h"

static __always_inline void gw_keep_cid(const struct gw_run *run, const struct gw_quic *quic)
{
}

static __always_inline void gw_tell_end(struct xdp_md *ctx, const struct gw_packet *packet)
{
}

#endif
