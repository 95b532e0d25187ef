/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of the generation that the packet saw first, each an element with its number in the key. */
#ifndef GW_OFFLOAD_RECORDS_H
#define GW_OFFLOAD_RECORDS_H

#include "lib/hash.h"
#include "lib/leave.h"

/* One generation for the whole packet, taken before anything is decided. */
static __always_inline int gw_take_snapshot(struct gw_run *run)
{
	const struct gw_offload_active *active;
	__u32 zero = 0;
	__u64 number;

	active = bpf_map_lookup_elem(&gw_of_active, &zero);
	number = active ? active->generation : 0;
	if (!number)
		return gw_leaves(GW_REASON_NO_GENERATION);
	run->packet->generation = number;
	run->generation = bpf_map_lookup_elem(&gw_of_gen, &number);
	return run->generation ? GW_CONTINUE : gw_leaves(GW_REASON_INTERNAL);
}

static __always_inline int gw_find_service(struct gw_run *run)
{
	const struct gw_packet *packet = run->packet;
	const __u32 *vip = packet->vip.words;
	struct gw_offload_service_key key = {
		.generation = packet->generation,
		.service = {
			.family = packet->family,
			.protocol = packet->protocol,
			.port = packet->fragment ? 0 : packet->vip_port,
		},
	};
	__u32 *words = (__u32 *)key.service.vip;

	words[0] = vip[0];
	words[1] = vip[1];
	words[2] = vip[2];
	words[3] = vip[3];
	/* Port 0 is the entry for fragments, which have none; a packet sent to port 0 has no service. */
	if (!packet->fragment && !packet->vip_port)
		return gw_no_service(run);
	run->service = bpf_map_lookup_elem(&gw_of_service, &key);
	if (!run->service)
		return gw_no_service(run);
	run->packet->service_id = run->service->id;
	run->packet->stats = run->service->stats;
	return GW_CONTINUE;
}

static __always_inline struct gw_offload_key gw_key(const struct gw_run *run, __u32 index)
{
	return (struct gw_offload_key){
		.generation = run->packet->generation,
		.service = run->service->id,
		.index = index,
	};
}

/* Takes the backend in a row; there is one for each that the service has, empty ones included. */
static __always_inline int gw_take_row(struct gw_run *run, __u32 row)
{
	struct gw_offload_key key = gw_key(run, row);

	run->backend = bpf_map_lookup_elem(&gw_of_row, &key);
	return run->backend ? GW_CONTINUE : gw_leaves(GW_REASON_INTERNAL);
}

static __always_inline const struct gw_slot *gw_find_slot_word(const struct gw_run *run, __u32 slot)
{
	struct gw_offload_key key = gw_key(run, slot);

	return bpf_map_lookup_elem(&gw_of_slot, &key);
}

/* What is agreed for connection IDs with this config ID; NULL: nothing. */
static __always_inline const struct gw_offload_config *gw_find_config(const struct gw_run *run,
								      __u8 config)
{
	struct gw_offload_key key = gw_key(run, config);

	return bpf_map_lookup_elem(&gw_of_config, &key);
}

static __always_inline enum gw_named gw_find_server_id(const struct gw_run *run, __u8 config,
						       __u8 length, __u64 a, __u64 b)
{
	struct gw_offload_id_key key = {
		.generation = run->packet->generation,
		.service = run->service->id,
		.config = config,
		.length = length,
	};
	const struct gw_offload_id *id;
	__u64 *words = (__u64 *)key.bytes;

	words[0] = gw_le64(a);
	words[1] = gw_le64(b);
	id = bpf_map_lookup_elem(&gw_of_id, &key);
	if (!id)
		return GW_NAMED_UNKNOWN;
	run->packet->row = id->row;
	return id->flags & GW_SERVER_ID_QUARANTINED ? GW_NAMED_QUARANTINED : GW_NAMED_BACKEND;
}

static __always_inline __u64 gw_flow_hash(const struct gw_run *run, bool by_source)
{
	const struct gw_packet *packet = run->packet;

	return gw_hash_flow(run->generation->hash_key, run->generation->hash_final,
			    run->service->id, by_source ? 0 : gw_ports(packet),
			    packet->client.words);
}

#endif
