// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Plans of groups, made of what is published and what their slots have counted.

use super::error::{GroupError, InstanceError};
use super::instance::{Egress, Writer};
use crate::group::{
    self, allocate, Classes, Context, Counters, GroupId, GroupPlan, GroupSpec, HighWater, Place,
    Places, Snapshot,
};
use crate::kernel::{clock, SysError};
use crate::srv6::{BaseSid, NextHop};

impl Egress {
    /// Which group is whose: what is published says it, and new classes get what is left.
    /// `routes` counts the routes to a group, which decides if two of them claim one class.
    ///
    /// # Errors
    /// What is published cannot be read.
    pub fn places(
        &self,
        classes: &Classes,
        routes: impl Fn(GroupId) -> u64,
    ) -> Result<Places, InstanceError> {
        Ok(allocate(
            classes,
            &self.groups()?,
            routes,
            self.limits.groups,
        ))
    }

    /// What the slots of a group have counted, from the first on.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn slot_counters(&self, group: GroupId) -> Result<Vec<Counters>, SysError> {
        let members = u32::from(self.limits.groups.members());
        let first = u32::from(group.get()) * members;
        let slots = first..first + members;
        slots
            .map(|index| {
                self.maps
                    .shards
                    .fold(index, Counters::default(), |sum, cpu| Counters {
                        packets: sum.packets.wrapping_add(cpu.packets),
                        bytes: sum.bytes.wrapping_add(cpu.bytes),
                    })
            })
            .collect()
    }

    /// Plans what `spec` asks for in the group of `place`. A plan that a [`Writer`] shall publish
    /// must be made by it.
    ///
    /// # Errors
    /// What is published cannot be read, or the plan is impossible.
    pub fn plan_group(&self, place: &Place, spec: &GroupSpec) -> Result<GroupPlan, GroupError> {
        self.plan_with(place, spec, HighWater::default())
    }

    fn plan_with(
        &self,
        place: &Place,
        spec: &GroupSpec,
        high_water: HighWater,
    ) -> Result<GroupPlan, GroupError> {
        let live = self.group(place.group)?;
        let counters = self
            .slot_counters(place.group)
            .map_err(InstanceError::from)?;
        let context = self.context(&counters, high_water);
        Ok(group::plan(live.as_ref(), place, spec, &context)?)
    }

    fn context<'a>(&self, counters: &'a [Counters], high_water: HighWater) -> Context<'a> {
        Context {
            limits: self.limits.groups,
            high_water,
            counters,
            now_ns: clock::wall_ns(),
            rewrite: false,
        }
    }
}

impl Writer {
    /// The slot generations that this writer has used in a group.
    #[must_use]
    pub fn high_water(&self, group: GroupId) -> HighWater {
        let mark = self.marks.get(usize::from(group.get()));
        mark.copied().unwrap_or_default()
    }

    /// Plans what `spec` asks for in the group of `place`, to be published by this writer.
    ///
    /// # Errors
    /// As [`Egress::plan_group`].
    pub fn plan_group(&self, place: &Place, spec: &GroupSpec) -> Result<GroupPlan, GroupError> {
        self.plan_with(place, spec, self.high_water(place.group))
    }

    /// Plans new next hops for the members that a group has; see [`group::track`].
    ///
    /// # Errors
    /// What is published cannot be read, or the group is absent or disabled.
    pub fn plan_next_hops(
        &self,
        group: GroupId,
        next_hop: impl Fn(BaseSid) -> Option<NextHop>,
    ) -> Result<GroupPlan, GroupError> {
        self.plan_again(group, |live, context| group::track(live, next_hop, context))
    }

    /// Plans that an open group takes no new routes; see [`group::close`].
    ///
    /// # Errors
    /// What is published cannot be read, or the group is not open.
    pub fn plan_close(&self, group: GroupId) -> Result<GroupPlan, GroupError> {
        self.plan_again(group, group::close)
    }

    /// Plans that a closing group forwards no more.
    pub(super) fn plan_disable(&self, group: GroupId) -> Result<GroupPlan, GroupError> {
        self.plan_again(group, group::disable)
    }

    fn plan_again(
        &self,
        group: GroupId,
        plan: impl FnOnce(&Snapshot, &Context<'_>) -> Result<GroupPlan, group::PlanError>,
    ) -> Result<GroupPlan, GroupError> {
        let live = self.group(group)?.ok_or(GroupError::Absent { group })?;
        let counters = self.slot_counters(group).map_err(InstanceError::from)?;
        Ok(plan(
            &live,
            &self.context(&counters, self.high_water(group)),
        )?)
    }
}
