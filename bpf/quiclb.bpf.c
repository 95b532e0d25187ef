/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gw_quiclb: a direct-server-return load balancer for QUIC, UDP and TCP.
 *
 * Fail open before the packet is known to be ours, and closed after: what belongs to no service
 * passes to the host untouched, what belongs to one is forwarded, dropped, or passed for a named
 * reason. The backend owns the service's address and answers the client itself, so replies are
 * never seen here, and forwarding writes MAC addresses and nothing else.
 */
#include "lib/parse.h"
#include "lib/route.h"
#include "lib/send.h"
#include GW_PROFILE_COUNTERS
#include GW_PROFILE_RECORDS
#include GW_PROFILE_REPORT

static __always_inline int gw_verdict(__u32 reason, int action)
{
	if (reason == GW_REASON_FORWARDED)
		return action;
	if (reason == GW_REASON_INTERNAL)
		return XDP_ABORTED;
	return reason < GW_REASON_FRAGMENT_DROP ? XDP_PASS : XDP_DROP;
}

SEC(GW_SECTION)
int gw_quiclb(struct xdp_md *ctx)
{
	struct gw_run run = { .ctx = ctx };
	struct gw_packet *packet;
	int step;

	packet = gw_packet_memory();
	if (!packet)
		return XDP_ABORTED;
	gw_reset(packet);
	run.packet = packet;

	step = gw_take_snapshot(&run);
	if (step == GW_CONTINUE)
		step = gw_parse(ctx, packet);
	if (step == GW_CONTINUE)
		step = gw_find_service(&run);
	if (step == GW_CONTINUE)
		step = gw_route(&run);
	if (step == GW_PLACED)
		step = gw_send(&run);

	packet->reason = gw_settled(packet, -step);
	gw_forget();
	gw_count_reason(packet->reason);
	gw_count_service(packet);
	gw_count_backend(packet);
	gw_tell_end(ctx, packet);
	return gw_verdict(packet->reason, packet->action);
}

char _license[] SEC("license") = "Dual BSD/GPL";
