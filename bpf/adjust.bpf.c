/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes counts that packets change at the same time, which user space cannot: what it has read is old
 * when it writes.
 */
#include "maps/pin_use.h"
#include "maps/shards.h"

/*
 * Packets add to the row of their CPU in more than one instruction, but nothing that calls this comes
 * between them: they are handled with bottom halves off. They may come between any two instructions
 * here, so each addition is a single one. Which CPU's row it goes to does not matter to the sum.
 */
SEC("syscall")
int gw_add_shard(struct gw_more_shard *ctx)
{
	struct gw_shard_stats more = ctx->more;
	__u32 index = ctx->index;
	struct gw_shard_stats *stats = bpf_map_lookup_elem(&gw_shardstat, &index);

	if (!stats)
		return GW_ADJUST_MISSING;
	__sync_fetch_and_add(&stats->packets, more.packets);
	__sync_fetch_and_add(&stats->bytes, more.bytes);
	return GW_ADJUST_DONE;
}

SEC("syscall")
int gw_add_pins(struct gw_more_pins *ctx)
{
	__u32 table_id = ctx->table_id;
	struct gw_pin_use *use = bpf_map_lookup_elem(&gw_pin_use, &table_id);

	if (!use)
		return GW_ADJUST_MISSING;
	__sync_fetch_and_add(&use->pins, ctx->more);
	return GW_ADJUST_DONE;
}

char _license[] SEC("license") = "Dual BSD/GPL";
