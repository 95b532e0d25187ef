/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pins: which slot a tenant's address or flow is held to. An existing pin is changed in place, word by
 * word and never through the map, whose update would write it piece by piece under the eyes of other
 * CPUs. The memory of a deleted one is reused at once, so what is read is checked against the key.
 */
#ifndef GW_EGRESS_PIN_H
#define GW_EGRESS_PIN_H

#include "../lib/errno.h"
#include "run.h"

/*
 * A cheap mix of a key: not for chance alone to get right. The factors are odd and without a pattern,
 * fraction bits of the square roots of small primes. Out of the packet's own words: clang computes where
 * in a key a word is, which the verifier refuses without CAP_PERFMON.
 */
static __always_inline __u64 gw_mix_source(const struct gw_egress_run *run)
{
	__u64 whose = (__u64)run->route->group_id << 40 | (__u64)run->family << 32 | run->table_id;

	return whose * 0x6a09e667f3bcc909 + run->source[0] * 0xbb67ae8584caa73b +
	       run->source[1] * 0x3c6ef372fe94f82b;
}

static __always_inline __u32 gw_tag_of_source(const struct gw_egress_run *run)
{
	return gw_mix_source(run) >> 32;
}

static __always_inline __u32 gw_tag_of_flow(const struct gw_egress_run *run)
{
	__u64 what = (__u64)run->protocol << 32 | (__u32)run->ports[0] << 16 | run->ports[1];

	return (gw_mix_source(run) + run->destination[0] * 0xa54ff53a5f1d36f1 +
		run->destination[1] * 0x510e527fade682d1 + what * 0x9b05688c2b3e6c1f) >> 32;
}

/* What a pin names. */
struct gw_held {
	__u32 slot;
	__u32 generation;
	bool dead;
};

static __always_inline struct gw_held gw_held(__u64 bind)
{
	return (struct gw_held){
		.slot = bind >> GW_PIN_SLOT_SHIFT & 0xffff,
		.generation = bind >> GW_PIN_GENERATION_SHIFT,
		.dead = (bind >> GW_PIN_STATE_SHIFT & 0xff) != GW_PIN_LIVE,
	};
}

static __always_inline __u64 gw_load_pin(const struct gw_pin *pin)
{
	return *(const volatile __u64 *)&pin->bind;
}

/* After the binding: whose that was. */
static __always_inline __u32 gw_load_tag(const struct gw_pin *pin)
{
	return *(const volatile __u32 *)&pin->tag;
}

/* A live pin of this slot, the next one after that. */
static __always_inline __u64 gw_pin_bind(__u32 slot, __u32 generation, __u64 before)
{
	__u64 sequence = (before >> GW_PIN_SEQUENCE_SHIFT) + 1 & 0xff;

	return (__u64)generation << GW_PIN_GENERATION_SHIFT |
	       (__u64)GW_PIN_LIVE << GW_PIN_STATE_SHIFT | sequence << GW_PIN_SEQUENCE_SHIFT |
	       (__u64)slot << GW_PIN_SLOT_SHIFT;
}

static __always_inline __u32 gw_tick(void)
{
	return bpf_ktime_get_coarse_ns() >> GW_TICK_SHIFT;
}

/* Ticks since then; negative if it is to come. */
static __always_inline __s32 gw_ticks_since(__u32 tick, __u32 now)
{
	return (__s32)(now - tick);
}

/*
 * Takes one pin out of the tenant's quota. Who comes too late gives back what it took: for that moment
 * the count is higher than the number of pins, never lower.
 */
static __always_inline bool gw_take_quota(struct gw_pin_use *use, __u32 quota)
{
	if (__sync_fetch_and_add(&use->pins, 1) < quota || quota == 0xffffffff)
		return true;
	__sync_fetch_and_add(&use->pins, -1);
	__sync_fetch_and_add(&use->refused, 1);
	return false;
}

/* Inserts a pin, never over one that exists; the counter of what came of it. */
static __always_inline __u32 gw_insert_pin(const struct gw_egress_run *run, void *map,
					   const void *key, const struct gw_pin *pin)
{
	struct gw_pin_use *use = bpf_map_lookup_elem(&gw_pin_use, &run->table_id);
	int error;

	if (!use || !gw_take_quota(use, run->pin_quota))
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
