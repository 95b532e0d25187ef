/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which backend gets the packet. The first that answers wins: the server ID in the connection ID,
 * its binding, then the flow. No hash of a connection ID ever selects a backend: clients invent the first one,
 * and see others later.
 */
#ifndef GW_LIB_ROUTE_H
#define GW_LIB_ROUTE_H

#include "quic.h"
#include GW_PROFILE_REPORT
#include GW_PROFILE_STATE

static __always_inline int gw_place(struct gw_run *run, enum gw_rule rule)
{
	run->packet->rule = rule;
	run->packet->backend_id = run->backend->id;
	run->packet->backend_stats = run->backend->stats;
	return GW_PLACED;
}

/* Takes the backend that a function has chosen. */
static __always_inline int gw_place_row(struct gw_run *run)
{
	int step = gw_take_occupied(run, run->packet->row);

	return step == GW_CONTINUE ? gw_place(run, run->packet->rule) : step;
}

/*
 * By the flow's slot, and by its entry where that can matter. The common packet is the owner's of a
 * plain slot, without a look-up.
 */
static __always_inline int gw_place_by_flow(struct gw_run *run)
{
	const gw_service_record *service = run->service;
	struct gw_packet *packet = run->packet;
	int step;

	if (!service->slots)
		return gw_no_backend(packet);
	step = gw_find_slot(run);
	if (step != GW_CONTINUE)
		return step;
	if (packet->base == GW_SLOT_PLAIN && !(service->flags & GW_SERVICE_TRACK_ALL))
		step = gw_answer(packet, packet->row, GW_RULE_TABLE, GW_COUNTER_PLAIN);
	else
		step = gw_place_by_state(run);
	return step == GW_PLACED ? gw_place_row(run) : step;
}

_Static_assert(GW_COUNTER_UNROUTABLE_CONFIG - GW_COUNTER_UNROUTABLE_RESERVED ==
		       GW_NAMED_NO_CONFIG - GW_NAMED_RESERVED, "same order");
_Static_assert(GW_COUNTER_UNROUTABLE_SHORT - GW_COUNTER_UNROUTABLE_RESERVED ==
		       GW_NAMED_TOO_SHORT - GW_NAMED_RESERVED, "same order");
_Static_assert(GW_COUNTER_UNROUTABLE_LENGTH - GW_COUNTER_UNROUTABLE_RESERVED ==
		       GW_NAMED_OTHER_LENGTH - GW_NAMED_RESERVED, "same order");

/*
 * A server ID that no backend has, in a connection ID that is not bound either. What a client invents
 * for its first packets looks like this when it happens to begin with a config ID, so starts go on,
 * and packets of unknown versions, which may be starts. Others would only meet a backend that has no
 * keys for them, and be reset by it.
 */
static __always_inline int gw_leave_unknown(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;

	if (packet->may_be_start || run->service->unknown_server_id != GW_POLICY_DROP) {
		gw_count(packet, GW_COUNTER_UNKNOWN_SERVER_ID);
		return GW_CONTINUE;
	}
	if (packet->named == GW_NAMED_QUARANTINED) {
		gw_count(packet, GW_COUNTER_QUARANTINED_SERVER_ID);
		return gw_leaves(GW_REASON_QUARANTINED_SERVER_ID);
	}
	gw_count(packet, GW_COUNTER_UNKNOWN_SERVER_ID);
	return gw_leaves(GW_REASON_UNKNOWN_SERVER_ID);
}

/*
 * The backend that a connection ID named, if it may take the packet; else how to go on: by flow if
 * the backend is only unhealthy. One that is gone is as good as unknown.
 */
static __always_inline int gw_place_by_server_id(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	__u8 state;
	int step;

	step = gw_take_row(run, packet->row);
	if (step != GW_CONTINUE)
		return step;
	state = run->backend->state;
	if (state == GW_BACKEND_READY || state == GW_BACKEND_DRAINING)
		return gw_place(run, GW_RULE_SERVER_ID);
	if (state == GW_BACKEND_MISSING) {
		packet->named = GW_NAMED_UNKNOWN;
		return GW_CONTINUE;
	}
	/* Wherever an ICMP error arrives wrongly, it does no harm. */
	if (packet->icmp || packet->start || run->service->unhealthy == GW_POLICY_FALLBACK)
		return GW_CONTINUE;
	packet->backend_id = run->backend->id;
	return gw_leaves(GW_REASON_UNHEALTHY);
}

/* Not QUIC, or not readable: for the host where the service is QUIC alone, a flow elsewhere. */
static __always_inline int gw_leave_other(const struct gw_run *run, enum gw_reason reason)
{
	return run->service->flags & GW_SERVICE_QUIC_ONLY ? gw_leaves(reason) : GW_CONTINUE;
}

/* Whether the connection ID is one of those that carry server IDs, if it is one at all. */
static __always_inline bool gw_may_name_server(const struct gw_run *run,
					       const struct gw_quic *quic)
{
	if (run->service->routing != GW_ROUTING_SERVER_ID)
		return false;
	if (quic->form == GW_QUIC_IS_SHORT)
		return quic->cid.bytes >= run->service->short_dcid_len;
	if (quic->form == GW_QUIC_IS_LONG && quic->version == GW_QUIC_NEGOTIATION)
		return false;
	return quic->cid.bytes && quic->cid.bytes <= GW_MAX_CID_BYTES;
}

/* Counts a QUIC packet, and notes what it is. */
static __always_inline void gw_take_packet(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	const struct gw_quic *quic = &packet->quic;

	gw_keep_cid(run, quic);
	gw_take_quic(packet);
	if (packet->named >= GW_NAMED_RESERVED)
		gw_count(packet, GW_COUNTER_UNROUTABLE_RESERVED +
					 (packet->named - GW_NAMED_RESERVED));
	if (quic->form == GW_QUIC_IS_LONG && quic->type == GW_QUIC_HANDSHAKE &&
	    run->service->routing == GW_ROUTING_LEARNED &&
	    quic->cid.bytes != run->service->short_dcid_len)
		gw_count(packet, GW_COUNTER_CID_LEN_MISMATCH);
}

/* By what the connection ID is bound to; GW_CONTINUE if it is not. */
static __always_inline int gw_place_by_binding(struct gw_run *run)
{
	int step;

	if (!(run->service->flags & GW_SERVICE_EXACT))
		return GW_CONTINUE;
	step = gw_place_by_cid(run);
	gw_forget();
	return step == GW_PLACED ? gw_place_row(run) : step;
}

/* Places by server ID or binding, or leaves it to the flow. */
static __always_inline int gw_route_quic(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	const struct gw_quic *quic = &packet->quic;
	bool resembles_dtls = false;
	int step;

	gw_read_quic(run);
	if (quic->form == GW_QUIC_IS_MALFORMED)
		return gw_leave_other(run, GW_REASON_BAD_QUIC);
	if (quic->form == GW_QUIC_IS_OTHER)
		return gw_leave_other(run, GW_REASON_NOT_QUIC);
	packet->named = gw_may_name_server(run, quic) ? gw_decode_server_id(run) : GW_NAMED_NOTHING;
	gw_settle_named(packet);
	if (packet->named == GW_NAMED_INTERNAL)
		return gw_leaves(GW_REASON_INTERNAL);
	/* A greased short header can look like DTLS: only one that names nothing is taken for it. */
	if (quic->form == GW_QUIC_IS_SHORT && !gw_names_server(packet->named)) {
		resembles_dtls = gw_is_dtls(quic);
		if (quic->cid.bytes < run->service->short_dcid_len)
			return gw_leave_other(run, resembles_dtls ? GW_REASON_NOT_QUIC :
								    GW_REASON_BAD_QUIC);
	}
	if (quic->form != GW_QUIC_IS_QUOTED && !resembles_dtls)
		gw_take_packet(run);
	gw_settle_kind(packet);
	if (packet->named == GW_NAMED_BACKEND) {
		step = gw_place_by_server_id(run);
		if (step != GW_CONTINUE || packet->named == GW_NAMED_BACKEND)
			return step;
	}
	step = gw_place_by_binding(run);
	if (resembles_dtls) {
		if (step == GW_CONTINUE) {
			packet->teaches = 0;
			return gw_leave_other(run, GW_REASON_NOT_QUIC);
		}
		gw_take_packet(run);
		return step;
	}
	if (quic->form == GW_QUIC_IS_QUOTED || !gw_names_server(packet->named))
		return step;
	if (step == GW_CONTINUE)
		return gw_leave_unknown(run);
	gw_count(packet, GW_COUNTER_UNKNOWN_SERVER_ID);
	return step;
}

/* Services of one VIP and protocol agree on their policy: a fragment cannot choose among them. */
static __always_inline int gw_route_fragment(struct gw_run *run)
{
	gw_count(run->packet, GW_COUNTER_FRAGMENTS);
	if (run->service->fragments == GW_FRAGMENTS_PASS)
		return gw_leaves(GW_REASON_FRAGMENT_PASS);
	if (run->service->fragments != GW_FRAGMENTS_ROUTE)
		return gw_leaves(GW_REASON_FRAGMENT_DROP);
	return gw_place_by_flow(run);
}

/* GW_PLACED, or why the packet leaves. */
static __always_inline int gw_route(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	int step = GW_CONTINUE;

	if (packet->fragment)
		return gw_route_fragment(run);
	packet->asked_start = 1;
	if (packet->icmp) {
		packet->passive = 1;
		gw_count(run->packet, GW_COUNTER_ICMP);
	}
	if (packet->start)
		gw_count(run->packet, GW_COUNTER_STARTS);
	if (run->service->flags & GW_SERVICE_QUIC)
		step = gw_route_quic(run);
	if (step != GW_CONTINUE)
		return step;
	return gw_place_by_flow(run);
}

#endif
