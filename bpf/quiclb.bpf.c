/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* gw_quiclb: a direct-server-return load balancer for QUIC, UDP and TCP. */
#include "maps/quiclb.h"

/* Set before loading; off, the verifier removes the code that notes decisions. */
const volatile bool gw_tracing = false;

SEC("xdp.frags")
int gw_quiclb(struct xdp_md *ctx)
{
	__u32 zero = 0;
	void *cells = bpf_map_lookup_elem(&gw_ql_gen, &zero);

	if (!cells)
		return XDP_PASS;
	struct gw_generation *header = bpf_map_lookup_elem(cells, &zero);
	if (!header || header->magic != GW_ABI_MAGIC)
		return XDP_ABORTED;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
