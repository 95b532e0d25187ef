/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space and the programs that it calls to remove pins tell each other. Nothing of it is
 * kept.
 */
#ifndef GW_PINS_H
#define GW_PINS_H

#include "group.h"

/* Which pins a pass is about; without any, all. Each bit narrows it further. */
enum gw_pin_scope {
	GW_PINS_OF_TABLE = 1 << 0,
	GW_PINS_OF_GROUP = 1 << 1,
	GW_PINS_OF_SLOT = 1 << 2, /* and of its generation */
};

/* Which of these it removes; without any, it only counts. Dead ones go with whatever it removes. */
enum gw_pin_removal {
	GW_PINS_IDLE = 1 << 0, /* no packet for longer than the group's pins live */
	GW_PINS_STALE = 1 << 1, /* the slot has no member, or one of another generation */
	GW_PINS_OF_TENANT = 1 << 2, /* all, for their tenant goes */
	GW_PINS_CALLED = 1 << 3, /* all, for somebody wants it */
};

enum gw_pins_result {
	GW_PINS_DONE = 0,
	GW_PINS_FAILED = 1, /* the pass broke off */
};

struct gw_pin_counts {
	/* As they were found; the sum is the pins that the pass was about. */
	__u64 live;
	__u64 idle;
	__u64 stale;
	__u64 dead; /* a pass before this one was about to delete them */
	__u64 unjudged; /* their group has no snapshot, or one of another layout */
	/* Deleted, by the counter that says why. */
	__u64 removed_idle;
	__u64 removed_stale;
	__u64 removed_tenant;
	__u64 removed_called;
	/* To be removed, and left alone. */
	__u64 changed; /* renewed or deleted since they were found */
	__u64 torn; /* the tag is another key's */
	__u64 busy; /* the bucket was locked */
	/* Removed, while the count of their tenant's pins was missing or 0. */
	__u64 uncounted;
};

/* One pass over one table of pins. */
struct gw_pin_pass {
	__u32 now_tick;
	__u32 scope; /* enum gw_pin_scope */
	__u32 table_id;
	__u32 group_id;
	__u32 slot;
	__u32 generation;
	__u32 removal; /* enum gw_pin_removal */
	__u32 zero;
	struct gw_pin_counts counts;
};

enum gw_pin_kind {
	GW_PIN_BY_SOURCE = 0,
	GW_PIN_BY_FLOW = 1,
};

/* The removal of one pin that still says what it said when it was read. */
struct gw_pin_one {
	__u64 bind;
	struct gw_pin_key source; /* the key of its kind */
	struct gw_flow_pin_key flow;
	__u32 kind; /* enum gw_pin_kind */
	__u32 fate; /* enum gw_pin_fate */
	__u32 zero;
};

/* What became of it. */
enum gw_pin_fate {
	GW_PIN_REMOVED = 0,
	GW_PIN_GONE = 1, /* was not there any more */
	GW_PIN_CHANGED = 2,
	GW_PIN_TORN = 3,
	GW_PIN_BUSY = 4,
};

#endif
