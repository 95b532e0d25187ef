/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entries of flow state, of flows and of connection IDs alike. An existing entry is changed in
 * place and never through the map: an update would write it piece by piece under the eyes of its
 * readers. This program deletes nothing.
 *
 * The memory of a deleted entry is reused at once. A pointer to an entry may therefore lead to a
 * stranger's, before or after it was compared. The exchange of a stranger's binding fails, because
 * the tag is part of the word, and what else is written here harms nobody: a stranger lives a
 * little longer, closes a little sooner, or teaches a connection ID more or less; its time is written
 * only if it is the one that was read.
 */
#ifndef GW_LIB_BINDING_H
#define GW_LIB_BINDING_H

#include "entry.h"
#include "errno.h"
#include "place.h"

/* The age at which the time of the last packet is written again: a write takes the line from other CPUs. */
#define GW_FRESH_NS 1000000000ULL

/* What inserting an entry comes to. */
enum gw_insert {
	GW_INSERTED,
	GW_INSERT_EXISTS, /* another CPU was first */
	GW_INSERT_FULL,
	GW_INSERT_BUSY, /* no lock: the next packet tries again */
};

/* The sweep has decided to delete the entry. */
static __always_inline bool gw_is_dead(__u32 state)
{
	return state & GW_BINDING_DEAD;
}
_Static_assert((GW_BINDING_DEAD & GW_BINDING_TOUCHED) == GW_BINDING_DEAD &&
		       !(GW_BINDING_DEAD & (GW_BINDING_LIVE | GW_BINDING_EXPIRING)),
	       "one bit tells");

/* Its time is not that of a packet, but the end of its life. */
static __always_inline bool gw_is_registered(__u32 state)
{
	return (state & GW_BINDING_ORIGIN) == GW_BINDING_REGISTERED;
}

/* Inserts an entry, never over one that exists. */
static __always_inline enum gw_insert gw_insert(void *map, const void *key, __u64 bind,
						__u64 seen_ns, __u32 state, __u32 hash)
{
	struct gw_binding value;
	int error;

	gw_fill_entry(&value, bind, seen_ns, state, hash);
	error = bpf_map_update_elem(map, key, &value, BPF_NOEXIST);
	switch (error) {
	case 0:
		return GW_INSERTED;
	case -GW_EEXIST:
		return GW_INSERT_EXISTS;
	case -GW_E2BIG:
		return GW_INSERT_FULL;
	default:
		return GW_INSERT_BUSY;
	}
}

/*
 * The entry is being deleted while a packet needs it. Either the deletion has happened and the first
 * insert succeeds, or the sweep sees afterwards that the entry was touched and inserts it again, or
 * it looked too early and has deleted it: then the second insert succeeds.
 */
static __always_inline void gw_revive(void *map, const void *key, struct gw_binding *entry,
				      __u64 bind, __u64 seen_ns, __u32 state, __u32 alive,
				      __u32 hash)
{
	if (gw_insert(map, key, bind, seen_ns, alive, hash) == GW_INSERTED)
		return;
	gw_exchange_state(entry, (state & ~GW_BINDING_PHASE) | GW_BINDING_DEAD,
			  state | GW_BINDING_TOUCHED);
	gw_insert(map, key, bind, seen_ns, alive, hash);
}

static __always_inline __u32 gw_live_state(__u32 state, __u32 set, __u32 clear)
{
	return ((state & ~GW_BINDING_PHASE) | set) & ~clear;
}

/* Makes the entry live unless it is dead; false if somebody else changed it, and how. */
static __always_inline bool gw_make_live(struct gw_binding *entry, __u32 *state, __u32 set,
					 __u32 clear)
{
	__u32 expected = *state;

	if (gw_is_dead(expected))
		return true;
	*state = gw_exchange_state(entry, expected, gw_live_state(expected, set, clear));
	return *state == expected;
}

/*
 * Writes the time of the packet if the entry still has the one read before. Its memory may hold a
 * registration by now, and a time is the end of one: that of one without an end is 0.
 */
static __always_inline void gw_stamp(struct gw_binding *entry, __u64 before, __u64 now)
{
	if (before)
		__sync_val_compare_and_swap(&entry->seen_ns, before, now);
}

/*
 * A packet uses an entry that is not simply live: brings it back from whatever the sweep intends,
 * with the hints that the packet sets and clears. Gives the state that it met last. Three attempts,
 * since the sweep makes two changes before it deletes.
 */
static __always_inline __u32 gw_use_slowly(void *map, const void *key, struct gw_binding *entry,
					   __u64 bind, __u32 set, __u32 clear, __u32 hash)
{
	__u64 seen = gw_load_seen_ns(entry);
	__u64 now = bpf_ktime_get_coarse_ns();
	__u32 state = gw_load_state(entry);
	bool stamped = !gw_is_registered(state);

	if (!gw_make_live(entry, &state, set, clear) && !gw_make_live(entry, &state, set, clear))
		gw_make_live(entry, &state, set, clear);
	/* Who ends a registration means it: the packet is the last to follow it. */
	if (gw_is_dead(state) && stamped)
		gw_revive(map, key, entry, bind, now, state, gw_live_state(state, set, clear),
			  hash);
	else if (stamped && (state & GW_BINDING_PHASE || now > seen + GW_FRESH_NS))
		gw_stamp(entry, seen, now);
	return state;
}

/*
 * The coarse clock, at most a tick behind. To ask the clock costs as much as the look-up of an entry;
 * the tick is a load, and without a new one the clock says what it said before.
 */
static __always_inline __u64 gw_recent_ns(struct gw_packet *packet)
{
	__u64 tick = bpf_jiffies64();

	if (packet->tick != tick) {
		packet->tick = tick;
		packet->tick_ns = bpf_ktime_get_coarse_ns();
	}
	return packet->tick_ns;
}

/* Notes in a live entry that there was a packet. */
static __always_inline void gw_refresh(struct gw_packet *packet, struct gw_binding *entry)
{
	__u64 seen = gw_load_seen_ns(entry);

	if (gw_recent_ns(packet) > seen + GW_FRESH_NS)
		gw_stamp(entry, seen, bpf_ktime_get_coarse_ns());
}

#endif
