/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The whole ABI between the programs and user space. */
#ifndef GW_ABI_H
#define GW_ABI_H

#include "vmlinux.h"
#include "adjust.h"
#include "affinity.h"
#include "bind.h"
#include "crypto.h"
#include "egress.h"
#include "events.h"
#include "group.h"
#include "limits.h"
#include "meta.h"
#include "offload.h"
#include "pins.h"
#include "reasons.h"
#include "service.h"
#include "stats.h"
#include "sweep.h"
#include "trace.h"

#define GW_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

GW_SIZE(gw_service_key, 20);
GW_SIZE(gw_generation, 40);
GW_SIZE(gw_quic_config, 16);
GW_SIZE(gw_service, 240);
GW_SIZE(gw_backend, 32);
GW_SIZE(gw_slot, 4);
GW_SIZE(gw_server_id, 32);
GW_SIZE(gw_flow_key, 24);
GW_SIZE(gw_cid_key, 28);
GW_SIZE(gw_binding, 24);
GW_SIZE(gw_admission, 16);
GW_SIZE(gw_collection, 96);
GW_SIZE(gw_bound, 16);
GW_SIZE(gw_bind_request, 88);
GW_SIZE(gw_occupancy, 16);
GW_SIZE(gw_crypto_slot, 16);
GW_SIZE(gw_key_request, 24);
GW_SIZE(gw_sweep_counts, 88);
GW_SIZE(gw_sweep_service, 208);
GW_SIZE(gw_sweep, 112);
GW_SIZE(gw_sweep_levels, 20);
GW_SIZE(gw_sweep_account, 48);
GW_SIZE(gw_service_stats, 464);
GW_SIZE(gw_event, 88);
GW_SIZE(gw_event_bucket, 48);
GW_SIZE(gw_trace_note, 48);
GW_SIZE(gw_meta, 56);
GW_SIZE(gw_offload_active, 8);
GW_SIZE(gw_offload_generation, 32);
GW_SIZE(gw_offload_service_key, 32);
GW_SIZE(gw_offload_service, 24);
GW_SIZE(gw_offload_key, 16);
GW_SIZE(gw_offload_config, 8);
GW_SIZE(gw_offload_id_key, 32);
GW_SIZE(gw_offload_id, 8);
GW_SIZE(gw_offload_binding, 16);
GW_SIZE(gw_offload_epoch, 8);
GW_SIZE(gw_egress_meta, 64);
GW_SIZE(gw_tenant, 64);
GW_SIZE(gw_route_key, 28);
GW_SIZE(gw_next_hop, 20);
GW_SIZE(gw_route, 64);
GW_SIZE(gw_egress_config, 128);
GW_SIZE(gw_egress_event, 48);
GW_SIZE(gw_shard_stats, 16);
GW_SIZE(gw_group_header, 128);
GW_SIZE(gw_member, 64);
GW_SIZE(gw_pin_key, 24);
GW_SIZE(gw_flow_pin_key, 44);
GW_SIZE(gw_pin, 16);
GW_SIZE(gw_pin_use, 16);
GW_SIZE(gw_more_shard, 24);
GW_SIZE(gw_more_pins, 16);

_Static_assert(sizeof(struct gw_generation) <= GW_CELL_BYTES, "a generation header is one cell");
_Static_assert(sizeof(struct gw_service) <= GW_CELL_BYTES, "a service is one cell");
_Static_assert(sizeof(struct gw_slot) * GW_CELL_SLOTS == GW_CELL_BYTES, "slots per cell");
_Static_assert(sizeof(struct gw_backend) * GW_CELL_BACKENDS == GW_CELL_BYTES, "rows per cell");
_Static_assert(sizeof(struct gw_server_id) * GW_CELL_SERVER_IDS == GW_CELL_BYTES, "IDs per cell");

/* The counters of a service on a card: one kind behind the other, in one array. */
_Static_assert(GW_COUNTERS <= GW_OFFLOAD_RULES_AT, "counters end before rules");
_Static_assert(GW_OFFLOAD_RULES_AT + GW_RULES <= GW_OFFLOAD_PACKETS_AT, "rules end before packets");
_Static_assert(GW_OFFLOAD_PACKETS_AT < GW_OFFLOAD_BYTES_AT, "packets before bytes");
_Static_assert(GW_OFFLOAD_BYTES_AT < GW_OFFLOAD_COUNTERS, "all within those of one service");

#endif
