/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots, rows, and what a packet is told about them: what every way to a backend has in common. */
#ifndef GW_LIB_PLACE_H
#define GW_LIB_PLACE_H

#include "count.h"
#include "entry.h"
#include GW_PROFILE_RECORDS

/* Reports the packet under this kind, unless something more important happened to it. */
static __always_inline void gw_tell(struct gw_packet *packet, enum gw_event_kind kind)
{
	if (!packet->event)
		packet->event = kind;
}

/* The packet goes to the backend in packet->row, by packet->rule. */
#define GW_PLACED 1

static __always_inline int gw_no_backend(struct gw_packet *packet)
{
	gw_count(packet, GW_COUNTER_NO_BACKEND);
	return gw_leaves(GW_REASON_NO_BACKEND);
}

/* Hashes the flow and reads its slot; the owner is in packet->row, and may be none. */
static __always_inline int gw_find_slot(struct gw_run *run)
{
	const gw_service_record *service = run->service;
	struct gw_packet *packet = run->packet;
	const struct gw_slot *slot;
	bool by_source = service->flags & GW_SERVICE_HASH_SOURCE;

	packet->hash = gw_flow_hash(run, by_source);
	packet->slot = ((packet->hash >> 32) * service->slots) >> 32;
	slot = gw_find_slot_word(run, packet->slot);
	if (!slot)
		return gw_leaves(GW_REASON_INTERNAL);
	packet->row = slot->owner;
	packet->base = slot->base;
	return GW_CONTINUE;
}

static __always_inline int gw_answer(struct gw_packet *packet, __u32 row, enum gw_rule rule,
				     enum gw_counter outcome)
{
	if (row == GW_SLOT_NONE)
		return gw_no_backend(packet);
	packet->row = row;
	packet->rule = rule;
	gw_count(packet, outcome);
	return GW_PLACED;
}

/* Takes the backend in a row of the table, which holds no empty ones. */
static __always_inline int gw_take_occupied(struct gw_run *run, __u32 row)
{
	int step = gw_take_row(run, row);

	if (step == GW_CONTINUE && run->backend->state == GW_BACKEND_MISSING)
		return gw_leaves(GW_REASON_INTERNAL);
	return step;
}

/* The tag of a flow is of its full key, whatever places it. */
static __always_inline void gw_take_tag(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;

	packet->tag = run->service->flags & GW_SERVICE_HASH_SOURCE ?
			      gw_flow_hash(run, false) :
			      packet->hash;
}

/* Whether a backend in this state keeps what it has. */
static __always_inline bool gw_is_usable(int state)
{
	return state == GW_BACKEND_READY || state == GW_BACKEND_DRAINING;
}

/*
 * Takes the backend in a row and gives its state, or why the packet leaves. There is none in a row
 * that the service does not have: bindings may be older than the generation.
 */
static __always_inline int gw_row_state(struct gw_run *run, __u32 row)
{
	int step;

	if (row >= run->service->backends)
		return GW_BACKEND_MISSING;
	step = gw_take_row(run, row);
	return step == GW_CONTINUE ? run->backend->state : step;
}

/* The same for what is bound: another backend in that row is not the one that was meant. */
static __always_inline int gw_bound_state(struct gw_run *run, union gw_bind bind)
{
	int state = gw_row_state(run, bind.row);

	if (state > GW_BACKEND_MISSING && run->backend->incarnation != bind.incarnation)
		return GW_BACKEND_MISSING;
	return state;
}

#endif
