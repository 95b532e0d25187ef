/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flow state on a card, of services that track all flows: an element for each flow, which packets
 * replace as a whole and never take away. Its age is counted in epochs. What no packet has used for
 * long, user space deletes. A flow that finds no room is placed without, and counted.
 */
#ifndef GW_OFFLOAD_STATE_H
#define GW_OFFLOAD_STATE_H

#include "lib/errno.h"
#include "lib/place.h"

static __always_inline __u32 gw_epoch(void)
{
	__u32 zero = 0;
	const struct gw_offload_epoch *epoch = bpf_map_lookup_elem(&gw_of_epoch, &zero);

	return epoch ? epoch->epoch : 0;
}

/* Writes the flow's element; what the map answers. */
static __always_inline int gw_write_flow(const struct gw_packet *packet, union gw_bind bind,
					 __u32 epoch, __u64 how)
{
	struct gw_flow_key key = packet->flow;
	struct gw_offload_binding value = {
		.tag = bind.tag,
		.row = bind.row,
		.incarnation = bind.incarnation,
		.epoch = epoch,
	};

	return bpf_map_update_elem(&gw_of_flow, &key, &value, how);
}

static __always_inline const struct gw_offload_binding *gw_find_flow(const struct gw_packet *packet)
{
	struct gw_flow_key key = packet->flow;

	return bpf_map_lookup_elem(&gw_of_flow, &key);
}

static __always_inline union gw_bind gw_bind_of(const struct gw_offload_binding *entry)
{
	return (union gw_bind){ .word = *(const volatile gw_entry_word *)entry };
}

/* The bound backend takes no packets any longer, or no new connections: the owner gets the flow. */
static __always_inline int gw_reselect(struct gw_run *run, union gw_bind bind)
{
	struct gw_packet *packet = run->packet;
	int step;

	if (packet->row == GW_SLOT_NONE)
		return gw_no_backend(packet);
	step = gw_take_occupied(run, packet->row);
	if (step != GW_CONTINUE)
		return step;
	bind.row = packet->row;
	bind.incarnation = run->backend->incarnation;
	if (!packet->passive)
		gw_write_flow(packet, bind, gw_epoch(), BPF_EXIST);
	return gw_answer(packet, packet->row, GW_RULE_RESELECT, GW_COUNTER_RESELECTED);
}

/* The flow has an element. */
static __always_inline int gw_follow(struct gw_run *run, const struct gw_offload_binding *entry,
				     union gw_bind bind)
{
	struct gw_packet *packet = run->packet;
	__u32 written = entry->epoch;
	int state = gw_bound_state(run, bind);
	__u32 epoch;

	if (state < 0)
		return state;
	if (!gw_is_usable(state) || (state == GW_BACKEND_DRAINING && packet->start &&
				     packet->protocol == GW_PROTOCOL_TCP))
		return gw_reselect(run, bind);
	epoch = gw_epoch();
	if (written != epoch && !packet->passive)
		gw_write_flow(packet, bind, epoch, BPF_EXIST);
	return gw_answer(packet, bind.row, GW_RULE_FLOW, GW_COUNTER_HIT);
}

/* Placed without an element of its own. */
static __always_inline int gw_refuse(struct gw_packet *packet, enum gw_counter outcome)
{
	gw_count(packet, GW_COUNTER_AT_RISK);
	return gw_answer(packet, packet->row, GW_RULE_TABLE, outcome);
}

/* Somebody else has written the flow's element: both must use the same backend. */
static __always_inline int gw_meet(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	const struct gw_offload_binding *entry = gw_find_flow(packet);
	union gw_bind bind;

	if (entry) {
		bind = gw_bind_of(entry);
		if (bind.tag == packet->tag && gw_is_usable(gw_bound_state(run, bind)))
			return gw_answer(packet, bind.row, GW_RULE_FLOW, GW_COUNTER_RACED);
	}
	return gw_refuse(packet, GW_COUNTER_REFUSED_BUSY);
}

/* The flow has no element yet. */
static __always_inline int gw_place_new(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	union gw_bind bind = { .tag = packet->tag };
	int step;

	if (packet->row == GW_SLOT_NONE)
		return gw_no_backend(packet);
	step = gw_take_occupied(run, packet->row);
	if (step != GW_CONTINUE)
		return step;
	bind.row = packet->row;
	bind.incarnation = run->backend->incarnation;
	step = gw_write_flow(packet, bind, gw_epoch(), BPF_NOEXIST);
	if (!step)
		return gw_answer(packet, packet->row, GW_RULE_TABLE, GW_COUNTER_ALL_INSERTED);
	if (step == -GW_EEXIST)
		return gw_meet(run);
	return gw_refuse(packet, step == -GW_E2BIG ? GW_COUNTER_REFUSED_FULL :
						     GW_COUNTER_REFUSED_BUSY);
}

/* Places a packet of a service that tracks all flows; its slot has been found. */
static __always_inline int gw_place_by_state(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	const struct gw_offload_binding *entry;
	union gw_bind bind;

	gw_take_tag(run);
	if (packet->fragment)
		return gw_answer(packet, packet->row, GW_RULE_TABLE, GW_COUNTER_NO_ENTRY);
	entry = gw_find_flow(packet);
	if (entry) {
		bind = gw_bind_of(entry);
		if (bind.tag == packet->tag)
			return gw_follow(run, entry, bind);
		gw_count(packet, GW_COUNTER_TAG_MISMATCH);
		return gw_refuse(packet, GW_COUNTER_REFUSED_BUSY);
	}
	if (packet->passive)
		return gw_answer(packet, packet->row, GW_RULE_TABLE, GW_COUNTER_NO_ENTRY);
	return gw_place_new(run);
}

/* No connection ID is bound to a backend here. */
static __always_inline int gw_place_by_cid(const struct gw_run *run)
{
	return GW_CONTINUE;
}

#endif
