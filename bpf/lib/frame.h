/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes of a frame that a driver has received: those of its linear part in place, any by a copy. */
#ifndef GW_LIB_FRAME_H
#define GW_LIB_FRAME_H

#include "reader.h"

static __always_inline __u32 gw_frame_bytes(struct xdp_md *ctx)
{
	return bpf_xdp_get_buff_len(ctx);
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

#endif
