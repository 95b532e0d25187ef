/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* UDP and TCP headers. */
#ifndef GW_LIB_L4_H
#define GW_LIB_L4_H

#include "icmp.h"

enum {
	GW_UDP_BYTES = 8,
	GW_TCP_BYTES = 20,
	GW_TCP_MIN_WORDS = 5,
};

enum {
	GW_TCP_FIN = 0x01,
	GW_TCP_SYN = 0x02,
	GW_TCP_RST = 0x04,
	GW_TCP_ACK = 0x10,
};

/* The payload ends at the UDP length, which is checked in full: padding is no payload. */
static __always_inline int gw_read_udp(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	const void *header;
	__u32 bytes;

	if (gw_left(packet) < GW_UDP_BYTES)
		return gw_leaves(GW_REASON_BAD_L4);
	header = gw_window(reader, GW_UDP_BYTES);
	packet->client_port = gw_load16(header, 0);
	packet->vip_port = gw_load16(header, 2);
	bytes = gw_load_be16(header, 4);
	if (bytes < GW_UDP_BYTES || bytes > gw_left(packet))
		return gw_leaves(GW_REASON_BAD_L4);
	packet->end = packet->offset + bytes;
	gw_skip(reader, GW_UDP_BYTES);
	return GW_CONTINUE;
}

static __always_inline int gw_read_tcp(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	const void *header;
	__u32 words;
	__u8 flags;

	if (gw_left(packet) < GW_TCP_BYTES)
		return gw_leaves(GW_REASON_BAD_L4);
	header = gw_window(reader, GW_TCP_BYTES);
	packet->client_port = gw_load16(header, 0);
	packet->vip_port = gw_load16(header, 2);
	words = gw_load8(header, 12) >> 4;
	flags = gw_load8(header, 13);
	packet->start = (flags & (GW_TCP_SYN | GW_TCP_ACK)) == GW_TCP_SYN;
	packet->ends = (flags & GW_TCP_FIN ? GW_BINDING_FIN : 0) |
		       (flags & GW_TCP_RST ? GW_BINDING_RST : 0);
	/* Only data says that a flow lives: whoever has closed it still acknowledges. */
	if (!packet->ends && gw_left(packet) > 4 * words)
		packet->goes_on = GW_BINDING_FIN | GW_BINDING_RST;
	if (words < GW_TCP_MIN_WORDS)
		return gw_leaves(GW_REASON_BAD_L4);
	return GW_CONTINUE;
}

/* Completes the flow; the cursor is at the payload of UDP, of the quoted packet in ICMP errors. */
static __always_inline int gw_read_l4(struct gw_reader *reader)
{
	struct gw_packet *packet = reader->packet;
	__u8 icmp = packet->family == 4 ? GW_PROTOCOL_ICMP : GW_PROTOCOL_ICMPV6;

	/* Later fragments have no ports, so first ones must do without too. */
	if (packet->fragment)
		return packet->protocol == GW_PROTOCOL_UDP || packet->protocol == GW_PROTOCOL_TCP ?
			       GW_CONTINUE :
			       gw_leaves(GW_REASON_L4_OTHER);
	if (packet->protocol == GW_PROTOCOL_UDP)
		return gw_read_udp(reader);
	if (packet->protocol == GW_PROTOCOL_TCP)
		return gw_read_tcp(reader);
	if (packet->protocol == icmp)
		return gw_read_icmp(reader);
	return gw_leaves(GW_REASON_L4_OTHER);
}

#endif
