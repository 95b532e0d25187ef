/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ethernet and VLAN tags. Tags stay in the frame, and the VLAN is part of no key. */
#ifndef GW_LIB_L2_H
#define GW_LIB_L2_H

#include "cursor.h"

enum {
	GW_ETH_BYTES = 14,
	GW_VLAN_BYTES = 4,
};

enum {
	GW_ETH_IPV4 = 0x0800,
	GW_ETH_VLAN = 0x8100,
	GW_ETH_IPV6 = 0x86dd,
	GW_ETH_QINQ = 0x88a8,
};

static __always_inline bool gw_is_tag(__u16 type)
{
	return type == GW_ETH_VLAN || type == GW_ETH_QINQ;
}

/* Sets the family; the cursor is at the IP header afterwards. */
static __always_inline int gw_read_ethernet(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	void *data = (void *)(long)reader->ctx->data;
	void *data_end = (void *)(long)reader->ctx->data_end;
	__u16 type;

	packet->frame_bytes = gw_frame_bytes(reader->ctx);
	if (data + GW_ETH_BYTES > data_end)
		return gw_leaves(GW_REASON_SHORT_FRAME);
	packet->end = packet->frame_bytes;
	packet->offset = 0;
	packet->direct = 1;
	reader->at = data;
	type = gw_load_be16(data, 12);
	gw_skip(reader, GW_ETH_BYTES);

#pragma unroll
	for (int i = 0; i < GW_MAX_VLAN_TAGS; i++) {
		if (!gw_is_tag(type))
			break;
		if (gw_left(packet) < GW_VLAN_BYTES)
			return gw_leaves(GW_REASON_SHORT_FRAME);
		type = gw_load_be16(gw_window(reader, GW_VLAN_BYTES), 2);
		gw_skip(reader, GW_VLAN_BYTES);
	}
	if (gw_is_tag(type))
		return gw_leaves(GW_REASON_VLAN_DEPTH);
	if (type == GW_ETH_IPV4)
		packet->family = 4;
	else if (type == GW_ETH_IPV6)
		packet->family = 6;
	else
		return gw_leaves(GW_REASON_NOT_IP);
	return GW_CONTINUE;
}

#endif
