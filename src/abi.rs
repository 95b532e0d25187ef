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

pub use types::{
    gw_abi as Abi, gw_admission as Admission, gw_backend as Backend,
    gw_backend_flag as BackendFlag, gw_backend_state as BackendState,
    gw_backend_stats as BackendStats, gw_bind_operation as BindOperation,
    gw_bind_request as BindRequest, gw_bind_result as BindResult, gw_binding as Binding,
    gw_binding_state as BindingState, gw_bound as Bound, gw_cid_key as CidKey,
    gw_collection as Collection, gw_counter as Counter, gw_crypto_slot as CryptoSlot,
    gw_event as Event, gw_event_bucket as EventBucket, gw_event_kind as EventKind,
    gw_flow_key as FlowKey, gw_fragments as Fragments, gw_generation as Generation,
    gw_index as Index, gw_key_request as KeyRequest, gw_level as Level, gw_limit as Limit,
    gw_meta as Meta, gw_occupancy as Occupancy, gw_policy as Policy, gw_quic_config as QuicConfig,
    gw_quic_mode as QuicMode, gw_reason as Reason, gw_reason_stats as ReasonStats,
    gw_routing as Routing, gw_rule as Rule, gw_server_id as ServerId,
    gw_server_id_flag as ServerIdFlag, gw_service as Service, gw_service_flag as ServiceFlag,
    gw_service_key as ServiceKey, gw_service_stats as ServiceStats, gw_slot as Slot,
    gw_slot_word as SlotWord, gw_sweep as Sweep, gw_sweep_account as SweepAccount,
    gw_sweep_counts as SweepCounts, gw_sweep_levels as SweepLevels, gw_sweep_reason as SweepReason,
    gw_sweep_result as SweepResult, gw_sweep_service as SweepService, gw_trace_flag as TraceFlag,
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
    Meta {
        magic, abi_major, abi_minor, instance, generation_mark, incarnation_mark, flows, cids, slots,
        cells, zero,
    }
}
