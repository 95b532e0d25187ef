/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets that a service sent: path MTU and reachability must get to the backend
 * that sent them. What they quote is the other direction, so source and destination are swapped.
 */
#ifndef GW_LIB_ICMP_H
#define GW_LIB_ICMP_H

#include "l3.h"

enum {
	GW_ICMP_BYTES = 8,
	GW_QUOTED_L4_BYTES = 8,
};

enum {
	GW_ICMP_DESTINATION_UNREACHABLE = 3,
	GW_ICMP_TIME_EXCEEDED = 11,
	GW_ICMPV6_DESTINATION_UNREACHABLE = 1,
	GW_ICMPV6_PACKET_TOO_BIG = 2,
	GW_ICMPV6_TIME_EXCEEDED = 3,
};

static __always_inline bool gw_is_icmp_error(__u8 family, __u8 type)
{
	if (family == 4)
		return type == GW_ICMP_DESTINATION_UNREACHABLE || type == GW_ICMP_TIME_EXCEEDED;
	return type == GW_ICMPV6_DESTINATION_UNREACHABLE || type == GW_ICMPV6_PACKET_TOO_BIG ||
	       type == GW_ICMPV6_TIME_EXCEEDED;
}

/*
 * The quoted packet's destination is a client's connection ID and says nothing here, its source is
 * one of the server's. Leaves the source in the window, behind its length, if all of it is there.
 */
static __always_inline void gw_find_quoted_scid(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	const __u8 *bytes = (const __u8 *)packet->window;

	gw_copy(reader->ctx, packet, GW_QUIC_LONG_BYTES);
	/* Behind the first byte is the version, which is not 0. */
	if (!(bytes[0] & GW_QUIC_LONG) || !(__u32)(gw_le64(packet->window[0]) >> 8) ||
	    gw_left(packet) < GW_QUIC_LONG_BYTES + bytes[5])
		return;
	gw_skip_variable(reader, GW_QUIC_LONG_BYTES + bytes[5]);
	gw_copy(reader->ctx, packet, GW_PAYLOAD_BYTES);
	if (bytes[0] > GW_MAX_CID_BYTES || gw_left(packet) < 1 + bytes[0])
		return;
	packet->cid_offset = packet->offset + 1;
	packet->cid_len = bytes[0];
}

static __always_inline int gw_read_quoted_l4(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	const void *header;
	__u32 bytes;

	if (packet->protocol != GW_PROTOCOL_UDP && packet->protocol != GW_PROTOCOL_TCP)
		return gw_leaves(GW_REASON_ICMP_BAD);
	if (gw_left(packet) < GW_QUOTED_L4_BYTES)
		return gw_leaves(GW_REASON_ICMP_BAD);
	header = gw_window(reader, GW_QUOTED_L4_BYTES);
	packet->vip_port = gw_load16(header, 0);
	packet->client_port = gw_load16(header, 2);
	bytes = gw_load_be16(header, 4);
	if (packet->protocol == GW_PROTOCOL_UDP) {
		if (bytes < GW_QUOTED_L4_BYTES)
			return gw_leaves(GW_REASON_ICMP_BAD);
		if (bytes < gw_left(packet))
			packet->end = packet->offset + bytes;
	}
	gw_skip_variable(reader, GW_QUOTED_L4_BYTES);
	if (packet->protocol == GW_PROTOCOL_UDP)
		gw_find_quoted_scid(reader);
	return GW_CONTINUE;
}

static __always_inline int gw_read_icmp(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	struct gw_address source;
	const void *header;

	if (gw_left(packet) < GW_ICMP_BYTES)
		return gw_leaves(GW_REASON_ICMP_BAD);
	header = gw_window(reader, GW_ICMP_BYTES);
	if (!gw_is_icmp_error(packet->family, gw_load8(header, 0)))
		return gw_leaves(GW_REASON_ICMP_OTHER);
	packet->icmp = 1;

	/* Errors are rare: copies from here on spare the verifier the combinations. */
	gw_skip_variable(reader, GW_ICMP_BYTES);
	if (packet->family == 4 ? gw_read_ipv4(reader, &source, &packet->client, true) :
				  gw_read_ipv6(reader, &source, &packet->client, true))
		return gw_leaves(GW_REASON_ICMP_BAD);
	if (packet->fragment || !gw_same_address(&source, &packet->vip))
		return gw_leaves(GW_REASON_ICMP_BAD);
	return gw_read_quoted_l4(reader);
}

#endif
