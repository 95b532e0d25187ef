/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of the packet's service are noted on its way, and counted at its end. */
#ifndef GW_LIB_COUNT_H
#define GW_LIB_COUNT_H

#include "run.h"

/* The most counters of its service that one packet has. */
#define GW_MAX_COUNTED 8
_Static_assert(GW_COUNTERS < 255, "a counter and the end of the list fit a byte");

/* Notes a counter of the packet's service. */
static __always_inline void gw_count(struct gw_packet *packet, enum gw_counter counter)
{
	packet->counted = gw_settled(packet, packet->counted << 8 | (counter + 1));
	gw_forget();
}

#endif
