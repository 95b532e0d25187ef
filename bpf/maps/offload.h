/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of gw_quiclb on a network card. All of them are bound to the card. */
#ifndef GW_MAPS_OFFLOAD_H
#define GW_MAPS_OFFLOAD_H

#include "guideway/abi.h"
#include "lib/packet.h"
#include <bpf/bpf_helpers.h>

/* What this profile finds of a generation, a service, and a config of connection IDs. */
typedef struct gw_offload_generation gw_generation_record;
typedef struct gw_offload_service gw_service_record;
typedef struct gw_offload_config gw_config_record;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_offload_active);
	__uint(max_entries, 1);
} gw_of_active SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct gw_offload_generation);
	__uint(max_entries, 16);
} gw_of_gen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_offload_service_key);
	__type(value, struct gw_offload_service);
	__uint(max_entries, GW_OFFLOAD_SERVICES);
} gw_of_service SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_offload_key);
	__type(value, struct gw_offload_config);
	__uint(max_entries, GW_OFFLOAD_CONFIGS);
} gw_of_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_offload_id_key);
	__type(value, struct gw_offload_id);
	__uint(max_entries, GW_OFFLOAD_SERVER_IDS);
} gw_of_id SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_offload_key);
	__type(value, struct gw_backend);
	__uint(max_entries, GW_OFFLOAD_BACKENDS);
} gw_of_row SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_offload_key);
	__type(value, struct gw_slot);
	__uint(max_entries, GW_OFFLOAD_SLOTS);
} gw_of_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct gw_flow_key);
	__type(value, struct gw_offload_binding);
	__uint(max_entries, GW_OFFLOAD_FLOWS);
} gw_of_flow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_offload_epoch);
	__uint(max_entries, 1);
} gw_of_epoch SEC(".maps");

/* Packets by reason. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GW_REASONS);
} gw_of_reason SEC(".maps");

/* GW_OFFLOAD_COUNTERS of each service, one after the other. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GW_OFFLOAD_SERVICE_STATS * GW_OFFLOAD_COUNTERS);
} gw_of_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_backend_stats);
	__uint(max_entries, GW_OFFLOAD_BACKEND_STATS);
} gw_of_backend SEC(".maps");

#endif
