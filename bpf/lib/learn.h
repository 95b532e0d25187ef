/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connection IDs that are bound to a backend: how one is looked up, used and learned. */
#ifndef GW_LIB_LEARN_H
#define GW_LIB_LEARN_H

#include "binding.h"
#include "count.h"

/* The tag of the connection ID's entry. */
static __always_inline __u16 gw_cid_tag(const struct gw_cid_key *key)
{
	__u32 zero = 0;
	const struct gw_collection *collection = bpf_map_lookup_elem(&gw_ql_collect2, &zero);

	return gw_cid_hash(key, collection ? collection->cid_seed : 0);
}

/* What a packet does to the entry of its connection ID when that is not simply live. */
GW_GLOBAL int gw_use_cid_slowly(struct gw_packet *packet, struct gw_binding *entry, __u64 bind)
{
	struct gw_cid_key key;

	if (!packet || !entry)
		return 0;
	key = packet->cid_key;
	return gw_use_slowly(&gw_ql_cid, &key, entry, bind, 0, 0, entry->hash);
}

/* Notes that the connection had a packet; gives the state in which its entry was. */
static __always_inline __u32 gw_use_cid(struct gw_packet *packet, struct gw_binding *entry,
				       union gw_bind bind)
{
	__u32 state = gw_load_state(entry);

	if (packet->passive)
		return state;
	if (state & GW_BINDING_PHASE)
		gw_use_cid_slowly(packet, entry, bind.word);
	else if (!gw_is_registered(state))
		gw_refresh(packet, entry);
	return state;
}

/* A connection ID that somebody has bound in the meantime, to another backend or the same. */
static __always_inline void gw_meet_bound(struct gw_packet *packet, const struct gw_cid_key *key,
					  union gw_bind wanted)
{
	struct gw_binding *entry = bpf_map_lookup_elem(&gw_ql_cid, key);

	if (!entry || gw_load_bind(entry).word == wanted.word)
		return;
	gw_count(packet, GW_COUNTER_CID_CONFLICT);
	gw_tell(packet, GW_EVENT_CID_CONFLICT);
}

/* Whether connection IDs may be learned for the service; a full table is not asked again. */
static __always_inline bool gw_admits_cids(const struct gw_packet *packet)
{
	__u32 index = packet->stats;
	const struct gw_admission *admission = bpf_map_lookup_elem(&gw_ql_level, &index);

	return !admission || admission->cids == GW_LEVEL_ALL;
}

static __always_inline void gw_close_cids(const struct gw_packet *packet)
{
	__u32 index = packet->stats;
	struct gw_admission *admission = bpf_map_lookup_elem(&gw_ql_level, &index);

	if (admission)
		admission->cids = GW_LEVEL_NONE;
}

/* One connection ID in a flow's count. */
#define GW_ONE_LEARNED (1U << GW_BINDING_LEARNED_SHIFT)

/*
 * Takes one back that was counted, whatever else has become of the word since. A count of nothing
 * is a stranger's.
 */
static __always_inline void gw_uncount_learned(struct gw_binding *flow)
{
	if (gw_load_state(flow) & GW_BINDING_LEARNED)
		__sync_fetch_and_sub(&flow->state, GW_ONE_LEARNED);
}

/*
 * Binds the packet's connection ID to the backend of its flow, whose entry this is. The flow's count
 * goes first, so that no race exceeds it, and back if nothing was learned.
 */
GW_GLOBAL int gw_learn(struct gw_packet *packet, struct gw_binding *flow, __u64 bind)
{
	union gw_bind cid = { .word = bind };
	struct gw_cid_key key;
	enum gw_insert result;
	__u32 state;

	if (!packet || !flow)
		return 0;
	state = gw_load_state(flow);
	if ((state & GW_BINDING_LEARNED) >= GW_MAX_LEARNED * GW_ONE_LEARNED)
		return 0;
	if (!gw_admits_cids(packet)) {
		gw_count(packet, GW_COUNTER_CID_REFUSED);
		gw_tell(packet, GW_EVENT_REFUSED_FULL);
		return 0;
	}
	/* Whoever changed it has changed nothing that matters here; the next packet teaches as well. */
	if (gw_exchange_state(flow, state, state + GW_ONE_LEARNED) != state)
		return 0;
	/* Linux 6.1 takes keys from the stack and from maps, and does not know that this is a map. */
	key = packet->cid_key;
	cid.tag = gw_cid_tag(&key);
	result = gw_insert(&gw_ql_cid, &key, cid.word, bpf_ktime_get_coarse_ns(),
			   GW_BINDING_TRAFFIC, packet->hash >> 32);
	if (result == GW_INSERTED) {
		packet->created |= GW_TRACE_CREATED_CID;
		gw_count(packet, GW_COUNTER_CID_LEARNED);
		gw_tell(packet, GW_EVENT_CID_LEARNED);
		return 0;
	}
	gw_uncount_learned(flow);
	if (result == GW_INSERT_EXISTS) {
		gw_meet_bound(packet, &key, cid);
		return 0;
	}
	if (result == GW_INSERT_FULL)
		gw_close_cids(packet);
	gw_count(packet, GW_COUNTER_CID_REFUSED);
	gw_tell(packet, GW_EVENT_REFUSED_FULL);
	return 0;
}

#endif
