/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow label of the outer header (RFC 6438): what routers and devices tell flows apart by that do
 * not look further. A function of the inner flow alone, so it is the same for all its packets on every
 * CPU and node; src/flow_label.rs computes it alike.
 */
#ifndef GW_EGRESS_LABEL_H
#define GW_EGRESS_LABEL_H

#include "place.h"

/* By the inner label where the sender set one, else by protocol and ports. */
static __always_inline __u64 gw_label_subject(struct gw_egress_run *run)
{
	if (run->inner_label)
		return run->inner_label;
	/* What is cut off has none: the label is no reason to drop it. */
	if (gw_has_ports(run) && !gw_load_ports(run))
		run->ports[0] = run->ports[1] = 0;
	return (__u64)(run->protocol + 1) << 32 | (__u32)bpf_ntohs(run->ports[0]) << 16 |
	       bpf_ntohs(run->ports[1]);
}

/* 20 bits, never 0. Multiplications carry each bit upwards, and the best bits are the highest. */
static __always_inline __u32 gw_flow_label(struct gw_egress_run *run)
{
	__u64 sum = gw_label_subject(run) * 0x9b05688c2b3e6c1f +
		    gw_le64(run->source[0]) * 0xbb67ae8584caa73b +
		    gw_le64(run->source[1]) * 0x3c6ef372fe94f82b +
		    gw_le64(run->destination[0]) * 0xa54ff53a5f1d36f1 +
		    gw_le64(run->destination[1]) * 0x510e527fade682d1;
	__u32 label = (sum ^ sum >> 32) * 0x6a09e667f3bcc909 >> 44;

	return label ? label : 1;
}

#endif
