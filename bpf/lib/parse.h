/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From bytes to a flow: all that the frame says by itself. */
#ifndef GW_LIB_PARSE_H
#define GW_LIB_PARSE_H

#include "l2.h"
#include "l3.h"
#include "l4.h"

/* Reads the headers into the packet. */
static __always_inline int gw_parse(struct xdp_md *ctx, struct gw_packet *packet)
{
	struct gw_reader reader = { .ctx = ctx, .packet = packet };
	int step;

	step = gw_read_ethernet(&reader);
	if (step == GW_CONTINUE)
		step = packet->family == 4 ?
			       gw_read_ipv4(&reader, &packet->client, &packet->vip, false) :
			       gw_read_ipv6(&reader, &packet->client, &packet->vip, false);
	if (step == GW_CONTINUE)
		step = gw_read_l4(&reader);
	gw_settle_headers(packet);
	return step;
}

#endif
