/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Token buckets, one per CPU: what few may do so often and no oftener. */
#ifndef GW_LIB_BUCKET_H
#define GW_LIB_BUCKET_H

#include "bytes.h"

#define GW_SECOND_NS 1000000000ULL

/*
 * Puts the tokens of the time since into a bucket that holds `burst`. `rate` a second is not 0, and more
 * than a thousand million is as much as that.
 */
static __always_inline void gw_refill(__u64 *refilled_ns, __u32 *held, __u64 now, __u32 rate,
				      __u32 burst)
{
	__u64 step = GW_SECOND_NS / rate;
	__u64 tokens;

	if (!step)
		step = 1;
	tokens = (now - *refilled_ns) / step;
	if (tokens >= burst) {
		*held = burst;
		*refilled_ns = now;
		return;
	}
	*refilled_ns += tokens * step;
	tokens += *held;
	*held = tokens < burst ? tokens : burst;
}

#endif
