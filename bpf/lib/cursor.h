/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading headers. Lengths are compared as numbers, and bytes are read through a window: a pointer
 * into the frame where it can be had, a copy otherwise (after options and extension headers, near
 * the end of the linear part). So the rules are written once, and a program without CAP_PERFMON,
 * which may not add a variable to a packet pointer nor subtract two of them, follows them too.
 */
#ifndef GW_LIB_CURSOR_H
#define GW_LIB_CURSOR_H

#include "bytes.h"
#include "run.h"

/* Reading under way: everything but a pointer is in the packet. */
struct gw_reader {
	struct xdp_md *ctx;
	struct gw_packet *packet;
	void *at; /* the byte at packet->offset, while packet->direct */
};

/* Bytes left between the cursor and the end. */
static __always_inline __u32 gw_left(const struct gw_packet *packet)
{
	return packet->end - packet->offset;
}

/* Copies up to size bytes from the cursor on into the window, zeros where there are none. */
GW_GLOBAL int gw_copy(struct xdp_md *ctx, struct gw_packet *packet, __u32 size)
{
	__u32 bytes;

	if (!packet)
		return 0;
	bytes = gw_left(packet);
	for (int i = 0; i < GW_WINDOW_WORDS; i++)
		packet->window[i] = 0;
	bytes = (bytes < size ? bytes : size) - 1;
	gw_opaque(bytes);
	if (bytes >= sizeof(packet->window))
		return 0;
	return bpf_xdp_load_bytes(ctx, packet->offset, packet->window, bytes + 1);
}

/*
 * At least size bytes from the cursor on, a constant that the window can hold. Bytes behind the end
 * mean nothing: the caller compares with gw_left() before it believes them. A window is gone when
 * the next one is taken.
 */
static __always_inline const void *gw_window(struct gw_reader *reader, __u32 size)
{
	struct gw_packet *packet = reader->packet;

	if (packet->direct) {
		void *data_end = (void *)(long)reader->ctx->data_end;

		if (reader->at + size <= data_end)
			return reader->at;
	}
	gw_copy(reader->ctx, packet, size);
	return packet->window;
}

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
