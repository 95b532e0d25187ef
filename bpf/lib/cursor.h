/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading headers. Lengths are compared as numbers, and bytes are read through a window: a pointer
 * into the frame where it can be had, a copy otherwise (after options and extension headers, near
 * the end of the linear part). So the rules are written once, and a program without CAP_PERFMON,
 * which may not add a variable to a packet pointer nor subtract two of them, follows them too.
 */
#ifndef GW_LIB_CURSOR_H
#define GW_LIB_CURSOR_H

#include "reader.h"
#include GW_PROFILE_FRAME

/* Moves on by a constant. */
#define gw_skip(reader, bytes)                       \
	do {                                         \
		gw_advance((reader)->at, bytes);     \
		(reader)->packet->offset += (bytes); \
	} while (0)

/* Moves on by a number that the packet says; from here on windows are copies. */
static __always_inline void gw_skip_variable(struct gw_reader *reader, __u32 bytes)
{
	reader->packet->direct = 0;
	reader->packet->offset += bytes;
}

#endif
