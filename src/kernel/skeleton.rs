// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What libbpf-cargo makes of each object: its bytes, and its maps and programs by name.

#![allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    dead_code
)]

macro_rules! skeletons {
    ($($(#[$when:meta])* $object:ident)+) => { $(
        $(#[$when])*
        pub(super) mod $object {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($object), ".skel.rs"));
        }
    )+ };
}

skeletons! {
    adjust
    bind
    egress
    #[cfg(guideway_keys)]
    key
    occupancy
    pins
    quiclb
    #[cfg(guideway_keys)]
    quiclb_keys
    quiclb_offload
    sweep
}
