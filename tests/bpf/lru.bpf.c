/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What packets do to a table of flows: insert, look up, write. The entries are as large as the load
 * balancer's. User space makes the tables of every kind and size that it compares, so the type here
 * is a placeholder.
 *
 * Each program is one loop in the kernel on the CPU of the caller, over a range of flow numbers. A
 * flow number is all there is to a flow.
 */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

enum {
	E2BIG = 7,
	/* A prime above every number of flows here: its multiples visit all, in another order. */
	SCRAMBLE = 0x9e3779b1,
	BEAT_BITS = 16,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_flow_key);
	__type(value, struct gw_binding);
	__uint(max_entries, 1024);
} lru_table SEC(".maps");

/* Where a flow waits for its second packet, if the table is guarded by it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_flow_key);
	__type(value, struct gw_binding);
	__uint(max_entries, 1024);
} lru_probation SEC(".maps");

/* The context of every program: what to do and what came of it. */
struct work {
	__u32 begin; /* the step of the loop to begin with */
	__u32 count; /* of steps */
	/* The flow of step i is first + i * stride; with a modulus one of as many, scrambled. */
	__u32 first;
	__u32 stride;
	__u32 modulus;
	__u32 flags; /* of updates */
	__u32 touch; /* send a second packet as soon as a flow is inserted */
	/* The rest is for floods. A flow's second packet comes so many steps later; 0: never. */
	__u32 second_after;
	/* So many flows from this one on, by the same stride, send in turn: beat / 2^16 a step. */
	__u32 quiet_first;
	__u32 quiet;
	__u32 beat;
	__u32 guarded; /* by lru_probation */
	__u64 hits;
	__u64 misses;
	__u64 done; /* inserts, updates, deletions */
	__u64 full; /* -E2BIG */
	__u64 failed; /* any other error */
};

static __always_inline __u32 flow_of(const struct work *work, __u32 index)
{
	__u64 step = (__u64)work->begin + index;

	if (work->modulus)
		return work->first + (__u32)(step * SCRAMBLE % work->modulus);
	return work->first + (__u32)step * work->stride;
}

static __always_inline struct gw_flow_key key_of(__u32 flow)
{
	struct gw_flow_key key = {.service = 1};

	__builtin_memcpy(key.address, &flow, sizeof(flow));
	return key;
}

/*
 * An int, as before Linux 6.4 the upper half of what an update or a deletion returns is zero: a
 * negative long compares unequal to the error that it is.
 */
static __always_inline void outcome(struct work *work, int error)
{
	if (!error)
		work->done++;
	else if (error == -E2BIG)
		work->full++;
	else
		work->failed++;
}

static __always_inline bool hit(struct work *work, void *map, struct gw_flow_key *key)
{
	if (bpf_map_lookup_elem(map, key)) {
		work->hits++;
		return true;
	}
	work->misses++;
	return false;
}

static long nothing(__u32 index, struct work *work)
{
	struct gw_flow_key key = key_of(flow_of(work, index));

	barrier_var(key.service);
	work->hits += key.service;
	return 0;
}

static long insert(__u32 index, struct work *work)
{
	struct gw_flow_key key = key_of(flow_of(work, index));
	struct gw_binding binding = {.incarnation = 1};

	outcome(work, bpf_map_update_elem(&lru_table, &key, &binding, work->flags));
	if (work->touch)
		hit(work, &lru_table, &key);
	return 0;
}

static long look_up(__u32 index, struct work *work)
{
	struct gw_flow_key key = key_of(flow_of(work, index));

	hit(work, &lru_table, &key);
	return 0;
}

static long write_to(__u32 index, struct work *work)
{
	struct gw_flow_key key = key_of(flow_of(work, index));
	struct gw_binding *binding = bpf_map_lookup_elem(&lru_table, &key);

	if (!binding) {
		work->misses++;
		return 0;
	}
	binding->seen_ns = index;
	work->hits++;
	return 0;
}

static long delete(__u32 index, struct work *work)
{
	struct gw_flow_key key = key_of(flow_of(work, index));

	outcome(work, bpf_map_delete_elem(&lru_table, &key));
	return 0;
}

/* What a load balancer with flow state does with a packet: use the entry, or make one. */
static __always_inline void packet(struct work *work, __u32 flow)
{
	struct gw_flow_key key = key_of(flow);
	struct gw_binding binding = {.incarnation = 1};

	if (hit(work, &lru_table, &key))
		return;
	if (work->guarded && !bpf_map_lookup_elem(&lru_probation, &key)) {
		bpf_map_update_elem(&lru_probation, &key, &binding, BPF_NOEXIST);
		return;
	}
	outcome(work, bpf_map_update_elem(&lru_table, &key, &binding, BPF_NOEXIST));
}

static long flood(__u32 index, struct work *work)
{
	__u64 step = (__u64)work->begin + index;
	__u32 beats = step * work->beat >> BEAT_BITS;
	__u32 then = (step + 1) * work->beat >> BEAT_BITS;
	__u32 flow = flow_of(work, index);

	packet(work, flow);
	if (work->second_after && step >= work->second_after)
		packet(work, flow - work->second_after * work->stride);
	if (then == beats || !work->quiet)
		return 0;
	/*
	 * A quiet flow that lost its entry has lost its backend with it. To insert it again would
	 * hide that.
	 */
	struct gw_flow_key key = key_of(work->quiet_first + beats % work->quiet * work->stride);

	bpf_map_lookup_elem(&lru_table, &key);
	return 0;
}

#define PROGRAM(step)                                                                              \
	SEC("syscall")                                                                             \
	int gw_lru_##step(struct work *context)                                                    \
	{                                                                                          \
		struct work work = *context;                                                       \
                                                                                                   \
		bpf_loop(work.count, step, &work, 0);                                              \
		*context = work;                                                                   \
		return 0;                                                                          \
	}

PROGRAM(nothing)
PROGRAM(insert)
PROGRAM(look_up)
PROGRAM(write_to)
PROGRAM(delete)
PROGRAM(flood)

char _license[] SEC("license") = "Dual BSD/GPL";
