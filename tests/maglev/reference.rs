// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The rules of the format, transcribed as directly as they can be; slow, and independent of the
//! crate.

use std::collections::HashMap;

/// FNV-1a 64 over `parts`, one after the other.
pub(crate) fn fnv1a_64(parts: &[&[u8]]) -> u64 {
    parts
        .concat()
        .iter()
        .fold(0xcbf29ce484222325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
        })
}

pub(crate) fn offset_and_skip(key: &[u8], m: u64) -> (u64, u64) {
    let hash = |seed: u64| fnv1a_64(&[key, &seed.to_be_bytes()]);
    (
        hash(0xda7a5eed0ffce7e5) % m,
        hash(0x5eedda7a1ceb00c5) % (m - 1) + 1,
    )
}

/// The owner's key for each slot, of members `(key, weight)` in any order.
pub(crate) fn build<'k>(m: u32, members: &[(&'k [u8], u32)]) -> Vec<Option<&'k [u8]>> {
    let mut placed: Vec<_> = members
        .iter()
        .copied()
        .filter(|&(_, weight)| weight > 0)
        .collect();
    placed.sort();
    fill(m, &placed, |key| offset_and_skip(key, u64::from(m)))
}

/// The turns, in the order given.
pub(crate) fn fill<'k>(
    m: u32,
    placed: &[(&'k [u8], u32)],
    mut preference: impl FnMut(&'k [u8]) -> (u64, u64),
) -> Vec<Option<&'k [u8]>> {
    let mut slots = vec![None; m as usize];
    let max = placed
        .iter()
        .map(|&(_, weight)| u64::from(weight))
        .max()
        .unwrap_or(0);
    let lists: Vec<_> = placed.iter().map(|&(key, _)| preference(key)).collect();
    let (mut credit, mut next) = (vec![0; placed.len()], vec![0; placed.len()]);
    let mut free = if placed.is_empty() { 0 } else { m };
    while free > 0 {
        for (rank, &(key, weight)) in placed.iter().enumerate() {
            credit[rank] += u64::from(weight);
            if credit[rank] >= max && free > 0 {
                credit[rank] -= max;
                let (offset, skip) = lists[rank];
                let claimed = loop {
                    let slot = (offset + next[rank] * skip) % u64::from(m);
                    next[rank] += 1;
                    if slots[slot as usize].is_none() {
                        break slot;
                    }
                };
                slots[claimed as usize] = Some(key);
                free -= 1;
            }
        }
    }
    slots
}

/// The digest of a table given as owners' keys.
pub(crate) fn digest(slots: &[Option<&[u8]>]) -> u64 {
    let mut owners: Vec<&[u8]> = slots.iter().copied().flatten().collect();
    owners.sort();
    owners.dedup();
    let position: HashMap<_, _> = owners.iter().copied().zip(0u32..).collect();
    let mut text = b"gw-maglev-1\0".to_vec();
    text.extend((slots.len() as u32).to_be_bytes());
    text.extend((owners.len() as u32).to_be_bytes());
    for key in &owners {
        text.extend((key.len() as u32).to_be_bytes());
        text.extend(*key);
    }
    for slot in slots {
        text.extend(slot.map_or(u32::MAX, |key| position[key]).to_be_bytes());
    }
    fnv1a_64(&[&text])
}
