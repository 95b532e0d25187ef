/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Three classifiers that leave every packet to the next one and note that they saw it, so that a
 * test knows which of them ran, in which order, and for which packets.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
	/* For local experiments. */
	ETHERTYPE = 0x88b5,
	/* Where the number of a packet is. */
	NUMBER_AT = 14,
	PACKETS = 1 << 16,
};

/* How often each packet was seen. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PACKETS);
	__type(key, __u32);
	__type(value, __u32);
} gw_t_packets SEC(".maps");

/* How many packets each program saw. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} gw_t_total SEC(".maps");

/* Who saw the last packet, one hexadecimal digit per program, the first one first. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gw_t_order SEC(".maps");

static __always_inline int note(struct __sk_buff *packet, __u32 who)
{
	__u32 number, zero = 0, *times, *order;
	__u64 *total;

	if (packet->protocol != bpf_htons(ETHERTYPE) ||
	    bpf_skb_load_bytes(packet, NUMBER_AT, &number, sizeof(number)))
		return TC_ACT_UNSPEC;
	packet->mark = packet->mark << 4 | who;
	times = bpf_map_lookup_elem(&gw_t_packets, &number);
	if (times)
		__sync_fetch_and_add(times, 1);
	order = bpf_map_lookup_elem(&gw_t_order, &zero);
	if (order)
		*order = packet->mark;
	total = bpf_map_lookup_elem(&gw_t_total, &who);
	if (total)
		__sync_fetch_and_add(total, 1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int gw_t_one(struct __sk_buff *packet)
{
	return note(packet, 1);
}

SEC("tc")
int gw_t_two(struct __sk_buff *packet)
{
	return note(packet, 2);
}

SEC("tc")
int gw_t_three(struct __sk_buff *packet)
{
	return note(packet, 3);
}

char _license[] SEC("license") = "Dual BSD/GPL";
