// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication: from a plan to what packets see, by one map update.
//!
//! Every step before the swap can fail, or the process be killed in it, without a packet noticing;
//! what it leaves behind is removed by the next publication. The slot generations of a plan are
//! claimed before the first step, so none is ever given twice.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use super::error::{InstanceError, PublishError};
use super::instance::Writer;
use super::live::Subject;
use super::pins::Tick;
use crate::encap::Encap;
use crate::group::{Change, Class, GroupId, GroupPlan, Publication};
use crate::kernel::exchange::Aborted;
use crate::kernel::map::OpenError;
use crate::kernel::snapshot::Snapshot;
use crate::kernel::statedir::Section;
use crate::kernel::{PinError, SysError};

/// A step of a publication, in their order. [`Step::Rename`] tidies up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Remove pins whose slot generations could come again, if any are about to.
    Purge,
    /// Create the snapshot's map.
    Create,
    /// Write the snapshot.
    Fill,
    /// Make it immutable.
    Freeze,
    /// Pin it as what is about to be published.
    Store,
    /// Make it live: one map update, which returns when no packet sees the one before.
    Swap,
    /// Pin it as what is in force.
    Rename,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 7] = [
        Self::Purge,
        Self::Create,
        Self::Fill,
        Self::Freeze,
        Self::Store,
        Self::Swap,
        Self::Rename,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Purge => "remove pins of former slot generations",
            Self::Create => "create the snapshot",
            Self::Fill => "fill the snapshot",
            Self::Freeze => "freeze the snapshot",
            Self::Store => "store the snapshot",
            Self::Swap => "swap the snapshot",
            Self::Rename => "rename the snapshot",
        })
    }
}

/// What a publication did to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The group.
    pub group: GroupId,
    /// Whose it is.
    pub class: Class,
    /// What changed; [`Change::Unchanged`]: nothing was published.
    pub change: Change,
    /// Number of the publication in force.
    pub publication: Publication,
    /// Whether shard groups of datum-cloud/galactic have the same table of these members.
    pub upstream_compatible: bool,
    /// How long the whole batch took, the wait for the last packets of old snapshots included.
    pub duration: Duration,
}

impl Writer {
    /// Makes the planned snapshots what packets see, each by one map update, all in one batch.
    /// Packets see the old or the new snapshot of a group, whole. Blocks until no packet uses an old
    /// one: for 8 to 30 ms, up to 250 ms on a busy machine, and before Linux 6.12 as long for each
    /// group; not for the thread of an event loop. Plans that change nothing publish nothing.
    ///
    /// One result for each plan, in their order: one group may fail where others succeed.
    ///
    /// # Errors
    /// Plans that contradict each other or the instance; nothing was tried then.
    pub fn publish(
        &mut self,
        plans: &[GroupPlan],
    ) -> Result<Vec<Result<Published, PublishError>>, PublishError> {
        self.publish_observed(plans, |_, _| Ok(()))
    }

    /// As [`publish`](Self::publish), asking `observer` before each step.
    ///
    /// # Errors
    /// As there; where the observer stopped a group, its result is [`PublishError::Aborted`].
    pub fn publish_observed(
        &mut self,
        plans: &[GroupPlan],
        observer: impl FnMut(Subject, Step) -> Result<(), Aborted>,
    ) -> Result<Vec<Result<Published, PublishError>>, PublishError> {
        let disables = |plan: &&GroupPlan| plan.change() == Change::Disable;
        if let Some(plan) = plans.iter().find(disables) {
            let group = plan.group();
            return Err(PublishError::NotRetired { group });
        }
        self.publish_any(plans, observer)
    }

    /// As [`publish_observed`](Self::publish_observed), for all changes.
    pub(super) fn publish_any(
        &mut self,
        plans: &[GroupPlan],
        mut observer: impl FnMut(Subject, Step) -> Result<(), Aborted>,
    ) -> Result<Vec<Result<Published, PublishError>>, PublishError> {
        let started = Instant::now();
        self.check(plans)?;
        let mut batch = Batch {
            writer: self,
            observer: &mut observer,
        };
        let prepared: Vec<_> = plans.iter().map(|plan| batch.prepare(plan)).collect();
        let swapped = batch.swap(prepared);
        let mut results: Vec<_> = swapped
            .into_iter()
            .zip(plans)
            .map(|(result, plan)| {
                if result? {
                    batch.rename(Subject::Group(plan.group()))?;
                }
                Ok(Published {
                    group: plan.group(),
                    class: plan.class(),
                    change: plan.change(),
                    publication: plan.snapshot().publication,
                    upstream_compatible: plan.upstream_compatible(),
                    duration: Duration::ZERO,
                })
            })
            .collect();
        for published in results.iter_mut().flatten() {
            published.duration = started.elapsed();
        }
        Ok(results)
    }

    /// Makes `encap` what packets are encapsulated by, as [`publish`](Self::publish) does with a
    /// group; whether it was another one before.
    ///
    /// # Errors
    /// [`PublishError`]; unless it says otherwise the one before is in force still.
    pub fn set_encap(&mut self, encap: &Encap) -> Result<bool, PublishError> {
        self.set_encap_observed(encap, |_, _| Ok(()))
    }

    /// As [`set_encap`](Self::set_encap), asking `observer` before each step.
    ///
    /// # Errors
    /// As there, and [`PublishError::Aborted`] when the observer stops it.
    pub fn set_encap_observed(
        &mut self,
        encap: &Encap,
        mut observer: impl FnMut(Subject, Step) -> Result<(), Aborted>,
    ) -> Result<bool, PublishError> {
        encap.check()?;
        // What cannot be read, or makes no sense, is replaced.
        if self.encap().ok().flatten().as_ref() == Some(encap) {
            return Ok(false);
        }
        let mut batch = Batch {
            writer: self,
            observer: &mut observer,
        };
        let subject = Subject::Config;
        let bytes = bytemuck::bytes_of(&encap.to_row()).to_vec();
        let snapshot = batch.store(subject, &bytes)?;
        for result in batch.swap(vec![Ok(Some((subject, snapshot)))]) {
            result?;
        }
        batch.rename(subject)?;
        Ok(true)
    }

    /// Whether the group is the only one that forwards for its class.
    fn check_claim(&self, plan: &GroupPlan) -> Result<(), PublishError> {
        if plan.change() != Change::Open {
            return Ok(());
        }
        let (group, class) = (plan.group(), plan.class());
        let groups = self.groups_as_they_are()?.known.into_iter();
        let mut others = groups.filter(|other| other.group != group);
        let claim = others.find(|other| other.forwards() && other.class == class);
        match claim.map(|claim| claim.group) {
            Some(other) => Err(PublishError::ClaimedClass {
                class,
                group,
                other,
            }),
            None => Ok(()),
        }
    }

    /// Whether the plans fit the instance and each other.
    fn check(&self, plans: &[GroupPlan]) -> Result<(), PublishError> {
        let groups = self.maps.groups.len();
        let mut seen = BTreeSet::new();
        for group in plans.iter().map(GroupPlan::group) {
            if u32::from(group.get()) >= groups {
                return Err(PublishError::NoGroup { group, groups });
            }
            if !seen.insert(group) {
                return Err(PublishError::Twice { group });
            }
        }
        Ok(())
    }
}

/// A snapshot that waits for its swap; none where nothing changes.
type Prepared = Option<(Subject, Snapshot)>;

/// Runs the steps of several publications, asking the observer before each.
struct Batch<'a> {
    writer: &'a mut Writer,
    observer: &'a mut dyn FnMut(Subject, Step) -> Result<(), Aborted>,
}

impl Batch<'_> {
    fn run<T>(
        &mut self,
        subject: Subject,
        step: Step,
        work: impl FnOnce(&Writer) -> Result<T, SysError>,
    ) -> Result<T, PublishError> {
        let what = || subject.to_string();
        (self.observer)(subject, step)
            .map_err(|Aborted| PublishError::Aborted { what: what(), step })?;
        work(self.writer).map_err(|error| PublishError::Step {
            what: what(),
            step,
            error,
        })
    }

    /// Everything up to the swap.
    fn prepare(&mut self, plan: &GroupPlan) -> Result<Prepared, PublishError> {
        let group = plan.group();
        let live = match self.writer.group_as_it_is(group)? {
            Some(Err(damaged)) if plan.repairs() => damaged.rest,
            Some(Err(damaged)) => return Err(damaged.error.into()),
            Some(Ok(live)) => Some(live),
            None => None,
        };
        let live = live.map(|live| live.publication);
        if live != plan.base() {
            let base = plan.base();
            return Err(PublishError::Stale { group, base, live });
        }
        if !plan.is_changed() {
            return Ok(None);
        }
        self.writer.check_claim(plan)?;
        if let Some(mark) = self.writer.marks.get_mut(usize::from(group.get())) {
            mark.claim(plan)?;
        }
        let bytes = plan.snapshot().to_bytes(self.writer.limits.groups)?;
        let subject = Subject::Group(group);
        self.run(subject, Step::Purge, |_| Ok(()))?;
        if plan.purge().is_some() {
            let report = self.writer.sweeper()?.purge(group, Tick::now())?;
            if !report.is_complete() {
                let report = Box::new(report);
                return Err(PublishError::PinsLeft { group, report });
            }
        }
        let snapshot = self.store(subject, &bytes)?;
        Ok(Some((subject, snapshot)))
    }

    fn store(&mut self, subject: Subject, bytes: &[u8]) -> Result<Snapshot, PublishError> {
        let snapshot = self.run(subject, Step::Create, |writer| {
            Snapshot::create(&writer.shape(subject))
        })?;
        self.run(subject, Step::Fill, |_| snapshot.fill(bytes))?;
        self.run(subject, Step::Freeze, |_| snapshot.freeze())?;
        self.run(subject, Step::Store, |writer| {
            writer.settle(subject)?;
            let path = writer.pin(&subject.next_pin());
            snapshot.map().pin(&path)
        })?;
        Ok(snapshot)
    }

    /// Swaps what is prepared; whether each was.
    fn swap(
        &mut self,
        prepared: Vec<Result<Prepared, PublishError>>,
    ) -> Vec<Result<bool, PublishError>> {
        let asked: Vec<Result<Prepared, PublishError>> = prepared
            .into_iter()
            .map(|prepared| {
                let prepared = prepared?;
                if let Some((subject, _)) = &prepared {
                    let asked = self.run(*subject, Step::Swap, |_| Ok(()));
                    asked.inspect_err(|_| self.writer.forget(*subject))?;
                }
                Ok(prepared)
            })
            .collect();
        let ready: Vec<_> = asked.iter().flatten().flatten().collect();
        let result = match ready.as_slice() {
            [] => Ok(()),
            [(subject, snapshot)] => self.writer.slots(*subject).swap(subject.index(), snapshot),
            [(subject, _), ..] => {
                let all = ready
                    .iter()
                    .map(|(subject, snapshot)| (subject.index(), snapshot));
                self.writer
                    .slots(*subject)
                    .swap_all(&all.collect::<Vec<_>>())
            }
        };
        let judge = |(subject, snapshot): &(Subject, Snapshot)| {
            let Err(error) = &result else {
                return Ok(true);
            };
            // The kernel may have come so far, or swapped and failed afterwards; only it can tell.
            match self.writer.slots(*subject).live_id(subject.index()) {
                Ok(live) if live == Some(snapshot.map().id()) => return Ok(true),
                Ok(_) => self.writer.forget(*subject),
                // It may be in force, and its pin the only one.
                Err(_) => {}
            }
            Err(PublishError::Step {
                what: subject.to_string(),
                step: Step::Swap,
                error: error.clone(),
            })
        };
        asked
            .into_iter()
            .map(|prepared| prepared?.as_ref().map_or(Ok(false), judge))
            .collect()
    }

    fn rename(&mut self, subject: Subject) -> Result<(), PublishError> {
        self.run(subject, Step::Rename, |writer| {
            let (next, pin) = (subject.next_pin(), subject.pin());
            writer.lock.rename(Section::Generations, &next, &pin)
        })
    }
}

impl Writer {
    /// Brings back into force what was when an array of maps was lost and made again: numbers that
    /// routes and pins carry would begin anew otherwise.
    pub(super) fn publish_stored(&self, lost: &[&str]) -> Result<(), InstanceError> {
        let groups = self.group_ids().map(Subject::Group);
        for subject in std::iter::once(Subject::Config).chain(groups) {
            let slots = self.slots(subject);
            if !lost.contains(&slots.map().shape().name.as_str()) {
                continue;
            }
            // What a publication stored last counts only where nothing else was in force.
            for name in [subject.pin(), subject.next_pin()] {
                match Snapshot::open(&self.pin(&name), &self.shape(subject)) {
                    Ok(stored) => {
                        slots.swap(subject.index(), &stored)?;
                        break;
                    }
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Path of a pin, for those who make one.
    fn pin(&self, name: &str) -> std::path::PathBuf {
        self.dir.pin(Section::Generations, name)
    }

    /// Ends what a publication left in the middle: what it stored is in force, or nothing.
    fn settle(&self, subject: Subject) -> Result<(), SysError> {
        let next = subject.next_pin();
        let live = self.slots(subject).live_id(subject.index())?;
        match Snapshot::open(&self.pin(&next), &self.shape(subject)) {
            Ok(stored) if Some(stored.map().id()) == live => {
                self.lock
                    .rename(Section::Generations, &next, &subject.pin())
            }
            // What cannot be opened for another reason may be in force.
            Err(OpenError::Pin(PinError::Sys(error))) if !error.is_not_found() => Err(error),
            _ => self.lock.unpin(Section::Generations, &next).map(drop),
        }
    }

    /// Removes what was stored and is not in force. What cannot be removed now means nothing, and
    /// the next publication tries again.
    fn forget(&self, subject: Subject) {
        let _ = self.lock.unpin(Section::Generations, &subject.next_pin());
    }
}
