/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Placing a packet by the backend that its connection ID is bound to: because the server registered
 * it, because another instance said so, or because it was seen on a flow of that backend.
 */
#ifndef GW_LIB_CID_H
#define GW_LIB_CID_H

#include "flow.h"
#include "quic.h"

/* Connection ID bytes that were read with the header: the rest is read where one has more. */
#define GW_CID_READ_BYTES 17

/*
 * Bytes of the connection ID under which a binding is looked up; 0: there is none. One of a short
 * header that is marked as carrying no server ID says how long it is, any other has the agreed
 * length.
 */
static __always_inline __u32 gw_bound_bytes(const struct gw_run *run)
{
	const struct gw_quic *quic = &run->packet->quic;
	__u32 bytes = quic->cid.bytes;

	if (quic->form == GW_QUIC_IS_LONG && quic->version == GW_QUIC_NEGOTIATION)
		return 0;
	if (quic->form == GW_QUIC_IS_SHORT) {
		bytes = run->service->short_dcid_len;
		if (run->service->routing == GW_ROUTING_SERVER_ID &&
		    quic->cid.first >> 5 == GW_QUIC_LB_RESERVED)
			bytes = (quic->cid.first & GW_QUIC_LB_LENGTH_BITS) + 1;
		if (bytes > quic->cid.bytes)
			return 0;
	}
	return bytes <= GW_MAX_CID_BYTES ? bytes : 0;
}

/* The last bytes of a long connection ID, behind the first 16. */
static __always_inline __u32 gw_cid_tail(struct gw_run *run, __u32 bytes)
{
	const struct gw_packet *packet = run->packet;
	__u32 at = packet->cid_offset;
	__u32 tail = 0;

	if (packet->quic.form == GW_QUIC_IS_LONG)
		at = packet->offset + GW_QUIC_LONG_BYTES;
	if (packet->quic.form == GW_QUIC_IS_SHORT)
		at = packet->offset + 1;
	bytes -= 16 + 1;
	gw_opaque(bytes);
	if (bytes < sizeof(tail))
		bpf_xdp_load_bytes(run->ctx, at + 16, &tail, bytes + 1);
	return tail;
}

/* Puts the key together; false if there is no connection ID. */
static __always_inline bool gw_take_cid(struct gw_run *run)
{
	const struct gw_cid *cid = &run->packet->quic.cid;
	struct gw_cid_key *key = &run->packet->cid_key;
	__u32 bytes = gw_bound_bytes(run);
	__u64 *words = (__u64 *)key->cid;

	if (!bytes)
		return false;
	key->service = run->service->id;
	key->length = bytes;
	__builtin_memset(key->zero, 0, sizeof(key->zero));
	words[0] = gw_le64(gw_first_bytes(cid->first | cid->a << 8, bytes));
	words[1] = bytes > 8 ? gw_le64(gw_first_bytes(cid->a >> 56 | cid->b << 8, bytes - 8)) : 0;
	*(__u32 *)&words[2] = 0;
	if (bytes == GW_CID_READ_BYTES)
		key->cid[16] = cid->b >> 56;
	else if (bytes > GW_CID_READ_BYTES)
		*(__u32 *)&words[2] = gw_cid_tail(run, bytes);
	return true;
}

/*
 * Whether the connection ID is one that the service's server has chosen, as far as the packet can
 * tell: clients invent those of their first packets, and answer with the server's in later ones.
 */
static __always_inline bool gw_teaches(const struct gw_run *run)
{
	const struct gw_quic *quic = &run->packet->quic;

	if (run->service->routing != GW_ROUTING_LEARNED || run->packet->passive)
		return false;
	if (quic->form == GW_QUIC_IS_LONG)
		return quic->type == GW_QUIC_HANDSHAKE &&
		       quic->cid.bytes == run->service->short_dcid_len;
	return quic->form == GW_QUIC_IS_SHORT;
}

/* A connection ID of a flow that has no entry, after the client has moved: gives it one. */
static __always_inline void gw_bind_flow(struct gw_packet *packet, union gw_bind bind)
{
	const struct gw_admission *admission = bpf_map_lookup_elem(&gw_ql_level, &packet->stats);
	/* The service tracks all flows, so the reserve is not for it. */
	bool admitted = !admission || admission->flows == GW_LEVEL_ALL;
	int result = GW_INSERT_FULL;

	bind.tag = packet->tag;
	if (admitted)
		result = gw_insert_flow(packet, bind.word);
	if (result == GW_INSERTED) {
		gw_count(packet, GW_COUNTER_REBIND);
		gw_tell(packet, GW_EVENT_REBIND);
	} else if (result != GW_INSERT_EXISTS) {
		gw_count(packet, GW_COUNTER_CID_REFUSED);
		gw_tell(packet, GW_EVENT_REFUSED_FULL);
	}
}

/*
 * Has the flow follow its connection ID, so that the next one that comes this way is learned too. An
 * entry that says otherwise stays: two connections may share a flow.
 */
static __always_inline int gw_lead_flow(struct gw_run *run, union gw_bind bind)
{
	struct gw_packet *packet = run->packet;
	struct gw_binding *entry;
	union gw_bind flow;
	int step;

	step = gw_find_slot(run);
	if (step != GW_CONTINUE)
		return step;
	gw_take_tag(run);
	entry = bpf_map_lookup_elem(&gw_ql_flow, &packet->flow);
	if (!entry) {
		gw_bind_flow(packet, bind);
		return GW_CONTINUE;
	}
	flow = gw_load_bind(entry);
	if (!gw_is_flow(packet, entry, flow)) {
		gw_count(packet, GW_COUNTER_TAG_MISMATCH);
	} else if (flow.row == bind.row && flow.incarnation == bind.incarnation) {
		gw_use_flow(packet, entry, flow);
	} else {
		gw_count(packet, GW_COUNTER_CID_CONFLICT);
		gw_tell(packet, GW_EVENT_CID_CONFLICT);
	}
	return GW_CONTINUE;
}

/* Its backend is gone, or takes nothing. */
static __always_inline int gw_reselect_cid(struct gw_run *run, struct gw_binding *entry,
					   union gw_bind bind, int state)
{
	struct gw_packet *packet = run->packet;
	int step;

	if (state == GW_BACKEND_MISSING) {
		gw_count(packet, GW_COUNTER_STALE);
		gw_tell(packet, GW_EVENT_STALE);
	}
	step = gw_find_slot(run);
	if (step == GW_CONTINUE)
		step = gw_reselect(run, entry, bind, &bind);
	if (step == GW_PLACED)
		gw_use_cid(packet, entry, bind);
	return step;
}

static __always_inline enum gw_rule gw_cid_rule(__u32 state)
{
	if (gw_is_registered(state))
		return GW_RULE_CID_REGISTERED;
	return (state & GW_BINDING_ORIGIN) == GW_BINDING_IMPORTED ? GW_RULE_CID_IMPORTED :
								    GW_RULE_CID_LEARNED;
}

/* The connection ID is bound. */
static __always_inline int gw_follow_cid(struct gw_run *run, struct gw_binding *entry,
					 union gw_bind bind)
{
	struct gw_packet *packet = run->packet;
	int state = gw_bound_state(run, bind);
	int step;

	if (state < 0)
		return state;
	if (!gw_is_usable(state))
		return gw_reselect_cid(run, entry, bind, state);
	packet->rule = gw_cid_rule(gw_use_cid(packet, entry, bind));
	if (run->service->routing == GW_ROUTING_LEARNED && !packet->passive) {
		step = gw_lead_flow(run, bind);
		if (step != GW_CONTINUE)
			return step;
	}
	packet->row = bind.row;
	return GW_PLACED;
}

/* Whether a registration is over; the sweep has not come by yet. */
static __always_inline bool gw_has_ended(const struct gw_binding *entry)
{
	return gw_is_registered(gw_load_state(entry)) && entry->seen_ns &&
	       bpf_ktime_get_coarse_ns() >= entry->seen_ns;
}

/*
 * Looks the packet's connection ID up; GW_CONTINUE: it is not bound. Where it is bound to nothing and
 * the server's, its flow may bind it.
 */
static __noinline int gw_place_by_bound(struct xdp_md *ctx, struct gw_packet *packet, void *cells,
				      const struct gw_service *service)
{
	struct gw_run run = {
		.ctx = ctx,
		.packet = packet,
		.cells = cells,
		.generation = (const void *)service,
		.service = service,
		.backend = (const void *)service,
	};
	struct gw_binding *entry;
	union gw_bind bind;

	if (!gw_take_cid(&run))
		return GW_CONTINUE;
	gw_forget();
	entry = bpf_map_lookup_elem(&gw_ql_cid, &packet->cid_key);
	if (!entry) {
		packet->teaches = gw_teaches(&run);
		return GW_CONTINUE;
	}
	bind = gw_load_bind(entry);
	if (bind.tag != gw_cid_tag(&packet->cid_key)) {
		gw_count(packet, GW_COUNTER_TAG_MISMATCH);
		return GW_CONTINUE;
	}
	if (gw_has_ended(entry))
		return GW_CONTINUE;
	return gw_follow_cid(&run, entry, bind);
}

static __always_inline int gw_place_by_cid(struct gw_run *run)
{
	return gw_place_by_bound(run->ctx, run->packet, run->cells, run->service);
}

#endif
