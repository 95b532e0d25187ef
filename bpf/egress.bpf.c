/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_egress: sends tenants' packets to egress shards, encapsulated with SRv6.
 *
 * It runs where a tenant's packets come in from its interface. Fail open before a route matches: what
 * is not ours is left to the next program. Fail closed after that: the packet is sent to the shard of
 * its route, or to the member of a group that its pin or the group's table names, or it is dropped for
 * a named reason, of some of which its sender is told; only a route that says so lets it pass.
 */
#include "egress/answer.h"
#include "egress/encap.h"
#include "egress/length.h"
#include "egress/mss.h"
#include "egress/parse.h"
#include "egress/run.h"
#include "egress/select.h"

static __always_inline int gw_to_shard(struct gw_egress_run *run)
{
	const struct gw_route *route = run->route;

	if (!route->next_hop.ifindex)
		return GW_EGRESS_DROP_BAD_ROUTE;
	gw_take_hop(run, &route->next_hop, route->sid, 0);
	run->counters_at = GW_INDEX_NONE;
	return GW_NEXT;
}

static __always_inline int gw_to_group(struct gw_egress_run *run)
{
	struct gw_choice choice = {};
	const struct gw_member *member;
	int step;

	run->group_id = run->route->group_id;
	step = gw_select(run, &choice);

	if (step == GW_EGRESS_DROP_GROUP_EMPTY)
		run->answered = (choice.group->flags & GW_GROUP_REJECT) != 0;
	if (step != GW_NEXT)
		return step;
	member = choice.member;
	if (!member || !member->next_hop.ifindex)
		return GW_EGRESS_DROP_BAD_SNAPSHOT;
	gw_take_hop(run, &member->next_hop, member->sid,
		    choice.group->profile & GW_PROFILE_ECN_NORMAL);
	run->counters_at = run->route->group_id * gw_max_members + choice.slot;
	return GW_NEXT;
}

/* The shard of the route, or why there is none. */
static __always_inline int gw_follow_route(struct gw_egress_run *run)
{
	switch (run->route->kind) {
	case GW_ROUTE_PASS:
		return GW_EGRESS_PASS;
	case GW_ROUTE_SHARD:
		return gw_to_shard(run);
	case GW_ROUTE_GROUP:
		return gw_to_group(run);
	case GW_ROUTE_BLOCK:
		run->answered = run->route->action == GW_BLOCK_UNREACHABLE;
		return GW_EGRESS_DROP_BLOCKED;
	default:
		return GW_EGRESS_DROP_BAD_ROUTE;
	}
}

static __always_inline int gw_send(struct gw_egress_run *run)
{
	__u32 bytes = run->skb->len;
	struct gw_shard_stats *stats;
	int step = gw_check_length(run);

	if (step == GW_NEXT)
		step = gw_clamp_mss(run);
	if (step == GW_NEXT)
		step = gw_encapsulate(run);
	if (step != GW_NEXT)
		return step;
	if (bpf_redirect(run->link_ifindex, 0) != TC_ACT_REDIRECT)
		return GW_EGRESS_DROP_REDIRECT;
	if (run->counters_at == GW_INDEX_NONE)
		return GW_EGRESS_SHARD;
	stats = bpf_map_lookup_elem(&gw_shardstat, &run->counters_at);
	if (stats) {
		stats->packets++;
		stats->bytes += bytes;
	}
	return GW_EGRESS_GROUP;
}

static __always_inline int gw_verdict(__u32 end)
{
	switch (end) {
	case GW_EGRESS_ICMP_SENT:
	case GW_EGRESS_UNREACH_SENT:
		return TC_ACT_REDIRECT;
	case GW_EGRESS_PASS:
		return TC_ACT_UNSPEC;
	default:
		if (end >= GW_EGRESS_SKIP_SHORT && end < GW_EGRESS_DROP_BAD_ROUTE)
			return TC_ACT_UNSPEC;
		return TC_ACT_SHOT;
	}
}

/*
 * The one place where packets end that are not sent to a shard, which the verifier has to walk through
 * once: counts, and tells.
 */
GW_GLOBAL int gw_end(struct __sk_buff *skb, __u32 end, __u32 table_id, __u32 group_id,
		     __u32 link_ifindex)
{
	gw_egress_count(end);
	/* A block is what its route asks for. */
	if (end >= GW_EGRESS_DROP_BAD_ROUTE && end != GW_EGRESS_DROP_BLOCKED)
		gw_tell(skb, end, table_id, group_id, link_ifindex);
	return gw_verdict(end);
}

/* Ends the packet where its last step says. */
static __always_inline int gw_finish(struct gw_egress_run *run, int end)
{
	/* Most packets: nothing is told of them, and the call takes as long as a look-up. */
	if (end == GW_EGRESS_SHARD || end == GW_EGRESS_GROUP) {
		gw_egress_count(end);
		return TC_ACT_REDIRECT;
	}
	if (run->answered && run->tenant_flags & GW_TENANT_ICMP)
		end = gw_answer_instead(run, end);
	return gw_end(run->skb, end, run->table_id, run->group_id, run->link_ifindex);
}

SEC("tc")
int gw_egress(struct __sk_buff *skb)
{
	struct gw_egress_run run = { .skb = skb, .group_id = GW_INDEX_NONE };
	int end = gw_classify(&run);

	if (end == GW_NEXT)
		end = gw_follow_route(&run);
	if (end == GW_NEXT)
		end = gw_send(&run);
	return gw_finish(&run, end);
}

char _license[] SEC("license") = "Dual BSD/GPL";
