// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Contexts of the kernel's cipher: one for each key, whatever services and configs use it.
//!
//! They outlive generations, which name them by slot and incarnation. A slot of the live generation
//! is not given to another key by the next one: packets still see the live one while contexts are
//! made.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::live::Live;
use crate::abi;
use crate::quic::lb::Key;
use crate::service::{Fault, FaultCode, Faults, Spec};

/// Contexts that an instance has room for.
pub(super) const CONTEXTS: u32 = abi::Limit::GW_MAX_CRYPTO_CONTEXTS.0;

/// The context of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedContext {
    /// The key.
    pub key: Key,
    /// Where the context is.
    pub slot: u32,
    /// Tells two tenants of one slot apart; never 0.
    pub incarnation: u32,
}

/// The place of a context. Whose it is follows from the specification: they stand in the order in
/// which their keys first occur there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContextRecord {
    pub(crate) slot: u32,
    pub(crate) incarnation: u32,
}

/// Each key once, in the order in which they occur.
pub(super) fn keys(spec: &Spec) -> Vec<Key> {
    let configs = spec.services().iter().flat_map(|s| &s.quic.configs);
    let mut seen = BTreeSet::new();
    configs
        .filter_map(|config| config.key)
        .filter(|key| seen.insert(*key.secret_bytes()))
        .collect()
}

/// The contexts of a specification, by what was recorded with it.
pub(super) fn recorded(spec: &Spec, records: &[ContextRecord]) -> Vec<PlacedContext> {
    let places = keys(spec).into_iter().zip(records);
    let placed = places.map(|(key, record)| PlacedContext {
        key,
        slot: record.slot,
        incarnation: record.incarnation,
    });
    placed.collect()
}

/// Gives every key of `spec` its context: the one that it has in `live`, or a new one in a free
/// slot. `incarnation` is the highest that is used. Keys without a slot are left out here, and
/// [counted](used) all the same.
///
/// # Errors
/// There are no more incarnations.
pub(super) fn assign(
    live: Option<&Live>,
    spec: &Spec,
    mut incarnation: u32,
) -> Result<Vec<PlacedContext>, Faults> {
    let before = live.map_or_else(Vec::new, Live::contexts);
    let taken: BTreeSet<u32> = before.iter().map(|context| context.slot).collect();
    let kept: BTreeMap<_, _> = before
        .iter()
        .map(|context| (*context.key.secret_bytes(), context))
        .collect();
    let mut free = (0..CONTEXTS).filter(|slot| !taken.contains(slot));
    let mut contexts = Vec::new();
    for key in keys(spec) {
        if let Some(kept) = kept.get(key.secret_bytes()) {
            contexts.push(**kept);
            continue;
        }
        let Some(slot) = free.next() else {
            continue;
        };
        let Some(next) = incarnation.checked_add(1) else {
            let message = format!("incarnations of keys: the limit is {}", u32::MAX);
            return Err(Fault::new("/services", FaultCode::Capacity, message).into());
        };
        incarnation = next;
        contexts.push(PlacedContext {
            key,
            slot,
            incarnation,
        });
    }
    Ok(contexts)
}

/// How many contexts there are while `spec` replaces `live`.
pub(super) fn used(live: Option<&Live>, spec: &Spec) -> usize {
    let live = live.map(|live| keys(&live.spec)).unwrap_or_default();
    let both = keys(spec).into_iter().chain(live);
    both.map(|key| *key.secret_bytes())
        .collect::<BTreeSet<_>>()
        .len()
}

impl ContextRecord {
    /// Whether each key has a place of its own.
    pub(super) fn check(records: &[Self], spec: &Spec) -> Result<(), String> {
        if records.len() != keys(spec).len() {
            return Err("it does not place the keys of its specification".into());
        }
        let mut slots = BTreeSet::new();
        for Self { slot, incarnation } in records {
            if *slot >= CONTEXTS || !slots.insert(slot) {
                return Err(format!("a key has the context {slot}"));
            }
            if *incarnation == 0 {
                return Err(format!("the context {slot} has incarnation 0"));
            }
        }
        Ok(())
    }
}

impl From<&PlacedContext> for ContextRecord {
    fn from(context: &PlacedContext) -> Self {
        Self {
            slot: context.slot,
            incarnation: context.incarnation,
        }
    }
}

impl Live {
    /// The contexts of the kernel's cipher that the generation names.
    pub(crate) fn contexts(&self) -> Vec<PlacedContext> {
        recorded(&self.spec, &self.record.contexts)
    }
}

#[cfg(test)]
mod tests;
