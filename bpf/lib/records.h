/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the generation that the packet saw first: cells of one map. */
#ifndef GW_LIB_RECORDS_H
#define GW_LIB_RECORDS_H

#include "hash.h"
#include "leave.h"

/* Every record lies within one cell, so an index and a bounded offset reach it. */
static __always_inline const void *gw_cell(const struct gw_run *run, __u32 index)
{
	return bpf_map_lookup_elem(run->cells, &index);
}

/* One generation for the whole packet, taken before anything is decided. */
static __always_inline int gw_take_snapshot(struct gw_run *run)
{
	__u32 zero = 0;

	run->cells = bpf_map_lookup_elem(&gw_ql_gen, &zero);
	if (!run->cells)
		return gw_leaves(GW_REASON_NO_GENERATION);
	run->generation = gw_cell(run, 0);
	if (!run->generation || run->generation->magic != GW_ABI_MAGIC)
		return gw_leaves(GW_REASON_INTERNAL);
	run->service = (const void *)run->generation;
	run->backend = (const void *)run->generation;
	run->packet->generation = run->generation->number;
	run->packet->events_per_second = run->generation->events_per_second;
	return GW_CONTINUE;
}

/* Exact look-up of (family, protocol, port, VIP); the hash only says where to begin. */
static __always_inline int gw_find_service(struct gw_run *run)
{
	const struct gw_generation *generation = run->generation;
	const struct gw_packet *packet = run->packet;
	const __u32 *vip = packet->vip.words;
	__be16 port = packet->fragment ? 0 : packet->vip_port;
	__u64 a = packet->family | (__u32)packet->protocol << 8 | (__u32)gw_le16(port) << 16 |
		  (__u64)gw_le32(vip[0]) << 32;
	__u64 b = gw_le32(vip[1]) | (__u64)gw_le32(vip[2]) << 32;
	__u32 c = gw_le32(vip[3]);
	__u32 hash = gw_directory_hash(a, b, c, generation->directory_seed);

	/* Port 0 is the entry for fragments, which have none; a packet sent to port 0 has no service. */
	if (!port && !packet->fragment)
		return gw_no_service(run);
#pragma unroll
	for (int i = 0; i < GW_MAX_PROBES; i++) {
		__u32 index = (hash + i) & generation->directory_mask;
		const struct gw_service *service = gw_cell(run, generation->directory_at + index);

		if (!service)
			return gw_leaves(GW_REASON_INTERNAL);
		if (!service->key.family)
			break;
		if (gw_le64(gw_load64(service, 0)) == a && gw_le64(gw_load64(service, 8)) == b &&
		    gw_le32(gw_load32(service, 16)) == c) {
			run->service = service;
			run->packet->service_id = service->id;
			run->packet->stats = service->stats;
			return GW_CONTINUE;
		}
	}
	return gw_no_service(run);
}

/* Takes the backend in a row; there may be none, or an empty one. */
static __always_inline int gw_take_row(struct gw_run *run, __u32 row)
{
	const struct gw_backend *rows;

	if (row >= run->service->backends)
		return gw_leaves(GW_REASON_INTERNAL);
	rows = gw_cell(run, run->service->backends_at + row / GW_CELL_BACKENDS);
	if (!rows)
		return gw_leaves(GW_REASON_INTERNAL);
	run->backend = &rows[row % GW_CELL_BACKENDS];
	return GW_CONTINUE;
}

/* A slot of the table; there is one for each number below the table's size. */
static __always_inline const struct gw_slot *gw_find_slot_word(const struct gw_run *run, __u32 slot)
{
	const struct gw_slot *slots = gw_cell(run, run->service->slots_at + slot / GW_CELL_SLOTS);

	return slots ? &slots[slot % GW_CELL_SLOTS] : NULL;
}

/* What is agreed for connection IDs with this config ID, 0 to 6. */
static __always_inline const struct gw_quic_config *gw_find_config(const struct gw_run *run,
								   __u8 config)
{
	return &run->service->configs[config];
}

/* Exact look-up of (config, bytes); the hash only says where to begin. */
static __always_inline enum gw_named gw_find_server_id(const struct gw_run *run, __u8 config,
						       __u8 length, __u64 a, __u64 b)
{
	const struct gw_service *service = run->service;
	__u32 hash = gw_server_id_hash(config, length, a, b, service->server_id_seed);

#pragma unroll
	for (int i = 0; i < GW_MAX_PROBES; i++) {
		__u32 index = (hash + i) & service->server_ids_mask;
		const struct gw_server_id *ids, *id;

		ids = gw_cell(run, service->server_ids_at + index / GW_CELL_SERVER_IDS);
		if (!ids)
			return GW_NAMED_INTERNAL;
		id = &ids[index % GW_CELL_SERVER_IDS];
		if (!id->flags)
			break;
		if (gw_le64(gw_load64(id->bytes, 0)) == a && gw_le64(gw_load64(id->bytes, 8)) == b &&
		    id->config == config && id->length == length) {
			run->packet->row = id->row;
			return id->flags & GW_SERVER_ID_QUARANTINED ? GW_NAMED_QUARANTINED :
								      GW_NAMED_BACKEND;
		}
	}
	return GW_NAMED_UNKNOWN;
}

static __always_inline __u64 gw_flow_hash(const struct gw_run *run, bool by_source)
{
	const struct gw_packet *packet = run->packet;

	return gw_flow_hash_of(run->service, by_source ? 0 : gw_ports(packet),
			       packet->client.words);
}

#endif
