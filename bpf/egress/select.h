/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which member of a group a packet goes to: its pin's while that holds, else the table's. */
#ifndef GW_EGRESS_SELECT_H
#define GW_EGRESS_SELECT_H

#include "event.h"
#include "pin.h"
#include "place.h"

/* The snapshot, and what was chosen from it. */
struct gw_choice {
	const struct gw_group_header *group;
	const struct gw_member *member;
	__u32 slot;
};

/* What became of the look-up of a pin. */
enum gw_pin_found {
	GW_PIN_FOLLOWED,
	GW_PIN_ABSENT,
	GW_PIN_STALE, /* to be replaced */
	GW_PIN_UNUSABLE, /* another key's, or about to be deleted: left alone */
};

/* The pin of a packet. */
struct gw_pinned {
	struct gw_pin *pin; /* where it was found */
	__u64 bind; /* what was read there */
	__u32 tag;
	__u32 now;
	enum gw_pin_found found;
};

/* The member of a slot; NULL: the group has no such slot. */
static __always_inline const struct gw_member *gw_member_at(const struct gw_group_header *group,
							    __u32 slot)
{
	if (!gw_is_below(slot, gw_max_members))
		return NULL;
	return (const struct gw_member *)(group + 1) + slot;
}

/* The snapshot of the route's group, if it is the one that the route means. */
static __always_inline int gw_take_group(const struct gw_egress_run *run, struct gw_choice *choice)
{
	__u32 zero = 0, id = run->route->group_id;
	void *live;

	if (id >= gw_max_groups)
		return GW_EGRESS_DROP_BAD_ROUTE;
	live = bpf_map_lookup_elem(&gw_groups, &id);
	if (!live)
		return GW_EGRESS_DROP_GROUP_ABSENT;
	choice->group = bpf_map_lookup_elem(live, &zero);
	if (!choice->group)
		return GW_EGRESS_DROP_GROUP_ABSENT;
	if (choice->group->layout != GW_GROUP_LAYOUT || choice->group->table_size != gw_table_size)
		return GW_EGRESS_DROP_BAD_SNAPSHOT;
	if (choice->group->incarnation != run->route->incarnation)
		return GW_EGRESS_DROP_STALE_ROUTE;
	if (!(choice->group->flags & GW_GROUP_ENABLED))
		return GW_EGRESS_DROP_GROUP_DISABLED;
	return GW_NEXT;
}

static __always_inline int gw_select_by_table(const struct gw_egress_run *run,
					      struct gw_choice *choice)
{
	const struct gw_group_header *group = choice->group;
	const __u16 *table = (const __u16 *)((const struct gw_member *)(group + 1) + gw_max_members);
	__u32 hash = group->flags & GW_GROUP_HASH_FLOW ? gw_hash_flow(run, group->hash_group) :
							 gw_hash_source(run);
	__u32 index = hash % gw_table_size;

	if (!gw_is_below(index, gw_table_size))
		return GW_EGRESS_DROP_BAD_SNAPSHOT;
	choice->slot = table[index];
	if (choice->slot == GW_TABLE_NONE)
		return GW_EGRESS_DROP_GROUP_EMPTY;
	choice->member = gw_member_at(group, choice->slot);
	if (!choice->member)
		return GW_EGRESS_DROP_BAD_SNAPSHOT;
	if (!(choice->member->flags & GW_MEMBER_ALIVE))
		return GW_EGRESS_DROP_MEMBER_DEAD;
	gw_egress_count(GW_EGRESS_MAGLEV);
	return GW_NEXT;
}

/* Takes the member that a pin names, if it has the slot still. */
static __always_inline bool gw_follow(struct gw_choice *choice, struct gw_held held)
{
	const struct gw_member *member;

	if (held.dead || held.slot >= choice->group->slots_used)
		return false;
	member = gw_member_at(choice->group, held.slot);
	if (!member || !(member->flags & GW_MEMBER_ALIVE) || !held.generation ||
	    member->generation != held.generation)
		return false;
	choice->member = member;
	choice->slot = held.slot;
	return true;
}

static __always_inline bool gw_is_idle(const struct gw_group_header *group, __u32 last, __u32 now)
{
	return gw_ticks_since(last, now) >
	       (__s32)(group->pin_idle_ticks + group->pin_refresh_ticks);
}

/*
 * Follows the pin that another CPU made or renewed a moment ago, if it is still this key's. Whether it
 * does.
 */
static __always_inline bool gw_follow_winner(struct gw_choice *choice, const struct gw_pin *pin,
					     const struct gw_pinned *pinned)
{
	struct gw_held held = gw_held(gw_load_pin(pin));

	if (gw_load_tag(pin) != pinned->tag ||
	    gw_is_idle(choice->group, gw_load_last_seen(pin), pinned->now) ||
	    !gw_follow(choice, held))
		return false;
	gw_egress_count(GW_EGRESS_PIN_HIT);
	return true;
}

static __always_inline void gw_look_at_pin(struct gw_choice *choice, struct gw_pinned *pinned)
{
	const struct gw_group_header *group = choice->group;
	struct gw_pin *pin = pinned->pin;
	struct gw_held held;
	__u32 last;

	pinned->found = GW_PIN_ABSENT;
	if (!pin)
		return;
	pinned->bind = gw_load_pin(pin);
	held = gw_held(pinned->bind);
	pinned->found = GW_PIN_UNUSABLE;
	if (gw_load_tag(pin) != pinned->tag) {
		gw_egress_count(GW_EGRESS_PIN_TORN);
		return;
	}
	if (held.dead)
		return;
	last = gw_load_last_seen(pin);
	if (!gw_is_idle(group, last, pinned->now) && gw_follow(choice, held)) {
		pinned->found = GW_PIN_FOLLOWED;
		gw_egress_count(GW_EGRESS_PIN_HIT);
		if (gw_ticks_since(last, pinned->now) >= (__s32)group->pin_refresh_ticks)
			*(volatile __u32 *)&pin->last_seen_tick = pinned->now;
		return;
	}
	pinned->found = GW_PIN_STALE;
	gw_egress_count(GW_EGRESS_PIN_STALE);
}

/*
 * Makes an old pin one of the table's member. The time comes first: a sweep that finds the new binding
 * must not find the old time.
 */
static __always_inline void gw_renew(const struct gw_egress_run *run, struct gw_choice *choice,
				     const struct gw_pinned *pinned)
{
	__u64 bind = gw_pin_bind(choice->slot, choice->member->generation, pinned->bind);
	struct gw_pin *pin = pinned->pin;

	*(volatile __u32 *)&pin->last_seen_tick = pinned->now;
	if (__sync_val_compare_and_swap(&pin->bind, pinned->bind, bind) != pinned->bind) {
		gw_tell_of_pin(run, GW_EGRESS_EVENT_PIN_STALE, choice->slot);
		gw_follow_winner(choice, pin, pinned);
		return;
	}
	if (gw_load_tag(pin) == pinned->tag) {
		gw_egress_count(GW_EGRESS_PIN_REPLACED);
		gw_tell_of_pin(run, GW_EGRESS_EVENT_PIN_REPLACED, choice->slot);
		return;
	}
	/* Another key's by now, with the very binding that this one had: it gets that back. */
	__sync_val_compare_and_swap(&pin->bind, bind, pinned->bind);
	gw_egress_count(GW_EGRESS_PIN_TORN);
}

/*
 * Makes a pin, or follows the one that another CPU has made since this one looked. Such a one may also be
 * what took the last room or the rest of the quota.
 */
static __always_inline void gw_pin_anew(const struct gw_egress_run *run, struct gw_choice *choice,
					const struct gw_pinned *pinned, void *map, const void *key,
					__u32 *full_tick)
{
	/* Two pins of a slot shall seldom be the same word. */
	__u64 seed = (__u64)(pinned->tag ^ pinned->now) << GW_PIN_SEQUENCE_SHIFT;
	struct gw_pin pin = {
		.bind = gw_pin_bind(choice->slot, choice->member->generation, seed),
		.last_seen_tick = pinned->now,
		.tag = pinned->tag,
	};
	__u32 result = GW_EGRESS_PIN_FULL;
	struct gw_pin_use *use = NULL;
	const struct gw_pin *winner;

	if (!gw_is_full(full_tick, pinned->now)) {
		use = bpf_map_lookup_elem(&gw_pin_use, &run->table_id);
		result = gw_insert_pin(use, run->pin_quota, map, key, &pin);
		if (result == GW_EGRESS_PIN_FULL)
			gw_note_full(full_tick, pinned->now);
	}
	if (result != GW_EGRESS_PIN_NEW) {
		winner = bpf_map_lookup_elem(map, key);
		if (winner && gw_follow_winner(choice, winner, pinned))
			return;
	}
	/* Of one that cannot be followed. */
	if (result == GW_EGRESS_PIN_HIT)
		return;
	if (result == GW_EGRESS_PIN_QUOTA && use)
		__sync_fetch_and_add(&use->refused, 1);
	gw_egress_count(result);
	if (result != GW_EGRESS_PIN_NEW)
		gw_tell_of_pin(run, result, choice->slot);
}

/* The key of a packet's pin. */
struct gw_pin_keys {
	union {
		struct gw_pin_key source;
		struct gw_flow_pin_key flow;
	};
};

static __always_inline void gw_look_by_source(const struct gw_egress_run *run,
					      struct gw_pin_keys *keys, struct gw_pinned *pinned)
{
	keys->source.table_id = run->table_id;
	keys->source.family = run->family;
	keys->source.group_id = run->route->group_id;
	__builtin_memcpy(keys->source.source, run->source, sizeof(run->source));
	pinned->tag = gw_tag_of_source(run);
	pinned->pin = bpf_map_lookup_elem(&gw_pins, &keys->source);
}

static __always_inline void gw_look_by_flow(const struct gw_egress_run *run,
					    struct gw_pin_keys *keys, struct gw_pinned *pinned)
{
	keys->flow.table_id = run->table_id;
	keys->flow.family = run->family;
	keys->flow.protocol = run->protocol;
	keys->flow.group_id = run->route->group_id;
	keys->flow.source_port = run->ports[0];
	keys->flow.destination_port = run->ports[1];
	__builtin_memcpy(keys->flow.source, run->source, sizeof(run->source));
	__builtin_memcpy(keys->flow.destination, run->destination, sizeof(run->destination));
	pinned->tag = gw_tag_of_flow(run);
	pinned->pin = bpf_map_lookup_elem(&gw_flow_pins, &keys->flow);
}

static __always_inline int gw_select(struct gw_egress_run *run, struct gw_choice *choice)
{
	struct gw_pinned pinned = { .found = GW_PIN_UNUSABLE };
	struct gw_pin_keys keys = {};
	int step = gw_take_group(run, choice);
	bool by_flow;

	if (step != GW_NEXT)
		return step;
	by_flow = choice->group->flags & GW_GROUP_HASH_FLOW;
	if (by_flow) {
		step = gw_take_ports(run);
		if (step != GW_NEXT)
			return step;
	}
	if (choice->group->pin_idle_ticks) {
		pinned.now = gw_tick();
		if (by_flow)
			gw_look_by_flow(run, &keys, &pinned);
		else
			gw_look_by_source(run, &keys, &pinned);
		gw_look_at_pin(choice, &pinned);
	}
	if (pinned.found == GW_PIN_FOLLOWED)
		return GW_NEXT;
	step = gw_select_by_table(run, choice);
	if (step != GW_NEXT)
		return step;
	if (pinned.found == GW_PIN_STALE)
		gw_renew(run, choice, &pinned);
	else if (pinned.found == GW_PIN_ABSENT && by_flow)
		gw_pin_anew(run, choice, &pinned, &gw_flow_pins, &keys.flow,
			    &gw_flows_full_tick);
	else if (pinned.found == GW_PIN_ABSENT)
		gw_pin_anew(run, choice, &pinned, &gw_pins, &keys.source,
			    &gw_sources_full_tick);
	return GW_NEXT;
}

#endif
