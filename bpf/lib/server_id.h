/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Server IDs in connection IDs (draft-ietf-quic-load-balancers). */
#ifndef GW_LIB_SERVER_ID_H
#define GW_LIB_SERVER_ID_H

#include "crypto.h"

enum {
	GW_QUIC_LB_RESERVED = 7,
	GW_QUIC_LB_LENGTH_BITS = 0x1f,
};

static __always_inline enum gw_named gw_decode_server_id(const struct gw_run *run)
{
	const struct gw_cid *cid = &run->packet->quic.cid;
	const gw_config_record *config;
	__u8 id = cid->first >> 5;
	__u32 length;
	__u64 a, b;

	if (!cid->bytes)
		return GW_NAMED_TOO_SHORT;
	if (id == GW_QUIC_LB_RESERVED)
		return GW_NAMED_RESERVED;
	config = gw_find_config(run, id);
	if (!config || config->mode == GW_QUIC_MODE_NONE)
		return GW_NAMED_NO_CONFIG;
	length = config->server_id_len;
	if (cid->bytes < 1 + length + config->nonce_len)
		return GW_NAMED_TOO_SHORT;
	if (cid->exact && cid->bytes != config->cid_len)
		return GW_NAMED_OTHER_LENGTH;
	if (config->encodes_length &&
	    (cid->first & GW_QUIC_LB_LENGTH_BITS) + 1 != config->cid_len)
		return GW_NAMED_OTHER_LENGTH;
	a = cid->a;
	b = cid->b;
	/* An encrypted block is never read as plaintext: that would place packets at random. */
	if (config->mode != GW_QUIC_MODE_PLAIN) {
		struct gw_plaintext text = { .a = a, .b = b };

		if (!gw_decrypt_server_id(run, config, &text))
			return GW_NAMED_NO_CONFIG;
		a = text.a;
		b = text.b;
	}
	a = gw_first_bytes(a, length);
	b = length > 8 ? gw_first_bytes(b, length - 8) : 0;
	return gw_find_server_id(run, id, length, a, b);
}

#endif
