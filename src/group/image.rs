// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A snapshot in the form that packets read: header, members by slot, table.

use std::mem::size_of;

use bytemuck::{bytes_of, pod_read_unaligned, Zeroable};

use super::class::{Class, Nat64Prefix};
use super::limits::Limits;
use super::number::{Generation, GroupId, Incarnation, Publication, Slot};
use super::settings::{HashMode, PinIdle, Settings};
use super::snapshot::{Counters, Member, Snapshot, State};
use super::spec::MemberState;
use crate::abi::{self, ClassKind, EgressProfile, GroupFlag, MemberFlag};
use crate::addr::MacAddr;
use crate::maglev::{Digest, SlotIndex};
use crate::placement::HashGroup;
use crate::srv6::{BaseSid, Mtu, NextHop};

pub(super) const HEADER_BYTES: usize = size_of::<abi::GroupHeader>();
pub(super) const MEMBER_BYTES: usize = size_of::<abi::Member>();
const WORD_BYTES: usize = size_of::<u16>();
const LAYOUT: u32 = abi::GroupLayout::GW_GROUP_LAYOUT.0;
const ENABLED: u32 = GroupFlag::GW_GROUP_ENABLED.0;
const CLOSING: u32 = GroupFlag::GW_GROUP_CLOSING.0;
const HASH_FLOW: u32 = GroupFlag::GW_GROUP_HASH_FLOW.0;
const REJECT: u32 = GroupFlag::GW_GROUP_REJECT.0;
const ECN_NORMAL: u32 = EgressProfile::GW_PROFILE_ECN_NORMAL.0;
const ALIVE: u32 = MemberFlag::GW_MEMBER_ALIVE.0;
const DRAINING: u32 = MemberFlag::GW_MEMBER_DRAINING.0;
const _: () = assert!(abi::TableWord::GW_TABLE_NONE.0 == u16::NONE as u32);

/// Bytes that are no snapshot of these limits, or a snapshot that does not fit them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Another length.
    #[error("group {group}: a snapshot has {expected} bytes, not {got}")]
    Length {
        /// The group.
        group: GroupId,
        /// What it should have.
        expected: usize,
        /// What it has.
        got: usize,
    },
    /// A value in the header that no snapshot has.
    #[error("group {group}: {field} {value} makes no sense")]
    Header {
        /// The group.
        group: GroupId,
        /// Which one, by its name in the ABI.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A value in a member's row that no member has.
    #[error("group {group}, slot {slot}: {field} {value} makes no sense")]
    Member {
        /// The group.
        group: GroupId,
        /// The slot.
        slot: usize,
        /// Which one, by its name in the ABI.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A word of the table that names nobody.
    #[error("group {group}: word {word} of the table names slot {slot}, which nobody has")]
    Table {
        /// The group.
        group: GroupId,
        /// The word's index.
        word: usize,
        /// What it says.
        slot: u16,
    },
}

impl Limits {
    /// The size of every snapshot in bytes.
    #[must_use]
    pub const fn snapshot_bytes(self) -> usize {
        abi::snapshot_bytes(self.members() as usize, self.table_size().slots())
    }

    pub(super) const fn table_at(self) -> usize {
        HEADER_BYTES + self.members() as usize * MEMBER_BYTES
    }
}

/// Makes the errors of one group.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) GroupId);

impl At {
    fn header(self, field: &'static str, value: impl ToString) -> ImageError {
        ImageError::Header {
            group: self.0,
            field,
            value: value.to_string(),
        }
    }

    fn member(self, slot: usize, field: &'static str, value: impl ToString) -> ImageError {
        ImageError::Member {
            group: self.0,
            slot,
            field,
            value: value.to_string(),
        }
    }
}

impl Snapshot {
    /// The bytes that are published.
    ///
    /// # Errors
    /// The snapshot was planned for other limits.
    pub fn to_bytes(&self, limits: Limits) -> Result<Vec<u8>, ImageError> {
        let at = At(self.group);
        if self.table.len() != limits.table_size().slots() {
            return Err(at.header("table_size", self.table.len()));
        }
        let mut bytes = Vec::with_capacity(limits.snapshot_bytes());
        bytes.extend_from_slice(bytes_of(&self.header()));
        bytes.resize(limits.table_at(), 0);
        for member in &self.members {
            let slot = usize::from(member.slot.get());
            let from = HEADER_BYTES + slot * MEMBER_BYTES;
            let row = bytes.get_mut(from..from + MEMBER_BYTES);
            let row = row.ok_or_else(|| at.member(slot, "slot", slot))?;
            row.copy_from_slice(bytes_of(&row_of(member)));
        }
        bytes.extend(self.table.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.resize(limits.snapshot_bytes(), 0);
        Ok(bytes)
    }

    fn header(&self) -> abi::GroupHeader {
        let state = match self.state {
            State::Open => ENABLED,
            State::Closing => ENABLED | CLOSING,
            State::Disabled => 0,
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let idle = self.settings.pin_idle;
        let (kind, (prefix, bits)) = match self.class {
            Class::Nat66 => (ClassKind::GW_CLASS_NAT66, self.class.prefix()),
            Class::Nat64(_) => (ClassKind::GW_CLASS_NAT64, self.class.prefix()),
        };
        // Members, and so counts of them, are at most 256.
        abi::GroupHeader {
            layout: LAYOUT,
            flags: state
                | flag(self.settings.hash_mode == HashMode::Flow, HASH_FLOW)
                | flag(self.settings.reject, REJECT),
            incarnation: self.incarnation.get(),
            publication: self.publication.get(),
            next_slot_generation: self.next_slot_generation.get(),
            table_size: self.table.len() as u32,
            slots_used: self.slots_used(),
            candidates: self.members.len() as u16,
            active: self.count(MemberState::Active) as u16,
            ineligible: self.ineligible,
            pin_idle_ticks: idle.ticks(),
            pin_refresh_ticks: idle.refresh_ticks(),
            hash_group: self.hash_group.0,
            class_kind: kind.0 as u8,
            class_bits: bits,
            profile: flag(self.settings.ecn_normal, ECN_NORMAL),
            class_prefix: prefix.octets(),
            table_digest: self.digest.get(),
            published_ns: self.published_ns,
            pin_idle_seconds: idle.as_secs(),
            ..abi::GroupHeader::zeroed()
        }
    }

    /// Reads what is published as `group`.
    ///
    /// # Errors
    /// Anything that [`to_bytes`](Self::to_bytes) does not write under these limits, except that
    /// the table may lead to other members, and its digest may be another, than they would by the
    /// rules: the next plan puts that right.
    pub fn from_bytes(group: GroupId, bytes: &[u8], limits: Limits) -> Result<Self, ImageError> {
        let at = At(group);
        if bytes.len() != limits.snapshot_bytes() {
            return Err(ImageError::Length {
                group,
                expected: limits.snapshot_bytes(),
                got: bytes.len(),
            });
        }
        let (header, rest) = bytes.split_at(HEADER_BYTES);
        let (rows, rest) = rest.split_at(limits.table_at() - HEADER_BYTES);
        let (table, padding) = rest.split_at(limits.table_size().slots() * WORD_BYTES);
        if padding.iter().any(|&byte| byte != 0) {
            return Err(at.header("padding", format_args!("{padding:?}")));
        }
        let header: abi::GroupHeader = pod_read_unaligned(header);
        let mut members = Vec::new();
        for (slot, row) in rows.chunks_exact(MEMBER_BYTES).enumerate() {
            members.extend(member_of(at, slot, pod_read_unaligned(row))?);
        }
        let words = table.chunks_exact(WORD_BYTES);
        let snapshot = Self {
            table: words.map(pod_read_unaligned::<u16>).collect(),
            ..Self::of_header(group, &header, members)?
        };
        if header.table_size != limits.table_size().get() {
            return Err(at.header("table_size", header.table_size));
        }
        snapshot.check_counts(&header)?;
        snapshot.check_members()?;
        Ok(snapshot)
    }

    /// With an empty table.
    pub(super) fn of_header(
        group: GroupId,
        header: &abi::GroupHeader,
        members: Vec<Member>,
    ) -> Result<Self, ImageError> {
        let at = At(group);
        if header.layout != LAYOUT {
            return Err(at.header("layout", header.layout));
        }
        if header.zero != 0 || header.zero2 != 0 || header.zero3 != [0; 40] {
            return Err(at.header("zero", "is not 0 and"));
        }
        let state = match header.flags & (ENABLED | CLOSING) {
            0 if header.flags == 0 => Some(State::Disabled),
            ENABLED => Some(State::Open),
            flags if flags == ENABLED | CLOSING => Some(State::Closing),
            _ => None,
        };
        let known = header.flags & !(ENABLED | CLOSING | HASH_FLOW | REJECT) == 0;
        let state = state
            .filter(|_| known)
            .ok_or_else(|| at.header("flags", format_args!("{:#x}", header.flags)))?;
        let class = class_of(header).ok_or_else(|| {
            let prefix = std::net::Ipv6Addr::from(header.class_prefix);
            let (kind, bits) = (header.class_kind, header.class_bits);
            at.header("class", format_args!("{kind} with prefix {prefix}/{bits}"))
        })?;
        if header.profile & !ECN_NORMAL != 0 {
            return Err(at.header("profile", format_args!("{:#x}", header.profile)));
        }
        let pin_idle = PinIdle::from_secs(header.pin_idle_seconds.into())
            .map_err(|error| at.header("pin_idle_seconds", error.seconds))?;
        if header.pin_idle_ticks != pin_idle.ticks() {
            return Err(at.header("pin_idle_ticks", header.pin_idle_ticks));
        }
        if header.pin_refresh_ticks != pin_idle.refresh_ticks() {
            return Err(at.header("pin_refresh_ticks", header.pin_refresh_ticks));
        }
        let next = Generation::new(header.next_slot_generation);
        Ok(Self {
            group,
            class,
            hash_group: HashGroup(header.hash_group),
            state,
            incarnation: Incarnation::new(header.incarnation)
                .ok_or_else(|| at.header("incarnation", 0))?,
            publication: Publication::new(header.publication)
                .ok_or_else(|| at.header("publication", 0))?,
            published_ns: header.published_ns,
            next_slot_generation: next.ok_or_else(|| at.header("next_slot_generation", 0))?,
            settings: Settings {
                hash_mode: match header.flags & HASH_FLOW {
                    0 => HashMode::Source,
                    _ => HashMode::Flow,
                },
                pin_idle,
                reject: header.flags & REJECT != 0,
                ecn_normal: header.profile & ECN_NORMAL != 0,
            },
            ineligible: header.ineligible,
            members,
            table: Box::default(),
            digest: Digest::from(header.table_digest),
        })
    }

    fn check_counts(&self, header: &abi::GroupHeader) -> Result<(), ImageError> {
        let counts = [
            ("slots_used", header.slots_used, self.slots_used().into()),
            ("candidates", header.candidates, self.members.len()),
            ("active", header.active, self.count(MemberState::Active)),
        ];
        for (field, value, counted) in counts {
            let empty = self.forwards() || value == 0;
            if usize::from(value) != counted || !empty {
                return Err(At(self.group).header(field, value));
            }
        }
        Ok(())
    }

    /// No shard and no generation twice, and nobody in the table who is not there.
    fn check_members(&self) -> Result<(), ImageError> {
        let at = At(self.group);
        for (index, member) in self.members.iter().enumerate() {
            let slot = usize::from(member.slot.get());
            let before = &self.members[..index];
            if before.iter().any(|other| other.sid == member.sid) {
                return Err(at.member(slot, "sid", member.sid));
            }
            let generation = member.generation;
            if before.iter().any(|other| other.generation == generation) {
                return Err(at.member(slot, "generation", generation));
            }
        }
        for (word, &slot) in self.table.iter().enumerate() {
            let there = Slot::new(slot.into()).is_some_and(|slot| self.member(slot).is_some());
            if slot != u16::NONE && !there {
                return Err(ImageError::Table {
                    group: self.group,
                    word,
                    slot,
                });
            }
        }
        Ok(())
    }
}

fn class_of(header: &abi::GroupHeader) -> Option<Class> {
    let prefix = std::net::Ipv6Addr::from(header.class_prefix);
    let class = match ClassKind(header.class_kind.into()) {
        ClassKind::GW_CLASS_NAT66 => Class::Nat66,
        ClassKind::GW_CLASS_NAT64 => {
            Class::Nat64(Nat64Prefix::new(prefix.into(), header.class_bits).ok()?)
        }
        _ => return None,
    };
    (class.prefix() == (prefix, header.class_bits)).then_some(class)
}

fn row_of(member: &Member) -> abi::Member {
    let mut row = abi::Member {
        sid: member.sid.octets(),
        generation: member.generation.get(),
        weight: member.weight,
        base_packets: member.base.packets,
        base_bytes: member.base.bytes,
        ..abi::Member::zeroed()
    };
    if member.draining {
        row.flags |= DRAINING;
    }
    if let Some(hop) = member.next_hop {
        row.flags |= ALIVE;
        row.next_hop = abi::NextHop {
            ifindex: hop.ifindex(),
            mtu: hop.mtu().get(),
            dmac: hop.destination().octets(),
            smac: hop.source().octets(),
        };
    }
    row
}

/// The member in a row; none in an empty one.
pub(super) fn member_of(
    at: At,
    slot: usize,
    row: abi::Member,
) -> Result<Option<Member>, ImageError> {
    if bytes_of(&row) == bytes_of(&abi::Member::zeroed()) {
        return Ok(None);
    }
    let generation = Generation::new(row.generation);
    let generation = generation.ok_or_else(|| at.member(slot, "generation", 0))?;
    let address = std::net::Ipv6Addr::from(row.sid);
    let sid = BaseSid::new(address)
        .ok()
        .filter(|sid| sid.address() == address);
    let flags = row.flags;
    if flags & !(ALIVE | DRAINING) != 0 {
        return Err(at.member(slot, "flags", format_args!("{flags:#x}")));
    }
    let hop = row.next_hop;
    let next_hop = match flags & ALIVE {
        0 if bytes_of(&hop) == bytes_of(&abi::NextHop::zeroed()) => None,
        0 => return Err(at.member(slot, "next_hop", "of what is unreachable")),
        _ => {
            let mtu = Mtu::new(hop.mtu).map_err(|error| at.member(slot, "mtu", error.mtu))?;
            let (source, destination) = (MacAddr::new(hop.smac), MacAddr::new(hop.dmac));
            let hop = NextHop::new(hop.ifindex, source, destination, mtu);
            Some(hop.map_err(|error| at.member(slot, "next_hop", format_args!("({error})")))?)
        }
    };
    let index = u32::try_from(slot).ok().and_then(Slot::new);
    Ok(Some(Member {
        slot: index.ok_or_else(|| at.member(slot, "slot", slot))?,
        generation,
        sid: sid.ok_or_else(|| at.member(slot, "sid", address))?,
        weight: row.weight,
        draining: flags & DRAINING != 0,
        next_hop,
        base: Counters {
            packets: row.base_packets,
            bytes: row.base_bytes,
        },
    }))
}
