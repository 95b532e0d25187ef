/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs beside which the load balancer is measured.
 *
 * A test run does not restore the packet between repeats and always runs the same one, so gw_drive
 * writes another client into it each time and then calls the program under test. What it costs by
 * itself is measured with gw_nothing behind it.
 */
#include "guideway/abi.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	UDP = 17,
	SCRAMBLE = 0x9e3779b1, /* odd, so a bijection modulo a power of two */
};

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
} __attribute__((packed));

struct ipv4 {
	__u8 version_length;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 checksum;
	__be32 source;
	__be32 destination;
} __attribute__((packed));

struct udp {
	__be16 source;
	__be16 destination;
	__be16 length;
	__sum16 checksum;
} __attribute__((packed));

/* Which clients gw_drive makes: counter & mask of them, one after the other in scrambled order. */
struct drive {
	__u32 counter;
	__u32 mask;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct drive);
	__uint(max_entries, 1);
} bench_drive SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} bench_target SEC(".maps");

struct row {
	__u8 mac[6];
	__u16 zero;
	__u32 ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct row);
	__uint(max_entries, 256);
} bench_rows SEC(".maps");

SEC("xdp.frags")
int gw_drive(struct xdp_md *ctx)
{
	__u8 *data = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	struct ethernet *ethernet = (void *)data;
	__u32 zero = 0;
	struct drive *drive = bpf_map_lookup_elem(&bench_drive, &zero);

	if (!drive || data + 62 > end)
		return XDP_ABORTED;
	__u32 flow = (drive->counter++ * SCRAMBLE) & drive->mask;

	if (ethernet->type == bpf_htons(ETHERTYPE_IPV4)) {
		*(__u32 *)(data + 26) = bpf_htonl(0xc6120000 | (flow & 0xffff));
		*(__u16 *)(data + 34) = bpf_htons(40000 + (flow >> 16));
	} else {
		*(__u32 *)(data + 34) = bpf_htonl(flow & 0xffff);
		*(__u16 *)(data + 54) = bpf_htons(40000 + (flow >> 16));
	}
	bpf_tail_call(ctx, &bench_target, 0);
	return XDP_ABORTED;
}

SEC("xdp.frags")
int gw_nothing(struct xdp_md *ctx)
{
	return XDP_TX;
}

/* The floor: parse to the UDP header, a row from an array, a MAC address, a redirect. */
SEC("xdp.frags")
int gw_floor(struct xdp_md *ctx)
{
	__u8 *end = (__u8 *)(long)ctx->data_end;
	struct ethernet *ethernet = (void *)(long)ctx->data;
	struct ipv4 *ip = (void *)(ethernet + 1);
	struct udp *udp = (void *)(ip + 1);

	if ((__u8 *)(udp + 1) > end || ethernet->type != bpf_htons(ETHERTYPE_IPV4) ||
	    ip->version_length != 0x45 || ip->protocol != UDP)
		return XDP_PASS;
	__u32 index = bpf_ntohs(udp->source) & 0xff;
	struct row *row = bpf_map_lookup_elem(&bench_rows, &index);

	if (!row)
		return XDP_PASS;
	__builtin_memcpy(ethernet->destination, row->mac, sizeof(row->mac));
	return bpf_redirect(row->ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
