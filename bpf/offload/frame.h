/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes of a frame on a card, where it lies in one piece: loaded through pointers into it, by a
 * variable offset. That takes CAP_PERFMON (Linux 6.1 to 6.18), as does the length of a frame.
 */
#ifndef GW_OFFLOAD_FRAME_H
#define GW_OFFLOAD_FRAME_H

#include "lib/reader.h"

/* Nothing is read behind it. */
#define GW_READABLE_BYTES 2048

static __always_inline __u32 gw_frame_bytes(struct xdp_md *ctx)
{
	return ctx->data_end - ctx->data;
}

/* Size bytes from at on, as words; size is a constant and at lies within the frame. */
static __always_inline void gw_load_words(const void *at, __u64 *words, __u32 size)
{
#pragma unroll
	for (__u32 i = 0; i < size / 8; i++)
		words[i] = gw_load64(at, 8 * i);
	if (size % 8 == 4)
		words[size / 8] = gw_load32(at, size - 4);
	else if (size % 8 == 6)
		words[size / 8] = gw_load32(at, size - 6) |
				  (__u64)gw_load16(at, size - 2) << 32;
}

/* The bytes from at on, fewer than eight, as a word whose rest is zero. */
static __always_inline __u64 gw_load_part(const void *at, const void *data_end, __u32 bytes)
{
	__u64 word = 0;
	__u32 shift = 0;

	if (bytes & 4 && at + 4 <= data_end) {
		word = gw_load32(at, 0);
		at += 4;
		shift = 32;
	}
	if (bytes & 2 && at + 2 <= data_end) {
		word |= (__u64)gw_load16(at, 0) << shift;
		at += 2;
		shift += 16;
	}
	if (bytes & 1 && at + 1 <= data_end)
		word |= (__u64)gw_load8(at, 0) << shift;
	return word;
}

/* As many of size bytes as there are, in words whose rest is zero. */
static __always_inline void gw_load_rest(const void *at, const void *data_end, __u64 *words,
					 __u32 left, __u32 size)
{
#pragma unroll
	for (__u32 i = 0; i < (size + 7) / 8; i++) {
		if (left < 8 || at + 8 > data_end) {
			words[i] = gw_load_part(at, data_end, left);
			return;
		}
		words[i] = gw_load64(at, 0);
		at += 8;
		left -= 8;
	}
}

/* Copies up to size bytes, a constant, from the cursor on into the window, zeros behind them. */
static __always_inline void gw_copy(struct xdp_md *ctx, struct gw_packet *packet, __u32 size)
{
	const void *at = (const void *)(long)ctx->data;
	const void *data_end = (const void *)(long)ctx->data_end;
	__u32 offset = packet->offset;

#pragma unroll
	for (int i = 0; i < GW_WINDOW_WORDS; i++)
		packet->window[i] = 0;
	if (!gw_is_below(offset, GW_READABLE_BYTES))
		return;
	at += offset;
	if (gw_left(packet) >= size && at + size <= data_end)
		gw_load_words(at, packet->window, size);
	else
		gw_load_rest(at, data_end, packet->window, gw_left(packet), size);
#pragma unroll
	for (__u32 i = 0; i < (size + 7) / 8; i++)
		packet->window[i] = gw_settled(packet, packet->window[i]);
}

/* Size bytes from the cursor on, a constant; zeros unless all of them are there. */
static __always_inline const void *gw_window(struct gw_reader *reader, __u32 size)
{
	struct gw_packet *packet = reader->packet;
	const void *at = (const void *)(long)reader->ctx->data;
	const void *data_end = (const void *)(long)reader->ctx->data_end;
	__u32 offset = packet->offset;

#pragma unroll
	for (int i = 0; i < GW_WINDOW_WORDS; i++)
		packet->window[i] = 0;
	if (!gw_is_below(offset, GW_READABLE_BYTES))
		return packet->window;
	at += offset;
	if (at + size <= data_end)
		gw_load_words(at, packet->window, size);
	return packet->window;
}

#endif
