/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collects flow state: one pass over a table, called by user space, which makes the rules and holds
 * the lock. Packets use the entries meanwhile, so an idle entry is forgotten in two passes: the
 * first marks it as expiring, which a packet undoes by a compare-and-exchange; the second claims it
 * by one of its own and deletes it. A packet that finds an entry claimed says so in its state, and
 * the entry is put back. An entry that no packet needs is deleted at once.
 *
 * The walk only gathers entries, and judges a group of them when the next one does not fit any more.
 * Steps that short wait for the memory of several entries at a time, and the entry that the walk is at
 * is never one that is deleted: it would lead kernels before Linux 6.15, unless they were mended, into
 * another bucket as soon as its memory is used again.
 *
 * So a pass sees every entry of a flow that is there from its beginning to its end, once: nobody else
 * deletes them, and inserts go to the front of a bucket. Registrations of connection IDs are ended by
 * user space, too; what a pass misses for that the next one sees.
 */
#include "lib/entry.h"
#include "lib/errno.h"
#include "lib/hash.h"
#include "maps/affinity.h"
#include "maps/generation.h"
#include "maps/stats.h"
#include "maps/sweep.h"

/* How often it is tried to put an entry back while its bucket is locked. */
#define GW_SWEEP_TRIES 4

struct gw_pass {
	struct gw_sweep *ctx;
	void *cells; /* the generation */
	struct gw_group *group;
	struct gw_sweep_service *rules; /* of the entry before; most are of the same service */
};

/* An entry as it was judged. */
struct gw_judged {
	union gw_bind bind;
	__u64 silent_ns;
	__u32 state;
	__u32 hash;
};

/* A cell of the generation. One that is not there ends the pass: what it has seen is not all. */
static __always_inline const void *gw_cell(struct gw_pass *pass, __u32 index)
{
	const void *cell = bpf_map_lookup_elem(pass->cells, &index);

	if (!cell)
		pass->group->failed = true;
	return cell;
}

static __always_inline struct gw_judged gw_judge(const struct gw_binding *value, __u64 now_ns)
{
	__u64 seen_ns = gw_load_seen_ns(value);

	return (struct gw_judged){
		.bind = gw_load_bind(value),
		/* A packet may have come since the time of the pass. */
		.silent_ns = now_ns > seen_ns ? now_ns - seen_ns : 0,
		.state = gw_load_state(value),
		.hash = gw_load_hash(value),
	};
}

/* The rules of a service that there is; those of the entry before are not looked for again. */
static __always_inline struct gw_sweep_service *gw_rules_of(struct gw_pass *pass,
							    const __u32 *service)
{
	struct gw_sweep_service *rules = pass->rules;

	if (pass->group->service != *service) {
		rules = bpf_map_lookup_elem(&gw_ql_rules, service);
		if (!rules)
			return NULL;
		pass->rules = rules;
		pass->group->service = *service;
	}
	return *service ? rules : NULL;
}

/* Gives the entry a phase if its state is still the one read; whether it was. */
static __always_inline bool gw_set_phase(struct gw_binding *value, __u32 state, __u32 phase)
{
	__u32 next = (state & ~GW_BINDING_PHASE) | phase;

	return gw_exchange_state(value, state, next) == state;
}

/* Index of the counters of the entry's backend; GW_INDEX_NONE: its row is empty or has another. */
static __always_inline __u32 gw_backend_of(struct gw_pass *pass,
					   const struct gw_service *service,
					   const struct gw_judged *entry)
{
	const struct gw_backend *rows;

	if (entry->bind.row >= service->backends)
		return GW_INDEX_NONE;
	rows = gw_cell(pass, service->backends_at + entry->bind.row / GW_CELL_BACKENDS);
	if (!rows)
		return GW_INDEX_NONE;
	rows += entry->bind.row % GW_CELL_BACKENDS;
	if (rows->state == GW_BACKEND_MISSING || rows->incarnation != entry->bind.incarnation)
		return GW_INDEX_NONE;
	return rows->stats;
}

/* Counts an entry for its backend, if it has one. */
static __always_inline void gw_tally(__u32 backend, __u32 flows, __u32 cids)
{
	struct gw_bound *tally = bpf_map_lookup_elem(&gw_ql_tally, &backend);

	if (!tally)
		return;
	tally->flows += flows;
	tally->cids += cids;
}

static __always_inline void gw_count_for(const struct gw_service *service, __u32 counter)
{
	struct gw_service_stats *stats = bpf_map_lookup_elem(&gw_ql_stats, &service->stats);

	if (stats)
		stats->counters[counter]++;
}

/*
 * A number that the verifier knows nothing about, as all that it has not seen come out of a map.
 * Without CAP_PERFMON it refuses an index into a map value that is one constant on one way and
 * another on another ("R6 tried to add from different maps, paths or scalars", Linux 6.18).
 */
static __always_inline __u32 gw_forgotten(struct gw_sweep_service *rules, __u32 number)
{
	*(volatile __u32 *)&rules->scratch = number;
	return *(volatile __u32 *)&rules->scratch;
}

/* Deletes an entry; one in a bucket that is locked stays. */
static __always_inline bool gw_delete(void *map, const void *key,
				      const struct gw_service *service,
				      struct gw_sweep_counts *counts, __u32 reason)
{
	if (bpf_map_delete_elem(map, key))
		return false;
	reason &= GW_SWEEP_REASONS - 1;
	counts->deleted[reason]++;
	if (service)
		gw_count_for(service, GW_COUNTER_DELETED_IDLE + reason);
	return true;
}

/*
 * Gives an entry back that was claimed in this state and could not be deleted. A packet that found it
 * claimed wrote no time: where idle entries are forgotten the caller writes one first.
 */
static __always_inline void gw_give_back(struct gw_binding *value, __u32 state)
{
	__u32 dead = (state & ~GW_BINDING_PHASE) | GW_BINDING_DEAD;

	if (!gw_set_phase(value, dead, GW_BINDING_LIVE))
		gw_set_phase(value, dead | GW_BINDING_TOUCHED, GW_BINDING_LIVE);
}

/*
 * Deletes the entry of a connection ID that no packet follows. User space may be binding that one
 * anew at this moment, so the entry is claimed first and then looked at once more. Whoever binds
 * writes first and then looks at the claim: one of the two sees what the other did. And it may have
 * ended the binding: then what was claimed is somebody else's, which has another tag, and the ID has no
 * entry, or one that is not dead.
 */
static __always_inline bool gw_delete_cid(const struct gw_cid_key *key,
					  const struct gw_judged *entry, __u64 seen_ns,
					  const struct gw_service *service,
					  struct gw_sweep_counts *counts, __u32 reason)
{
	struct gw_binding *value = bpf_map_lookup_elem(&gw_ql_cid, key);
	const struct gw_binding *claimed;

	if (!value)
		return true;
	if (!gw_set_phase(value, entry->state, GW_BINDING_DEAD))
		return false;
	claimed = bpf_map_lookup_elem(&gw_ql_cid, key);
	if (claimed && gw_load_bind(value).word == entry->bind.word && (gw_load_state(claimed) & GW_BINDING_PHASE) == GW_BINDING_DEAD &&
	    gw_load_bind(claimed).word == entry->bind.word &&
	    gw_load_seen_ns(claimed) == seen_ns &&
	    gw_delete(&gw_ql_cid, key, service, counts, reason))
		return true;
	gw_give_back(value, entry->state);
	return false;
}

/* Makes the entry of a connection ID live again. */
static __always_inline void gw_revive_cid(const struct gw_cid_key *key, __u32 state)
{
	struct gw_binding *value = bpf_map_lookup_elem(&gw_ql_cid, key);

	if (value)
		gw_set_phase(value, state, GW_BINDING_LIVE);
}

/* Puts an entry back that was deleted under a packet. */
static __always_inline void gw_resurrect(void *map, const void *key,
					 const struct gw_binding *value,
					 const struct gw_service *service,
					 struct gw_sweep_counts *counts)
{
	int error = bpf_map_update_elem(map, key, value, BPF_NOEXIST);

#pragma unroll
	for (int i = 1; i < GW_SWEEP_TRIES; i++) {
		if (!error || error == -GW_EEXIST || error == -GW_E2BIG)
			break;
		error = bpf_map_update_elem(map, key, value, BPF_NOEXIST);
	}
	if (!error) {
		counts->resurrected++;
		counts->entries++;
		gw_count_for(service, GW_COUNTER_RESURRECTED);
	} else if (error != -GW_EEXIST) { /* else the packet did it itself */
		counts->lost++;
	}
}

/* When a packet that came during the pass was here at the latest. */
static __always_inline __u64 gw_used_ns(__u64 now_ns)
{
	__u64 ns = bpf_ktime_get_ns();

	return ns > now_ns ? ns : now_ns;
}

/* Deletes an entry that packets may be using. Whether it is gone. */
static __always_inline bool gw_forget(void *map, const void *key, struct gw_binding *value,
				      const struct gw_judged *entry, __u64 now_ns,
				      const struct gw_service *service,
				      struct gw_sweep_counts *counts, __u32 reason)
{
	__u32 phase = entry->state & GW_BINDING_PHASE;
	struct gw_judged claimed = *entry, after;
	struct gw_binding copy;

	/* Dead already: whoever claimed it neither deleted it nor gave it back. */
	if (phase != GW_BINDING_DEAD && !gw_set_phase(value, entry->state, GW_BINDING_DEAD))
		return false;
	/* A packet may have chosen another backend since it was judged. */
	claimed.bind = gw_load_bind(value);
	if (!gw_delete(map, key, service, counts, reason)) {
		/* Whether a packet came or not: one that is on its way to say so would be too late. */
		value->seen_ns = gw_used_ns(now_ns);
		gw_give_back(value, entry->state);
		return false;
	}
	/*
	 * What a packet wrote after the claim counts. If the element is somebody else's already, nobody
	 * can tell whether one did, and it is taken for granted.
	 */
	after = gw_judge(value, now_ns);
	if (after.bind.tag != entry->bind.tag || after.hash != entry->hash)
		after = claimed;
	else if ((after.state & GW_BINDING_PHASE) != GW_BINDING_TOUCHED &&
		 after.bind.word == claimed.bind.word)
		return true;
	gw_fill_entry(&copy, after.bind.word, gw_used_ns(now_ns),
		      after.state & ~GW_BINDING_PHASE, after.hash);
	gw_resurrect(map, key, &copy, service, counts);
	return true;
}

/*
 * One step of a doomed entry towards its end, or of another one back to life. Whether it is still
 * there.
 */
static __always_inline bool gw_step(void *map, const void *key, const struct gw_judged *entry,
				    bool doomed, __u64 now_ns, const struct gw_service *service,
				    struct gw_sweep_counts *counts, __u32 reason)
{
	__u32 phase = entry->state & GW_BINDING_PHASE;
	struct gw_binding *value;

	if (!doomed && phase == GW_BINDING_LIVE)
		return true;
	value = bpf_map_lookup_elem(map, key);
	if (!value)
		return false;
	if (gw_load_state(value) != entry->state)
		return true; /* used, or bound anew, since it was judged */
	if (phase == GW_BINDING_TOUCHED) {
		/* Claimed by somebody who neither deleted it nor gave it back, and used since. */
		value->seen_ns = gw_used_ns(now_ns);
		gw_set_phase(value, entry->state, GW_BINDING_LIVE);
	} else if (!doomed) {
		gw_set_phase(value, entry->state, GW_BINDING_LIVE);
	} else if (phase == GW_BINDING_LIVE) {
		if (gw_set_phase(value, entry->state, GW_BINDING_EXPIRING))
			counts->expiring++;
	} else {
		return !gw_forget(map, key, value, entry, now_ns, service, counts, reason);
	}
	return true;
}

/*
 * Whether a packet may need an entry: in a plain slot none looks for it, and in a held one it has to
 * say something else than the table. One that stayed there would mislead the packets that find it when
 * the slot is open again.
 */
static __always_inline bool gw_is_needed(const struct gw_service *service, __u16 base,
					 bool differs)
{
	if (service->flags & GW_SERVICE_TRACK_ALL || base < GW_SLOT_HELD)
		return true;
	return base == GW_SLOT_HELD && differs;
}

static long gw_judge_flow(__u32 index, struct gw_pass *pass)
{
	const struct gw_gathered *gathered = &pass->group->entries[index % GW_GROUP];
	const struct gw_flow_key *key = &gathered->flow;
	__u64 now_ns = pass->ctx->now_ns;
	struct gw_judged entry = gw_judge(&gathered->entry, now_ns);
	struct gw_sweep_service *rules = gw_rules_of(pass, &key->service);
	__u32 ports, slot, cell, bit, reason, backend;
	const struct gw_service *service;
	const struct gw_slot *word;
	bool gone, differs, silent;
	__u64 h64, *differing;

	if (!rules) {
		gw_delete(&gw_ql_flow, key, NULL, &pass->ctx->strangers, GW_SWEEP_REDUNDANT);
		return 0;
	}
	service = gw_cell(pass, rules->service_at);
	if (!service)
		return 1;
	ports = gw_le16(key->client_port) | (__u32)gw_le16(key->vip_port) << 16;
	h64 = gw_flow_hash_of(service, ports, (const __u32 *)key->address);
	if ((__u16)h64 == entry.bind.tag && service->flags & GW_SERVICE_HASH_SOURCE)
		h64 = (h64 & 0xffff) |
		      (gw_flow_hash_of(service, 0, (const __u32 *)key->address) & ~0xffffULL);
	slot = (__u64)(__u32)(h64 >> 32) * service->slots >> 32;
	cell = service->slots_at + slot / GW_CELL_SLOTS;
	bit = slot % GW_CELL_SLOTS;
	word = gw_cell(pass, cell);
	if (!word)
		return 1;
	word += bit;
	differs = word->owner != entry.bind.row;
	/* No packet finds an entry of another hash seed. */
	if ((__u16)h64 != entry.bind.tag || h64 >> 32 != entry.hash ||
	    !gw_is_needed(service, word->base, differs)) {
		if (!gw_delete(&gw_ql_flow, key, service, &rules->flows, GW_SWEEP_REDUNDANT))
			rules->flows.entries++;
		return 0;
	}
	backend = gw_backend_of(pass, service, &entry);
	if (pass->group->failed)
		return 1;
	gone = backend == GW_INDEX_NONE;
	silent = entry.silent_ns > rules->flow_idle_ns;
	reason = gone ? GW_SWEEP_BACKEND_GONE : GW_SWEEP_IDLE;
	if (!gone && !silent && entry.state & (GW_BINDING_FIN | GW_BINDING_RST)) {
		silent = entry.silent_ns > rules->closed_ns;
		reason = GW_SWEEP_CLOSED;
	}
	/* First: an entry that is deleted under a packet comes back behind this pass, unseen by it. */
	if (differs) {
		differing = bpf_map_lookup_elem(&gw_ql_differ, &cell);
		if (differing)
			*differing |= 1ULL << bit;
	}
	if (gw_step(&gw_ql_flow, key, &entry, gone || silent, now_ns, service,
		    &rules->flows, gw_forgotten(rules, reason))) {
		rules->flows.entries++;
		gw_tally(backend, 1, 0);
		if (differs && !gone && !silent)
			rules->flows.differing++;
	}
	return 0;
}

static long gw_judge_cid(__u32 index, struct gw_pass *pass)
{
	const struct gw_gathered *gathered = &pass->group->entries[index % GW_GROUP];
	const struct gw_cid_key *key = &gathered->cid;
	__u64 now_ns = pass->ctx->now_ns, seen_ns = gathered->entry.seen_ns;
	struct gw_judged entry = gw_judge(&gathered->entry, now_ns);
	struct gw_sweep_service *rules = gw_rules_of(pass, &key->service);
	__u32 origin = entry.state & GW_BINDING_ORIGIN;
	const struct gw_service *service;
	const struct gw_slot *word;
	bool silent = false;
	__u32 slot, reason, backend;

	if (!rules) {
		gw_delete(&gw_ql_cid, key, NULL, &pass->ctx->strangers, GW_SWEEP_REDUNDANT);
		return 0;
	}
	service = gw_cell(pass, rules->service_at);
	if (!service)
		return 1;
	if (origin == GW_BINDING_REGISTERED)
		/* Not the time of a packet, but the end of its time to live. */
		silent = seen_ns && seen_ns < now_ns;
	backend = gw_backend_of(pass, service, &entry);
	if (pass->group->failed)
		return 1;
	/* What packets do to such an entry changes nothing about it, unless it makes it another's. */
	reason = (__u16)gw_cid_hash(key, pass->ctx->cid_seed) != entry.bind.tag ? GW_SWEEP_REDUNDANT :
		 backend == GW_INDEX_NONE				   ? GW_SWEEP_BACKEND_GONE :
		 silent							   ? GW_SWEEP_IDLE :
									     GW_SWEEP_REASONS;
	if (reason < GW_SWEEP_REASONS) {
		if (!gw_delete_cid(key, &entry, seen_ns, service, &rules->cids,
				   gw_forgotten(rules, reason)))
			rules->cids.entries++;
		return 0;
	}
	if (origin == GW_BINDING_REGISTERED) {
		/* Its time is not that of a packet: given back without one. */
		if (entry.state & GW_BINDING_PHASE)
			gw_revive_cid(key, entry.state);
	} else {
		silent = entry.silent_ns > rules->cid_idle_ns;
		if (!gw_step(&gw_ql_cid, key, &entry, silent, now_ns, service, &rules->cids,
			     GW_SWEEP_IDLE))
			return 0;
	}
	rules->cids.entries++;
	gw_tally(backend, 0, 1);
	if (origin == GW_BINDING_REGISTERED) {
		rules->cids.registered++;
	} else if (origin == GW_BINDING_IMPORTED) {
		rules->cids.imported++;
	} else if (!silent) {
		slot = (__u64)entry.hash * service->slots >> 32;
		word = gw_cell(pass, service->slots_at + slot / GW_CELL_SLOTS);
		if (word && word[slot % GW_CELL_SLOTS].owner != entry.bind.row)
			rules->cids.differing++;
	}
	return 0;
}

/* Judges what was gathered; whether the pass goes on. */
static __always_inline bool gw_judge_group(struct gw_pass *pass, void *judge)
{
	struct gw_group *group = pass->group;

	bpf_loop(group->count, judge, pass, 0);
	group->count = 0;
	return !*(volatile __u32 *)&group->failed;
}

/* Room for one more entry; none: the pass has failed. */
static __always_inline struct gw_gathered *gw_room(struct gw_pass *pass, void *judge)
{
	struct gw_group *group = pass->group;

	if (group->count >= GW_GROUP && !gw_judge_group(pass, judge))
		return NULL;
	/* Read again: where it has just been set the verifier would know it, see gw_forgotten. */
	return &group->entries[(*(volatile __u32 *)&group->count)++ % GW_GROUP];
}

static long gw_gather_flow(void *map, const struct gw_flow_key *key, struct gw_binding *entry,
			   struct gw_pass *pass)
{
	struct gw_gathered *room = gw_room(pass, gw_judge_flow);

	if (!room)
		return 1;
	room->flow = *key;
	gw_copy_entry(&room->entry, entry);
	return 0;
}

static long gw_gather_cid(void *map, const struct gw_cid_key *key, struct gw_binding *entry,
			  struct gw_pass *pass)
{
	struct gw_gathered *room = gw_room(pass, gw_judge_cid);

	if (!room)
		return 1;
	room->cid = *key;
	gw_copy_entry(&room->entry, entry);
	return 0;
}

/* Takes the generation that the rules are for, and begins a group. */
static __always_inline int gw_begin(struct gw_pass *pass)
{
	const struct gw_generation *generation;
	__u32 zero = 0;

	pass->group = bpf_map_lookup_elem(&gw_ql_group, &zero);
	/* Never NULL: Linux 6.1 takes what is here for what is there at each step. */
	pass->rules = bpf_map_lookup_elem(&gw_ql_rules, &zero);
	if (!pass->group || !pass->rules)
		return GW_SWEEP_FAILED;
	pass->group->service = 0;
	pass->group->count = 0;
	pass->group->failed = false;
	pass->cells = bpf_map_lookup_elem(&gw_ql_gen, &zero);
	if (!pass->cells)
		return GW_SWEEP_OTHER_GENERATION;
	generation = gw_cell(pass, 0);
	if (!generation || generation->number != pass->ctx->generation)
		return GW_SWEEP_OTHER_GENERATION;
	return GW_SWEEP_DONE;
}

SEC("syscall")
int gw_sweep_flows(struct gw_sweep *ctx)
{
	struct gw_pass pass = {.ctx = ctx};
	int result = gw_begin(&pass);

	if (result != GW_SWEEP_DONE)
		return result;
	if (bpf_for_each_map_elem(&gw_ql_flow, gw_gather_flow, &pass, 0) < 0 || pass.group->failed ||
	    !gw_judge_group(&pass, gw_judge_flow))
		return GW_SWEEP_FAILED;
	return GW_SWEEP_DONE;
}

SEC("syscall")
int gw_sweep_cids(struct gw_sweep *ctx)
{
	struct gw_pass pass = {.ctx = ctx};
	int result = gw_begin(&pass);

	if (result != GW_SWEEP_DONE)
		return result;
	if (bpf_for_each_map_elem(&gw_ql_cid, gw_gather_cid, &pass, 0) < 0 || pass.group->failed ||
	    !gw_judge_group(&pass, gw_judge_cid))
		return GW_SWEEP_FAILED;
	return GW_SWEEP_DONE;
}

/*
 * Sets levels. User space could write the whole value alone, and with it undo what the program
 * noted there a moment ago.
 */
SEC("syscall")
int gw_sweep_level(struct gw_sweep_levels *ctx)
{
	__u32 index = ctx->stats; /* a context is no place for a key */
	struct gw_admission *admission = bpf_map_lookup_elem(&gw_ql_level, &index);

	if (!admission)
		return GW_SWEEP_FAILED;
	__sync_val_compare_and_swap(&admission->flows, ctx->flows_from, ctx->flows_to);
	__sync_val_compare_and_swap(&admission->cids, ctx->cids_from, ctx->cids_to);
	return GW_SWEEP_DONE;
}

/* Counts what user space has deleted, which cannot add to counters that programs use. */
SEC("syscall")
int gw_sweep_count(struct gw_sweep_account *ctx)
{
	__u32 index = ctx->stats;
	struct gw_service_stats *stats = bpf_map_lookup_elem(&gw_ql_stats, &index);

	if (!stats)
		return GW_SWEEP_FAILED;
	stats->counters[GW_COUNTER_DELETED_IDLE] += ctx->deleted[GW_SWEEP_IDLE];
	stats->counters[GW_COUNTER_DELETED_CLOSED] += ctx->deleted[GW_SWEEP_CLOSED];
	stats->counters[GW_COUNTER_DELETED_BACKEND_GONE] += ctx->deleted[GW_SWEEP_BACKEND_GONE];
	stats->counters[GW_COUNTER_DELETED_REDUNDANT] += ctx->deleted[GW_SWEEP_REDUNDANT];
	stats->counters[GW_COUNTER_RESURRECTED] += ctx->resurrected;
	return GW_SWEEP_DONE;
}

char _license[] SEC("license") = "Dual BSD/GPL";
