// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The plain data that the programs and user space share, generated from `include/guideway/*.h`.
//!
//! Each C `struct gw_noun` is the Rust type `Noun` with the same fields, each constant of a C enum
//! is a constant of a type with the enum's name. Nothing is written twice: a number that the
//! programs use is read from their own type information. The `pod!` lines below name every field
//! and fail to compile when the sizes do not add up, so neither a hidden padding byte nor a new C
//! member can slip through.
//!
//! For tools that read pinned maps themselves; everybody else has typed interfaces above this.

mod generated {
    #![allow(
        clippy::all,
        missing_docs,
        non_camel_case_types,
        unreachable_pub,
        unsafe_op_in_unsafe_fn,
        clippy::undocumented_unsafe_blocks,
        dead_code
    )]
    include!(concat!(env!("OUT_DIR"), "/abi.skel.rs"));
}

use generated::types;

pub(crate) use types::__sk_buff as SkBuff;
pub use types::{
    gw_abi as Abi, gw_adjust_result as AdjustResult, gw_admission as Admission,
    gw_backend as Backend, gw_backend_flag as BackendFlag, gw_backend_state as BackendState,
    gw_backend_stats as BackendStats, gw_bind_operation as BindOperation,
    gw_bind_request as BindRequest, gw_bind_result as BindResult, gw_binding as Binding,
    gw_binding_state as BindingState, gw_block_action as BlockAction, gw_bound as Bound,
    gw_cid_key as CidKey, gw_class_kind as ClassKind, gw_collection as Collection,
    gw_counter as Counter, gw_crypto_slot as CryptoSlot, gw_egress_config as EgressConfig,
    gw_egress_counter as EgressCounter, gw_egress_event as EgressEvent,
    gw_egress_event_kind as EgressEventKind, gw_egress_limit as EgressLimit,
    gw_egress_meta as EgressMeta, gw_egress_profile as EgressProfile, gw_event as Event,
    gw_event_bucket as EventBucket, gw_event_kind as EventKind, gw_family as Family,
    gw_flow_key as FlowKey, gw_flow_pin_key as FlowPinKey, gw_fragments as Fragments,
    gw_generation as Generation, gw_group_flag as GroupFlag, gw_group_header as GroupHeader,
    gw_group_layout as GroupLayout, gw_index as Index, gw_key_request as KeyRequest,
    gw_level as Level, gw_limit as Limit, gw_member as Member, gw_member_flag as MemberFlag,
    gw_meta as Meta, gw_more_pins as MorePins, gw_more_shard as MoreShard, gw_next_hop as NextHop,
    gw_occupancy as Occupancy, gw_offload_active as OffloadActive,
    gw_offload_binding as OffloadBinding, gw_offload_config as OffloadConfig,
    gw_offload_epoch as OffloadEpoch, gw_offload_generation as OffloadGeneration,
    gw_offload_id as OffloadId, gw_offload_id_key as OffloadIdKey, gw_offload_key as OffloadKey,
    gw_offload_limit as OffloadLimit, gw_offload_service as OffloadService,
    gw_offload_service_key as OffloadServiceKey, gw_pin as Pin, gw_pin_bind as PinBind,
    gw_pin_counts as PinCounts, gw_pin_fate as PinFate, gw_pin_key as PinKey,
    gw_pin_kind as PinKind, gw_pin_one as PinOne, gw_pin_pass as PinPass,
    gw_pin_removal as PinRemoval, gw_pin_scope as PinScope, gw_pin_state as PinState,
    gw_pin_use as PinUse, gw_pins_result as PinsResult, gw_policy as Policy,
    gw_quic_config as QuicConfig, gw_quic_mode as QuicMode, gw_reason as Reason,
    gw_reason_stats as ReasonStats, gw_route as Route, gw_route_key as RouteKey,
    gw_route_key_bits as RouteKeyBits, gw_route_kind as RouteKind, gw_routing as Routing,
    gw_rule as Rule, gw_server_id as ServerId, gw_server_id_flag as ServerIdFlag,
    gw_service as Service, gw_service_flag as ServiceFlag, gw_service_key as ServiceKey,
    gw_service_stats as ServiceStats, gw_shard_stats as ShardStats, gw_slot as Slot,
    gw_slot_word as SlotWord, gw_sweep as Sweep, gw_sweep_account as SweepAccount,
    gw_sweep_counts as SweepCounts, gw_sweep_levels as SweepLevels, gw_sweep_reason as SweepReason,
    gw_sweep_result as SweepResult, gw_sweep_service as SweepService, gw_table_word as TableWord,
    gw_tenant as Tenant, gw_tenant_flag as TenantFlag, gw_tick as Tick, gw_trace_flag as TraceFlag,
    gw_trace_note as TraceNote,
};

/// Makes generated types plain data: any bytes are a value, and every byte of a value is a field's.
macro_rules! pod {
    ($($name:ident { $($field:ident),+ $(,)? })+) => { $(
        const _: () = {
            const fn size_of_field<S, F>(_: fn(&S) -> &F) -> usize {
                core::mem::size_of::<F>()
            }
            let fields = 0 $(+ size_of_field(|value: &$name| &value.$field))+;
            assert!(fields == core::mem::size_of::<$name>(), "a padding byte or a field unnamed here");
        };
        // SAFETY: all zeros is a value of integers and arrays of them, which is all these types
        // are made of (their fields would not be `Pod` otherwise, which `assert_pod` checks).
        unsafe impl bytemuck::Zeroable for $name {}
        // SAFETY: `repr(C)`, `Copy`, 'static, no padding (asserted above), every field is `Pod`
        // (asserted by `assert_pod`).
        unsafe impl bytemuck::Pod for $name {}
        const _: () = {
            #[allow(dead_code)]
            fn assert_pod(value: &$name) {
                fn pod<F: bytemuck::Pod>(_: &F) {}
                $(pod(&value.$field);)+
            }
        };
    )+ };
}

pod! {
    ServiceKey { family, protocol, port, vip }
    Generation {
        magic, services, number, directory_seed, directory_at, directory_mask, events_per_second,
        cells,
    }
    QuicConfig {
        server_id_len, nonce_len, cid_len, mode, encodes_length, zero, crypto_slot,
        crypto_incarnation,
    }
    Service {
        key, id, slots, slots_at, backends_at, server_ids_at, server_ids_mask, flags,
        server_id_seed, grace_until_ns, hash_final, hash_key, stats, backends, routing, fragments,
        unknown_server_id, unhealthy, short_dcid_len, zero, configs, zero2,
    }
    Backend { id, ifindex, incarnation, stats, state, flags, dmac, smac, zero }
    Slot { owner, base }
    ServerId { config, length, row, flags, bytes, zero }
    FlowKey { service, client_port, vip_port, address }
    CidKey { service, length, zero, cid }
    Binding { tag, row, incarnation, seen_ns, state, hash }
    BindRequest { key, operation, expected, wanted, result, stats }
    Admission { flows, cids, refused_ns }
    Collection {
        cid_seed, returned_generation, returned_ns, closing_generation, swept_ns,
        sweep_duration_ns, sweep_period_ns, flows, learned, registered, imported, blast_radius,
    }
    Bound { incarnation, flows, cids, zero }
    Occupancy { flows, cids }
    CryptoSlot { context, incarnation, zero }
    KeyRequest { slot, incarnation, key }
    SweepCounts {
        entries, expiring, registered, imported, differing, deleted, resurrected, lost,
    }
    SweepService { service_at, scratch, flow_idle_ns, closed_ns, cid_idle_ns, flows, cids }
    Sweep { generation, now_ns, cid_seed, strangers }
    SweepLevels { stats, flows_from, flows_to, cids_from, cids_to }
    SweepAccount { stats, zero, deleted, resurrected }
    ServiceStats { packets, bytes, rules, counters }
    BackendStats { packets, bytes }
    ReasonStats { packets }
    Event {
        time_ns, generation, service_id, backend_id, ifindex, suppressed, kind, rule, reason,
        family, protocol, cid_len, zero, source_port, destination_port, slot, source, cid, zero2,
    }
    EventBucket { refilled_ns, empty_jiffies, tokens, suppressed, emitted, suppressed_total, lost }
    TraceNote {
        packets, generation, hash, service_id, backend_id, slot, row, base, reason, rule, flags,
        zero,
    }
    Tenant {
        ifindex, table_id, hash_table, zero, argument, flags, pin_quota, zero2, gateway6, gateway4,
        zero3,
    }
    RouteKey { prefixlen, table_id, family, zero, address }
    NextHop { ifindex, mtu, dmac, smac }
    Route {
        kind, action, origin, argument, zero, group_id, incarnation, fnv12, fnv5, next_hop, zero2,
        sid,
    }
    EgressConfig {
        node_sid, profile, hop_limit, dscp, zero, mss6, mss4, icmp_rate, icmp_burst, event_rate,
        event_burst, zero2,
    }
    EgressEvent {
        kind, bytes, suppressed, time_ns, ifindex, table_id, group_id, detail, source,
    }
    ShardStats { packets, bytes }
    GroupHeader {
        layout, flags, incarnation, publication, next_slot_generation, table_size, slots_used,
        candidates, active, ineligible, pin_idle_ticks, pin_refresh_ticks, hash_group, class_kind,
        class_bits, zero, profile, class_prefix, table_digest, published_ns, pin_idle_seconds,
        zero2, zero3,
    }
    Member { sid, flags, generation, next_hop, weight, base_packets, base_bytes }
    PinKey { table_id, family, group_id, zero, source }
    FlowPinKey {
        table_id, family, protocol, group_id, zero, source_port, destination_port, source,
        destination,
    }
    Pin { bind, last_seen_tick, tag }
    PinUse { pins, refused }
    MoreShard { more, index, zero }
    MorePins { more, table_id, zero }
    PinCounts {
        live, idle, stale, dead, unjudged, removed_idle, removed_stale, removed_tenant,
        removed_called, changed, torn, busy, uncounted,
    }
    PinPass { now_tick, scope, table_id, group_id, slot, generation, removal, zero, counts }
    PinOne { bind, source, flow, kind, fate, zero }
    OffloadActive { generation }
    OffloadGeneration { hash_final, hash_key }
    OffloadServiceKey { generation, service, zero }
    OffloadService {
        id, slots, flags, stats, backends, routing, fragments, unknown_server_id, unhealthy,
        short_dcid_len, zero,
    }
    OffloadKey { generation, service, index }
    OffloadConfig { server_id_len, nonce_len, cid_len, mode, encodes_length, zero }
    OffloadIdKey { generation, service, config, length, zero, bytes }
    OffloadId { row, zero, flags }
    OffloadBinding { tag, row, incarnation, epoch, zero }
    OffloadEpoch { epoch, zero }
    EgressMeta {
        magic, abi_major, abi_minor, instance, tenants, routes, groups, members, table_size, pins,
        flow_pins, ring_bytes, namespace,
    }
    Meta {
        magic, abi_major, abi_minor, instance, generation_mark, incarnation_mark, flows, cids, slots,
        cells, zero,
    }
}

/// Bytes of a group's snapshot with room for that many members and slots of its table: header,
/// members, table, and zeros up to whole words of eight bytes.
pub const fn snapshot_bytes(members: usize, slots: usize) -> usize {
    let members = members * size_of::<Member>();
    let table = slots * size_of::<u16>();
    (size_of::<GroupHeader>() + members + table).next_multiple_of(8)
}
