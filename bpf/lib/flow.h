/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Placing a packet by its flow where the table alone would be wrong for some flows.
 *
 * The owner of a plain slot gets all its packets, unless the service tracks all flows. Elsewhere the
 * flow's entry is looked up, and a usable one wins. What happens without one depends on the slot:
 *
 *   held   flows that are not the owner's have entries: the owner.
 *   open   the table changed a short while ago. A flow that begins goes to the owner, any other is
 *          where it was before, at the base, and either gets an entry.
 *   any    of a service that tracks all: the owner, and an entry.
 *
 * An entry that is refused, because the table is full or what is left of it is for others, costs no
 * packet: the flow is placed without one, and counted.
 */
#ifndef GW_LIB_FLOW_H
#define GW_LIB_FLOW_H

#include "learn.h"

/* Inserts the flow's entry; a full table is not asked again until user space says so. */
GW_GLOBAL int gw_insert_flow(struct gw_packet *packet, __u64 bind)
{
	struct gw_admission *admission;
	struct gw_flow_key key;
	enum gw_insert result;
	__u32 index;

	if (!packet)
		return GW_INSERT_BUSY;
	/* Linux 6.1 takes keys from the stack and from maps, and does not know that this is a map. */
	key = packet->flow;
	index = packet->stats;
	result = gw_insert(&gw_ql_flow, &key, bind, bpf_ktime_get_coarse_ns(), packet->ends,
			   packet->hash >> 32);
	if (result == GW_INSERTED)
		packet->created |= GW_TRACE_CREATED_FLOW;
	if (result == GW_INSERT_FULL) {
		admission = bpf_map_lookup_elem(&gw_ql_level, &index);
		if (admission)
			admission->flows = GW_LEVEL_NONE;
	}
	return result;
}

/*
 * A flow in an open slot got no entry, so the slot must stay open until that flow is gone. Whether it
 * may be too late for that. Whoever refuses notes it first and then looks whether slots are about to
 * close; whoever closes them says so first and then looks at the note: one of the two sees what the
 * other did.
 */
GW_GLOBAL int gw_keep_open(struct gw_packet *packet)
{
	const struct gw_collection *collection;
	struct gw_admission *admission;
	__u32 index, zero = 0;
	__u64 now;

	if (!packet)
		return 0;
	index = packet->stats;
	admission = bpf_map_lookup_elem(&gw_ql_level, &index);
	if (!admission)
		return 0;
	now = bpf_ktime_get_coarse_ns();
	if (now > admission->refused_ns + GW_FRESH_NS)
		__sync_lock_test_and_set(&admission->refused_ns, now); /* a barrier, too */
	collection = bpf_map_lookup_elem(&gw_ql_collect2, &zero);
	return collection && collection->closing_generation == packet->generation;
}

/* What a packet does to its flow's entry when that is not simply live; gives the state it met. */
GW_GLOBAL int gw_use_flow_slowly(struct gw_packet *packet, struct gw_binding *entry, __u64 bind)
{
	struct gw_flow_key key;

	if (!packet || !entry)
		return 0;
	key = packet->flow;
	return gw_use_slowly(&gw_ql_flow, &key, entry, bind, packet->ends, packet->goes_on,
			     packet->hash >> 32);
}

/* Notes that the flow had a packet; gives the state in which its entry was. */
static __always_inline __u32 gw_use_flow(struct gw_packet *packet, struct gw_binding *entry,
					 union gw_bind bind)
{
	__u32 state = gw_load_state(entry);

	if (packet->passive)
		return state;
	if (state & (GW_BINDING_PHASE | packet->goes_on) || packet->ends & ~state)
		return gw_use_flow_slowly(packet, entry, bind.word);
	gw_refresh(packet, entry);
	return state;
}

/* Whether an entry is this flow's; one that is not is somebody's who got the memory since. */
static __always_inline bool gw_is_flow(const struct gw_packet *packet,
				       const struct gw_binding *entry, union gw_bind bind)
{
	return bind.tag == packet->tag && entry->hash == packet->hash >> 32;
}

/*
 * The bound backend takes no packets any longer: the owner of the flow's slot gets the packet, and
 * the entry. Or whoever another CPU has put there meanwhile.
 */
static __always_inline int gw_reselect(struct gw_run *run, struct gw_binding *entry,
				       union gw_bind bind, union gw_bind *next)
{
	struct gw_packet *packet = run->packet;
	union gw_bind met;
	int step;

	if (packet->row == GW_SLOT_NONE)
		return gw_no_backend(packet);
	step = gw_take_occupied(run, packet->row);
	if (step != GW_CONTINUE)
		return step;
	gw_tell(packet, GW_EVENT_RESELECT);
	next->word = bind.word;
	if (!packet->passive) {
		next->row = packet->row;
		next->incarnation = run->backend->incarnation;
		met.word = gw_exchange_bind(entry, bind.word, next->word);
		if (met.word != bind.word && met.tag == bind.tag &&
		    gw_is_usable(gw_bound_state(run, met)))
			next->word = met.word;
		packet->row = next->row;
	}
	return gw_answer(packet, packet->row, GW_RULE_RESELECT, GW_COUNTER_RESELECTED);
}

/* The flow has an entry. */
static __always_inline int gw_follow(struct gw_run *run, struct gw_binding *entry,
				     union gw_bind bind)
{
	struct gw_packet *packet = run->packet;
	int state = gw_bound_state(run, bind);
	bool dead;

	if (state < 0)
		return state;
	/* A connection that begins does not go to a backend that gets no new ones. */
	if (!gw_is_usable(state) || (state == GW_BACKEND_DRAINING && packet->start &&
				     packet->protocol == GW_PROTOCOL_TCP)) {
		state = gw_reselect(run, entry, bind, &bind);
		if (state == GW_PLACED)
			gw_use_flow(packet, entry, bind);
		return state;
	}
	dead = gw_is_dead(gw_use_flow(packet, entry, bind));
	if (packet->teaches && !dead)
		gw_learn(packet, entry, bind.word);
	return gw_answer(packet, bind.row, GW_RULE_FLOW, dead ? GW_COUNTER_DEAD_USED : GW_COUNTER_HIT);
}

/* How a packet without an entry is placed. */
struct gw_miss {
	/* with an entry of its own, and the row that it names */
	__u32 row;
	enum gw_rule rule;
	enum gw_counter outcome;
	/* if there cannot be one */
	__u32 refused_row;
	enum gw_rule refused_rule;
	bool at_risk; /* the next change may move the flow */
	bool open;
};

/*
 * Whether it begins a flow, in an open slot. A QUIC start may belong to a handshake that was under
 * way when the table changed: for a while it is taken for one if the base may get new flows. The same
 * while starts get no entries, since then the later packets of a handshake would find none.
 */
static __always_inline bool gw_begins_flow(const struct gw_run *run, int base_state, __u32 level)
{
	const struct gw_packet *packet = run->packet;

	if (!packet->start)
		return false;
	if (packet->protocol == GW_PROTOCOL_TCP || base_state != GW_BACKEND_READY)
		return true;
	return level == GW_LEVEL_ALL && bpf_ktime_get_coarse_ns() >= run->service->grace_until_ns;
}

/* What the base of an open slot changes; it has this state. */
static __always_inline void gw_plan_open(const struct gw_run *run, struct gw_miss *miss,
					 int base_state, __u32 level)
{
	bool begins = gw_begins_flow(run, base_state, level);
	bool at_base = begins ? base_state == GW_BACKEND_READY : gw_is_usable(base_state);

	miss->open = true;
	miss->at_risk = !at_base;
	miss->outcome = begins ? GW_COUNTER_START_INSERTED : GW_COUNTER_BASE_INSERTED;
	if (!at_base)
		return;
	/* Where later packets of the flow go, as long as it has no entry. */
	miss->refused_row = run->packet->base;
	miss->refused_rule = GW_RULE_PREVIOUS;
	if (begins)
		return;
	miss->row = miss->refused_row;
	miss->rule = miss->refused_rule;
}

/* Places the packet without an entry. */
static __always_inline int gw_refuse(struct gw_packet *packet, const struct gw_miss *miss,
				     enum gw_counter outcome)
{
	bool at_risk = miss->at_risk;

	if (miss->open && gw_keep_open(packet))
		at_risk = true;
	if (at_risk)
		gw_count(packet, GW_COUNTER_AT_RISK);
	if (outcome == GW_COUNTER_REFUSED_FULL)
		gw_tell(packet, GW_EVENT_REFUSED_FULL);
	return gw_answer(packet, miss->refused_row, miss->refused_rule, outcome);
}

/* Why the packet gets no entry; GW_COUNTERS: it may have one. */
static __always_inline enum gw_counter gw_admit(const struct gw_run *run, __u32 level)
{
	const struct gw_packet *packet = run->packet;

	if (level > GW_LEVEL_RESERVE)
		return GW_COUNTER_REFUSED_FULL;
	if (level == GW_LEVEL_RESERVE &&
	    (packet->start || run->service->flags & GW_SERVICE_TRACK_ALL))
		return GW_COUNTER_REFUSED_HIGH;
	return packet->strange ? GW_COUNTER_REFUSED_BUSY : GW_COUNTERS;
}

/* Another CPU has inserted the flow's entry: both must use the same backend, if it can be used. */
static __always_inline bool gw_find_other(struct gw_run *run, union gw_bind *bind)
{
	struct gw_binding *entry = bpf_map_lookup_elem(&gw_ql_flow, &run->packet->flow);

	if (!entry)
		return false;
	*bind = gw_load_bind(entry);
	return gw_is_flow(run->packet, entry, *bind) && gw_is_usable(gw_bound_state(run, *bind));
}

/* Inserts an entry as planned, if that is allowed. */
static __always_inline int gw_place_new(struct gw_run *run, const struct gw_miss *miss, __u32 level)
{
	struct gw_packet *packet = run->packet;
	union gw_bind bind = { .tag = packet->tag, .row = miss->row };
	enum gw_counter refusal = gw_admit(run, level);
	int step;

	/* First: a start without an owner is dropped, whatever its slot's base is. */
	if (miss->row == GW_SLOT_NONE)
		return gw_no_backend(packet);
	if (refusal == GW_COUNTERS) {
		step = gw_take_occupied(run, miss->row);
		if (step != GW_CONTINUE)
			return step;
		bind.incarnation = run->backend->incarnation;
		step = gw_insert_flow(packet, bind.word);
		if (step == GW_INSERTED)
			return gw_answer(packet, miss->row, miss->rule, miss->outcome);
		if (step == GW_INSERT_EXISTS && gw_find_other(run, &bind))
			return gw_answer(packet, bind.row, GW_RULE_FLOW, GW_COUNTER_RACED);
		refusal = step == GW_INSERT_FULL ? GW_COUNTER_REFUSED_FULL : GW_COUNTER_REFUSED_BUSY;
	}
	return gw_refuse(packet, miss, refusal);
}

/* The flow has no entry, or nobody looked. */
static __always_inline int gw_place_missing(struct gw_run *run)
{
	struct gw_packet *packet = run->packet;
	bool passive = packet->passive || packet->fragment;
	struct gw_miss miss = {
		.row = packet->row,
		.rule = GW_RULE_TABLE,
		.outcome = GW_COUNTER_ALL_INSERTED,
		.refused_row = packet->row,
		.refused_rule = GW_RULE_TABLE,
		.at_risk = true,
	};
	struct gw_admission *admission;
	__u32 level;

	if (!(run->service->flags & GW_SERVICE_TRACK_ALL) && packet->base == GW_SLOT_HELD)
		return gw_answer(packet, packet->row, GW_RULE_TABLE, GW_COUNTER_HELD_DEFAULT);
	admission = bpf_map_lookup_elem(&gw_ql_level, &packet->stats);
	level = admission ? admission->flows : GW_LEVEL_ALL;
	if (!(run->service->flags & GW_SERVICE_TRACK_ALL)) {
		int base_state = gw_row_state(run, packet->base);

		if (base_state < 0)
			return base_state;
		gw_plan_open(run, &miss, base_state, level);
	}
	if (passive)
		return gw_answer(packet, miss.row, miss.rule, GW_COUNTER_NO_ENTRY);
	return gw_place_new(run, &miss, level);
}

/*
 * Places a packet of a marked slot, or of a service that tracks all. A function of its own, so that
 * the common packet does not carry its registers.
 */
static __noinline int gw_place_by_entry(struct xdp_md *ctx, struct gw_packet *packet, void *cells,
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

	packet->strange = 0;
	gw_take_tag(&run);
	if (!packet->fragment) {
		entry = bpf_map_lookup_elem(&gw_ql_flow, &packet->flow);
		if (entry) {
			bind = gw_load_bind(entry);
			if (gw_is_flow(packet, entry, bind))
				return gw_follow(&run, entry, bind);
			gw_count(packet, GW_COUNTER_TAG_MISMATCH);
			packet->strange = 1;
		}
	}
	gw_forget();
	return gw_place_missing(&run);
}

static __always_inline int gw_place_by_state(struct gw_run *run)
{
	return gw_place_by_entry(run->ctx, run->packet, run->cells, run->service);
}

#endif
