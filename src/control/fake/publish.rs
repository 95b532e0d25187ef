// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publications in memory.

use std::collections::BTreeSet;
use std::time::Duration;

use super::guards::FakeExclusive;
use super::process::Process;
use super::state::lost_group;
use super::FakeKernel;
use crate::control::kernel::{Exclusive, Kernel, KernelError, Look, Operation, Part};
use crate::control::observed::GroupContext;
use crate::egress::{PublishError, Published, Step, Subject};
use crate::encap::Encap;
use crate::error::ErrorKind;
use crate::group::{Change, GroupId, GroupPlan, Snapshot};

impl Kernel for FakeKernel {
    fn context(&self, group: GroupId) -> Result<GroupContext, KernelError> {
        let pid = self.process.pid();
        self.process.run(Operation::Read(Part::Counters), |state| {
            if group.get() >= state.world.limits.groups() {
                let text = format!("there is no group {group}");
                return Err(KernelError::new(ErrorKind::NotFound, text));
            }
            let life = state.lives.get(&pid);
            let mark = life.and_then(|life| life.marks.get(&group).copied());
            Ok(GroupContext {
                high_water: mark.unwrap_or_default(),
                counters: Vec::new(),
            })
        })
    }

    fn set_encap(&mut self, encap: &Encap) -> Result<bool, KernelError> {
        if let Err(error) = encap.check() {
            return Err(PublishError::Encap(error).into());
        }
        if self.process.fake().world(|world| world.encap) == Some(*encap) {
            return Ok(false);
        }
        for step in &Step::ALL[1..] {
            let operation = Operation::Publish(Subject::Config, *step);
            self.process.run(operation, |state| {
                if *step == Step::Swap {
                    state.world.encap = Some(*encap);
                }
                Ok(())
            })?;
        }
        Ok(true)
    }

    fn publish(
        &mut self,
        plans: &[GroupPlan],
    ) -> Result<Vec<Result<Published, KernelError>>, KernelError> {
        if let Some(plan) = plans.iter().find(|plan| plan.change() == Change::Disable) {
            let group = plan.group();
            return Err(PublishError::NotRetired { group }.into());
        }
        self.process.publish(plans)
    }

    fn exclusive(&mut self, patience: Duration) -> Result<Box<dyn Exclusive + '_>, KernelError> {
        Ok(Box::new(FakeExclusive::take(&self.process, patience)?))
    }
}

impl Process {
    /// Publishes any change, as the kernel's side does: everything up to the swap for one group after
    /// the other, then the swaps.
    pub(super) fn publish(
        &self,
        plans: &[GroupPlan],
    ) -> Result<Vec<Result<Published, KernelError>>, KernelError> {
        let started = self.now();
        let groups = u32::from(self.limits().groups());
        let mut seen = BTreeSet::new();
        for group in plans.iter().map(GroupPlan::group) {
            if u32::from(group.get()) >= groups {
                return Err(PublishError::NoGroup { group, groups }.into());
            }
            if !seen.insert(group) {
                return Err(PublishError::Twice { group }.into());
            }
        }
        let prepared: Vec<_> = plans.iter().map(|plan| self.prepare(plan)).collect();
        let swapped = prepared.into_iter().zip(plans).map(|(prepared, plan)| {
            let is_changed = prepared?;
            if is_changed {
                self.step(plan, Step::Swap)?;
            }
            Ok(is_changed)
        });
        let swapped: Vec<Result<bool, KernelError>> = swapped.collect();
        let results = swapped.into_iter().zip(plans).map(|(swapped, plan)| {
            if swapped? {
                self.step(plan, Step::Rename)?;
            }
            Ok(Published {
                group: plan.group(),
                class: plan.class(),
                change: plan.change(),
                publication: plan.snapshot().publication,
                upstream_compatible: plan.upstream_compatible(),
                duration: self.now().saturating_sub(started),
            })
        });
        Ok(results.collect())
    }

    fn step(&self, plan: &GroupPlan, step: Step) -> Result<(), KernelError> {
        let operation = Operation::Publish(Subject::Group(plan.group()), step);
        self.run(operation, |state| {
            if step == Step::Purge {
                if let Some(kept) = plan.purge() {
                    state.pins.pins.retain(|holder, pin| {
                        let mut kept = kept.iter();
                        holder.group != plan.group()
                            || kept.any(|(slot, generation)| {
                                (slot.get(), generation.get()) == (pin.slot, pin.generation)
                            })
                    });
                }
            }
            if step == Step::Swap {
                let snapshot = plan.snapshot().clone();
                state.damaged.remove(&plan.group());
                state.world.groups.insert(plan.group(), snapshot);
            }
            Ok(())
        })
    }

    /// Everything up to the swap; whether there is one.
    fn prepare(&self, plan: &GroupPlan) -> Result<bool, KernelError> {
        let group = plan.group();
        let pid = self.pid();
        let is_changed = self.alive(|state| {
            let is_unread = match state.damaged.get(&group) {
                None => false,
                Some(known) => !(*known && plan.repairs()),
            };
            if is_unread {
                return Err(PublishError::Instance(lost_group(group)).into());
            }
            let live = state.world.groups.get(&group);
            let live = live.map(|live| live.publication);
            if live != plan.base() {
                let base = plan.base();
                return Err(PublishError::Stale { group, base, live }.into());
            }
            if !plan.is_changed() {
                return Ok(false);
            }
            let class = plan.class();
            let claims = |other: &&Snapshot| {
                let known = other.group != group && !state.is_lost(other.group);
                known && other.forwards() && other.class == class
            };
            let claim = state.world.groups.values().find(claims);
            if let (Change::Open, Some(other)) = (plan.change(), claim) {
                let other = other.group;
                return Err(PublishError::ClaimedClass {
                    class,
                    group,
                    other,
                }
                .into());
            }
            let life = state.lives.entry(pid).or_default();
            let mark = life.marks.entry(group).or_default();
            mark.claim(plan).map_err(PublishError::from)?;
            Ok(true)
        })?;
        if is_changed {
            for step in Step::ALL.into_iter().take_while(|step| *step < Step::Swap) {
                self.step(plan, step)?;
            }
        }
        Ok(is_changed)
    }
}
