// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A group as it is published: everything that packets read of it.

use std::fmt;

use serde::Serialize;

use super::class::Class;
use super::number::{Generation, GroupId, Incarnation, Publication, Slot};
use super::settings::Settings;
use super::spec::{Candidate, MemberState};
use crate::maglev::{BuildError, Digest, Member as TableMember, Table, TableSize};
use crate::placement::{member_key, HashGroup};
use crate::srv6::{BaseSid, NextHop};

/// What a published group does. One that was never published, and so has no snapshot, is absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Forwards, and takes new routes.
    Open,
    /// Forwards, and takes no new routes.
    Closing,
    /// Forwards nothing. Its numbers go on from here when it is opened again.
    Disabled,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Closing => "closing",
            Self::Disabled => "disabled",
        })
    }
}

/// What a slot's counters show.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Their bytes before encapsulation.
    pub bytes: u64,
}

/// A shard in its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its index; kept as long as it is a candidate.
    pub slot: Slot,
    /// Its tenure of the slot; kept as long as the slot.
    pub generation: Generation,
    /// What identifies the shard.
    pub sid: BaseSid,
    /// Its share of new addresses in relation to the others.
    pub weight: u32,
    /// It gets no new addresses.
    pub draining: bool,
    /// How packets get to it; none while nothing reaches it.
    pub next_hop: Option<NextHop>,
    /// What the slot's counters showed when it got the slot: its own count from there.
    pub base: Counters,
}

impl Member {
    /// What it does for the group.
    #[must_use]
    pub const fn state(&self) -> MemberState {
        MemberState::of(self.next_hop.as_ref(), self.draining)
    }

    /// What it was as a candidate: a specification of these gives the same members.
    #[must_use]
    pub const fn candidate(&self) -> Candidate {
        Candidate {
            sid: self.sid,
            weight: self.weight,
            draining: self.draining,
            next_hop: self.next_hop,
        }
    }

    /// Whether it takes new addresses.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state() == MemberState::Active
    }
}

/// A group as it is published, or will be.
///
/// Immutable: another set of members is another snapshot. Made by [`plan`](super::plan), or read
/// back from the kernel.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it is published.
    pub group: GroupId,
    /// Whose packets it carries; of a disabled group, whose it carried last.
    pub class: Class,
    /// The number that placement hashes for it.
    pub hash_group: HashGroup,
    /// What it does.
    pub state: State,
    /// The tenure of the group by the class.
    pub incarnation: Incarnation,
    /// Number of the publication.
    pub publication: Publication,
    /// When it was planned, in nanoseconds of the real-time clock.
    pub published_ns: u64,
    /// The first slot generation that this and every earlier publication left.
    pub next_slot_generation: Generation,
    /// How it treats packets.
    pub settings: Settings,
    /// Shards that cannot translate this class; 65,535 stands for more, too.
    pub ineligible: u16,
    /// The members in ascending order of slots.
    pub members: Vec<Member>,
    /// The slot that each hash value leads to, 0xffff for none.
    pub table: Box<[u16]>,
    /// Which shard each hash value leads to, as a number to compare nodes by.
    pub digest: Digest,
}

impl Snapshot {
    /// The member in this slot.
    #[must_use]
    pub fn member(&self, slot: Slot) -> Option<&Member> {
        let place = self
            .members
            .binary_search_by_key(&slot, |member| member.slot);
        self.members.get(place.ok()?)
    }

    /// The member that is this shard.
    #[must_use]
    pub fn member_by_sid(&self, sid: BaseSid) -> Option<&Member> {
        self.members.iter().find(|member| member.sid == sid)
    }

    /// The member that a packet without a pin goes to; none if there is no active one.
    #[must_use]
    pub fn place(&self, hash: u32) -> Option<&Member> {
        let size = u32::try_from(self.table.len()).ok()?;
        let slot = *self.table.get(hash.checked_rem(size)? as usize)?;
        self.member(Slot::new(slot.into())?)
    }

    /// How many members are in this state.
    #[must_use]
    pub fn count(&self, state: MemberState) -> usize {
        let alike = |member: &&Member| member.state() == state;
        self.members.iter().filter(alike).count()
    }

    /// One more than the highest slot in use.
    #[must_use]
    pub fn slots_used(&self) -> u16 {
        self.members
            .last()
            .map_or(0, |member| member.slot.get() + 1)
    }

    /// Whether packets are forwarded: open or closing.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.state != State::Disabled
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("group", &self.group)
            .field("class", &self.class)
            .field("hash_group", &self.hash_group)
            .field("state", &self.state)
            .field("incarnation", &self.incarnation)
            .field("publication", &self.publication)
            .field("next_slot_generation", &self.next_slot_generation)
            .field("settings", &self.settings)
            .field("ineligible", &self.ineligible)
            .field("members", &self.members)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// The table of these members: the active ones, by the text of their SIDs.
pub(super) fn table(size: TableSize, members: &[Member]) -> Result<Table<u16>, BuildError> {
    let keys: Vec<_> = members
        .iter()
        .map(|member| member_key(member.sid))
        .collect();
    let members: Vec<_> = members
        .iter()
        .zip(&keys)
        .map(|(member, key)| TableMember {
            key: key.as_bytes(),
            index: member.slot.get(),
            weight: member.weight,
            eligible: member.is_active(),
        })
        .collect();
    Table::build(size, &members)
}
