/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a pin says. Its words are read and changed one by one, by packets and by those who remove pins
 * at the same time; the memory of a deleted one is reused at once, so the tag says whose it is.
 */
#ifndef GW_LIB_PIN_H
#define GW_LIB_PIN_H

#include "bytes.h"
#include "guideway/abi.h"

/*
 * Cheap mixes of keys: not for chance alone to get right. The factors are odd and without a pattern,
 * fraction bits of the square roots of small primes. `from` and `to` are the words of an address.
 */
static __always_inline __u64 gw_mix_pin(__u32 table_id, __u32 family, __u32 group_id,
					const __u64 from[2])
{
	__u64 whose = (__u64)group_id << 40 | (__u64)family << 32 | table_id;

	return whose * 0x6a09e667f3bcc909 + from[0] * 0xbb67ae8584caa73b +
	       from[1] * 0x3c6ef372fe94f82b;
}

static __always_inline __u32 gw_pin_tag(__u64 mixed)
{
	return mixed >> 32;
}

static __always_inline __u32 gw_flow_pin_tag(__u64 mixed, const __u64 to[2], __u32 protocol,
					     const __be16 ports[2])
{
	__u64 what = (__u64)protocol << 32 | (__u32)ports[0] << 16 | ports[1];

	return (mixed + to[0] * 0xa54ff53a5f1d36f1 + to[1] * 0x510e527fade682d1 +
		what * 0x9b05688c2b3e6c1f) >> 32;
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

/*
 * What is read of a pin after its binding is relied on to be no older than that. Processors that load out
 * of order need a barrier between; x86 does not. Packets do without one: a pin that is being deleted or
 * renewed at that very moment is at worst followed once more, or told to be torn.
 */

/* After the binding: whose that was. */
static __always_inline __u32 gw_load_tag(const struct gw_pin *pin)
{
	return *(const volatile __u32 *)&pin->tag;
}

/* After the binding: a packet that binds anew writes the time first. */
static __always_inline __u32 gw_load_last_seen(const struct gw_pin *pin)
{
	return *(const volatile __u32 *)&pin->last_seen_tick;
}

/* Ticks since then; negative if it is to come. */
static __always_inline __s32 gw_ticks_since(__u32 tick, __u32 now)
{
	return (__s32)(now - tick);
}

#endif
