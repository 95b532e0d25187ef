// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The contents of an instance's maps in those of another one.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::abi;
use crate::egress::adjust::Adjuster;
use crate::egress::instance::Maps;
use crate::egress::pins::{self, Copied};
use crate::egress::{Egress, InstanceError, Subject};
use crate::kernel::map::Map;
use crate::kernel::snapshot::Snapshot;
use crate::kernel::SysError;

/// Entries that are read and written at a time.
const BATCH: u32 = 1024;

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CopiedRows {
    /// Rows of interfaces.
    pub interfaces: u64,
    /// Routes.
    pub routes: u64,
    /// Snapshots of groups.
    pub groups: u64,
    /// Pins of both kinds.
    pub pins: u64,
    /// Of these, pins that packets had made in the old tables after the first copy.
    pub late_pins: u64,
    /// Pins that there was no room for, as packets had made them meanwhile: their addresses stay with
    /// their shards as long as no other set of shards is published.
    pub refused_pins: u64,
    /// Tenants whose count of pins may differ from the number of their pins: packets changed it as it
    /// was looked at.
    pub uncertain_tenants: u64,
}

/// From one instance to another of the same contents.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    pub(super) from: &'a Egress,
    pub(super) to: &'a Egress,
}

impl Copy<'_> {
    fn differs(&self, map: impl Fn(&Maps) -> &Map) -> bool {
        map(&self.from.maps).id() != map(&self.to.maps).id()
    }

    /// Rows of interfaces and routes, and the counts of tenants' pins as they are; nobody may write
    /// any.
    pub(super) fn rows(&self, copied: &mut CopiedRows) -> Result<(), SysError> {
        copied.interfaces = self.map(|maps| maps.tenants.map())?;
        copied.routes = self.map(|maps| maps.routes.map())?;
        self.map(|maps| maps.pin_use.map())?;
        Ok(())
    }

    fn map(&self, map: impl Fn(&Maps) -> &Map) -> Result<u64, SysError> {
        if !self.differs(&map) {
            return Ok(0);
        }
        let (from, to) = (map(&self.from.maps), map(&self.to.maps));
        let key_bytes = from.shape().key_size as usize;
        let (mut copied, mut failure) = (0, None);
        from.batches(BATCH, |keys, values| {
            copied += (keys.len() / key_bytes) as u64;
            match to.update_batch(keys, values) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failure.map_or(Ok(copied), Err)
    }

    /// What is in force, and where it is pinned: `pin` tells by its name.
    pub(super) fn snapshots(&self, pin: impl Fn(&str) -> PathBuf) -> Result<u64, InstanceError> {
        if let Some(config) = self.from.live(Subject::Config)? {
            config.map().pin(&pin(&Subject::Config.pin()))?;
        }
        let mut ready = Vec::new();
        for group in self.from.group_ids() {
            let subject = Subject::Group(group);
            let Some(live) = self.from.live(subject)? else {
                continue;
            };
            let shape = self.to.shape(subject);
            let live = match live.map().shape() == &shape {
                true => live,
                false => {
                    let limits = self.from.limits.groups;
                    let read = crate::group::Snapshot::from_bytes(group, &live.read()?, limits)?;
                    let made = Snapshot::create(&shape)?;
                    made.fill(&read.to_bytes(self.to.limits.groups)?)?;
                    made.freeze()?;
                    made
                }
            };
            live.map().pin(&pin(&subject.pin()))?;
            ready.push((subject.index(), live));
        }
        if self.differs(|maps| maps.groups.map()) && !ready.is_empty() {
            let ready: Vec<_> = ready.iter().map(|(index, live)| (*index, live)).collect();
            self.to.maps.groups.swap_all(&ready)?;
        }
        Ok(ready.len() as u64)
    }

    /// All pins that the other tables do not have yet.
    pub(super) fn pins(&self) -> Result<Copied, InstanceError> {
        let differs = self.differs(|maps| maps.pins.map());
        // A table that stays has nothing to be copied, and would be read for nothing.
        if !differs && !self.differs(|maps| maps.flow_pins.map()) {
            return Ok(Copied::default());
        }
        Ok(pins::copy(&self.from.pins()?, &self.to.pins()?)?)
    }

    /// Packets and bytes of shards, moved: `adjuster` is that of the maps they come to.
    pub(super) fn counters(&self, adjuster: &Adjuster) -> Result<(), SysError> {
        if !self.differs(|maps| maps.shards.map()) {
            return Ok(());
        }
        let (from, to) = (&self.from.maps.shards, &self.to.maps.shards);
        let members = |egress: &Egress| u32::from(egress.limits.groups.members());
        let (old, new) = (members(self.from), members(self.to));
        let mut counted = Vec::new();
        from.for_each(|index, cpus| {
            let sum = cpus.iter().fold(abi::ShardStats::default(), plus);
            if sum.packets | sum.bytes != 0 {
                counted.push((index, sum));
            }
        })?;
        for (index, sum) in counted {
            let (group, slot) = (index / old, index % old);
            let there = group * new + slot;
            // A slot that was never used has nothing counted.
            if slot < new && there < to.map().shape().max_entries {
                adjuster.add_shard(there, sum)?;
            }
            from.set(index, &abi::ShardStats::default())?;
        }
        Ok(())
    }

    /// Makes the counts of tenants' pins what their numbers are, as far as packets let that be seen;
    /// the number of tenants of whom it cannot.
    pub(super) fn recount(&self, adjuster: &Adjuster) -> Result<u64, SysError> {
        let replaced = [
            self.differs(|maps| maps.pins.map()),
            self.differs(|maps| maps.flow_pins.map()),
            self.differs(|maps| maps.pin_use.map()),
        ];
        if !replaced.contains(&true) {
            return Ok(0);
        }
        let recounted = self
            .to
            .recount(|table, more| adjuster.add_pins(table, more))?;
        Ok(recounted.uncertain)
    }
}

fn plus(sum: abi::ShardStats, more: &abi::ShardStats) -> abi::ShardStats {
    abi::ShardStats {
        packets: sum.packets.wrapping_add(more.packets),
        bytes: sum.bytes.wrapping_add(more.bytes),
    }
}
