/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where reading a frame stands. */
#ifndef GW_LIB_READER_H
#define GW_LIB_READER_H

#include "bytes.h"
#include "run.h"

/* Reading under way: everything but a pointer is in the packet. */
struct gw_reader {
	struct xdp_md *ctx;
	struct gw_packet *packet;
	void *at; /* the byte at packet->offset, while packet->direct */
};

/* Bytes left between the cursor and the end. */
static __always_inline __u32 gw_left(const struct gw_packet *packet)
{
	return packet->end - packet->offset;
}

#endif
