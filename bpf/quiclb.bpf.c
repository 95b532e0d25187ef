/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb: a direct-server-return load balancer for QUIC, UDP and TCP.
 *
 * Fail open before the packet is known to be ours, and closed after: what belongs to no service
 * passes to the host untouched, what belongs to one is forwarded, dropped, or passed for a named
 * reason. The backend owns the service's address and answers the client itself, so replies are
 * never seen here, and forwarding writes MAC addresses and nothing else.
 */
#include "lib/count.h"
#include "lib/emit.h"
#include "lib/note.h"
#include "lib/parse.h"
#include "lib/route.h"
#include "lib/send.h"
#include "lib/service.h"

static __always_inline int gw_verdict(__u32 reason, int action)
{
	if (reason == GW_REASON_FORWARDED)
		return action;
	if (reason == GW_REASON_INTERNAL)
		return XDP_ABORTED;
	return reason < GW_REASON_FRAGMENT_DROP ? XDP_PASS : XDP_DROP;
}

SEC("xdp.frags")
int gw_quiclb(struct xdp_md *ctx)
{
	struct gw_run run = { .ctx = ctx };
	__u32 reason;
	int step;

	step = gw_begin(&run);
	if (step != GW_CONTINUE)
		return gw_verdict(-step, 0);

	step = gw_take_snapshot(&run);
	if (step == GW_CONTINUE)
		step = gw_parse(ctx, run.packet);
	if (step == GW_CONTINUE)
		step = gw_find_service(&run);
	if (step == GW_CONTINUE)
		step = gw_route(&run);
	if (step == GW_CONTINUE)
		step = gw_send(&run);

	run.packet->reason = -step;
	gw_forget();
	reason = run.packet->reason;
	gw_count_reason(reason);
	gw_count_service(&run);
	if (reason == GW_REASON_FORWARDED && run.backend)
		gw_count_forwarded(&run);
	gw_report(&run, reason);
	gw_note(&run);
	return gw_verdict(reason, run.packet->action);
}

char _license[] SEC("license") = "Dual BSD/GPL";
