/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where ways through the program come together. The verifier knows what stands on the stack, and
 * follows each combination of constants to the end: more than a million instructions. So a number
 * is changed by one that it knows nothing of, and changed back.
 */
#ifndef GW_OFFLOAD_SETTLE_H
#define GW_OFFLOAD_SETTLE_H

#include "lib/packet.h"

/* The same number, of which the verifier knows nothing. */
static __always_inline __u64 gw_settled(const struct gw_packet *packet, __u64 number)
{
	asm volatile("%0 ^= %1\n\t%0 ^= %1" : "+r"(number) : "r"(packet->generation));
	return number;
}

/* From here on what was read of the headers is the same to the verifier, whichever way led here. */
static __always_inline void gw_settle_headers(struct gw_packet *packet)
{
	packet->offset = gw_settled(packet, packet->offset);
	packet->end = gw_settled(packet, packet->end);
	packet->family = gw_settled(packet, packet->family);
	packet->protocol = gw_settled(packet, packet->protocol);
	packet->fragment = gw_settled(packet, packet->fragment);
	packet->icmp = gw_settled(packet, packet->icmp);
	packet->start = gw_settled(packet, packet->start);
	packet->cid_len = gw_settled(packet, packet->cid_len);
	packet->cid_offset = gw_settled(packet, packet->cid_offset);
}

/* The same of the payload. */
static __always_inline void gw_settle_payload(struct gw_packet *packet)
{
	packet->quic.words[0] = gw_settled(packet, packet->quic.words[0]);
	packet->quic.words[1] = gw_settled(packet, packet->quic.words[1]);
	packet->quic.bytes = gw_settled(packet, packet->quic.bytes);
	packet->quic.form = gw_settled(packet, packet->quic.form);
	packet->quic.first = gw_settled(packet, packet->quic.first);
	packet->quic.version = gw_settled(packet, packet->quic.version);
	packet->quic.type = gw_settled(packet, packet->quic.type);
	packet->quic.cid.first = gw_settled(packet, packet->quic.cid.first);
	packet->quic.cid.a = gw_settled(packet, packet->quic.cid.a);
	packet->quic.cid.b = gw_settled(packet, packet->quic.cid.b);
	packet->quic.cid.bytes = gw_settled(packet, packet->quic.cid.bytes);
	packet->quic.cid.exact = gw_settled(packet, packet->quic.cid.exact);
}

/* The same of what a connection ID names. */
static __always_inline void gw_settle_named(struct gw_packet *packet)
{
	packet->named = gw_settled(packet, packet->named);
	packet->row = gw_settled(packet, packet->row);
}

/* The same of the packet's place among those of its flow. */
static __always_inline void gw_settle_kind(struct gw_packet *packet)
{
	packet->start = gw_settled(packet, packet->start);
	packet->passive = gw_settled(packet, packet->passive);
	packet->may_be_start = gw_settled(packet, packet->may_be_start);
}

#endif
