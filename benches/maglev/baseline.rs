// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Builders to compare with. Each hashes its keys, and builds the same table as the crate does for
//! equal weights, as long as no product overflows.

use guideway::maglev::Member;

const OFFSET_SEED: u64 = 0xda7a_5eed_0ffc_e7e5;
const SKIP_SEED: u64 = 0x5eed_da7a_1ceb_00c5;

fn hash(key: &[u8], seed: u64) -> u64 {
    key.iter()
        .chain(&seed.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

fn lists(m: u32, members: &[Member<'_, u16>]) -> Vec<(u32, u32)> {
    let m = u64::from(m);
    let list = |member: &Member<'_, u16>| {
        let offset = hash(member.key, OFFSET_SEED) % m;
        let skip = hash(member.key, SKIP_SEED) % (m - 1) + 1;
        (offset as u32, skip as u32)
    };
    members.iter().map(list).collect()
}

/// In the manner of a builder in wide use: a table of 32-bit numbers, set to -1 first; a 32-bit
/// multiplication and a remainder per probe; and a turn whenever the cumulative weight reaches the
/// maximum. Members in ascending order of keys.
pub(crate) fn v2(slots: &mut Vec<i32>, m: u32, members: &[Member<'_, u16>]) {
    slots.clear();
    slots.resize(m as usize, -1);
    let lists = lists(m, members);
    let max = members
        .iter()
        .map(|member| u64::from(member.weight))
        .max()
        .unwrap_or(0);
    let mut next = vec![0u32; members.len()];
    let mut cumulative = vec![0u64; members.len()];
    let mut filled = 0;
    if max == 0 {
        return;
    }
    loop {
        for (number, member) in members.iter().enumerate() {
            cumulative[number] += u64::from(member.weight);
            if cumulative[number] < max {
                continue;
            }
            cumulative[number] -= max;
            let (offset, skip) = lists[number];
            let probe = |next: u32| (offset.wrapping_add(next.wrapping_mul(skip)) % m) as usize;
            let mut slot = probe(next[number]);
            while slots[slot] >= 0 {
                next[number] += 1;
                slot = probe(next[number]);
            }
            slots[slot] = i32::from(member.index);
            next[number] += 1;
            filled += 1;
            if filled == m {
                return;
            }
        }
    }
}

/// The textbook: 64-bit arithmetic, a remainder per probe, a turn each, no weights.
pub(crate) fn textbook(slots: &mut Vec<u16>, m: u32, members: &[Member<'_, u16>]) {
    slots.clear();
    slots.resize(m as usize, u16::MAX);
    let lists = lists(m, members);
    let mut next = vec![0u64; members.len()];
    let mut filled = 0;
    loop {
        for (number, member) in members.iter().enumerate() {
            let (offset, skip) = lists[number];
            let probe =
                |next| ((u64::from(offset) + next * u64::from(skip)) % u64::from(m)) as usize;
            let mut slot = probe(next[number]);
            while slots[slot] != u16::MAX {
                next[number] += 1;
                slot = probe(next[number]);
            }
            slots[slot] = member.index;
            next[number] += 1;
            filled += 1;
            if filled == m {
                return;
            }
        }
    }
}

/// All preference lists written out in advance, as 64-bit numbers, `M` for each member.
pub(crate) fn materialized(slots: &mut Vec<u16>, m: u32, members: &[Member<'_, u16>]) {
    slots.clear();
    slots.resize(m as usize, u16::MAX);
    let list = |(offset, skip): (u32, u32)| {
        let slot = move |j| (u64::from(offset) + j * u64::from(skip)) % u64::from(m);
        (0..u64::from(m)).map(slot).collect::<Vec<_>>()
    };
    let lists: Vec<_> = lists(m, members).into_iter().map(list).collect();
    let mut next = vec![0usize; members.len()];
    let mut filled = 0;
    loop {
        for (number, member) in members.iter().enumerate() {
            let mut slot = lists[number][next[number]] as usize;
            while slots[slot] != u16::MAX {
                next[number] += 1;
                slot = lists[number][next[number]] as usize;
            }
            slots[slot] = member.index;
            next[number] += 1;
            filled += 1;
            if filled == m {
                return;
            }
        }
    }
}
