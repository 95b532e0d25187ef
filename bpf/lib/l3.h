/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* IPv4 and IPv6 headers, of the frame's packet and of one quoted in an ICMP error. */
#ifndef GW_LIB_L3_H
#define GW_LIB_L3_H

#include "cursor.h"
#include "ip.h"

/*
 * Takes the end that a header declares. A quoted packet may be cut: there the outer end stays if it
 * comes first.
 */
static __always_inline bool gw_declare_end(struct gw_packet *packet, __u32 bytes, bool quoted)
{
	if (bytes > gw_left(packet))
		return quoted;
	packet->end = packet->offset + bytes;
	return true;
}

/* Sets source, destination, protocol and fragment; the cursor goes behind the header. */
static __always_inline int gw_read_ipv4(struct gw_reader *reader, struct gw_address *source,
					struct gw_address *destination, bool quoted)
{
	struct gw_packet *packet = reader->packet;
	const void *header;
	__u32 header_bytes, total_bytes;
	__u16 fragment;

	if (gw_left(packet) < GW_IPV4_BYTES)
		return gw_leaves(GW_REASON_BAD_IPV4);
	header = gw_window(reader, GW_IPV4_BYTES);
	header_bytes = (gw_load8(header, 0) & 0xf) * 4;
	total_bytes = gw_load_be16(header, 2);
	fragment = gw_load_be16(header, 6);
	if (gw_load8(header, 0) >> 4 != 4 || header_bytes < GW_IPV4_BYTES ||
	    total_bytes < header_bytes)
		return gw_leaves(GW_REASON_BAD_IPV4);
	gw_set_ipv4(source, gw_load32(header, 12));
	gw_set_ipv4(destination, gw_load32(header, 16));
	packet->protocol = gw_load8(header, 9);
	packet->fragment = fragment & GW_IPV4_FRAGMENT_OFFSET ||
			   (!quoted && fragment & GW_IPV4_MORE_FRAGMENTS);
	if (!gw_declare_end(packet, total_bytes, quoted) || gw_left(packet) < header_bytes)
		return gw_leaves(GW_REASON_BAD_IPV4);
	if (header_bytes == GW_IPV4_BYTES)
		gw_skip(reader, GW_IPV4_BYTES);
	else
		gw_skip_variable(reader, header_bytes);
	return GW_CONTINUE;
}

/*
 * Goes through the extension headers from packet->protocol on, up to one that makes the packet a
 * fragment: nothing behind that one is read, because later fragments do not have it.
 */
GW_STEP int gw_walk_extensions(struct xdp_md *ctx, struct gw_packet *packet, __u32 quoted)
{
	const __u8 *header;
	__u32 first;

	if (!packet)
		return gw_leaves(GW_REASON_INTERNAL);
	header = (const __u8 *)packet->window;
	first = packet->offset;

#pragma unroll
	for (int i = 0; i <= GW_MAX_EXT_HEADERS; i++) {
		__u8 next = packet->protocol;
		__u32 bytes;

		if (!gw_is_walked(next)) {
			if (next == GW_EXT_MOBILITY || next == GW_EXT_HOST_IDENTITY ||
			    next == GW_EXT_SHIM6)
				return gw_leaves(GW_REASON_EXT_HEADERS);
			return GW_CONTINUE;
		}
		if (i == GW_MAX_EXT_HEADERS)
			break;
		if (gw_left(packet) < GW_EXT_BYTES)
			return gw_leaves(GW_REASON_BAD_IPV6);
		gw_copy(ctx, packet, GW_EXT_BYTES);
		if (next == GW_EXT_ROUTING && header[3])
			return gw_leaves(GW_REASON_ROUTING_HEADER);
		bytes = gw_ext_bytes(next, header[1]);
		if (packet->offset + bytes - first > GW_MAX_EXT_BYTES)
			break;
		if (bytes > gw_left(packet))
			return gw_leaves(GW_REASON_BAD_IPV6);
		packet->offset += bytes;
		packet->protocol = header[0];
		if (next == GW_EXT_FRAGMENT) {
			__u16 fragment = gw_load_be16(header, 2);

			packet->fragment = fragment & GW_IPV6_FRAGMENT_OFFSET ||
					   (!quoted && fragment & GW_IPV6_MORE_FRAGMENTS);
			if (packet->fragment)
				return GW_CONTINUE;
		}
		gw_settle_headers(packet);
	}
	return gw_leaves(GW_REASON_EXT_HEADERS);
}

static __always_inline int gw_read_ipv6(struct gw_reader *reader, struct gw_address *source,
					struct gw_address *destination, bool quoted)
{
	struct gw_packet *packet = reader->packet;
	const void *header;

	if (gw_left(packet) < GW_IPV6_BYTES)
		return gw_leaves(GW_REASON_BAD_IPV6);
	header = gw_window(reader, GW_IPV6_BYTES);
	if (gw_load8(header, 0) >> 4 != 6 ||
	    !gw_declare_end(packet, GW_IPV6_BYTES + gw_load_be16(header, 4), quoted))
		return gw_leaves(GW_REASON_BAD_IPV6);
	for (int i = 0; i < 4; i++) {
		source->words[i] = gw_load32(header, 8 + 4 * i);
		destination->words[i] = gw_load32(header, 24 + 4 * i);
	}
	packet->protocol = gw_load8(header, 6);
	packet->fragment = 0;
	gw_skip(reader, GW_IPV6_BYTES);
	if (packet->protocol == GW_PROTOCOL_UDP || packet->protocol == GW_PROTOCOL_TCP ||
	    packet->protocol == GW_PROTOCOL_ICMPV6)
		return GW_CONTINUE;
	packet->direct = 0;
	return gw_walk_extensions(reader->ctx, packet, quoted);
}

#endif
