// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What a change of a group moves, told before it is made.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::PlanError;
use super::snapshot::{self, Snapshot};
use super::spec::MemberState;
use crate::maglev::Table;
use crate::placement::member_key;
use crate::srv6::BaseSid;

/// What a publication moves in a group's table. Addresses with a pin stay where they are, except
/// those of members that leave or are no longer reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Disruption {
    /// Slots of the table.
    pub table_size: u32,
    /// Those that lead to another shard, or to one instead of none, than before; none when a group
    /// opens.
    pub moved: u32,
    /// The least that any table of these shares needs to move.
    pub forced: u32,
    /// What moves beyond that.
    pub extra: u32,
    /// Everybody who is or was a member, in ascending order of keys.
    pub shares: Vec<MemberShare>,
}

/// A shard's part of the table before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct MemberShare {
    /// The shard.
    pub sid: BaseSid,
    /// What it did; none if it was no member.
    pub was: Option<MemberState>,
    /// What it does; none if it is no member any more.
    pub is: Option<MemberState>,
    /// Its weight; that before if it is no member any more.
    pub weight: u32,
    /// Its slots of the table before.
    pub before: u32,
    /// Its slots of the table after.
    pub after: u32,
    /// Slots that it loses to others.
    pub lost: u32,
    /// Slots that it gets from others.
    pub gained: u32,
}

impl MemberShare {
    const fn none(sid: BaseSid) -> Self {
        Self {
            sid,
            was: None,
            is: None,
            weight: 0,
            before: 0,
            after: 0,
            lost: 0,
            gained: 0,
        }
    }
}

impl Disruption {
    /// From what the group was in this incarnation, if it was anything, to `after`, whose table is
    /// `table`.
    pub(super) fn between(
        before: Option<&Snapshot>,
        after: &Snapshot,
        table: &Table<u16>,
    ) -> Result<Self, PlanError> {
        let mut shares = Shares::default();
        let mut disruption = Self {
            table_size: table.size().get(),
            moved: 0,
            forced: 0,
            extra: 0,
            shares: Vec::new(),
        };
        for member in before.map_or(&[][..], |before| &before.members) {
            let share = shares.of(member.sid);
            share.was = Some(member.state());
            share.weight = member.weight;
        }
        for member in &after.members {
            let share = shares.of(member.sid);
            share.is = Some(member.state());
            share.weight = member.weight;
        }
        for share in table.shares().members {
            shares.named(share.key, |mine| mine.after = share.slots);
        }
        if let Some(before) = before {
            let size = before.table.len();
            let old = match size == table.size().slots() {
                true => Some(snapshot::table(table.size(), &before.members)?),
                // Tables of two sizes have no slots in common.
                false => None,
            };
            let diff = old.as_ref().and_then(|old| old.diff(table).ok());
            for share in old.iter().flat_map(|old| old.shares().members) {
                shares.named(share.key, |mine| mine.before = share.slots);
            }
            let changed = diff.iter().flat_map(|diff| diff.members());
            for member in changed {
                shares.named(member.key, |mine| {
                    (mine.lost, mine.gained) = (member.lost, member.gained);
                });
            }
            let all = disruption.table_size;
            (disruption.moved, disruption.forced, disruption.extra) = diff
                .map_or((all, all, 0), |diff| {
                    (diff.moved(), diff.forced(), diff.extra())
                });
        }
        disruption.shares = shares.0.into_values().collect();
        Ok(disruption)
    }
}

/// Shares by key.
#[derive(Default)]
struct Shares(BTreeMap<String, MemberShare>);

impl Shares {
    fn of(&mut self, sid: BaseSid) -> &mut MemberShare {
        let share = self.0.entry(member_key(sid));
        share.or_insert(MemberShare::none(sid))
    }

    fn named(&mut self, key: &[u8], change: impl FnOnce(&mut MemberShare)) {
        let key = std::str::from_utf8(key).unwrap_or_default();
        if let Some(share) = self.0.get_mut(key) {
            change(share);
        }
    }
}
