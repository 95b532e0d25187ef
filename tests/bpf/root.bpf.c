/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The XDP hook of somebody who lets others in: root programs that call the program at an index of an
 * array, and drop and count what nobody took.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
	PLACES = 8,
	INDEX = 3,
	/* For local experiments. */
	ETHERTYPE = 0x88b5,
	ETHERTYPE_AT = 12,
	/* The root program itself, among those that count. */
	NOBODY = 0,
};

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, __u32);
} gw_t_roots SEC(".maps");

/* As above, for a root program that takes no frames in several buffers. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, __u32);
} gw_t_single SEC(".maps");

/* As above, for the other hook. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, __u32);
} gw_t_others SEC(".maps");

/* How many test packets each program got. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} gw_t_got SEC(".maps");

/* Counts a frame of the test; others are none of its business. */
static __always_inline int gw_t_took(struct xdp_md *ctx, __u32 who)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__be16 *ethertype = data + ETHERTYPE_AT;
	__u64 *got;

	if ((void *)(ethertype + 1) > end || *ethertype != bpf_htons(ETHERTYPE))
		return XDP_PASS;
	got = bpf_map_lookup_elem(&gw_t_got, &who);
	if (got)
		*got += 1;
	return XDP_DROP;
}

SEC("xdp.frags")
int gw_t_root(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &gw_t_roots, INDEX);
	return gw_t_took(ctx, NOBODY);
}

SEC("xdp.frags")
int gw_t_first(struct xdp_md *ctx)
{
	return gw_t_took(ctx, 1);
}

SEC("xdp.frags")
int gw_t_second(struct xdp_md *ctx)
{
	return gw_t_took(ctx, 2);
}

SEC("xdp")
int gw_t_plain(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &gw_t_single, INDEX);
	return XDP_PASS;
}

SEC("tc")
int gw_t_other(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &gw_t_others, INDEX);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
