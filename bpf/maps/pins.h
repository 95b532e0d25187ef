/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps around pins: of the egress program, and of the programs that remove pins. */
#ifndef GW_MAPS_PINS_H
#define GW_MAPS_PINS_H

#include "pin_use.h"

/* Set before a program is loaded; the inner template of gw_groups has the size that follows. */
const volatile __u32 gw_max_members = GW_EGRESS_MEMBERS;

/*
 * A template of what is swapped. Sizes only, no types: before clang 21 a type used in an inner
 * definition alone becomes a forward declaration that libbpf refuses, and Linux 6.1 refuses a
 * published map without BTF where the template has it.
 */
#define GW_SNAPSHOT_BYTES(members, slots) \
	((sizeof(struct gw_group_header) + (members) * sizeof(struct gw_member) + \
	  (slots) * sizeof(__u16) + 7) & ~7UL)

struct gw_eg_snapshot {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, GW_SNAPSHOT_BYTES(GW_EGRESS_MEMBERS, GW_EGRESS_SLOTS));
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_RDONLY_PROG);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(key_size, sizeof(__u32));
	__uint(max_entries, GW_EGRESS_GROUPS);
	__array(values, struct gw_eg_snapshot);
} gw_groups SEC(".maps");

/* Plain and preallocated: a full table refuses the newcomer and never evicts the resident. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_pin_key);
	__type(value, struct gw_pin);
	__uint(max_entries, GW_EGRESS_PINS);
} gw_pins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_flow_pin_key);
	__type(value, struct gw_pin);
	__uint(max_entries, GW_EGRESS_FLOW_PINS);
} gw_flow_pins SEC(".maps");

/* By enum gw_egress_counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GW_EGRESS_COUNTERS);
} gw_eg_stat SEC(".maps");

static __always_inline void gw_egress_count(__u32 counter)
{
	__u64 *count = bpf_map_lookup_elem(&gw_eg_stat, &counter);

	if (count)
		++*count;
}

#endif
