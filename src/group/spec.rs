// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a group should be.

use serde::Serialize;

use super::error::PlanError;
use super::settings::Settings;
use crate::placement::member_key;
use crate::srv6::{BaseSid, NextHop};

/// What a member does for its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Takes new addresses, and keeps those pinned to it.
    Active,
    /// Keeps the addresses pinned to it.
    Draining,
    /// Nothing reaches it, draining or not.
    Unreachable,
}

impl MemberState {
    /// That of a member with this next hop.
    pub(super) const fn of(next_hop: Option<&NextHop>, draining: bool) -> Self {
        match (next_hop, draining) {
            (None, _) => Self::Unreachable,
            (Some(_), true) => Self::Draining,
            (Some(_), false) => Self::Active,
        }
    }
}

/// A shard that should be a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What identifies it.
    pub sid: BaseSid,
    /// Its share of new addresses in relation to the others. Zero: none, but it keeps those pinned
    /// to it.
    pub weight: u32,
    /// It should get no new addresses, and keep those pinned to it.
    pub draining: bool,
    /// How packets get to it; none while nothing reaches it.
    pub next_hop: Option<NextHop>,
}

impl Candidate {
    /// A shard of weight 1 that takes new addresses.
    #[must_use]
    pub const fn new(sid: BaseSid, next_hop: NextHop) -> Self {
        Self {
            sid,
            weight: 1,
            draining: false,
            next_hop: Some(next_hop),
        }
    }

    /// What it would do as a member.
    #[must_use]
    pub const fn state(&self) -> MemberState {
        MemberState::of(self.next_hop.as_ref(), self.draining)
    }
}

/// What a group should be, in no particular order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupSpec {
    /// How it treats packets.
    pub settings: Settings,
    /// Its shards. Equal ones are one, which drains if any of them does.
    pub candidates: Vec<Candidate>,
    /// Shards that cannot translate this class, for the record.
    pub ineligible: u32,
}

/// A candidate with the key of its place in the table.
#[derive(Clone, Debug)]
pub(super) struct Keyed {
    /// The RFC 5952 text of its SID.
    pub(super) key: String,
    pub(super) candidate: Candidate,
}

/// The candidates in ascending byte order of keys, each once.
pub(super) fn merge(candidates: &[Candidate]) -> Result<Vec<Keyed>, PlanError> {
    let mut sorted: Vec<_> = candidates
        .iter()
        .map(|&candidate| Keyed {
            key: member_key(candidate.sid),
            candidate,
        })
        .collect();
    sorted.sort_by(|one, two| one.key.cmp(&two.key));
    let mut merged: Vec<Keyed> = Vec::with_capacity(sorted.len());
    for keyed in sorted {
        let next = keyed.candidate;
        let Some(last) = merged
            .last_mut()
            .map(|last| &mut last.candidate)
            .filter(|last| last.sid == next.sid)
        else {
            merged.push(keyed);
            continue;
        };
        if last.weight != next.weight {
            return Err(PlanError::DuplicateWeight {
                sid: next.sid,
                first: last.weight,
                second: next.weight,
            });
        }
        if last.next_hop != next.next_hop {
            return Err(PlanError::DuplicateNextHop {
                sid: next.sid,
                first: last.next_hop,
                second: next.next_hop,
            });
        }
        last.draining |= next.draining;
    }
    Ok(merged)
}
