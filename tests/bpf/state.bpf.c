/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the operations on a table of flow state cost by themselves: in the load balancer's own table,
 * under its keys, and with nothing around them but reading the key out of the packet.
 */
#include "maps/affinity.h"

struct bare {
	__u32 service; /* of the keys */
	__u32 zero;
	__u64 done; /* packets that found what was expected */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct bare);
	__uint(max_entries, 1);
} state_bare SEC(".maps");

/* The key of a packet's flow: IPv4 without options. NULL if there is none. */
static __always_inline struct bare *read_key(struct xdp_md *ctx, struct gw_flow_key *key)
{
	__u8 *data = (__u8 *)(long)ctx->data;
	__u8 *end = (__u8 *)(long)ctx->data_end;
	__u32 zero = 0;
	struct bare *bare = bpf_map_lookup_elem(&state_bare, &zero);

	if (!bare || data + 38 > end)
		return NULL;
	*key = (struct gw_flow_key){
		.service = bare->service,
		.client_port = *(__be16 *)(data + 34),
		.vip_port = *(__be16 *)(data + 36),
	};
	__builtin_memcpy(key->address, data + 26, 4);
	return bare;
}

SEC("xdp.frags")
int gw_bare_key(struct xdp_md *ctx)
{
	struct gw_flow_key key;
	struct bare *bare = read_key(ctx, &key);

	if (!bare)
		return XDP_ABORTED;
	/* The key is made, though nobody reads it. */
	asm volatile("" : : "r"(&key) : "memory");
	bare->done++;
	return XDP_TX;
}

/* Finds the entry and writes a time into it, one so long ago that the next packet writes it again. */
SEC("xdp.frags")
int gw_bare_hit(struct xdp_md *ctx)
{
	struct gw_flow_key key;
	struct bare *bare = read_key(ctx, &key);
	struct gw_binding *entry;

	if (!bare)
		return XDP_ABORTED;
	entry = bpf_map_lookup_elem(&gw_ql_flow, &key);
	if (!entry)
		return XDP_ABORTED;
	entry->seen_ns = 1;
	bare->done++;
	return XDP_TX;
}

SEC("xdp.frags")
int gw_bare_miss(struct xdp_md *ctx)
{
	struct gw_flow_key key;
	struct bare *bare = read_key(ctx, &key);

	if (!bare || bpf_map_lookup_elem(&gw_ql_flow, &key))
		return XDP_ABORTED;
	bare->done++;
	return XDP_TX;
}

SEC("xdp.frags")
int gw_bare_insert(struct xdp_md *ctx)
{
	struct gw_flow_key key;
	struct bare *bare = read_key(ctx, &key);
	struct gw_binding value = { .incarnation = 1, .seen_ns = 1 };

	if (!bare || bpf_map_lookup_elem(&gw_ql_flow, &key) ||
	    bpf_map_update_elem(&gw_ql_flow, &key, &value, BPF_NOEXIST))
		return XDP_ABORTED;
	bare->done++;
	return XDP_TX;
}

static long forget_one(void *map, struct gw_flow_key *at, struct gw_binding *value, void *nothing)
{
	struct gw_flow_key key = *at;

	bpf_map_delete_elem(&gw_ql_flow, &key);
	return 0;
}

static long read_one(void *map, const struct gw_flow_key *key, struct gw_binding *entry, __u64 *sum)
{
	*sum += key->service + entry->seen_ns;
	return 0;
}

/* What any pass over the table takes: it reads each entry, and gives how many there were. */
SEC("syscall")
int gw_bare_pass(void *ctx)
{
	__u64 sum = 0;
	int entries = bpf_for_each_map_elem(&gw_ql_flow, read_one, &sum, 0);

	/* The entries are read, though nobody adds them up. */
	asm volatile("" : : "r"(sum));
	return entries;
}

/* Gives how many entries there were. */
SEC("syscall")
int gw_forget_flows(void *ctx)
{
	return bpf_for_each_map_elem(&gw_ql_flow, forget_one, NULL, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
