/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose packet it is, and where it wants to go. */
#ifndef GW_EGRESS_PARSE_H
#define GW_EGRESS_PARSE_H

#include "run.h"

/* How often a tenant's row is looked for: an update makes a look-up of any key miss or stray. */
#define GW_TENANT_LOOKS 3

/* Whether so many bytes are in reach; only what is short is pulled. */
static __always_inline bool gw_reach(struct __sk_buff *skb, __u32 bytes)
{
	if ((void *)(long)skb->data + bytes <= (void *)(long)skb->data_end)
		return true;
	if (skb->len < bytes || bpf_skb_pull_data(skb, bytes))
		return false;
	return (void *)(long)skb->data + bytes <= (void *)(long)skb->data_end;
}

static __always_inline int gw_parse_ethernet(struct gw_egress_run *run)
{
	struct __sk_buff *skb = run->skb;
	const __u8 *data;
	__u16 type;

	if (!gw_reach(skb, GW_ETH_BYTES))
		return GW_EGRESS_SKIP_SHORT;
	data = (const __u8 *)(long)skb->data;
	if (data + GW_ETH_BYTES > (const __u8 *)(long)skb->data_end)
		return GW_EGRESS_SKIP_SHORT;
	type = gw_load_be16(data, 12);
	/* A tag would come out on the uplink, in front of the outer header. */
	if (skb->vlan_present || (type != GW_ETH_IPV4 && type != GW_ETH_IPV6))
		return GW_EGRESS_SKIP_NOT_IP;
	run->family = type == GW_ETH_IPV4 ? GW_FAMILY_IPV4 : GW_FAMILY_IPV6;
	return GW_NEXT;
}

static __always_inline int gw_find_tenant(struct gw_egress_run *run)
{
	__u32 ifindex = run->skb->ifindex;
	bool foreign = false;

#pragma unroll
	for (int i = 0; i < GW_TENANT_LOOKS; i++) {
		const struct gw_tenant *tenant = bpf_map_lookup_elem(&gw_tenants, &ifindex);

		if (!tenant)
			continue;
		run->table_id = *(const volatile __u32 *)&tenant->table_id;
		run->pin_quota = *(const volatile __u32 *)&tenant->pin_quota;
		run->tenant_argument = *(const volatile __u16 *)&tenant->argument;
		run->tenant_flags = *(const volatile __u16 *)&tenant->flags;
		/*
		 * Last: what was read before belongs to it. Relied on is that loads are done in order, as x86
		 * does them, or that a row is not taken for another key's between two of them.
		 */
		if (*(const volatile __u32 *)&tenant->ifindex == ifindex)
			return run->tenant_flags & GW_TENANT_ENABLED ? GW_NEXT :
								       GW_EGRESS_SKIP_NO_TENANT;
		foreign = true;
	}
	/* Another tenant's is none to tell of. */
	run->table_id = 0;
	return foreign ? GW_EGRESS_DROP_BAD_SNAPSHOT : GW_EGRESS_SKIP_NO_TENANT;
}

/* Neighbour discovery and its like (types 133 to 137) stay on the link whatever their address. */
static __always_inline int gw_parse_ipv6(struct gw_egress_run *run)
{
	const __u8 *data, *ip;
	__u8 type = 0;

	if (!gw_reach(run->skb, GW_ETH_BYTES + GW_IPV6_BYTES))
		return GW_EGRESS_SKIP_SHORT;
	data = (const __u8 *)(long)run->skb->data;
	if (data + GW_ETH_BYTES + GW_IPV6_BYTES > (const __u8 *)(long)run->skb->data_end)
		return GW_EGRESS_SKIP_SHORT;
	ip = data + GW_ETH_BYTES;
	if (gw_load8(ip, 0) >> 4 != 6)
		return GW_EGRESS_SKIP_SHORT;
	run->traffic_class = gw_load_be16(ip, 0) >> 4;
	run->inner_label = gw_load_be32(ip, 0) & 0xfffff;
	run->inner_bytes = GW_IPV6_BYTES + gw_load_be16(ip, 4);
	run->protocol = gw_load8(ip, 6);
	run->l4_at = GW_ETH_BYTES + GW_IPV6_BYTES;
	run->source[0] = gw_load64(ip, 8);
	run->source[1] = gw_load64(ip, 16);
	run->destination[0] = gw_load64(ip, 24);
	run->destination[1] = gw_load64(ip, 32);
	if (gw_load8(ip, 24) == 0xff ||
	    (gw_load8(ip, 24) == 0xfe && (gw_load8(ip, 25) & 0xc0) == 0x80))
		return GW_EGRESS_SKIP_LOCAL;
	if (run->protocol == GW_PROTO_ICMPV6 &&
	    !bpf_skb_load_bytes(run->skb, run->l4_at, &type, 1) && type >= 133 && type <= 137)
		return GW_EGRESS_SKIP_LOCAL;
	return GW_NEXT;
}

static __always_inline int gw_parse_ipv4(struct gw_egress_run *run)
{
	const __u8 *data, *ip;

	if (!gw_reach(run->skb, GW_ETH_BYTES + GW_IPV4_BYTES))
		return GW_EGRESS_SKIP_SHORT;
	data = (const __u8 *)(long)run->skb->data;
	if (data + GW_ETH_BYTES + GW_IPV4_BYTES > (const __u8 *)(long)run->skb->data_end)
		return GW_EGRESS_SKIP_SHORT;
	ip = data + GW_ETH_BYTES;
	if (gw_load8(ip, 0) >> 4 != 4)
		return GW_EGRESS_SKIP_SHORT;
	run->traffic_class = gw_load8(ip, 1);
	run->inner_bytes = gw_load_be16(ip, 2);
	/* MF or an offset */
	run->fragment = (gw_load_be16(ip, 6) & 0x3fff) != 0;
	run->protocol = gw_load8(ip, 9);
	run->l4_at = GW_ETH_BYTES + (gw_load8(ip, 0) & 0xf) * 4;
	*(__u32 *)run->source = gw_load32(ip, 12);
	*(__u32 *)run->destination = gw_load32(ip, 16);
	if ((gw_load8(ip, 16) & 0xf0) == 0xe0 || gw_load32(ip, 16) == 0xffffffff)
		return GW_EGRESS_SKIP_LOCAL;
	return GW_NEXT;
}

static __always_inline int gw_take_config(struct gw_egress_run *run)
{
	__u32 zero = 0;
	void *live = bpf_map_lookup_elem(&gw_eg_config, &zero);
	const __u64 *node;

	if (!live)
		return GW_EGRESS_SKIP_NO_SOURCE;
	run->config = bpf_map_lookup_elem(live, &zero);
	if (!run->config)
		return GW_EGRESS_SKIP_NO_SOURCE;
	node = (const __u64 *)run->config->node_sid;
	return node[0] | node[1] ? GW_NEXT : GW_EGRESS_SKIP_NO_SOURCE;
}

static __always_inline int gw_find_route(struct gw_egress_run *run)
{
	struct gw_route_key key = {
		.prefixlen = GW_ROUTE_KEY_BITS + (run->family == GW_FAMILY_IPV4 ? 32 : 128),
		.table_id = run->table_id,
		.family = run->family,
	};

	__builtin_memcpy(key.address, run->destination, sizeof(key.address));
	run->route = bpf_map_lookup_elem(&gw_routes, &key);
	return run->route ? GW_NEXT : GW_EGRESS_SKIP_NO_ROUTE;
}

/* Up to the route: what ends here is not ours, or whose it is cannot be told. */
static __always_inline int gw_classify(struct gw_egress_run *run)
{
	int step = gw_parse_ethernet(run);

	if (step == GW_NEXT)
		step = gw_find_tenant(run);
	if (step != GW_NEXT)
		return step;
	step = run->family == GW_FAMILY_IPV4 ? gw_parse_ipv4(run) : gw_parse_ipv6(run);
	if (step == GW_NEXT)
		step = gw_take_config(run);
	if (step == GW_NEXT)
		step = gw_find_route(run);
	return step;
}

#endif
