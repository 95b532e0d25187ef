/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which member of a group a packet goes to: its pin's while that holds, else the table's. */
#ifndef GW_EGRESS_SELECT_H
#define GW_EGRESS_SELECT_H

#include "pin.h"
#include "place.h"

/* The snapshot, and what was chosen from it. */
struct gw_choice {
	const struct gw_group_header *group;
	const struct gw_member *member;
	__u32 slot;
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

/* Follows the pin that another CPU made or renewed a moment ago. */
static __always_inline int gw_follow_winner(struct gw_choice *choice, __u64 bind)
{
	if (!gw_follow(choice, gw_held(bind)))
		return GW_NEXT;
	gw_egress_count(GW_EGRESS_PIN_HIT);
	return GW_NEXT;
}

/*
 * Makes an old pin one of the table's member. The time comes first: a sweep that finds the new binding
 * must not find the old time.
 */
static __always_inline int gw_renew(struct gw_choice *choice, struct gw_pin *pin, __u64 before,
				    __u32 now)
{
	__u64 bind = gw_pin_bind(choice->slot, choice->member->generation, before);
	__u64 met;

	*(volatile __u32 *)&pin->last_seen_tick = now;
	met = __sync_val_compare_and_swap(&pin->bind, before, bind);
	if (met != before)
		return gw_follow_winner(choice, met);
	gw_egress_count(GW_EGRESS_PIN_REPLACED);
	return GW_NEXT;
}

static __always_inline int gw_pin_anew(const struct gw_egress_run *run, struct gw_choice *choice,
				       void *map, const void *key, __u32 tag, __u32 now)
{
	struct gw_pin pin = {
		.bind = gw_pin_bind(choice->slot, choice->member->generation, 0),
		.last_seen_tick = now,
		.tag = tag,
	};
	__u32 result = gw_insert_pin(run, map, key, &pin);
	const struct gw_pin *winner;

	if (result != GW_EGRESS_PIN_HIT) {
		gw_egress_count(result);
		return GW_NEXT;
	}
	winner = bpf_map_lookup_elem(map, key);
	if (!winner)
		return GW_NEXT;
	pin.bind = gw_load_pin(winner);
	return *(const volatile __u32 *)&winner->tag == tag ? gw_follow_winner(choice, pin.bind) :
							      GW_NEXT;
}

static __always_inline int gw_select_by_pin(const struct gw_egress_run *run,
					    struct gw_choice *choice, void *map, const void *key,
					    __u32 tag)
{
	const struct gw_group_header *group = choice->group;
	struct gw_pin *pin = bpf_map_lookup_elem(map, key);
	__u32 now = gw_tick(), last;
	struct gw_held held;
	int step;

	if (!pin) {
		step = gw_select_by_table(run, choice);
		return step == GW_NEXT ? gw_pin_anew(run, choice, map, key, tag, now) : step;
	}
	held = gw_held(gw_load_pin(pin));
	if (*(const volatile __u32 *)&pin->tag != tag) {
		gw_egress_count(GW_EGRESS_PIN_TORN);
		return gw_select_by_table(run, choice);
	}
	last = *(const volatile __u32 *)&pin->last_seen_tick;
	if (!gw_is_idle(group, last, now) && gw_follow(choice, held)) {
		gw_egress_count(GW_EGRESS_PIN_HIT);
		if (gw_ticks_since(last, now) >= (__s32)group->pin_refresh_ticks)
			*(volatile __u32 *)&pin->last_seen_tick = now;
		return GW_NEXT;
	}
	if (held.dead)
		return gw_select_by_table(run, choice);
	gw_egress_count(GW_EGRESS_PIN_STALE);
	step = gw_select_by_table(run, choice);
	return step == GW_NEXT ? gw_renew(choice, pin, held.bind, now) : step;
}

static __always_inline int gw_select_by_source(const struct gw_egress_run *run,
					       struct gw_choice *choice)
{
	struct gw_pin_key key __attribute__((aligned(8))) = {
		.table_id = run->table_id,
		.family = run->family,
		.group_id = run->route->group_id,
	};

	__builtin_memcpy(key.source, run->source, sizeof(key.source));
	return gw_select_by_pin(run, choice, &gw_pins, &key,
				gw_tag_of((const __u64 *)&key, sizeof(key) / 8));
}

static __always_inline int gw_select_by_flow(const struct gw_egress_run *run,
					     struct gw_choice *choice)
{
	struct {
		struct gw_flow_pin_key key;
		__u32 zero; /* to whole words */
	} padded __attribute__((aligned(8))) = {
		.key = {
			.table_id = run->table_id,
			.family = run->family,
			.protocol = run->protocol,
			.group_id = run->route->group_id,
			.source_port = run->ports[0],
			.destination_port = run->ports[1],
		},
	};

	__builtin_memcpy(padded.key.source, run->source, sizeof(padded.key.source));
	__builtin_memcpy(padded.key.destination, run->destination,
			 sizeof(padded.key.destination));
	return gw_select_by_pin(run, choice, &gw_flow_pins, &padded.key,
				gw_tag_of((const __u64 *)&padded, sizeof(padded) / 8));
}

static __always_inline int gw_select(struct gw_egress_run *run, struct gw_choice *choice)
{
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
	if (!choice->group->pin_idle_ticks)
		return gw_select_by_table(run, choice);
	return by_flow ? gw_select_by_flow(run, choice) : gw_select_by_source(run, choice);
}

#endif
