// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What of a damaged snapshot can still be relied on.

use bytemuck::pod_read_unaligned;

use super::image::{member_of, At, HEADER_BYTES, MEMBER_BYTES};
use super::limits::Limits;
use super::number::GroupId;
use super::snapshot::{Member, Snapshot};
use crate::abi;
use crate::maglev::SlotIndex;

impl Snapshot {
    /// What is left of a snapshot that [`from_bytes`](Self::from_bytes) refuses: everything that its
    /// header says, and the members whose rows make sense. Who is missing has lost the slot, with
    /// whatever was pinned to it. The table is empty: a plan made of this, with
    /// [`rewrite`](super::Context::rewrite), makes another.
    ///
    /// None if the header makes no sense, or its numbers do not fit those of the members: numbers
    /// that routes and pins carry could be given twice.
    #[must_use]
    pub fn salvage(group: GroupId, bytes: &[u8], limits: Limits) -> Option<Self> {
        if bytes.len() != limits.snapshot_bytes() {
            return None;
        }
        let (header, rest) = bytes.split_at(HEADER_BYTES);
        let (rows, _) = rest.split_at(limits.table_at() - HEADER_BYTES);
        let header: abi::GroupHeader = pod_read_unaligned(header);
        if header.table_size != limits.table_size().get() {
            return None;
        }
        let rows = rows.chunks_exact(MEMBER_BYTES).enumerate();
        let members: Vec<_> = rows
            .filter_map(|(slot, row)| member_of(At(group), slot, pod_read_unaligned(row)).ok()?)
            .collect();
        let mut snapshot = Self::of_header(group, &header, Vec::new()).ok()?;
        let next = snapshot.next_slot_generation;
        if members
            .iter()
            .any(|member| !next.is_after(member.generation))
        {
            return None;
        }
        if snapshot.forwards() {
            // Of two that claim a shard or a number nobody knows which is right.
            let is_alone = |member: &&Member| {
                let claim = |other: &&Member| {
                    other.sid == member.sid || other.generation == member.generation
                };
                members.iter().filter(claim).count() == 1
            };
            snapshot.members = members.iter().filter(is_alone).copied().collect();
        }
        snapshot.table = vec![u16::NONE; limits.table_size().slots()].into();
        Some(snapshot)
    }
}
