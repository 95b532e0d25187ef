/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of gw_quiclb. Names have at most 15 characters; a changed layout gets a new name. */
#ifndef GW_MAPS_QUICLB_H
#define GW_MAPS_QUICLB_H

#include "guideway/abi.h"
#include "maps/affinity.h"
#include "maps/generation.h"
#include "maps/stats.h"
#include "lib/packet.h"
#include <bpf/bpf_helpers.h>

/* What this profile finds of a generation, a service, and a config of connection IDs. */
typedef struct gw_generation gw_generation_record;
typedef struct gw_service gw_service_record;
typedef struct gw_quic_config gw_config_record;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_reason_stats);
	__uint(max_entries, 1);
} gw_ql_reason SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_backend_stats);
	__uint(max_entries, GW_MAX_BACKEND_STATS);
} gw_ql_backend SEC(".maps");

/* Where packets may be sent: interface index -> the same index. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, GW_MAX_TARGETS);
} gw_ql_dev SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_meta);
	__uint(max_entries, 1);
} gw_ql_meta SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, GW_EVENT_RING_BYTES);
} gw_ql_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_event_bucket);
	__uint(max_entries, GW_EVENT_KINDS);
} gw_ql_bucket SEC(".maps");

/* Packets of backends that are gone, by the counter index of their service; user space adds. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GW_MAX_SERVICE_STATS);
} gw_ql_removed SEC(".maps");

/* What a sweep counted; user space's alone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_bound);
	__uint(max_entries, GW_MAX_BACKEND_STATS);
} gw_ql_bound SEC(".maps");

/*
 * The packet under way on this CPU; private to the program. One at a time: XDP runs with bottom
 * halves disabled, and neither sending nor redirecting runs a program before this one has ended.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_packet);
	__uint(max_entries, 1);
} gw_ql_packet SEC(".maps");

/* Written only by a program loaded for tracing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_trace_note);
	__uint(max_entries, 1);
} gw_ql_trace SEC(".maps");

#endif
