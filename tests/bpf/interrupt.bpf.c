/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inserts entries as packets do that arrive while their CPU is doing something else: in a soft
 * interrupt, many times a millisecond, on the CPU that the program was run on. What was deleted
 * there a moment before is used again first.
 */
#include "maps/affinity.h"

enum {
	BURST = 4, /* entries by one interrupt */
	CLOCK_MONOTONIC = 1,
};

/* The kernel's name and size. */
struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct interrupt {
	struct bpf_timer timer;
	__u64 period_ns;
	__u64 inserted;
	__u32 service; /* whose entries they are */
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct interrupt);
	__uint(max_entries, 1);
} interrupts SEC(".maps");

static int fire(void *map, __u32 *index, struct interrupt *interrupt)
{
	for (int i = 0; i < BURST; i++) {
		struct gw_flow_key key = { .service = interrupt->service };
		struct gw_binding entry = {};

		*(__u64 *)key.address = interrupt->inserted;
		if (bpf_map_update_elem(&gw_ql_flow, &key, &entry, BPF_NOEXIST))
			break;
		interrupt->inserted++;
	}
	bpf_timer_start(&interrupt->timer, interrupt->period_ns, 0);
	return 0;
}

SEC("syscall")
int gw_interrupt_begin(void *ctx)
{
	__u32 zero = 0;
	struct interrupt *interrupt = bpf_map_lookup_elem(&interrupts, &zero);

	if (!interrupt)
		return 1;
	/* It may be there from the time before. */
	bpf_timer_init(&interrupt->timer, &interrupts, CLOCK_MONOTONIC);
	if (bpf_timer_set_callback(&interrupt->timer, fire))
		return 1;
	return bpf_timer_start(&interrupt->timer, interrupt->period_ns, 0) != 0;
}

SEC("syscall")
int gw_interrupt_end(void *ctx)
{
	__u32 zero = 0;
	struct interrupt *interrupt = bpf_map_lookup_elem(&interrupts, &zero);

	return !interrupt || bpf_timer_cancel(&interrupt->timer) < 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
