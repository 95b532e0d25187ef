/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The two profiles of gw_quiclb, and all that differs between them: which headers reach maps, frames
 * and state. The steps of a packet are the same sources.
 *
 *   host      runs on a CPU, in the driver or behind it.
 *   offload   runs on a network card. The card's maps are plain arrays and hash tables with small
 *             values, its program calls the helpers of those maps and nothing else, writes a value
 *             by replacing it or by adding to it, and has no clock.
 */
#ifndef GW_PROFILE_H
#define GW_PROFILE_H

#ifdef GW_OFFLOAD

#define GW_SECTION "xdp"
#define GW_PROFILE_MAPS "maps/offload.h"
#define GW_PROFILE_SETTLE "offload/settle.h" /* what the verifier forgets */
#define GW_PROFILE_FRAME "offload/frame.h" /* bytes of the frame */
#define GW_PROFILE_RECORDS "offload/records.h" /* the generation */
#define GW_PROFILE_STATE "offload/state.h" /* flow state */
#define GW_PROFILE_COUNTERS "offload/counters.h"
#define GW_PROFILE_REPORT "offload/report.h"
#define GW_PROFILE_TARGET "offload/target.h" /* ways out */
/* A card's program is one piece: a function would get at the packet on its caller's stack. */
#define GW_STEP static __always_inline
#define gw_packet_memory() (&(struct gw_packet){})

#else

#define GW_SECTION "xdp.frags"
#define GW_PROFILE_MAPS "maps/quiclb.h"
#define GW_PROFILE_SETTLE "lib/settle.h"
#define GW_PROFILE_FRAME "lib/frame.h"
#define GW_PROFILE_RECORDS "lib/records.h"
#define GW_PROFILE_STATE "lib/cid.h"
#define GW_PROFILE_COUNTERS "lib/counters.h"
#define GW_PROFILE_REPORT "lib/report.h"
#define GW_PROFILE_TARGET "lib/target.h"
#define GW_STEP GW_GLOBAL
#define gw_packet_memory()                                   \
	({                                                   \
		__u32 zero = 0;                              \
		(struct gw_packet *)bpf_map_lookup_elem(&gw_ql_packet, &zero); \
	})

#endif

#endif
