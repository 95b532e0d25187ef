// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is in force: the snapshots that packets see.
//!
//! An entry of an array of maps tells the id of the live map, and opening a map by its id takes
//! CAP_SYS_ADMIN. So each snapshot is pinned, before it is published as `NAME-next`, afterwards as
//! `NAME`, and the live one is recognised by its id.

use std::fmt;

use super::error::InstanceError;
use super::instance::Egress;
use crate::abi;
use crate::encap::Encap;
use crate::group::{self, GroupId};
use crate::kernel::map::MapShape;
use crate::kernel::snapshot::{Slots, Snapshot};
use crate::kernel::statedir::Section;

/// Name of the map of a configuration, in the kernel's listings.
const CONFIG: &str = "gw_eg_conf";

/// What is published by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// How packets are encapsulated.
    Config,
    /// A group.
    Group(GroupId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("configuration"),
            Self::Group(group) => write!(f, "group {group}"),
        }
    }
}

impl Subject {
    /// Name of the pin of what is in force.
    pub(super) fn pin(self) -> String {
        match self {
            Self::Config => "conf".to_owned(),
            Self::Group(group) => format!("g{group}"),
        }
    }

    /// Name of the pin of what is about to be.
    pub(super) fn next_pin(self) -> String {
        format!("{}-next", self.pin())
    }

    pub(super) const fn index(self) -> u32 {
        match self {
            Self::Config => 0,
            Self::Group(group) => group.get() as u32,
        }
    }
}

impl Egress {
    /// The entries that a subject is in.
    pub(super) fn slots(&self, subject: Subject) -> &Slots {
        match subject {
            Subject::Config => &self.maps.config,
            Subject::Group(_) => &self.maps.groups,
        }
    }

    /// The shape of a subject's snapshots.
    pub(super) fn shape(&self, subject: Subject) -> MapShape {
        let group = self.limits.sizes().snapshot_shape();
        match subject {
            Subject::Group(_) => group,
            Subject::Config => MapShape {
                name: CONFIG.to_owned(),
                value_size: size_of::<abi::EgressConfig>() as u32,
                ..group
            },
        }
    }

    /// The snapshot in force; none before the first publication.
    pub(super) fn live(&self, subject: Subject) -> Result<Option<Snapshot>, InstanceError> {
        let slots = self.slots(subject);
        let shape = self.shape(subject);
        let mut id = slots.live_id(subject.index())?;
        while let Some(live) = id {
            // A rename goes from the one to the other, so in this order none is missed.
            for name in [subject.next_pin(), subject.pin()] {
                let path = self.dir.pin(Section::Generations, &name);
                // What cannot be opened is not what is in force; whether it disappeared just now or
                // is something else does not matter here.
                match Snapshot::open(&path, &shape) {
                    Ok(snapshot) if snapshot.map().id() == live => return Ok(Some(snapshot)),
                    _ => {}
                }
            }
            // It may have been replaced between the looks.
            id = slots.live_id(subject.index())?;
            if id == Some(live) {
                return Err(InstanceError::Orphan {
                    what: subject.to_string(),
                    id: live,
                    path: self.dir.path().display().to_string(),
                });
            }
        }
        Ok(None)
    }

    /// The group as packets see it; none if it was never opened.
    ///
    /// # Errors
    /// [`InstanceError::Orphan`] if one is live that is not pinned here, or it makes no sense.
    pub fn group(&self, group: GroupId) -> Result<Option<group::Snapshot>, InstanceError> {
        if u32::from(group.get()) >= self.maps.groups.len() {
            return Ok(None);
        }
        let Some(live) = self.live(Subject::Group(group))? else {
            return Ok(None);
        };
        let bytes = live.read()?;
        let snapshot = group::Snapshot::from_bytes(group, &bytes, self.limits.groups)?;
        Ok(Some(snapshot))
    }

    /// All groups that were ever opened, in order.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn groups(&self) -> Result<Vec<group::Snapshot>, InstanceError> {
        let groups = self.group_ids().map(|group| self.group(group));
        groups.filter_map(Result::transpose).collect()
    }

    /// How packets are encapsulated; none before that was published: nothing is forwarded then.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn encap(&self) -> Result<Option<Encap>, InstanceError> {
        let Some(live) = self.live(Subject::Config)? else {
            return Ok(None);
        };
        let row = bytemuck::pod_read_unaligned(&live.read()?);
        Ok(Some(Encap::from_row(&row)?))
    }
}
