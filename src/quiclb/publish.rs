// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication: from a plan to a live generation, visible by one map update.
//!
//! Every step before the swap can fail, or the process be killed in it, without a packet noticing;
//! what it leaves behind is removed by the next publication. The number of a generation is raised
//! in the kernel before anything has it, so no number is used twice.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use nix::libc;

use super::error::{InstanceError, PublishError};
use super::instance::{QuicLb, Writer};
use super::live::{cells_pin, record_pin, CELLS, RECORD};
use crate::abi;
use crate::id::InstanceId;
use crate::kernel::exchange::Aborted;
use crate::kernel::publish::Generation;
use crate::kernel::statedir::{Section, META_MAP};
use crate::kernel::typed::Array;
use crate::kernel::{clock, record, SysError};
use crate::plan::{self, Image, Live, Plan, PlanResult, Record};

/// A step of a publication, in their order. Those behind [`Step::Swap`] tidy up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Raise the marks of generation and incarnation numbers.
    RaiseMarks,
    /// Set the counters and levels of newcomers to zero.
    ClearCounters,
    /// Let packets be redirected to the interfaces of the new generation.
    AddTargets,
    /// Make contexts of the kernel's cipher from the keys of the new generation.
    MakeContexts,
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
    /// Note when that was: windows begin then.
    NoteReturn,
    /// Add the counters of backends that are gone to their services'.
    FoldCounters,
    /// Remove the pins of generations that are over.
    Unpin,
    /// Take away targets that no generation names.
    RemoveTargets,
    /// Give up contexts that no generation names.
    RemoveContexts,
    /// On a network card: remove what earlier publications have left, once no packet can see it.
    SweepBefore,
    /// On a network card: remove the former generation, once no packet can see it.
    SweepAfter,
}

impl Step {
    /// Every step of a publication on a network card, in order.
    pub const ON_CARD: [Self; 10] = [
        Self::SweepBefore,
        Self::RaiseMarks,
        Self::ClearCounters,
        Self::Fill,
        Self::Store,
        Self::Pin,
        Self::Swap,
        Self::SweepAfter,
        Self::FoldCounters,
        Self::Unpin,
    ];
    /// Every step elsewhere, in order.
    pub const ALL: [Self; 15] = [
        Self::RaiseMarks,
        Self::ClearCounters,
        Self::AddTargets,
        Self::MakeContexts,
        Self::Create,
        Self::Fill,
        Self::Freeze,
        Self::Store,
        Self::Pin,
        Self::Swap,
        Self::NoteReturn,
        Self::FoldCounters,
        Self::Unpin,
        Self::RemoveTargets,
        Self::RemoveContexts,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RaiseMarks => "raise the generation mark",
            Self::ClearCounters => "clear the counters of newcomers",
            Self::AddTargets => "add redirect targets",
            Self::MakeContexts => "make contexts of keys",
            Self::Create => "create the generation",
            Self::Fill => "fill the generation",
            Self::Freeze => "freeze the generation",
            Self::Store => "store the record",
            Self::Pin => "pin the generation",
            Self::Swap => "swap the generation",
            Self::NoteReturn => "note when the generation became live",
            Self::FoldCounters => "fold the counters of removed backends",
            Self::Unpin => "remove former generations",
            Self::RemoveTargets => "remove redirect targets",
            Self::RemoveContexts => "remove contexts of former keys",
            Self::SweepBefore => "sweep what earlier publications have left",
            Self::SweepAfter => "sweep the former generation",
        })
    }
}

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

/// Previous specifications that are kept unless the caller says otherwise.
pub(super) const KEEP: usize = 2;

impl Writer {
    /// Makes the plan's generation the live one. Packets see the old generation or the new one,
    /// whole. Blocks for 8 to 30 ms, up to 250 ms on a busy machine: until no packet uses the old
    /// one. A plan that changes nothing publishes nothing, but what the live generation needs
    /// beside it is made good.
    ///
    /// # Errors
    /// [`PublishError`]; the old generation is live then. If the plan is no longer current:
    /// [`PublishError::Stale`].
    pub fn publish(&mut self, plan: &Plan) -> Result<Publication, PublishError> {
        self.publish_observed(plan, KEEP, |_| Ok(()))
    }

    /// The same of a plan for the specification that is live, by who was not asked how many of those
    /// before it are kept: all of them stay.
    pub(super) fn publish_again(&mut self, plan: &Plan) -> Result<Publication, PublishError> {
        self.publish_observed(plan, usize::MAX, |_| Ok(()))
    }

    /// As [`publish`](Self::publish), keeping the records of `keep` previous specifications, and
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
        let live = base_of(plan, self.instance_id(), || self.live_record())?;
        let previous = live.as_ref().map(Live::number);
        let mut steps = Steps {
            observer: &mut observer,
        };
        let (result, record) = match live {
            // The generation is right; what it needs beside it may have been lost.
            Some(live) if plan.document().result == PlanResult::Unchanged => {
                steps.run(Step::AddTargets, || self.add_targets(&live.record, plan))?;
                let contexts = live.contexts();
                let making = self.making(&contexts)?;
                steps.run(Step::MakeContexts, || making.make())?;
                (PlanResult::Unchanged, live.record)
            }
            Some(live) => {
                let record = self.swap_in(plan, Some(&live), &mut steps)?;
                (PlanResult::Change, record)
            }
            None => (PlanResult::Create, self.swap_in(plan, None, &mut steps)?),
        };
        let untidy = self.tidy(&record, keep, &mut steps).err();
        Ok(Publication {
            result,
            generation: record.number,
            previous,
            duration: started.elapsed(),
            untidy,
        })
    }

    /// Everything up to and with the swap. Gives the record of the generation that is live then.
    fn swap_in(
        &mut self,
        plan: &Plan,
        live: Option<&Live>,
        steps: &mut Steps<'_>,
    ) -> Result<Record, PublishError> {
        let mut record = plan.record().clone();
        let mut generation = plan.generation().clone();
        record.number = steps.run(Step::RaiseMarks, || {
            raise_marks(&self.maps.meta, &record, live)
        })?;
        record.published_ns = clock::boot_ns();
        record.published_unix = clock::wall_ns() / 1_000_000_000;
        begin(&mut record, &mut generation, clock::monotonic_ns());
        steps.run(Step::ClearCounters, || self.clear_counters(&record, live))?;
        steps.run(Step::AddTargets, || self.add_targets(&record, plan))?;
        let making = self.making(&plan.generation().contexts)?;
        steps.run(Step::MakeContexts, || making.make())?;

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
        let swapped = pinned
            .and_then(|()| self.begin_closing(plan, live))
            .and_then(|()| self.check_refusals(plan, &record))
            .and_then(|()| steps.run(Step::Swap, || self.maps.slot.swap(&map)));
        match swapped {
            Ok(()) => Ok(record),
            // The kernel may have swapped and failed afterwards; only it can tell.
            Err(_) if self.maps.slot.live_id().ok().flatten() == Some(map.map().id()) => Ok(record),
            Err(error) => {
                // What stays behind is removed by the next publication, or means nothing after it.
                let _ = self.set_closing(0);
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

    /// Says that windows are about to end, if any are: a flow whose entry is refused from now on is
    /// counted as one that may move.
    fn begin_closing(&self, plan: &Plan, live: Option<&Live>) -> Result<(), PublishError> {
        let Some(live) = live.filter(|_| !plan.closes().is_empty()) else {
            return Ok(());
        };
        self.set_closing(live.number()).map_err(|error| {
            let step = Step::Swap;
            PublishError::Step { step, error }
        })?;
        // Before anybody looks for refusals; gw_keep_open does the same in the other order.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn set_closing(&self, generation: u64) -> Result<(), SysError> {
        let mut collection = self.maps.collection.get(0)?;
        if collection.closing_generation != generation {
            collection.closing_generation = generation;
            self.maps.collection.set(0, &collection)?;
        }
        Ok(())
    }

    /// Refuses if a window that is to end has refused an insert since the plan was made: the flow
    /// has no entry, and would move.
    fn check_refusals(&self, plan: &Plan, record: &Record) -> Result<(), PublishError> {
        let now_ns = clock::monotonic_ns();
        for (&id, &window_ns) in plan.closes() {
            let Some(service) = record.service(id) else {
                continue;
            };
            let refused = self.refused_ns(service.stats).map_err(|error| {
                let step = Step::Swap;
                PublishError::Step { step, error }
            })?;
            if refused.is_some_and(|refused| refused.saturating_add(window_ns) > now_ns) {
                return Err(PublishError::Refused { service: id });
            }
        }
        Ok(())
    }

    fn add_targets(&self, record: &Record, plan: &Plan) -> Result<(), SysError> {
        let missing = self.missing_targets(record)?;
        let present = missing.difference(plan.absent());
        present
            .copied()
            .try_for_each(|ifindex| self.maps.targets.insert(ifindex))
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
                self.maps
                    .levels
                    .set(service.stats, &bytemuck::Zeroable::zeroed())?;
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

    /// Notes that the publication of the live generation has returned, unless that is noted already.
    /// Where that came to nothing before, its windows begin only now.
    pub(super) fn note_return(&self, number: u64) -> Result<(), SysError> {
        let mut collection = self.maps.collection.get(0)?;
        if collection.returned_generation == number {
            return Ok(());
        }
        collection.returned_generation = number;
        collection.returned_ns = clock::monotonic_ns();
        self.maps.collection.set(0, &collection)
    }

    /// Adds what removed backends have counted to their services, and sets them to zero.
    fn fold_counters(&self, record: &Record) -> Result<(), SysError> {
        let backends = &self.maps.backends;
        let add = |sum: u64, cpu: &abi::BackendStats| sum.wrapping_add(cpu.packets);
        let read = |backend| backends.fold(backend, 0, add);
        let clear = |backend| backends.set(backend, &bytemuck::Zeroable::zeroed());
        fold_counters(record, &self.maps.removed, read, clear)
    }

    /// What the old generation held alone is free: no packet sees it any more.
    fn tidy(
        &mut self,
        record: &Record,
        keep: usize,
        steps: &mut Steps<'_>,
    ) -> Result<(), PublishError> {
        steps.run(Step::NoteReturn, || self.note_return(record.number))?;
        steps.run(Step::FoldCounters, || self.fold_counters(record))?;
        let leftovers = self.leftovers(record.number, Some(keep))?;
        steps.run(Step::Unpin, || self.unpin_generations(&leftovers))?;
        steps.run(Step::RemoveTargets, || self.keep_targets(record))?;
        steps.run(Step::RemoveContexts, || self.keep_contexts_of(record))
    }

    /// Does what a publication that died did not come to, or what it left: all of the above, but for
    /// records, of which only the next publication knows how many are wanted.
    pub(super) fn end_publication(&self, live: &Record) -> Result<(), InstanceError> {
        self.note_return(live.number)?;
        self.fold_counters(live)?;
        let leftovers = self.leftovers(live.number, None)?;
        self.unpin_generations(&leftovers)?;
        self.keep_targets(live)?;
        Ok(self.keep_contexts_of(live)?)
    }

    fn unpin_generations(&self, names: &[String]) -> Result<(), SysError> {
        let mut names = names.iter();
        names.try_for_each(|name| self.lock.unpin(Section::Generations, name).map(drop))
    }

    fn keep_targets(&self, record: &Record) -> Result<(), SysError> {
        let needed = targets(record);
        for ifindex in self.maps.targets.targets()? {
            if !needed.contains(&ifindex) {
                self.maps.targets.remove(ifindex)?;
            }
        }
        Ok(())
    }

    fn keep_contexts_of(&self, record: &Record) -> Result<(), SysError> {
        let slots: Vec<_> = record.contexts.iter().map(|context| context.slot).collect();
        self.keep_contexts(&slots)
    }
}

/// The live generation of an instance, if `plan` was made for it.
pub(super) fn base_of(
    plan: &Plan,
    instance: InstanceId,
    live: impl FnOnce() -> Result<Option<Live>, InstanceError>,
) -> Result<Option<Live>, PublishError> {
    let document = plan.document();
    let instance = instance.to_string();
    if document.instance_id != instance {
        return Err(PublishError::OtherInstance {
            plan: document.instance_id.clone(),
            instance,
        });
    }
    if plan.is_offline() {
        return Err(PublishError::Offline);
    }
    let live = live()?;
    let base = document.base.as_ref().map(|base| base.generation);
    if base != live.as_ref().map(Live::number) {
        return Err(PublishError::Stale {
            base,
            live: live.as_ref().map(Live::number),
        });
    }
    Ok(live)
}

/// Raises the marks of the numbers that were given out, so that a generation can have the one that
/// this gives.
pub(super) fn raise_marks(
    marks: &Array<abi::Meta>,
    record: &Record,
    live: Option<&Live>,
) -> Result<u64, SysError> {
    let mut meta = marks.get(0)?;
    let used = meta.generation_mark.max(live.map_or(0, Live::number));
    let number = used.checked_add(1).ok_or_else(|| {
        // Nobody publishes that often: somebody else wrote the map.
        SysError::new("raise the marks in", META_MAP, libc::EOVERFLOW)
    })?;
    meta.generation_mark = number;
    meta.incarnation_mark = meta.incarnation_mark.max(record.highest_incarnation());
    marks.set(0, &meta)?;
    Ok(number)
}

/// Adds to `removed`, by service, what `read` says of each backend that the record removed, and has
/// it cleared. A process that is killed between the two has it counted again by the next one: two
/// maps cannot be written at once, and the other order would lose it.
pub(super) fn fold_counters(
    record: &Record,
    removed: &Array<u64>,
    read: impl Fn(u32) -> Result<u64, SysError>,
    clear: impl Fn(u32) -> Result<(), SysError>,
) -> Result<(), SysError> {
    for fold in &record.folds {
        let packets = read(fold.backend_stats)?;
        if packets > 0 {
            let before = removed.get(fold.service_stats)?;
            removed.set(fold.service_stats, &before.wrapping_add(packets))?;
            clear(fold.backend_stats)?;
        }
    }
    Ok(())
}

/// Fills in the times that begin with the publication itself.
fn begin(record: &mut Record, generation: &mut plan::Generation, now_ns: u64) {
    let spec = generation.spec.clone();
    let placed = generation.services.iter_mut();
    for ((service, placed), record) in spec.services().iter().zip(placed).zip(&mut record.services)
    {
        if record.since_ns == 0 {
            record.since_ns = now_ns;
        }
        if record.marks.opens() {
            record.begin_grace(service, now_ns);
            placed.grace_until_ns = record.grace_until_ns;
        }
    }
}

impl QuicLb {
    /// The interfaces that a generation redirects to and the program may not: those that were never
    /// added, and those that went away since, even if there is one with that index again.
    pub(super) fn missing_targets(&self, record: &Record) -> Result<BTreeSet<u32>, SysError> {
        let mut missing = targets(record);
        for ifindex in self.maps.targets.targets()? {
            missing.remove(&ifindex);
        }
        Ok(missing)
    }
}

/// The interfaces that a generation redirects to.
fn targets(record: &Record) -> BTreeSet<u32> {
    let backends = record.services.iter().flat_map(|service| &service.backends);
    backends
        .map(|backend| backend.ifindex)
        .filter(|&ifindex| ifindex != record.ifindex)
        .collect()
}

/// Runs steps, asking the observer before each.
pub(super) struct Steps<'a> {
    pub(super) observer: &'a mut dyn FnMut(Step) -> Result<(), Aborted>,
}

impl Steps<'_> {
    pub(super) fn run<T>(
        &mut self,
        step: Step,
        work: impl FnOnce() -> Result<T, SysError>,
    ) -> Result<T, PublishError> {
        (self.observer)(step).map_err(|Aborted| PublishError::Aborted { step })?;
        work().map_err(|error| PublishError::Step { step, error })
    }
}
