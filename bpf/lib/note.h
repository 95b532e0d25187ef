/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The decision about one packet, for tracing. */
#ifndef GW_LIB_NOTE_H
#define GW_LIB_NOTE_H

#include "run.h"

/* Set before loading; off, the verifier removes the code that notes decisions. */
const volatile bool gw_tracing = false;

/* Writes the note. */
GW_GLOBAL int gw_note(struct gw_packet *packet)
{
	struct gw_trace_note *note;
	__u32 zero = 0;

	note = bpf_map_lookup_elem(&gw_ql_trace, &zero);
	if (!note || !packet)
		return 0;
	note->packets++;
	note->generation = packet->generation;
	note->hash = 0;
	note->service_id = packet->service_id;
	note->backend_id = packet->backend_id;
	note->slot = packet->slot;
	note->row = packet->backend_id ? packet->row : GW_SLOT_NONE;
	note->base = packet->base;
	note->reason = packet->reason;
	note->rule = gw_rule_of(packet);
	note->flags = packet->created;
	if (packet->slot != GW_INDEX_NONE) {
		note->hash = packet->hash;
		note->flags |= GW_TRACE_HASHED;
	}
	if (packet->start)
		note->flags |= GW_TRACE_START;
	if (packet->asked_start)
		note->flags |= GW_TRACE_START_KNOWN;
	return 0;
}

#endif
