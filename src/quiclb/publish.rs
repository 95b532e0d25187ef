// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication: from a plan to a live generation, visible by one map update.
//!
//! Every step before the swap can fail, or the process be killed in it, without a packet noticing;
//! what it leaves behind is removed by the next publication. The number of a generation is raised
//! in the kernel before anything has it, so no number is used twice.

use std::fmt;
use std::time::{Duration, Instant};

use super::error::PublishError;
use super::instance::Writer;
use super::live::{cells_pin, record_pin, CELLS, RECORD};
use crate::abi;
use crate::kernel::publish::Generation;
use crate::kernel::statedir::Section;
use crate::kernel::{clock, record, SysError};
use crate::plan::{Image, Live, Plan, PlanResult, Record};

/// A step of a publication, in their order. Those behind [`Step::Swap`] tidy up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Raise the marks of generation and incarnation numbers.
    RaiseMarks,
    /// Set the counters of newcomers to zero.
    ClearCounters,
    /// Let packets be redirected to the interfaces of the new generation.
    AddTargets,
    /// Create the generation's map.
    Create,
    /// Write its cells.
    Fill,
    /// Make it immutable.
    Freeze,
    /// Store what the next plan needs.
    Store,
    /// Pin map and record.
    Pin,
    /// Make it the live generation: one map update, which returns when no packet sees the old one.
    Swap,
    /// Add the counters of backends that are gone to their services'.
    FoldCounters,
    /// Remove the pins of generations that are over.
    Unpin,
    /// Take away targets that no generation names.
    RemoveTargets,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 12] = [
        Self::RaiseMarks,
        Self::ClearCounters,
        Self::AddTargets,
        Self::Create,
        Self::Fill,
        Self::Freeze,
        Self::Store,
        Self::Pin,
        Self::Swap,
        Self::FoldCounters,
        Self::Unpin,
        Self::RemoveTargets,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RaiseMarks => "raise the generation mark",
            Self::ClearCounters => "clear the counters of newcomers",
            Self::AddTargets => "add redirect targets",
            Self::Create => "create the generation",
            Self::Fill => "fill the generation",
            Self::Freeze => "freeze the generation",
            Self::Store => "store the record",
            Self::Pin => "pin the generation",
            Self::Swap => "swap the generation",
            Self::FoldCounters => "fold the counters of removed backends",
            Self::Unpin => "remove former generations",
            Self::RemoveTargets => "remove redirect targets",
        })
    }
}

/// What an observer returns to stop a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

/// What a publication did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Publication {
    /// Created, changed or left unchanged.
    pub result: PlanResult,
    /// Number of the generation that is live now.
    pub generation: u64,
    /// Number of the one that was live before.
    pub previous: Option<u64>,
    /// How long it took, the wait for the last packets of the old generation included.
    pub duration: Duration,
    /// What kept the publication from tidying up; the next one will do it. The generation is live
    /// all the same.
    pub untidy: Option<PublishError>,
}

/// Previous records that are kept unless the caller says otherwise.
pub(super) const KEEP: usize = 2;

impl Writer {
    /// Makes the plan's generation the live one. Packets see the old generation or the new one,
    /// whole. Blocks for 8 to 30 ms, up to 250 ms on a busy machine: until no packet uses the old
    /// one.
    ///
    /// # Errors
    /// [`PublishError`]; the old generation is live then. If the plan is no longer current:
    /// [`PublishError::Stale`].
    pub fn publish(&mut self, plan: &Plan) -> Result<Publication, PublishError> {
        self.publish_observed(plan, KEEP, |_| Ok(()))
    }

    /// As [`publish`](Self::publish), keeping the records of `keep` previous generations, and
    /// asking `observer` before each step.
    ///
    /// # Errors
    /// As there, and [`PublishError::Aborted`] when the observer stops it before the swap. Stopped
    /// behind the swap it succeeds, untidily.
    pub fn publish_observed(
        &mut self,
        plan: &Plan,
        keep: usize,
        mut observer: impl FnMut(Step) -> Result<(), Aborted>,
    ) -> Result<Publication, PublishError> {
        let started = Instant::now();
        let live = self.current(plan)?;
        let previous = live.as_ref().map(Live::number);
        if let (PlanResult::Unchanged, Some(generation)) = (plan.document().result, previous) {
            return Ok(Publication {
                result: PlanResult::Unchanged,
                generation,
                previous,
                duration: started.elapsed(),
                untidy: None,
            });
        }
        let mut steps = Steps {
            observer: &mut observer,
        };
        let record = self.swap_in(plan, live.as_ref(), &mut steps)?;
        let untidy = self.tidy(&record, keep, &mut steps).err();
        Ok(Publication {
            result: match previous {
                None => PlanResult::Create,
                Some(_) => PlanResult::Change,
            },
            generation: record.number,
            previous,
            duration: started.elapsed(),
            untidy,
        })
    }

    /// The live generation, if `plan` was made for it.
    fn current(&self, plan: &Plan) -> Result<Option<Live>, PublishError> {
        let document = plan.document();
        let instance = self.instance_id().to_string();
        if document.instance_id != instance {
            return Err(PublishError::OtherInstance {
                plan: document.instance_id.clone(),
                instance,
            });
        }
        if plan.is_offline() {
            return Err(PublishError::Offline);
        }
        let live = self.live_record()?;
        let base = document.base.as_ref().map(|base| base.generation);
        if base != live.as_ref().map(Live::number) {
            return Err(PublishError::Stale {
                base,
                live: live.as_ref().map(Live::number),
            });
        }
        Ok(live)
    }

    /// Everything up to and with the swap. Gives the record of the generation that is live then.
    fn swap_in(
        &mut self,
        plan: &Plan,
        live: Option<&Live>,
        steps: &mut Steps<'_>,
    ) -> Result<Record, PublishError> {
        let mut record = plan.record().clone();
        record.number = steps.run(Step::RaiseMarks, || self.raise_marks(&record, live))?;
        record.published_ns = clock::boot_ns();
        record.published_unix = clock::wall_ns() / 1_000_000_000;
        steps.run(Step::ClearCounters, || self.clear_counters(&record, live))?;
        steps.run(Step::AddTargets, || {
            targets(&record).try_for_each(|ifindex| self.maps.targets.insert(ifindex))
        })?;

        let mut generation = plan.generation().clone();
        generation.number = record.number;
        let image = Image::build(&generation)?;
        let bytes = image.bytes();
        let map = steps.run(Step::Create, || {
            let room = self.maps.meta.get(0)?.cells;
            Generation::with_room(CELLS, room, bytes.len())
        })?;
        steps.run(Step::Fill, || map.fill(bytes))?;
        steps.run(Step::Freeze, || map.freeze())?;
        let text = record.to_bytes()?;
        let stored = steps.run(Step::Store, || record::write(RECORD, &text))?;
        let pinned = steps.run(Step::Pin, || {
            map.map()
                .pin(&self.pin(Section::Generations, &cells_pin(record.number)))?;
            stored.pin(&self.pin(Section::Generations, &record_pin(record.number)))
        });
        let swapped = pinned.and_then(|()| steps.run(Step::Swap, || self.maps.slot.swap(&map)));
        match swapped {
            Ok(()) => Ok(record),
            // The kernel may have swapped and failed afterwards; only it can tell.
            Err(_) if self.maps.slot.live_id().ok().flatten() == Some(map.map().id()) => Ok(record),
            Err(error) => {
                // What stays behind is removed by the next publication.
                let _ = self
                    .lock
                    .unpin(Section::Generations, &cells_pin(record.number));
                let _ = self
                    .lock
                    .unpin(Section::Generations, &record_pin(record.number));
                Err(error)
            }
        }
    }

    fn raise_marks(&self, record: &Record, live: Option<&Live>) -> Result<u64, SysError> {
        let mut meta = self.maps.meta.get(0)?;
        let number = meta.generation_mark.max(live.map_or(0, Live::number)) + 1;
        meta.generation_mark = number;
        meta.incarnation_mark = meta.incarnation_mark.max(record.highest_incarnation());
        self.maps.meta.set(0, &meta)?;
        Ok(number)
    }

    /// Counters that only newcomers use: nothing counts on them now.
    fn clear_counters(&self, record: &Record, live: Option<&Live>) -> Result<(), SysError> {
        // Folded again if the last publication did not come to it: by then they are zero.
        live.map_or(Ok(()), |live| self.fold_counters(&live.record))?;
        for service in &record.services {
            let before = live.and_then(|live| live.record.service(service.id));
            if before.is_none() {
                self.maps
                    .services
                    .set(service.stats, &bytemuck::Zeroable::zeroed())?;
                self.maps.removed.set(service.stats, &0)?;
            }
            for backend in &service.backends {
                if before.is_none_or(|before| before.backend(backend.id).is_none()) {
                    self.maps
                        .backends
                        .set(backend.stats, &bytemuck::Zeroable::zeroed())?;
                }
            }
        }
        Ok(())
    }

    /// Adds what removed backends have counted to their services, and sets them to zero.
    fn fold_counters(&self, record: &Record) -> Result<(), SysError> {
        for fold in &record.folds {
            let add = |sum: u64, cpu: &abi::BackendStats| sum.wrapping_add(cpu.packets);
            let packets = self.maps.backends.fold(fold.backend_stats, 0, add)?;
            if packets > 0 {
                let removed = self.maps.removed.get(fold.service_stats)?;
                self.maps
                    .removed
                    .set(fold.service_stats, &removed.wrapping_add(packets))?;
                self.maps
                    .backends
                    .set(fold.backend_stats, &bytemuck::Zeroable::zeroed())?;
            }
        }
        Ok(())
    }

    /// What the old generation held alone is free: no packet sees it any more.
    fn tidy(
        &mut self,
        record: &Record,
        keep: usize,
        steps: &mut Steps<'_>,
    ) -> Result<(), PublishError> {
        steps.run(Step::FoldCounters, || self.fold_counters(record))?;
        let leftovers = self.leftovers(record.number, keep)?;
        steps.run(Step::Unpin, || {
            leftovers
                .iter()
                .try_for_each(|name| self.lock.unpin(Section::Generations, name).map(|_| ()))
        })?;
        steps.run(Step::RemoveTargets, || {
            let needed: Vec<_> = targets(record).collect();
            for ifindex in self.maps.targets.targets()? {
                if !needed.contains(&ifindex) {
                    self.maps.targets.remove(ifindex)?;
                }
            }
            Ok(())
        })
    }
}

/// The interfaces that a generation redirects to.
fn targets(record: &Record) -> impl Iterator<Item = u32> + '_ {
    let backends = record.services.iter().flat_map(|service| &service.backends);
    backends
        .map(|backend| backend.ifindex)
        .filter(|&ifindex| ifindex != record.ifindex)
}

/// Runs steps, asking the observer before each.
struct Steps<'a> {
    observer: &'a mut dyn FnMut(Step) -> Result<(), Aborted>,
}

impl Steps<'_> {
    fn run<T>(
        &mut self,
        step: Step,
        work: impl FnOnce() -> Result<T, SysError>,
    ) -> Result<T, PublishError> {
        (self.observer)(step).map_err(|Aborted| PublishError::Aborted { step })?;
        work().map_err(|error| PublishError::Step { step, error })
    }
}
