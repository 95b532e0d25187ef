/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * QUIC by its version-independent properties (RFC 8999), and the packet types of versions 1 and 2.
 * Bit 6, the fixed bit, decides nothing: peers may send it at random (RFC 9287).
 */
#ifndef GW_LIB_QUIC_H
#define GW_LIB_QUIC_H

#include "count.h"
#include "parse.h"
#include "server_id.h"

enum {
	GW_QUIC_FIXED = 0x40,
	GW_QUIC_TYPE_BITS = 3,
};

enum {
	GW_QUIC_NEGOTIATION = 0,
	GW_QUIC_V1 = 0x00000001,
	GW_QUIC_V2 = 0x6b3343cf,
};

/* Numbers of version 1; version 2 adds one to each, modulo 4. */
enum {
	GW_QUIC_TYPE_UNKNOWN = -1,
	GW_QUIC_INITIAL = 0,
	GW_QUIC_ZERO_RTT = 1,
	GW_QUIC_HANDSHAKE = 2,
	GW_QUIC_RETRY = 3,
};

enum {
	GW_STUN_BYTES = 20,
	GW_STUN_NO_BITS = 0xc0,
	GW_STUN_COOKIE = 0x2112a442,
	GW_DTLS_BYTES = 13,
	GW_DTLS_FIRST_TYPE = 20,
	GW_DTLS_LAST_TYPE = 25,
	GW_DTLS_1_0 = 0xfeff,
	GW_DTLS_1_2 = 0xfefd,
};

/* Where a UDP payload begins behind headers of the least size. */
enum {
	GW_IPV4_PAYLOAD = GW_ETH_BYTES + GW_IPV4_BYTES + GW_UDP_BYTES,
	GW_IPV6_PAYLOAD = GW_ETH_BYTES + GW_IPV6_BYTES + GW_UDP_BYTES,
};

/* Big-endian numbers whose first byte is the lowest of a little-endian word. */
#define gw_be16_of(word) __builtin_bswap16((__u16)(word))
#define gw_be32_of(word) __builtin_bswap32((__u32)(word))

/* One STUN message: the length in it ends with the payload. */
static __always_inline bool gw_is_stun(const struct gw_quic *quic)
{
	return !(quic->first & GW_STUN_NO_BITS) &&
	       gw_be32_of(quic->words[0] >> 32) == GW_STUN_COOKIE &&
	       gw_be16_of(quic->words[0] >> 16) + GW_STUN_BYTES == quic->bytes;
}

/* Begins with a record of DTLS 1.0 or 1.2 that ends within the payload. */
static __always_inline bool gw_is_dtls(const struct gw_quic *quic)
{
	__u16 version = gw_be16_of(quic->words[0] >> 8);

	return quic->first >= GW_DTLS_FIRST_TYPE && quic->first <= GW_DTLS_LAST_TYPE &&
	       (version == GW_DTLS_1_0 || version == GW_DTLS_1_2) &&
	       gw_be16_of(quic->words[1] >> 24) + GW_DTLS_BYTES <= quic->bytes;
}

static __always_inline int gw_quic_type(__u32 version, __u8 first)
{
	if (version == GW_QUIC_V1)
		return first >> 4 & GW_QUIC_TYPE_BITS;
	if (version == GW_QUIC_V2)
		return ((first >> 4) - 1) & GW_QUIC_TYPE_BITS;
	return GW_QUIC_TYPE_UNKNOWN;
}

static __always_inline bool gw_starts_flow(int type)
{
	return type == GW_QUIC_INITIAL || type == GW_QUIC_ZERO_RTT;
}

/* The first bytes of the payload, if it begins at this offset, a constant. */
#define gw_load_payload_at(run, at_offset, words)                          \
	({                                                                 \
		void *at = (void *)(long)(run)->ctx->data;                 \
		void *data_end = (void *)(long)(run)->ctx->data_end;       \
		bool found = false;                                        \
                                                                           \
		gw_advance(at, at_offset);                                 \
		if ((run)->packet->offset == (at_offset) &&                \
		    at + GW_PAYLOAD_BYTES <= data_end) {                   \
			(words)[0] = gw_load64(at, 0);                     \
			(words)[1] = gw_load64(at, 8);                     \
			(words)[2] = gw_load64(at, 16);                    \
			found = true;                                      \
		}                                                          \
		found;                                                     \
	})

/*
 * The first bytes of the payload; bytes behind its end mean nothing. In place behind plain headers
 * with none, one or two tags, which spares the many ways of getting here from being told apart.
 */
static __always_inline void gw_load_payload(struct gw_run *run, __u64 *words)
{
	struct gw_packet *packet = run->packet;

	if (gw_load_payload_at(run, GW_IPV4_PAYLOAD, words) ||
	    gw_load_payload_at(run, GW_IPV6_PAYLOAD, words) ||
	    gw_load_payload_at(run, GW_IPV4_PAYLOAD + GW_VLAN_BYTES, words) ||
	    gw_load_payload_at(run, GW_IPV6_PAYLOAD + GW_VLAN_BYTES, words) ||
	    gw_load_payload_at(run, GW_IPV4_PAYLOAD + 2 * GW_VLAN_BYTES, words) ||
	    gw_load_payload_at(run, GW_IPV6_PAYLOAD + 2 * GW_VLAN_BYTES, words))
		return;
	gw_copy(run->ctx, packet, GW_PAYLOAD_BYTES);
	words[0] = packet->window[0];
	words[1] = packet->window[1];
	words[2] = packet->window[2];
}

/* What the payload says. Its connection ID: in a short header, all that follows. */
static __always_inline void gw_read_quic(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	struct gw_quic *quic = &packet->quic;
	__u64 words[GW_PAYLOAD_BYTES / 8];
	__u64 w0, w1, w2;

	quic->bytes = gw_left(packet);
	if (packet->icmp) {
		words[0] = packet->window[0];
		words[1] = packet->window[1];
		words[2] = packet->window[2];
	} else {
		gw_load_payload(run, words);
	}
	w0 = gw_le64(words[0]);
	w1 = gw_le64(words[1]);
	w2 = gw_le64(words[2]);
	quic->words[0] = w0;
	quic->words[1] = w1;
	quic->first = w0;
	quic->version = gw_be32_of(w0 >> 8);
	quic->type = gw_quic_type(quic->version, quic->first);
	quic->cid.first = w0 >> 8;
	quic->cid.a = w0 >> 16 | w1 << 48;
	quic->cid.b = w1 >> 16 | w2 << 48;
	quic->cid.exact = true;
	if (packet->icmp) {
		quic->form = GW_QUIC_IS_QUOTED;
		quic->cid.bytes = packet->cid_len;
	} else if (!quic->bytes) {
		quic->form = GW_QUIC_IS_MALFORMED;
	} else if (quic->first & GW_QUIC_LONG) {
		quic->cid.bytes = (__u8)(w0 >> 40);
		quic->cid.first = w0 >> 48;
		quic->cid.a = w0 >> 56 | w1 << 8;
		quic->cid.b = w1 >> 56 | w2 << 8;
		quic->form = quic->bytes < GW_QUIC_LONG_BYTES + quic->cid.bytes ?
				     GW_QUIC_IS_MALFORMED :
				     GW_QUIC_IS_LONG;
	} else {
		quic->cid.bytes = quic->bytes - 1;
		quic->cid.exact = false;
		quic->form = gw_is_stun(quic) ? GW_QUIC_IS_OTHER : GW_QUIC_IS_SHORT;
	}
	gw_settle_payload(packet);
}

/* Counts a packet, and says whether it can begin a flow. */
static __always_inline void gw_take_quic(struct gw_packet *packet)
{
	const struct gw_quic *quic = &packet->quic;

	packet->may_be_start = 0;
	if (!(quic->first & GW_QUIC_FIXED))
		gw_count(packet, GW_COUNTER_FIXED_BIT_CLEAR);
	if (quic->form == GW_QUIC_IS_SHORT) {
		gw_count(packet, GW_COUNTER_QUIC_SHORT);
		return;
	}
	gw_count(packet, GW_COUNTER_QUIC_LONG);
	if (gw_starts_flow(quic->type)) {
		packet->start = 1;
		packet->may_be_start = 1;
		gw_count(packet, GW_COUNTER_STARTS);
	}
	if (quic->version == GW_QUIC_NEGOTIATION) {
		packet->passive = 1;
		gw_count(packet, GW_COUNTER_VERSION_NEGOTIATION);
	} else if (quic->type == GW_QUIC_TYPE_UNKNOWN) {
		packet->may_be_start = 1;
		gw_count(packet, GW_COUNTER_UNKNOWN_VERSION);
	} else if (quic->type == GW_QUIC_RETRY) {
		packet->passive = 1;
		gw_count(packet, GW_COUNTER_RETRY);
	}
	if (!quic->cid.bytes)
		gw_count(packet, GW_COUNTER_CID_ZERO);
	else if (quic->cid.bytes > GW_MAX_CID_BYTES)
		gw_count(packet, GW_COUNTER_CID_LONG);
}

#endif
