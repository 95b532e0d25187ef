/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where ways through the program come together. */
#ifndef GW_LIB_SETTLE_H
#define GW_LIB_SETTLE_H

#include "packet.h"
#include "verifier.h"

/* The same number. */
static __always_inline __u64 gw_settled(const struct gw_packet *packet, __u64 number)
{
	return number;
}

/* From here on each of these is what the packet's memory says, whichever way led here. */
#define gw_settle_headers(packet) gw_forget()
#define gw_settle_payload(packet) gw_forget()
#define gw_settle_named(packet) gw_forget()
#define gw_settle_kind(packet) gw_forget()

#endif
