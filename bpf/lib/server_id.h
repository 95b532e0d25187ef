/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Server IDs in connection IDs (draft-ietf-quic-load-balancers). */
#ifndef GW_LIB_SERVER_ID_H
#define GW_LIB_SERVER_ID_H

#include "crypto.h"

enum {
	GW_QUIC_LB_RESERVED = 7,
	GW_QUIC_LB_LENGTH_BITS = 0x1f,
};

/* What a connection ID says. */
enum gw_named {
	GW_NAMED_NOTHING, /* not asked */
	GW_NAMED_BACKEND, /* by packet->row; it may be unhealthy or gone */
	GW_NAMED_UNKNOWN,
	GW_NAMED_QUARANTINED,
	GW_NAMED_RESERVED, /* from here on it carries no server ID, and why */
	GW_NAMED_NO_CONFIG,
	GW_NAMED_TOO_SHORT,
	GW_NAMED_OTHER_LENGTH,
	GW_NAMED_INTERNAL, /* the generation contradicts itself */
};

/* Whether it carries a server ID, of a backend or not. */
static __always_inline bool gw_names_server(__u8 named)
{
	return named == GW_NAMED_BACKEND || named == GW_NAMED_UNKNOWN ||
	       named == GW_NAMED_QUARANTINED;
}

/* Exact look-up of (config, bytes); the hash only says where to begin. */
static __always_inline enum gw_named gw_find_server_id(const struct gw_run *run, __u8 config,
						       __u8 length, __u64 a, __u64 b)
{
	const struct gw_service *service = run->service;
	__u32 hash = gw_server_id_hash(config, length, a, b, service->server_id_seed);

#pragma unroll
	for (int i = 0; i < GW_MAX_PROBES; i++) {
		__u32 index = (hash + i) & service->server_ids_mask;
		const struct gw_server_id *ids, *id;

		ids = gw_cell(run, service->server_ids_at + index / GW_CELL_SERVER_IDS);
		if (!ids)
			return GW_NAMED_INTERNAL;
		id = &ids[index % GW_CELL_SERVER_IDS];
		if (!id->flags)
			break;
		if (gw_le64(gw_load64(id->bytes, 0)) == a && gw_le64(gw_load64(id->bytes, 8)) == b &&
		    id->config == config && id->length == length) {
			run->packet->row = id->row;
			return id->flags & GW_SERVER_ID_QUARANTINED ? GW_NAMED_QUARANTINED :
								      GW_NAMED_BACKEND;
		}
	}
	return GW_NAMED_UNKNOWN;
}

static __always_inline enum gw_named gw_decode_server_id(const struct gw_run *run)
{
	const struct gw_cid *cid = &run->packet->quic.cid;
	const struct gw_quic_config *config;
	__u8 id = cid->first >> 5;
	__u32 length;
	__u64 a, b;

	if (!cid->bytes)
		return GW_NAMED_TOO_SHORT;
	if (id == GW_QUIC_LB_RESERVED)
		return GW_NAMED_RESERVED;
	config = &run->service->configs[id];
	if (config->mode == GW_QUIC_MODE_NONE)
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
