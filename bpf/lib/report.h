/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is told about single packets: events, and the decision about one that is traced. */
#ifndef GW_LIB_REPORT_H
#define GW_LIB_REPORT_H

#include "emit.h"
#include "note.h"

/*
 * Where the connection ID is, for events. One that carries a server ID has the length of its
 * config, whatever was agreed.
 */
static __always_inline void gw_keep_cid(const struct gw_run *run, const struct gw_quic *quic)
{
	bool is_long = quic->form == GW_QUIC_IS_LONG;
	__u32 bytes = is_long ? quic->cid.bytes : run->service->short_dcid_len;

	if (!is_long && gw_names_server(run->packet->named))
		bytes = run->service->configs[quic->cid.first >> 5].cid_len;
	if (bytes > quic->cid.bytes || bytes > GW_MAX_CID_BYTES)
		bytes = 0;
	run->packet->cid_offset = run->packet->offset + (is_long ? GW_QUIC_LONG_BYTES : 1);
	run->packet->cid_len = bytes;
}

/* Tells about a packet that has been decided. */
static __always_inline void gw_tell_end(struct xdp_md *ctx, struct gw_packet *packet)
{
	gw_report(ctx, packet);
	if (gw_tracing)
		gw_note(packet);
}

#endif
