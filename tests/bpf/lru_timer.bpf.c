/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A table of flows with a kernel timer in each entry: how many of them the kernel makes. */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

enum {
	CLOCK_MONOTONIC = 1,
};

/* The kernel's name and size. */
struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct timed {
	struct bpf_timer timer;
	__u64 seen_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct timed);
	__uint(max_entries, 1 << 20);
} lru_timed SEC(".maps");

struct timers {
	__u64 made;
	__u64 refused;
	__s64 error; /* the last */
	__u64 flow; /* the next */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct timers);
	__uint(max_entries, 1);
} lru_timers SEC(".maps");

/* One flow more, with a timer. */
SEC("xdp")
int gw_lru_timer(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct timers *timers = bpf_map_lookup_elem(&lru_timers, &zero);
	struct timed fresh = {};

	if (!timers)
		return XDP_ABORTED;
	__u32 flow = timers->flow++;

	if (bpf_map_update_elem(&lru_timed, &flow, &fresh, BPF_NOEXIST))
		return XDP_ABORTED;
	struct timed *timed = bpf_map_lookup_elem(&lru_timed, &flow);

	if (!timed)
		return XDP_ABORTED;
	long error = bpf_timer_init(&timed->timer, &lru_timed, CLOCK_MONOTONIC);

	if (error) {
		timers->refused++;
		timers->error = error;
	} else {
		timers->made++;
	}
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
