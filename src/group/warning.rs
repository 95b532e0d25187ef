// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of a planned group may not be meant.

use super::snapshot::Snapshot;
use super::spec::MemberState;
use super::{Limits, State};
use crate::maglev::{Table, TableSize};
use crate::srv6::BaseSid;

/// Something that can be published, and may surprise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Fewer than 100 slots of the table for each active member.
    #[error(
        "a table of {size} for {active} active shards has fewer than 100 slots for each, so that \
         equal shares differ by more than 1 %; {}",
        Recommended(*recommended)
    )]
    SmallTable {
        /// The size.
        size: u32,
        /// Active members with a weight.
        active: usize,
        /// The least size that has enough; none if none has.
        recommended: Option<u32>,
    },
    /// No member takes addresses.
    #[error("none of {members} shards takes new addresses: packets without a pin are dropped")]
    NobodyActive {
        /// Members.
        members: usize,
    },
    /// The weight of a member is too small for a slot.
    #[error("shard {sid} gets none of {size} table slots, as its weight is only {weight}")]
    NoSlots {
        /// The shard.
        sid: BaseSid,
        /// Its weight.
        weight: u32,
        /// The size of the table.
        size: u32,
    },
    /// A member begins to drain where nothing keeps its addresses.
    #[error("shard {sid} drains, and all its addresses move at once, as there are no pins")]
    DrainsUnpinned {
        /// The shard.
        sid: BaseSid,
    },
}

struct Recommended(Option<u32>);

impl std::fmt::Display for Recommended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(size) => write!(f, "{size} would do"),
            None => f.write_str("no size would do"),
        }
    }
}

/// What there is to say about `after`, whose table is `table`.
pub(super) fn warnings(
    before: Option<&Snapshot>,
    after: &Snapshot,
    table: &Table<u16>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if after.state == State::Disabled {
        return warnings;
    }
    let shares = table.shares();
    let active = shares.members.len();
    if shares.below_rule {
        let recommended = TableSize::recommended(active).map(TableSize::get);
        warnings.push(Warning::SmallTable {
            size: table.size().get(),
            active,
            recommended: recommended.filter(|&size| size <= Limits::MAX_TABLE_SIZE),
        });
    }
    if active == 0 {
        warnings.push(Warning::NobodyActive {
            members: after.members.len(),
        });
    }
    for share in shares.members.iter().filter(|share| share.slots == 0) {
        let sid = std::str::from_utf8(share.key).map(str::parse);
        if let Ok(Ok(sid)) = sid {
            warnings.push(Warning::NoSlots {
                sid,
                weight: share.weight,
                size: table.size().get(),
            });
        }
    }
    if after.settings.pin_idle.is_off() {
        let drained = |sid| {
            let was = before.and_then(|before| before.member_by_sid(sid));
            was.is_some_and(|was| was.state() == MemberState::Active)
        };
        let draining = after
            .members
            .iter()
            .filter(|member| member.state() == MemberState::Draining && drained(member.sid));
        warnings.extend(draining.map(|member| Warning::DrainsUnpinned { sid: member.sid }));
    }
    warnings
}
