/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The egress program to be measured, and programs beside it.
 *
 * A test run does not restore the packet between repeats and always runs the same program, so gw_drive
 * takes off what the last run put on, puts the tenant's Ethernet header back, writes another source
 * address, and then calls the program under test.
 */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

/*
 * An skb that was marked as encapsulated stays so, and the next run could not mark it again. All programs
 * here go without, the floor included.
 */
#define BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 0

#include "egress.bpf.c"

enum {
	SCRAMBLE = 0x9e3779b1, /* odd, so a bijection modulo a power of two */
	SOURCE_END = GW_ETH_BYTES + 24,
};

/* Which sources gw_drive makes: counter & mask of them, one after the other in scrambled order. */
struct drive {
	__u32 counter;
	__u32 mask;
	__u32 frame_bytes; /* without the outer header */
	__u32 first; /* source */
	__u32 table_id; /* whose pins gw_bare_pin looks for, and of which group */
	__u32 group_id;
	__u8 ethernet[GW_ETH_BYTES];
	__u8 zero[2];
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

static __always_inline int shrink(struct __sk_buff *skb)
{
	return bpf_skb_adjust_room(skb, -GW_EGRESS_OUTER_BYTES, BPF_ADJ_ROOM_MAC,
				   BPF_F_ADJ_ROOM_FIXED_GSO);
}

SEC("tc")
int gw_drive(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct drive *drive = bpf_map_lookup_elem(&bench_drive, &zero);
	__u8 *data;

	if (!drive || (skb->len > drive->frame_bytes && shrink(skb)))
		return TC_ACT_SHOT;
	data = (__u8 *)(long)skb->data;
	if (data + SOURCE_END > (__u8 *)(long)skb->data_end)
		return TC_ACT_SHOT;
	__builtin_memcpy(data, drive->ethernet, sizeof(drive->ethernet));
	*(__u32 *)(data + SOURCE_END - 4) =
		bpf_htonl(drive->first + ((drive->counter++ * SCRAMBLE) & drive->mask));
	bpf_tail_call(skb, &bench_target, 0);
	return TC_ACT_SHOT;
}

SEC("tc")
int gw_nothing(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

/* With gw_drive in front of it the next time, room is made and undone. */
SEC("tc")
int gw_grow(struct __sk_buff *skb)
{
	return gw_make_room(skb) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

/* Not driven: each run takes 40 bytes off. */
SEC("tc")
int gw_shrink(struct __sk_buff *skb)
{
	return shrink(skb) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* The least that an encapsulation takes: room, headers that are always the same, a redirect. */
SEC("tc")
int gw_floor(struct __sk_buff *skb)
{
	__u8 headers[GW_ETH_BYTES + GW_EGRESS_OUTER_BYTES] = {
		2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 8, 8, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 112, 41, 64,
	};

	if (!gw_make_room(skb) || bpf_skb_store_bytes(skb, 0, headers, sizeof(headers), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(1, 0);
}

/* Whether the source of a packet has a pin in the measured group, looked for where gw_egress does it. */
static __always_inline bool is_pinned(const struct gw_egress_run *run)
{
	__u32 zero = 0;
	struct drive *drive = bpf_map_lookup_elem(&bench_drive, &zero);
	struct gw_pin_key key = { .family = run->family };

	if (!drive)
		return false;
	key.table_id = drive->table_id;
	/* It is known when the route is, no sooner. */
	key.group_id = drive->group_id + run->route->kind - GW_ROUTE_SHARD;
	__builtin_memcpy(key.source, run->source, sizeof(key.source));
	return bpf_map_lookup_elem(&gw_pins, &key);
}

/* The path of a route to a shard, with the look-up of a pin that says nothing. */
SEC("tc")
int gw_bare_pin(struct __sk_buff *skb)
{
	struct gw_egress_run run = { .skb = skb, .group_id = GW_INDEX_NONE };
	int end = gw_classify(&run);

	if (end == GW_NEXT && !is_pinned(&run))
		return TC_ACT_SHOT;
	if (end == GW_NEXT)
		end = gw_follow_route(&run);
	if (end == GW_NEXT)
		end = gw_send(&run);
	return gw_finish(&run, end);
}
