/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Removes pins: those that nobody uses any more, those of a shard's tenure that is over, and those that
 * user space names. Packets use and renew pins meanwhile, so a pin is claimed first: its binding, as it
 * was when the pin was judged, is exchanged for a dead one, which packets neither follow nor change.
 * Then it is deleted, and its tenant's count lowered. What was renewed in between has another binding,
 * and stays.
 *
 * One caller at a time, which user space's lock sees to: two that delete the same pin could meet a new
 * one in its place.
 *
 * The walk only gathers pins, and judges a batch of them when the next one does not fit any more. So the
 * pin that the walk is at is never one that is deleted: it would lead kernels before Linux 6.15, unless
 * they were mended, into another bucket as soon as its memory is used again. There is no place to start
 * a walk from but the beginning: a call is a whole pass.
 */
#include "lib/errno.h"
#include "lib/pin.h"
#include "lib/verifier.h"
#include "maps/pins.h"

/* Pins that a pass judges together. */
#define GW_PIN_BATCH 64

/* A pin as the walk found it. */
struct gw_found_pin {
	union {
		struct gw_pin_key source;
		struct gw_flow_pin_key flow;
	};
	__u32 last_seen_tick;
	__u64 bind;
};

struct gw_pin_batch {
	struct gw_found_pin pins[GW_PIN_BATCH];
	struct gw_pin_counts counts;
	__u32 count;
	__u32 fence;
};

/* Of the pass that is under way. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct gw_pin_batch);
	__uint(max_entries, 1);
} gw_pin_batch SEC(".maps");

struct gw_walk {
	struct gw_pin_pass *ctx;
	struct gw_pin_batch *batch;
};

/* What is to be deleted. */
struct gw_doomed {
	__u64 bind; /* as it was judged */
	__u32 table_id;
	__u32 group_id;
	__u32 tag; /* of the key */
	__u32 counter; /* enum gw_egress_counter: why */
	__u32 last_seen_tick; /* as it was judged */
	__u32 now_tick;
	bool by_rule; /* of idleness or generation, which has to hold still */
};

enum gw_standing {
	GW_STANDS_LIVE,
	GW_STANDS_IDLE,
	GW_STANDS_STALE,
	GW_STANDS_UNJUDGED,
};

/*
 * How a pin stands (enum gw_standing) by what is published of its group. That of a member that nothing reaches is live, as
 * it may be reached again. A pin is renewed within an interval of the group, and packets that look at it
 * have a clock a little earlier or later: one is called idle an interval after they stop following it.
 */
GW_GLOBAL __u32 gw_stand(__u32 group_id, __u64 bind, __u32 last_seen_tick, __u32 now_tick)
{
	struct gw_held held = gw_held(bind);
	const struct gw_group_header *group;
	const struct gw_member *member;
	__u32 zero = 0;
	void *live;

	live = bpf_map_lookup_elem(&gw_groups, &group_id);
	if (!live)
		return GW_STANDS_UNJUDGED;
	group = bpf_map_lookup_elem(live, &zero);
	if (!group || group->layout != GW_GROUP_LAYOUT)
		return GW_STANDS_UNJUDGED;
	if (!held.generation || !gw_is_below(held.slot, gw_max_members))
		return GW_STANDS_STALE;
	member = (const struct gw_member *)(group + 1) + held.slot;
	if (member->generation != held.generation)
		return GW_STANDS_STALE;
	/* Without an idle time no packet looks at pins. */
	if (!group->pin_idle_ticks ||
	    gw_ticks_since(last_seen_tick, now_tick) >
		    (__s32)(group->pin_idle_ticks + 2 * group->pin_refresh_ticks))
		return GW_STANDS_IDLE;
	return GW_STANDS_LIVE;
}

/* Lowers the count of a tenant's pins; whether there was one to lower. Nobody else deletes pins. */
static __always_inline bool gw_return_quota(__u32 table_id)
{
	struct gw_pin_use *use = bpf_map_lookup_elem(&gw_pin_use, &table_id);

	if (!use || !*(volatile __u64 *)&use->pins)
		return false;
	__sync_fetch_and_add(&use->pins, -1);
	return true;
}

static __always_inline enum gw_pin_fate gw_give_back(struct gw_pin *pin, __u64 claimed,
						     __u64 bind, enum gw_pin_fate fate)
{
	if (claimed != bind)
		__sync_val_compare_and_swap(&pin->bind, claimed, bind);
	return fate;
}

/* Deletes a pin that still says what it said; whether its tenant's count was lowered. */
static __always_inline enum gw_pin_fate gw_remove(void *map, const void *key,
						  const struct gw_doomed *doomed, bool *counted)
{
	__u64 bind = doomed->bind, claimed = bind;
	struct gw_pin *pin = bpf_map_lookup_elem(map, key);
	__u32 standing;
	int error;

	if (!pin)
		return GW_PIN_GONE;
	if (gw_load_tag(pin) != doomed->tag)
		return GW_PIN_TORN;
	/* Dead already: whoever claimed it neither deleted it nor gave it back. */
	if (!gw_held(bind).dead)
		claimed |= (__u64)GW_PIN_DEAD << GW_PIN_STATE_SHIFT;
	if (__sync_val_compare_and_swap(&pin->bind, bind, claimed) != bind)
		return GW_PIN_CHANGED;
	if (gw_load_tag(pin) != doomed->tag)
		return gw_give_back(pin, claimed, bind, GW_PIN_TORN);
	/*
	 * Pins may live longer by what has been published since, and a packet have used it. By what was
	 * published before no packet follows it: a later time in it is that of one that binds it anew,
	 * and is too late.
	 */
	if (doomed->by_rule && claimed != bind) {
		standing = gw_stand(doomed->group_id, bind, doomed->last_seen_tick,
				    doomed->now_tick);
		if (standing != GW_STANDS_IDLE && standing != GW_STANDS_STALE)
			return gw_give_back(pin, claimed, bind, GW_PIN_CHANGED);
	}
	error = bpf_map_delete_elem(map, key);
	if (error == -GW_ENOENT)
		return GW_PIN_GONE;
	if (error)
		return gw_give_back(pin, claimed, bind, GW_PIN_BUSY);
	*counted = gw_return_quota(doomed->table_id);
	/* Nobody else uses this counter: a packet that comes in between counts something else. */
	gw_egress_count(doomed->counter);
	return GW_PIN_REMOVED;
}

/* Counts how a pin was found, and says why it is to go; 0: it stays. */
GW_GLOBAL __u32 gw_sentence(struct gw_pin_counts *counts, __u32 removal, __u32 standing, bool dead)
{
	if (!counts)
		return 0;
	if (dead)
		counts->dead++;
	else if (standing == GW_STANDS_LIVE)
		counts->live++;
	else if (standing == GW_STANDS_IDLE)
		counts->idle++;
	else if (standing == GW_STANDS_STALE)
		counts->stale++;
	else
		counts->unjudged++;
	if (!removal)
		return 0;
	if (removal & GW_PINS_OF_TENANT)
		return GW_EGRESS_PIN_REMOVED_TENANT;
	if (removal & GW_PINS_CALLED)
		return GW_EGRESS_PIN_REMOVED_CALL;
	if (standing == GW_STANDS_STALE && (dead || removal & GW_PINS_STALE))
		return GW_EGRESS_PIN_REMOVED_STALE;
	if (dead || (standing == GW_STANDS_IDLE && removal & GW_PINS_IDLE))
		return GW_EGRESS_PIN_REMOVED_IDLE;
	return 0;
}

/* Counts what became of a pin that was to go; always 0. */
GW_GLOBAL int gw_count_fate(struct gw_pin_counts *counts, __u32 fate, __u32 counter, bool counted)
{
	if (!counts)
		return 0;
	switch (fate) {
	case GW_PIN_REMOVED:
		break;
	case GW_PIN_TORN:
		counts->torn++;
		return 0;
	case GW_PIN_BUSY:
		counts->busy++;
		return 0;
	default:
		counts->changed++;
		return 0;
	}
	if (!counted)
		counts->uncounted++;
	switch (counter) {
	case GW_EGRESS_PIN_REMOVED_IDLE:
		counts->removed_idle++;
		break;
	case GW_EGRESS_PIN_REMOVED_STALE:
		counts->removed_stale++;
		break;
	case GW_EGRESS_PIN_REMOVED_TENANT:
		counts->removed_tenant++;
		break;
	default:
		counts->removed_called++;
	}
	return 0;
}

/* Judges a pin; whether it is to go, and what of. */
static __always_inline bool gw_judge(struct gw_walk *walk, const struct gw_found_pin *found,
				     struct gw_doomed *doomed)
{
	const struct gw_pin_pass *ctx = walk->ctx;
	__u32 standing;

	doomed->bind = found->bind;
	doomed->last_seen_tick = found->last_seen_tick;
	doomed->now_tick = ctx->now_tick;
	standing = gw_stand(doomed->group_id, doomed->bind, doomed->last_seen_tick,
			    doomed->now_tick);
	doomed->counter = gw_sentence(&walk->batch->counts, ctx->removal, standing,
				      gw_held(doomed->bind).dead);
	doomed->by_rule = !(ctx->removal & (GW_PINS_OF_TENANT | GW_PINS_CALLED));
	return doomed->counter;
}

static __always_inline __u32 gw_tag_of_source(const struct gw_pin_key *key)
{
	__u64 from[2];

	__builtin_memcpy(from, key->source, sizeof(from));
	return gw_pin_tag(gw_mix_pin(key->table_id, key->family, key->group_id, from));
}

static __always_inline __u32 gw_tag_of_flow(const struct gw_flow_pin_key *key)
{
	__be16 ports[2] = {key->source_port, key->destination_port};
	__u64 from[2], to[2];

	__builtin_memcpy(from, key->source, sizeof(from));
	__builtin_memcpy(to, key->destination, sizeof(to));
	return gw_flow_pin_tag(gw_mix_pin(key->table_id, key->family, key->group_id, from), to,
			       key->protocol, ports);
}

static long gw_judge_source(__u32 index, struct gw_walk *walk)
{
	const struct gw_found_pin *found = &walk->batch->pins[index % GW_PIN_BATCH];
	const struct gw_pin_key *key = &found->source;
	struct gw_doomed doomed = {.table_id = key->table_id, .group_id = key->group_id};
	enum gw_pin_fate fate;
	bool counted = false;

	if (!gw_judge(walk, found, &doomed))
		return 0;
	doomed.tag = gw_tag_of_source(key);
	fate = gw_remove(&gw_pins, key, &doomed, &counted);
	gw_count_fate(&walk->batch->counts, fate, doomed.counter, counted);
	return 0;
}

static long gw_judge_flow(__u32 index, struct gw_walk *walk)
{
	const struct gw_found_pin *found = &walk->batch->pins[index % GW_PIN_BATCH];
	const struct gw_flow_pin_key *key = &found->flow;
	struct gw_doomed doomed = {.table_id = key->table_id, .group_id = key->group_id};
	enum gw_pin_fate fate;
	bool counted = false;

	if (!gw_judge(walk, found, &doomed))
		return 0;
	doomed.tag = gw_tag_of_flow(key);
	fate = gw_remove(&gw_flow_pins, key, &doomed, &counted);
	gw_count_fate(&walk->batch->counts, fate, doomed.counter, counted);
	return 0;
}

/* Judges what was gathered. */
static __always_inline void gw_judge_batch(struct gw_walk *walk, void *judge)
{
	struct gw_pin_batch *batch = walk->batch;

	/*
	 * A full barrier: what is published is looked up after the bindings were read. A pin that names
	 * a new member was made after that one was published, and so is never judged by what was before.
	 */
	*(volatile __u32 *)&batch->fence = __sync_fetch_and_add(&batch->fence, 1);
	bpf_loop(batch->count, judge, walk, 0);
	batch->count = 0;
}

/* Gathers a pin that the pass is about; where its key belongs, or NULL. */
static __always_inline struct gw_found_pin *gw_gather(struct gw_walk *walk, __u32 table_id,
						      __u32 group_id, struct gw_pin *pin,
						      void *judge)
{
	const struct gw_pin_pass *ctx = walk->ctx;
	struct gw_pin_batch *batch = walk->batch;
	/* Atomic, for the barrier: the time that is read later must be no older, or a new pin looks idle. */
	__u64 bind = __sync_fetch_and_add(&pin->bind, 0);
	struct gw_held held = gw_held(bind);
	struct gw_found_pin *room;

	if (ctx->scope & GW_PINS_OF_TABLE && ctx->table_id != table_id)
		return NULL;
	if (ctx->scope & GW_PINS_OF_GROUP && ctx->group_id != group_id)
		return NULL;
	if (ctx->scope & GW_PINS_OF_SLOT &&
	    (ctx->slot != held.slot || ctx->generation != held.generation))
		return NULL;
	if (batch->count >= GW_PIN_BATCH)
		gw_judge_batch(walk, judge);
	/*
	 * Read again: without CAP_PERFMON the verifier refuses an index into a map value that is one
	 * constant on one way and another on another ("R6 tried to add from different maps, paths or
	 * scalars", Linux 6.18).
	 */
	room = &batch->pins[(*(volatile __u32 *)&batch->count)++ % GW_PIN_BATCH];
	room->bind = bind;
	room->last_seen_tick = gw_load_last_seen(pin);
	return room;
}

static long gw_gather_source(void *map, const struct gw_pin_key *key, struct gw_pin *pin,
			     struct gw_walk *walk)
{
	struct gw_found_pin *room =
		gw_gather(walk, key->table_id, key->group_id, pin, gw_judge_source);

	if (room)
		room->source = *key;
	return 0;
}

static long gw_gather_flow(void *map, const struct gw_flow_pin_key *key, struct gw_pin *pin,
			   struct gw_walk *walk)
{
	struct gw_found_pin *room =
		gw_gather(walk, key->table_id, key->group_id, pin, gw_judge_flow);

	if (room)
		room->flow = *key;
	return 0;
}

static __always_inline bool gw_begin(struct gw_walk *walk)
{
	__u32 zero = 0;

	walk->batch = bpf_map_lookup_elem(&gw_pin_batch, &zero);
	if (!walk->batch)
		return false;
	walk->batch->count = 0;
	__builtin_memset(&walk->batch->counts, 0, sizeof(walk->batch->counts));
	return true;
}

SEC("syscall")
int gw_pin_sources(struct gw_pin_pass *ctx)
{
	struct gw_walk walk = {.ctx = ctx};

	if (!gw_begin(&walk) || bpf_for_each_map_elem(&gw_pins, gw_gather_source, &walk, 0) < 0)
		return GW_PINS_FAILED;
	gw_judge_batch(&walk, gw_judge_source);
	ctx->counts = walk.batch->counts;
	return GW_PINS_DONE;
}

SEC("syscall")
int gw_pin_flows(struct gw_pin_pass *ctx)
{
	struct gw_walk walk = {.ctx = ctx};

	if (!gw_begin(&walk) || bpf_for_each_map_elem(&gw_flow_pins, gw_gather_flow, &walk, 0) < 0)
		return GW_PINS_FAILED;
	gw_judge_batch(&walk, gw_judge_flow);
	ctx->counts = walk.batch->counts;
	return GW_PINS_DONE;
}

SEC("syscall")
int gw_pin_remove(struct gw_pin_one *ctx)
{
	struct gw_doomed doomed = {
		.bind = ctx->bind,
		.counter = GW_EGRESS_PIN_REMOVED_CALL,
	};
	/* A context is no place for a key. */
	struct gw_pin_key source = ctx->source;
	struct gw_flow_pin_key flow = ctx->flow;
	bool counted = false;

	if (ctx->kind == GW_PIN_BY_FLOW) {
		doomed.table_id = flow.table_id;
		doomed.tag = gw_tag_of_flow(&flow);
		ctx->fate = gw_remove(&gw_flow_pins, &flow, &doomed, &counted);
	} else {
		doomed.table_id = source.table_id;
		doomed.tag = gw_tag_of_source(&source);
		ctx->fate = gw_remove(&gw_pins, &source, &doomed, &counted);
	}
	return GW_PINS_DONE;
}

char _license[] SEC("license") = "Dual BSD/GPL";
