/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of flow state, for every program that reads or writes them.
 *
 * Plain hash tables, preallocated: an LRU table evicts live entries without a word, and without
 * preallocation an insert can fail for want of memory in the middle of a flood.
 */
#ifndef GW_MAPS_AFFINITY_H
#define GW_MAPS_AFFINITY_H

#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_flow_key);
	__type(value, struct gw_binding);
	__uint(max_entries, GW_FLOWS);
} gw_ql_flow SEC(".maps");

/* Exact bindings of connection IDs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_cid_key);
	__type(value, struct gw_binding);
	__uint(max_entries, GW_CIDS);
} gw_ql_cid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_admission);
	__uint(max_entries, GW_MAX_SERVICE_STATS);
} gw_ql_level SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_collection);
	__uint(max_entries, 1);
} gw_ql_collect2 SEC(".maps");

#endif
