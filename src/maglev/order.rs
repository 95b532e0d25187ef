// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Checks of the input, and the order of members that everything else follows.

use super::build::Member;
use super::error::BuildError;
use super::slot::SlotIndex;

/// The longest key, in bytes.
const MAX_KEY_BYTES: usize = 1024;

/// A member in order of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// While sorting, the bytes that follow the prefix common to all keys; in the tail of the
    /// fill, the member's factor there, once it is needed.
    pub(super) word: u64,
    /// Position in the caller's slice.
    pub(super) member: u32,
    /// Weight; zero if the member is not eligible.
    pub(super) weight: u32,
}

/// Checks `members` and leaves the placed ones in `entries`, in ascending order of keys.
///
/// The order of the checks is fixed and every error names the least key, index or position that
/// has the fault, so that the caller's order decides nothing but the positions named.
pub(super) fn place<S: SlotIndex>(
    members: &[Member<'_, S>],
    entries: &mut Vec<Entry>,
    indices: &mut Vec<u32>,
) -> Result<(), BuildError> {
    if members.len() > S::MAX_MEMBERS {
        return Err(BuildError::TooManyMembers {
            given: members.len(),
            limit: S::MAX_MEMBERS,
        });
    }
    for (member, Member { key, index, .. }) in members.iter().enumerate() {
        if key.is_empty() {
            return Err(BuildError::EmptyKey { member });
        }
        if key.len() > MAX_KEY_BYTES {
            let length = key.len();
            return Err(BuildError::KeyTooLong {
                member,
                length,
                max: MAX_KEY_BYTES,
            });
        }
        if *index == S::NONE {
            return Err(BuildError::ReservedIndex {
                index: index.to_u32(),
                member,
            });
        }
    }
    sort_by_key(members, entries)?;
    check_indices(members, indices)?;
    entries.retain(|entry| entry.weight > 0);
    Ok(())
}

fn sort_by_key<S: SlotIndex>(
    members: &[Member<'_, S>],
    entries: &mut Vec<Entry>,
) -> Result<(), BuildError> {
    let common = common_prefix(members);
    entries.clear();
    // Positions fit: no slot type has indices for more than 2^32 - 1 members.
    entries.extend((0..).zip(members).map(|(member, m)| Entry {
        word: word(&m.key[common..]),
        member,
        weight: if m.eligible { m.weight } else { 0 },
    }));
    let key = |entry: &Entry| members[entry.member as usize].key;
    // The first differing bytes decide nearly always, without a look at the keys themselves.
    entries.sort_unstable_by(|a, b| {
        a.word
            .cmp(&b.word)
            .then_with(|| key(a)[common..].cmp(&key(b)[common..]))
            .then_with(|| a.member.cmp(&b.member))
    });
    match entries
        .windows(2)
        .find(|pair| pair[0].word == pair[1].word && key(&pair[0]) == key(&pair[1]))
    {
        None => Ok(()),
        Some(pair) => Err(BuildError::DuplicateKey {
            key: key(&pair[0]).into(),
            first: pair[0].member as usize,
            second: pair[1].member as usize,
        }),
    }
}

/// The length of the prefix that all keys share.
fn common_prefix<S>(members: &[Member<'_, S>]) -> usize {
    let Some((first, rest)) = members.split_first() else {
        return 0;
    };
    rest.iter().fold(first.key.len(), |common, member| {
        let same = first.key[..common]
            .iter()
            .zip(member.key)
            .take_while(|(a, b)| a == b);
        same.count()
    })
}

/// The first eight bytes as a number that sorts as they do; a shorter key sorts with or before
/// those that it is a prefix of.
fn word(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

fn check_indices<S: SlotIndex>(
    members: &[Member<'_, S>],
    indices: &mut Vec<u32>,
) -> Result<(), BuildError> {
    indices.clear();
    indices.extend(members.iter().map(|member| member.index.to_u32()));
    indices.sort_unstable();
    let Some(pair) = indices.windows(2).find(|pair| pair[0] == pair[1]) else {
        return Ok(());
    };
    let index = pair[0];
    let mut owners = (0..)
        .zip(members)
        .filter(|(_, m)| m.index.to_u32() == index)
        .map(|(n, _)| n);
    match (owners.next(), owners.next()) {
        (Some(first), Some(second)) => Err(BuildError::DuplicateIndex {
            index,
            first,
            second,
        }),
        // The pair found above are two members.
        _ => Ok(()),
    }
}
