/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events: a sample, for people. The common packet has none and pays nothing. */
#ifndef GW_LIB_EMIT_H
#define GW_LIB_EMIT_H

#include "bucket.h"
#include "run.h"

/* The kind of event that a packet with this end gives, or -1. */
static __always_inline int gw_event_kind(const struct gw_packet *packet)
{
	switch (packet->reason) {
	case GW_REASON_FORWARDED:
		if (packet->event)
			return packet->event;
		return packet->start && packet->rule == GW_RULE_TABLE ? GW_EVENT_FLOW_START : -1;
	case GW_REASON_BAD_IPV4:
	case GW_REASON_BAD_IPV6:
	case GW_REASON_BAD_L4:
	case GW_REASON_ICMP_BAD:
	case GW_REASON_BAD_QUIC:
		return GW_EVENT_BAD_PACKET;
	case GW_REASON_NOT_QUIC:
		return GW_EVENT_NOT_QUIC;
	case GW_REASON_FRAGMENT_PASS:
	case GW_REASON_FRAGMENT_DROP:
		return GW_EVENT_FRAGMENT;
	case GW_REASON_UNKNOWN_SERVER_ID:
	case GW_REASON_QUARANTINED_SERVER_ID:
		return GW_EVENT_UNKNOWN_SERVER_ID;
	case GW_REASON_NO_BACKEND:
		return GW_EVENT_NO_BACKEND;
	default:
		return -1;
	}
}

/* Every byte is written: the ring hands out memory with old content. */
static __always_inline void gw_fill_event(struct xdp_md *ctx, const struct gw_packet *packet,
					  struct gw_event *event)
{
	__u32 cid_len = packet->cid_len - 1;

	__builtin_memset(event, 0, sizeof(*event));
	event->generation = packet->generation;
	event->service_id = packet->service_id;
	event->backend_id = packet->backend_id;
	event->ifindex = ctx->ingress_ifindex;
	event->rule = gw_rule_of(packet);
	event->reason = packet->reason;
	event->family = packet->family;
	event->protocol = packet->protocol;
	event->source_port = packet->client_port;
	event->destination_port = packet->vip_port;
	event->slot = packet->slot;
	__builtin_memcpy(event->source, packet->client.words, sizeof(event->source));
	gw_opaque(cid_len);
	if (cid_len >= GW_MAX_CID_BYTES)
		return;
	if (!bpf_xdp_load_bytes(ctx, packet->cid_offset, event->cid, cid_len + 1))
		event->cid_len = cid_len + 1;
}

/* Writes an event if the bucket allows it. */
GW_GLOBAL int gw_emit(struct xdp_md *ctx, struct gw_packet *packet, __u32 kind)
{
	struct gw_event_bucket *bucket = bpf_map_lookup_elem(&gw_ql_bucket, &kind);
	struct gw_event *event;
	__u64 now;

	if (!bucket || !packet || !packet->events_per_second)
		return 0;
	now = bpf_ktime_get_coarse_ns();
	gw_refill(&bucket->refilled_ns, &bucket->tokens, now, packet->events_per_second,
		  packet->events_per_second);
	if (!bucket->tokens) {
		bucket->empty_jiffies = bpf_jiffies64();
		bucket->suppressed++;
		bucket->suppressed_total++;
		return 0;
	}
	bucket->tokens--;
	event = bpf_ringbuf_reserve(&gw_ql_events, sizeof(*event), 0);
	if (!event) {
		bucket->lost++;
		return 0;
	}
	gw_fill_event(ctx, packet, event);
	event->time_ns = now;
	event->kind = kind;
	event->suppressed = bucket->suppressed;
	bucket->suppressed = 0;
	bucket->emitted++;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/*
 * Emits the packet's event, if it has one. In a flood only the first of each tick looks at the
 * clock: the tick itself is a load that the kernel compiles into the program.
 */
static __always_inline void gw_report(struct xdp_md *ctx, struct gw_packet *packet)
{
	int kind = gw_event_kind(packet);
	struct gw_event_bucket *bucket;

	if (kind < 0 || !packet->generation || !packet->events_per_second)
		return;
	bucket = bpf_map_lookup_elem(&gw_ql_bucket, &kind);
	if (!bucket)
		return;
	if (!bucket->tokens && bucket->empty_jiffies == bpf_jiffies64()) {
		bucket->suppressed++;
		bucket->suppressed_total++;
		return;
	}
	gw_emit(ctx, packet, kind);
}

#endif
