/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What packets do to entries of flow state, at full speed and without packets: flows are touched at
 * random, each as a packet of it would, while somebody sweeps. It knows when it touched each flow,
 * and so whether one that it does not find was still live.
 */
#include "maps/affinity.h"

/* A flow that is touched: its entry, and when it was last. */
struct touch_flow {
	struct gw_flow_key key;
	struct gw_binding entry;
	__u64 touched_ns;
};

enum manner {
	TOUCH, /* as a packet does */
	INSERT, /* only if there is none */
	/* Wait until a flow is being deleted, and come at that moment, */
	HUNT, /* as a packet does */
	HUNT_QUICKLY, /* without the first insert, which mostly comes late enough to succeed */
	HUNT_CARELESSLY, /* and do nothing about it */
};

struct touch {
	__u64 random; /* the state of the generator of numbers */
	__u32 first; /* flows: their first index, and how many */
	__u32 flows;
	__u32 times;
	__u32 in_order; /* one after the other, from first on */
	__u32 manner; /* enum manner */
	__u32 zero;
	__u64 idle_ns; /* a flow that was touched no longer ago is live */
	/* what happened */
	__u64 hits;
	__u64 revived; /* was about to be deleted by the next sweep */
	__u64 dead; /* was being deleted */
	__u64 inserted;
	__u64 lost; /* live, and not there */
	__u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct touch_flow);
	__uint(max_entries, 1);
} touch_flows SEC(".maps");

/* What is to be done, and what happened. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct touch);
	__uint(max_entries, 1);
} touch_state SEC(".maps");

static __always_inline bool set_phase(struct gw_binding *value, __u32 state, __u32 phase)
{
	return __sync_val_compare_and_swap(&value->state, state,
					   (state & ~GW_BINDING_PHASE) | phase) == state;
}

static __always_inline void insert(struct touch *touch, struct touch_flow *flow, __u64 now_ns)
{
	struct gw_flow_key key = flow->key;
	struct gw_binding entry = flow->entry;

	entry.seen_ns = now_ns;
	if (bpf_map_update_elem(&gw_ql_flow, &key, &entry, BPF_NOEXIST))
		touch->refused++;
	else
		touch->inserted++;
}

/* What a packet does that finds its flow's entry claimed by a sweep. */
static __always_inline void revive(struct touch *touch, struct touch_flow *flow,
				   struct gw_binding *value, __u64 now_ns)
{
	struct gw_flow_key key = flow->key;
	struct gw_binding copy = flow->entry;
	__u32 state;

	touch->dead++;
	copy.seen_ns = now_ns;
	if (touch->manner == HUNT_CARELESSLY)
		return;
	if (touch->manner != HUNT_QUICKLY && !bpf_map_update_elem(&gw_ql_flow, &key, &copy, BPF_NOEXIST))
		return;
	state = *(const volatile __u32 *)&value->state;
	if ((state & GW_BINDING_PHASE) == GW_BINDING_DEAD)
		set_phase(value, state, GW_BINDING_TOUCHED);
	bpf_map_update_elem(&gw_ql_flow, &key, &copy, BPF_NOEXIST);
}

static __always_inline bool is_of(const struct gw_binding *value, const struct touch_flow *flow)
{
	return value && value->tag == flow->entry.tag && value->hash == flow->entry.hash;
}

/* Comes to a flow just when it is being deleted. */
static long hunt_one(__u32 index, struct touch **at)
{
	struct touch *touch = *at;
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 which = touch->first + index % touch->flows;
	struct touch_flow *flow = bpf_map_lookup_elem(&touch_flows, &which);
	struct gw_binding *value;
	struct gw_flow_key key;
	__u32 phase;

	if (!flow)
		return 1;
	key = flow->key;
	value = bpf_map_lookup_elem(&gw_ql_flow, &key);
	if (!is_of(value, flow)) {
		if (flow->touched_ns && now_ns - flow->touched_ns <= touch->idle_ns)
			touch->lost++;
		/* As one that nobody has seen for long. */
		flow->touched_ns = 0;
		insert(touch, flow, 1);
		return 0;
	}
	for (int i = 0; i < 4000; i++) {
		phase = *(const volatile __u32 *)&value->state & GW_BINDING_PHASE;
		if (phase != GW_BINDING_EXPIRING)
			break;
	}
	if (phase == GW_BINDING_DEAD && is_of(value, flow)) {
		now_ns = bpf_ktime_get_ns();
		revive(touch, flow, value, now_ns);
		flow->touched_ns = now_ns;
	}
	return 0;
}

static long touch_one(__u32 index, struct touch **at)
{
	struct touch *touch = *at;
	__u64 now_ns = bpf_ktime_get_ns();
	struct gw_binding *value;
	struct touch_flow *flow;
	struct gw_flow_key key;
	__u32 state, which;

	touch->random = touch->random * 6364136223846793005ULL + 1442695040888963407ULL;
	which = touch->in_order ? index % touch->flows :
				(__u32)((touch->random >> 32) * touch->flows >> 32);
	which += touch->first;
	flow = bpf_map_lookup_elem(&touch_flows, &which);
	if (!flow)
		return 1;
	key = flow->key;
	value = bpf_map_lookup_elem(&gw_ql_flow, &key);
	if (!is_of(value, flow)) {
		if (flow->touched_ns && now_ns - flow->touched_ns <= touch->idle_ns)
			touch->lost++;
		insert(touch, flow, now_ns);
		flow->touched_ns = now_ns;
		return 0;
	}
	if (touch->manner == INSERT)
		return 0;
	flow->touched_ns = now_ns;
	/* Another CPU may change the phase under a packet, but only a sweep does here. */
	for (int i = 0; i < 3; i++) {
		state = *(const volatile __u32 *)&value->state;
		if ((state & GW_BINDING_PHASE) == GW_BINDING_LIVE) {
			value->seen_ns = now_ns;
			touch->hits++;
			return 0;
		}
		if ((state & GW_BINDING_PHASE) == GW_BINDING_EXPIRING) {
			if (!set_phase(value, state, GW_BINDING_LIVE))
				continue;
			value->seen_ns = now_ns;
			touch->revived++;
			return 0;
		}
		break;
	}
	revive(touch, flow, value, now_ns);
	return 0;
}

SEC("syscall")
int gw_touch(void *ctx)
{
	__u32 zero = 0;
	struct touch *state = bpf_map_lookup_elem(&touch_state, &zero);

	if (state && state->manner >= HUNT)
		bpf_loop(state->times, hunt_one, &state, 0);
	else if (state)
		bpf_loop(state->times, touch_one, &state, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
