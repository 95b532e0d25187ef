/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Binds connection IDs for user space while packets use and change the same entries. A system call
 * could only overwrite an entry as a whole, and with it what a packet or a sweep has just written
 * there; here each word is exchanged only if it is still the one that was looked at.
 */
#include "maps/affinity.h"
#include "maps/stats.h"
#include "lib/entry.h"
#include "lib/errno.h"
#include "lib/hash.h"

/* The entry that stands in the way, for the caller to judge. */
static __always_inline __u32 gw_bind_other(struct gw_bind_request *request,
					   struct gw_binding *entry)
{
	struct gw_binding found;

	gw_copy_entry(&found, entry);
	request->expected = found;
	return GW_BIND_OTHER;
}

static __always_inline __u32 gw_bind_insert(struct gw_bind_request *request,
					    const struct gw_cid_key *key,
					    const struct gw_binding *wanted)
{
	struct gw_binding *entry;
	int error = bpf_map_update_elem(&gw_ql_cid, key, wanted, BPF_NOEXIST);

	if (!error)
		return GW_BIND_DONE;
	if (error == -GW_E2BIG)
		return GW_BIND_FULL;
	if (error != -GW_EEXIST)
		return GW_BIND_BUSY;
	entry = bpf_map_lookup_elem(&gw_ql_cid, key);
	return entry ? gw_bind_other(request, entry) : GW_BIND_MISSING;
}

/*
 * The word with the tag comes first: should the entry's memory be a stranger's by now, its tag is
 * another one and nothing is changed. Then the state: a sweep that is about to delete the entry has
 * said so there, and then the caller has to look again. The time comes behind it, because until the
 * state says otherwise packets may write it as well.
 *
 * Once begun this runs to its end, whatever becomes of the caller, so no entry stays half written but
 * for a state that is another one. Then the word is taken back, unless a packet has changed it in its
 * turn: the caller may not come again, and the new backend would have the origin and the time of the
 * old binding. Between the two a packet may have followed the new one.
 *
 * A sweep that found the old time over claims the entry in its state, then reads the time again. Here
 * the time is written, then the state is read again, with a barrier in between on both sides: one of
 * the two sees what the other did.
 */
static __always_inline __u32 gw_bind_exchange(struct gw_bind_request *request,
					      const struct gw_cid_key *key,
					      const struct gw_binding *expected,
					      const struct gw_binding *wanted)
{
	struct gw_binding *entry = bpf_map_lookup_elem(&gw_ql_cid, key);
	__u64 before = gw_load_bind(expected).word, after = gw_load_bind(wanted).word;

	if (!entry)
		return GW_BIND_MISSING;
	if (gw_exchange_bind(entry, before, after) != before)
		return gw_bind_other(request, entry);
	if (gw_exchange_state(entry, expected->state, wanted->state) != expected->state) {
		gw_exchange_bind(entry, after, before);
		return gw_bind_other(request, entry);
	}
	__sync_lock_test_and_set(&entry->seen_ns, wanted->seen_ns);
	if (gw_load_state(entry) != wanted->state)
		return gw_bind_other(request, entry);
	return GW_BIND_DONE;
}

/*
 * Once the entry is dead nobody else changes it. The kernel may be unable to take its lock: then the
 * entry is as it was.
 */
static __always_inline __u32 gw_bind_delete(struct gw_bind_request *request,
					    const struct gw_cid_key *key,
					    const struct gw_binding *expected)
{
	struct gw_binding *entry = bpf_map_lookup_elem(&gw_ql_cid, key);
	__u32 dead = (expected->state & ~GW_BINDING_PHASE) | GW_BINDING_DEAD;
	int error;

	if (!entry)
		return GW_BIND_MISSING;
	if (gw_load_bind(entry).word != gw_load_bind(expected).word)
		return gw_bind_other(request, entry);
	if (gw_exchange_state(entry, expected->state, dead) != expected->state)
		return gw_bind_other(request, entry);
	error = bpf_map_delete_elem(&gw_ql_cid, key);
	if (!error)
		return GW_BIND_DONE;
	if (error == -GW_ENOENT)
		return GW_BIND_MISSING;
	gw_exchange_state(entry, dead, expected->state);
	return GW_BIND_BUSY;
}

/* Counts an entry that an import has added. Others of its kind may interrupt this program. */
static __always_inline void gw_bind_count(const struct gw_bind_request *request)
{
	__u32 index = request->stats; /* a context is no place for a key */
	struct gw_service_stats *stats = bpf_map_lookup_elem(&gw_ql_stats, &index);

	if (stats)
		__sync_fetch_and_add(&stats->counters[GW_COUNTER_IMPORTED], 1);
}

SEC("syscall")
int gw_bind(struct gw_bind_request *request)
{
	/* The hash reads it in words of eight bytes. */
	struct gw_cid_key key __attribute__((aligned(8))) = request->key;
	struct gw_binding expected = request->expected;
	struct gw_binding wanted = request->wanted;
	struct gw_collection *collection;
	__u32 first = 0;

	collection = bpf_map_lookup_elem(&gw_ql_collect2, &first);
	if (!collection)
		return 0;
	wanted.tag = gw_cid_hash(&key, collection->cid_seed);
	expected.tag = wanted.tag;
	switch (request->operation) {
	case GW_BIND_INSERT:
		request->result = gw_bind_insert(request, &key, &wanted);
		if (request->result == GW_BIND_DONE)
			gw_bind_count(request);
		break;
	case GW_BIND_EXCHANGE:
		request->result = gw_bind_exchange(request, &key, &expected, &wanted);
		break;
	case GW_BIND_DELETE:
		request->result = gw_bind_delete(request, &key, &expected);
		break;
	default:
		request->result = GW_BIND_UNKNOWN;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
