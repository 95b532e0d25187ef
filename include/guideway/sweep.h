/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space and the programs that it calls to collect flow state tell each other. Nothing of
 * it is kept: user space fills the maps before a pass and reads them after it.
 */
#ifndef GW_SWEEP_H
#define GW_SWEEP_H

#include "limits.h"

/* Entries that the tables of flow state hold. */
struct gw_occupancy {
	__u64 flows;
	__u64 cids;
};

/* Why an entry is deleted; the order is that of the counters. */
enum gw_sweep_reason {
	GW_SWEEP_IDLE = 0, /* no packet for too long, or the end of its time to live */
	GW_SWEEP_CLOSED = 1, /* no packet for long since it looked closed */
	GW_SWEEP_BACKEND_GONE = 2, /* its row is empty or has another backend */
	GW_SWEEP_REDUNDANT = 3, /* the table says the same, or nothing finds it any more */
	GW_SWEEP_REASONS = 4,
};

enum gw_sweep_result {
	GW_SWEEP_DONE = 0,
	GW_SWEEP_OTHER_GENERATION = 1, /* not the expected one is live: nothing was touched */
	GW_SWEEP_FAILED = 2, /* the pass broke off */
};

/* What a pass found of one service, and of the entries that belong to no service. */
struct gw_sweep_counts {
	__u64 entries; /* that are there at its end */
	__u64 expiring; /* of these: will be deleted by the next pass unless a packet comes */
	__u64 registered; /* connection IDs, by origin; the rest is learned */
	__u64 imported;
	__u64 differing; /* live, with another backend than the table gives */
	__u64 deleted[GW_SWEEP_REASONS];
	__u64 resurrected; /* deleted and put back, for a packet came meanwhile */
	__u64 lost; /* deleted, and could not be put back */
};

/*
 * By service id: the rules for its entries, and what the pass found. That of id 0, which is no
 * service's, is what a pass has before its first entry.
 */
struct gw_sweep_service {
	__u32 service_at; /* cell of its record in the generation */
	__u32 scratch; /* the program's own */
	/* Entries without a packet for longer are forgotten. */
	__u64 flow_idle_ns;
	__u64 closed_ns; /* flows that look closed; at most flow_idle_ns */
	__u64 cid_idle_ns;
	struct gw_sweep_counts flows;
	struct gw_sweep_counts cids;
};

/* One pass over one table. */
struct gw_sweep {
	__u64 generation; /* number of the one that the rules are for */
	__u64 now_ns; /* monotonic clock */
	__u64 cid_seed;
	struct gw_sweep_counts strangers; /* entries of services that are gone */
};

/* New levels of a service, each only if it is still the former one. */
struct gw_sweep_levels {
	__u32 stats; /* counters of the service */
	__u32 flows_from; /* enum gw_level */
	__u32 flows_to;
	__u32 cids_from;
	__u32 cids_to;
};

/* What a pass in user space deleted, to be counted where the programs count. */
struct gw_sweep_account {
	__u32 stats; /* counters of the service */
	__u32 zero;
	__u64 deleted[GW_SWEEP_REASONS];
	__u64 resurrected;
};

#endif
