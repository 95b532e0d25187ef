// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What becomes of one class.

use serde::Serialize;

use super::risk::{Forecast, PinsAtRisk};
use crate::group::{
    Change, Class, GroupPlan, HashMode, Member, MemberShare, MemberState, Settings, Snapshot,
    Warning,
};
use crate::srv6::BaseSid;

/// How a group treats packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GroupSettings {
    /// What of a packet decides its shard.
    pub hash: HashMode,
    /// Seconds for which a pin outlives its last packet; 0: no pins.
    pub pin_idle_seconds: u32,
    /// Whether a packet that finds no shard is answered.
    pub reject: bool,
    /// Whether the outer header carries the inner ECN field.
    pub ecn_normal: bool,
}

impl From<&Settings> for GroupSettings {
    fn from(settings: &Settings) -> Self {
        Self {
            hash: settings.hash_mode,
            pin_idle_seconds: settings.pin_idle.as_secs(),
            reject: settings.reject,
            ecn_normal: settings.ecn_normal,
        }
    }
}

/// What becomes of a class and its group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ClassPlan {
    /// The class: `nat66`, or `nat64:` and its prefix.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: Class,
    /// Index of its group.
    pub group: u8,
    /// The number that placement hashes for the class.
    pub hash_group: u8,
    /// What happens to it.
    pub change: Change,
    /// Its settings afterwards.
    pub settings: GroupSettings,
    /// Tenure of the group by the class.
    pub incarnation: u32,
    /// Number of the publication in force afterwards.
    pub publication: u32,
    /// Slots of the table.
    pub table_size: u32,
    /// The table as a number to compare nodes by.
    pub digest: String,
    /// Slots of the table that lead elsewhere than before. Addresses without a pin in these move.
    pub moved: u32,
    /// The least that any table of these shares needs to move.
    pub forced: u32,
    /// What moves beyond that.
    pub extra: u32,
    /// Whether all addresses without a pin are placed anew, beyond what moves in the table.
    pub moves_unpinned: bool,
    /// Whether shard groups of datum-cloud/galactic have the same table of these members.
    pub upstream_compatible: bool,
    /// Everybody who is or was a member.
    pub members: Vec<MemberPlan>,
    /// What becomes of those whom pins hold.
    pub pins: PinsAtRisk,
    /// Shards that get no slot, as their weight is too small.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub without_slots: Vec<BaseSid>,
}

/// What becomes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MemberChange {
    /// It gets a slot.
    Joins,
    /// It loses its slot: whoever is pinned to it moves.
    Leaves,
    /// It keeps its slot, and its state or weight changes.
    Changes,
    /// It stays what it is.
    Stays,
}

/// A shard that is or was a member.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MemberPlan {
    /// The shard.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub sid: BaseSid,
    /// What becomes of it.
    pub change: MemberChange,
    /// What it did; null if it was no member.
    pub was: Option<MemberState>,
    /// What it will do; null if it will be no member.
    pub is: Option<MemberState>,
    /// Its slot, that before if it leaves.
    pub slot: u16,
    /// Its tenure of the slot.
    pub generation: u32,
    /// Its weight, that before if it leaves.
    pub weight: u32,
    /// Its slots of the table before.
    pub slots_before: u32,
    /// Its slots of the table after.
    pub slots_after: u32,
    /// Slots of the table that it loses to others.
    pub lost: u32,
    /// Slots of the table that it gets from others.
    pub gained: u32,
    /// Its part of the table before, from 0 to 1.
    pub share_before: f64,
    /// Its part of the table after.
    pub share_after: f64,
    /// Pins in use that hold somebody to it now.
    pub pins: u64,
}

impl ClassPlan {
    pub(super) fn of(plan: &GroupPlan, published: Option<&Snapshot>, forecast: &Forecast) -> Self {
        let after = plan.snapshot();
        let disruption = plan.disruption();
        // Members of an earlier tenure of the group are nobody's.
        let before = published.filter(|before| before.incarnation == after.incarnation);
        let shares = disruption.shares.iter();
        let members = shares.filter_map(|share| {
            let old = before.and_then(|before| before.member_by_sid(share.sid));
            let new = after.member_by_sid(share.sid);
            let pins = old.map_or(0, |old| {
                let pins = forecast.members.get(&(plan.group(), old.slot));
                pins.copied().unwrap_or(0)
            });
            MemberPlan::of(share, old, new, disruption.table_size, pins)
        });
        let without_slots = plan.warnings().iter().filter_map(|warning| match warning {
            Warning::NoSlots { sid, .. } => Some(*sid),
            _ => None,
        });
        Self {
            class: plan.class(),
            group: plan.group().get(),
            hash_group: after.hash_group.0,
            change: plan.change(),
            settings: (&after.settings).into(),
            incarnation: after.incarnation.get(),
            publication: after.publication.get(),
            table_size: disruption.table_size,
            digest: after.digest.to_string(),
            moved: disruption.moved,
            forced: disruption.forced,
            extra: disruption.extra,
            moves_unpinned: plan.moves_unpinned(),
            upstream_compatible: plan.upstream_compatible(),
            members: members.collect(),
            pins: forecast
                .groups
                .get(&plan.group())
                .copied()
                .unwrap_or_default(),
            without_slots: without_slots.collect(),
        }
    }
}

impl MemberPlan {
    fn of(
        share: &MemberShare,
        old: Option<&Member>,
        new: Option<&Member>,
        table_size: u32,
        pins: u64,
    ) -> Option<Self> {
        let change = match (old, new) {
            (Some(old), Some(new)) if old.generation != new.generation => MemberChange::Joins,
            (Some(old), Some(new)) if old == new => MemberChange::Stays,
            (Some(_), Some(_)) => MemberChange::Changes,
            (None, Some(_)) => MemberChange::Joins,
            (Some(_), None) => MemberChange::Leaves,
            (None, None) => return None,
        };
        let member = new.or(old)?;
        let part = |slots: u32| f64::from(slots) / f64::from(table_size.max(1));
        Some(Self {
            sid: share.sid,
            change,
            was: share.was,
            is: share.is,
            slot: member.slot.get(),
            generation: member.generation.get(),
            weight: member.weight,
            slots_before: share.before,
            slots_after: share.after,
            lost: share.lost,
            gained: share.gained,
            share_before: part(share.before),
            share_after: part(share.after),
            pins,
        })
    }
}
