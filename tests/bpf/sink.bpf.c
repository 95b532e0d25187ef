/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where packets of tests end: counts them by what they are of and where they went, both of which are
 * read from the frame, and takes them.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PLACES 16
#define FLOWS 4096

/* Offsets into the frame of numbers of two bytes. */
struct sink_config {
	__u32 mark_at;
	__u32 mark; /* frames with another number there are not the test's */
	__u32 flow_at;
	__u32 place_at;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct sink_config);
	__uint(max_entries, 1);
} sink_config SEC(".maps");

/* By place * FLOWS + flow. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, PLACES * FLOWS);
} sink_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} sink_total SEC(".maps");

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	__be16 mark, flow, place;
	const struct sink_config *config;
	__u32 zero = 0, at;
	__u64 *count;

	config = bpf_map_lookup_elem(&sink_config, &zero);
	if (!config || bpf_xdp_load_bytes(ctx, config->mark_at, &mark, sizeof(mark)) ||
	    bpf_ntohs(mark) != config->mark ||
	    bpf_xdp_load_bytes(ctx, config->flow_at, &flow, sizeof(flow)) ||
	    bpf_xdp_load_bytes(ctx, config->place_at, &place, sizeof(place)))
		return XDP_PASS;
	at = bpf_ntohs(place) % PLACES * FLOWS + bpf_ntohs(flow) % FLOWS;
	count = bpf_map_lookup_elem(&sink_counts, &at);
	if (count)
		*count += 1;
	count = bpf_map_lookup_elem(&sink_total, &zero);
	if (count)
		*count += 1;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
