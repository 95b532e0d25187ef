// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is in force: the snapshots that packets see.
//!
//! An entry of an array of maps tells the id of the live map, and opening a map by its id takes
//! CAP_SYS_ADMIN. So each snapshot is pinned, before it is published as `NAME-next`, afterwards as
//! `NAME`, and the live one is recognised by its id.

use std::collections::BTreeMap;
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

/// All groups of an instance.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Groups {
    /// Those of which is known what they are, in order: sound ones, and of damaged ones what is
    /// [left](group::Snapshot::salvage).
    pub known: Vec<group::Snapshot>,
    /// What is wrong with those that are damaged. Packets go on by what they have.
    pub damaged: BTreeMap<GroupId, InstanceError>,
}

impl Groups {
    /// A group that is damaged so that nobody knows whose it is.
    #[must_use]
    pub fn lost(&self) -> Option<GroupId> {
        let known = |group: &&GroupId| self.known.iter().any(|known| known.group == **group);
        self.damaged.keys().find(|group| !known(group)).copied()
    }
}

/// A group that was opened.
type Seen = Result<group::Snapshot, Damaged>;

/// A group that is damaged.
pub(super) struct Damaged {
    pub(super) error: InstanceError,
    pub(super) rest: Option<group::Snapshot>,
}

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
                // Migrated since it was opened.
                self.check_pinned(&["gw_groups", "gw_eg_config"])?;
                return Err(InstanceError::Orphan {
                    what: subject,
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
        match self.group_as_it_is(group)? {
            Some(Ok(snapshot)) => Ok(Some(snapshot)),
            Some(Err(damaged)) => Err(damaged.error),
            None => Ok(None),
        }
    }

    /// All groups that were ever opened, in order.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn groups(&self) -> Result<Vec<group::Snapshot>, InstanceError> {
        let groups = self.group_ids().map(|group| self.group(group));
        groups.filter_map(Result::transpose).collect()
    }

    /// All groups that were ever opened, those included that are damaged: one that is keeps nobody
    /// from seeing the others.
    ///
    /// # Errors
    /// The kernel refuses to read.
    pub fn groups_as_they_are(&self) -> Result<Groups, InstanceError> {
        let mut groups = Groups::default();
        for group in self.group_ids() {
            match self.group_as_it_is(group)? {
                None => {}
                Some(Ok(snapshot)) => groups.known.push(snapshot),
                Some(Err(damaged)) => {
                    groups.known.extend(damaged.rest);
                    groups.damaged.insert(group, damaged.error);
                }
            }
        }
        Ok(groups)
    }

    pub(super) fn group_as_it_is(&self, group: GroupId) -> Result<Option<Seen>, InstanceError> {
        if u32::from(group.get()) >= self.maps.groups.len() {
            return Ok(None);
        }
        let live = match self.live(Subject::Group(group)) {
            Ok(None) => return Ok(None),
            Ok(Some(live)) => live,
            Err(error @ InstanceError::Orphan { .. }) => {
                return Ok(Some(Err(Damaged { error, rest: None })));
            }
            Err(error) => return Err(error),
        };
        let (bytes, limits) = (live.read()?, self.limits.groups);
        let seen = group::Snapshot::from_bytes(group, &bytes, limits);
        Ok(Some(seen.map_err(|error| Damaged {
            error: error.into(),
            rest: group::Snapshot::salvage(group, &bytes, limits),
        })))
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
