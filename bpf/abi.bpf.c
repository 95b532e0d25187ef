/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * No program and no map: one anchor that names every type and enum of the ABI, so that its BTF, and
 * with it the generated Rust types, holds them whatever a compiler would leave out elsewhere.
 */
#include "guideway/abi.h"
#include <bpf/bpf_helpers.h>

const volatile struct {
	__u64 unused;
	struct gw_service_key service_key[0];
	struct gw_generation generation[0];
	struct gw_quic_config quic_config[0];
	struct gw_service service[0];
	struct gw_backend backend[0];
	struct gw_slot slot[0];
	struct gw_server_id server_id[0];
	struct gw_flow_key flow_key[0];
	struct gw_cid_key cid_key[0];
	struct gw_binding binding[0];
	struct gw_admission admission[0];
	struct gw_collection collection[0];
	struct gw_bound bound[0];
	struct gw_bind_request bind_request[0];
	struct gw_occupancy occupancy[0];
	struct gw_crypto_slot crypto_slot[0];
	struct gw_key_request key_request[0];
	struct gw_sweep_counts sweep_counts[0];
	struct gw_sweep_service sweep_service[0];
	struct gw_sweep sweep[0];
	struct gw_sweep_levels sweep_levels[0];
	struct gw_sweep_account sweep_account[0];
	struct gw_service_stats service_stats[0];
	struct gw_backend_stats backend_stats[0];
	struct gw_reason_stats reason_stats[0];
	struct gw_event event[0];
	struct gw_event_bucket event_bucket[0];
	struct gw_trace_note trace_note[0];
	struct gw_meta meta[0];
	struct gw_egress_meta egress_meta[0];
	struct __sk_buff sk_buff[0];
	struct gw_tenant tenant[0];
	struct gw_route_key route_key[0];
	struct gw_next_hop next_hop[0];
	struct gw_route route[0];
	struct gw_egress_config egress_config[0];
	struct gw_egress_event egress_event[0];
	struct gw_shard_stats shard_stats[0];
	struct gw_group_header group_header[0];
	struct gw_member member[0];
	struct gw_pin_key pin_key[0];
	struct gw_flow_pin_key flow_pin_key[0];
	struct gw_pin pin[0];
	struct gw_pin_use pin_use[0];
	struct gw_pin_counts pin_counts[0];
	struct gw_pin_pass pin_pass[0];
	struct gw_pin_one pin_one[0];
	enum gw_egress_limit egress_limit[0];
	enum gw_family family[0];
	enum gw_tenant_flag tenant_flag[0];
	enum gw_route_key_bits route_key_bits[0];
	enum gw_route_kind route_kind[0];
	enum gw_block_action block_action[0];
	enum gw_egress_profile egress_profile[0];
	enum gw_egress_counter egress_counter[0];
	enum gw_egress_event_kind egress_event_kind[0];
	enum gw_group_layout group_layout[0];
	enum gw_group_flag group_flag[0];
	enum gw_class_kind class_kind[0];
	enum gw_member_flag member_flag[0];
	enum gw_table_word table_word[0];
	enum gw_pin_state pin_state[0];
	enum gw_pin_bind pin_bind[0];
	enum gw_pin_scope pin_scope[0];
	enum gw_pin_removal pin_removal[0];
	enum gw_pins_result pins_result[0];
	enum gw_pin_kind pin_kind[0];
	enum gw_pin_fate pin_fate[0];
	enum gw_tick tick[0];
	enum gw_abi abi[0];
	enum gw_limit limit[0];
	enum gw_slot_word slot_word[0];
	enum gw_index index[0];
	enum gw_reason reason[0];
	enum gw_rule rule[0];
	enum gw_service_flag service_flag[0];
	enum gw_routing routing[0];
	enum gw_fragments fragments[0];
	enum gw_policy policy[0];
	enum gw_quic_mode quic_mode[0];
	enum gw_backend_state backend_state[0];
	enum gw_backend_flag backend_flag[0];
	enum gw_server_id_flag server_id_flag[0];
	enum gw_counter counter[0];
	enum gw_binding_state binding_state[0];
	enum gw_level level[0];
	enum gw_bind_operation bind_operation[0];
	enum gw_bind_result bind_result[0];
	enum gw_sweep_reason sweep_reason[0];
	enum gw_sweep_result sweep_result[0];
	enum gw_event_kind event_kind[0];
	enum gw_trace_flag trace_flag[0];
} gw_abi_anchor = {};

char _license[] SEC("license") = "Dual BSD/GPL";
