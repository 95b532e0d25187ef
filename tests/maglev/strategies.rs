// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Random members and sizes.

use std::collections::BTreeMap;

use guideway::maglev::{SizeError, TableSize};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::support::Weighted;

/// A prime from 2 to about `max`; small ones are as likely as large ones.
pub(crate) fn prime(max: u32) -> impl Strategy<Value = u32> {
    (1..=max.ilog2())
        .prop_flat_map(move |bits| (1 << bits)..=max.min(2 << bits))
        .prop_map(|n| match TableSize::new(n) {
            Err(SizeError::NotPrime { above, .. }) => above,
            _ => n,
        })
}

/// A key: short or long, text or bytes, often with a prefix in common with others.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 1..4),
        vec(prop_oneof![Just(0), Just(1), Just(255)], 1..20),
        (0u32..100_000).prop_map(|number| number.to_string().into_bytes()),
        (0u32..500).prop_map(|number| format!("2001:db8:ff09:{number:x}:e000::").into_bytes()),
        vec(any::<u8>(), 1020..=1024),
    ]
}

/// A weight: zero, all alike, mild or extreme.
fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => Just(0),
        4 => Just(1),
        4 => 1u32..10,
        2 => 1u32..1000,
        1 => any::<u32>(),
        1 => Just(u32::MAX),
    ]
}

fn shuffled(
    members: impl Strategy<Value = BTreeMap<Vec<u8>, u32>>,
) -> impl Strategy<Value = Weighted> {
    members
        .prop_map(|members| members.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

/// Up to `max` members with any weights, in any order; possibly none.
pub(crate) fn weighted(max: usize) -> impl Strategy<Value = Weighted> {
    shuffled(btree_map(key(), weight(), 0..=max))
}

/// Up to `max` members of one weight, in any order; at least one.
pub(crate) fn equal(max: usize) -> impl Strategy<Value = Weighted> {
    shuffled(btree_map(key(), Just(1), 1..=max))
}

/// A size and members that fit into it.
pub(crate) fn fitting(max_size: u32, max_members: usize) -> impl Strategy<Value = (u32, Weighted)> {
    prime(max_size)
        .prop_flat_map(move |slots| (Just(slots), weighted(max_members.min(slots as usize))))
}

/// A size and members of one weight that fit into it.
pub(crate) fn fitting_equal(
    max_size: u32,
    max_members: usize,
) -> impl Strategy<Value = (u32, Weighted)> {
    prime(max_size)
        .prop_flat_map(move |slots| (Just(slots), equal(max_members.min(slots as usize))))
}
