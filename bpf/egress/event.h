/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events: what went wrong, told once in a while. Nothing that is told here changes what happens. */
#ifndef GW_EGRESS_EVENT_H
#define GW_EGRESS_EVENT_H

#include "../lib/bucket.h"
#include "run.h"

/*
 * The source of the packet in a frame; zeros if it cannot be read. Of one that could be changed only in part
 * before it was dropped that may be the outer source, or whatever is there.
 */
static __always_inline void gw_read_source(struct __sk_buff *skb, __u8 *source)
{
	__be16 type = 0;

	__builtin_memset(source, 0, 16);
	bpf_skb_load_bytes(skb, __builtin_offsetof(struct gw_ipv6_frame, type), &type, sizeof(type));
	if (type == bpf_htons(GW_ETH_IPV6)) {
		bpf_skb_load_bytes(skb, __builtin_offsetof(struct gw_ipv6_frame, source), source, 16);
		return;
	}
	source[10] = source[11] = 0xff;
	bpf_skb_load_bytes(skb, __builtin_offsetof(struct gw_ipv4_frame, source), source + 12, 4);
}

/* The configuration in force, NULL while events are not wanted. */
static __always_inline const struct gw_egress_config *gw_event_config(void)
{
	__u32 zero = 0;
	void *live = bpf_map_lookup_elem(&gw_eg_config, &zero);
	const struct gw_egress_config *config;

	if (!live)
		return NULL;
	config = bpf_map_lookup_elem(live, &zero);
	return config && config->event_rate ? config : NULL;
}

/* Writes an event of a kind if its bucket allows it. */
GW_GLOBAL int gw_tell(struct __sk_buff *skb, __u32 kind, __u32 table_id, __u32 group_id,
		      __u32 detail)
{
	struct gw_egress_bucket *bucket = bpf_map_lookup_elem(&gw_eg_bucket, &kind);
	const struct gw_egress_config *config = gw_event_config();
	__u64 now = bpf_ktime_get_coarse_ns();
	struct gw_egress_event *event;

	if (!bucket || !config)
		return 0;
	gw_refill(&bucket->refilled_ns, &bucket->tokens, now, config->event_rate,
		  config->event_burst);
	if (!bucket->tokens) {
		bucket->suppressed++;
		gw_egress_count(GW_EGRESS_EVENT_SUPPRESSED);
		return 0;
	}
	bucket->tokens--;
	event = bpf_ringbuf_reserve(&gw_eg_events, sizeof(*event), 0);
	if (!event) {
		gw_egress_count(GW_EGRESS_EVENT_LOST);
		return 0;
	}
	event->kind = kind;
	event->bytes = sizeof(*event);
	event->suppressed = bucket->suppressed;
	event->time_ns = now;
	event->ifindex = skb->ifindex;
	event->table_id = table_id;
	event->group_id = group_id;
	event->detail = detail;
	gw_read_source(skb, event->source);
	bpf_ringbuf_submit(event, 0);
	bucket->suppressed = 0;
	gw_egress_count(GW_EGRESS_EVENT_SENT);
	return 0;
}

/* Tells what became of a pin, or why there is none, before the frame is changed. */
static __always_inline void gw_tell_of_pin(const struct gw_egress_run *run, __u32 kind, __u32 slot)
{
	gw_tell(run->skb, kind, run->table_id, run->route->group_id, slot);
}

#endif
