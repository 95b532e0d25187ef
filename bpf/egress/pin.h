/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pins: which slot a tenant's address or flow is held to. An existing pin is changed in place, word by
 * word and never through the map, whose update would write it piece by piece under the eyes of other
 * CPUs.
 */
#ifndef GW_EGRESS_PIN_H
#define GW_EGRESS_PIN_H

#include "../lib/errno.h"
#include "../lib/pin.h"
#include "run.h"

/*
 * Out of the packet's own words: clang computes where in a key a word is, which the verifier refuses
 * without CAP_PERFMON.
 */
static __always_inline __u64 gw_mix_of(const struct gw_egress_run *run)
{
	return gw_mix_pin(run->table_id, run->family, run->route->group_id, run->source);
}

static __always_inline __u32 gw_tag_of_source(const struct gw_egress_run *run)
{
	return gw_pin_tag(gw_mix_of(run));
}

static __always_inline __u32 gw_tag_of_flow(const struct gw_egress_run *run)
{
	return gw_flow_pin_tag(gw_mix_of(run), run->destination, run->protocol, run->ports);
}

/* A live pin of this slot, the next one after that. */
static __always_inline __u64 gw_pin_bind(__u32 slot, __u32 generation, __u64 before)
{
	__u64 sequence = (before >> GW_PIN_SEQUENCE_SHIFT) + 1 & 0xff;

	return (__u64)generation << GW_PIN_GENERATION_SHIFT |
	       (__u64)GW_PIN_LIVE << GW_PIN_STATE_SHIFT | sequence << GW_PIN_SEQUENCE_SHIFT |
	       (__u64)slot << GW_PIN_SLOT_SHIFT;
}

/*
 * The tick of a jiffy, in front of it the low half of the jiffy: to ask the clock costs half as much as
 * the look-up of a pin, a jiffy is a load. One word for all CPUs, which each writes once in a jiffy at
 * most.
 */
__u64 gw_jiffy_tick;

/* At most a jiffy behind the coarse clock. Read again, so that the verifier sees one way behind it. */
static __always_inline __u32 gw_tick(void)
{
	__u64 jiffy = bpf_jiffies64() << 32;

	if ((*(volatile __u64 *)&gw_jiffy_tick ^ jiffy) >> 32)
		*(volatile __u64 *)&gw_jiffy_tick =
			jiffy | (__u32)(bpf_ktime_get_coarse_ns() >> GW_TICK_SHIFT);
	return *(volatile __u64 *)&gw_jiffy_tick;
}

/*
 * When a table was full, by kind: a refused insert costs more than the rest of what is done for a pin,
 * and newcomers to a full table may be many. For a tick or two they are refused without one. 0: never.
 */
__u32 gw_sources_full_tick;
__u32 gw_flows_full_tick;

static __always_inline void gw_note_full(__u32 *full_tick, __u32 now)
{
	*(volatile __u32 *)full_tick = now | 1;
}

static __always_inline bool gw_is_full(const __u32 *full_tick, __u32 now)
{
	return *(const volatile __u32 *)full_tick == (now | 1);
}

/*
 * Takes one pin out of the tenant's quota. Who comes too late gives back what it took: for that moment
 * the count is higher than the number of pins, never lower.
 */
static __always_inline bool gw_take_quota(struct gw_pin_use *use, __u32 quota)
{
	if (quota == 0xffffffff) {
		__sync_fetch_and_add(&use->pins, 1);
		return true;
	}
	/* Most of those who are refused write nothing. */
	if (*(volatile __u64 *)&use->pins >= quota)
		return false;
	if (__sync_fetch_and_add(&use->pins, 1) < quota)
		return true;
	__sync_fetch_and_add(&use->pins, -1);
	return false;
}

/* Inserts a pin, never over one that exists; the counter of what came of it. */
static __always_inline __u32 gw_insert_pin(struct gw_pin_use *use, __u32 quota, void *map,
					   const void *key, const struct gw_pin *pin)
{
	int error;

	if (!use || !gw_take_quota(use, quota))
		return GW_EGRESS_PIN_QUOTA;
	error = bpf_map_update_elem(map, key, pin, BPF_NOEXIST);
	if (!error)
		return GW_EGRESS_PIN_NEW;
	__sync_fetch_and_add(&use->pins, -1);
	switch (error) {
	case -GW_EEXIST:
		return GW_EGRESS_PIN_HIT;
	case -GW_E2BIG:
		return GW_EGRESS_PIN_FULL;
	default:
		return GW_EGRESS_PIN_BUSY;
	}
}

#endif
