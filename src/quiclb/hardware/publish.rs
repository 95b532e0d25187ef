// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Publication on a card: elements under a new number, and then the word that packets follow.
//!
//! Every step before that word can fail, or the process be killed in it, without a packet noticing:
//! nothing refers to the new number. What stays behind is swept by the next publication. The number
//! is raised in the kernel before anything has it, so no number is used twice.

use std::thread::sleep;
use std::time::Instant;

use bytemuck::{Pod, Zeroable};

use super::HardwareWriter;
use crate::abi;
use crate::kernel::exchange::Aborted;
use crate::kernel::map::Update;
use crate::kernel::statedir::Section;
use crate::kernel::typed::Hash;
use crate::kernel::{clock, record, SysError};
use crate::plan::{Elements, Live, Plan, PlanResult, Record};
use crate::quiclb::error::PublishError;
use crate::quiclb::live::{parse_pin, record_pin, RECORD};
use crate::quiclb::publish::{base_of, fold_counters, raise_marks, Publication, Step, Steps, KEEP};

impl HardwareWriter {
    /// Makes the plan's generation the live one. Packets see the old generation or the new one,
    /// whole. Blocks until the grace interval is over, before and after, and for a call to the card
    /// for each slot, row and server ID.
    ///
    /// # Errors
    /// [`PublishError`]; the old generation is live then. If the plan is no longer current:
    /// [`PublishError::Stale`].
    pub fn publish(&mut self, plan: &Plan) -> Result<Publication, PublishError> {
        self.publish_observed(plan, KEEP, |_| Ok(()))
    }

    /// As [`publish`](Self::publish), keeping the records of `keep` previous generations, and
    /// asking `observer` before each of [`Step::ON_CARD`].
    ///
    /// # Errors
    /// As there, and [`PublishError::Aborted`] when the observer stops it before the new generation
    /// is live. Stopped after that it succeeds, untidily.
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
            Some(live) if plan.document().result == PlanResult::Unchanged => {
                (PlanResult::Unchanged, live.record)
            }
            live => {
                let record = self.activate(plan, live.as_ref(), &mut steps)?;
                (plan.document().result, record)
            }
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

    /// Everything up to and with the word that packets follow.
    fn activate(
        &mut self,
        plan: &Plan,
        live: Option<&Live>,
        steps: &mut Steps<'_>,
    ) -> Result<Record, PublishError> {
        let live_number = live.map_or(0, Live::number);
        steps.run(Step::SweepBefore, || self.sweep(live_number))?;
        let mut record = plan.record().clone();
        record.number = steps.run(Step::RaiseMarks, || {
            raise_marks(&self.maps.meta, &record, live)
        })?;
        record.published_ns = clock::boot_ns();
        record.published_unix = clock::wall_ns() / 1_000_000_000;
        let now_ns = clock::monotonic_ns();
        for service in record.services.iter_mut().filter(|of| of.since_ns == 0) {
            service.since_ns = now_ns;
        }
        steps.run(Step::ClearCounters, || self.clear_counters(&record, live))?;
        let mut generation = plan.generation().clone();
        generation.number = record.number;
        let elements = Elements::build(&generation);
        steps.run(Step::Fill, || self.fill(&elements))?;
        let text = record.to_bytes()?;
        let stored = steps.run(Step::Store, || record::write(RECORD, &text))?;
        let pin = self
            .dir
            .pin(Section::Generations, &record_pin(record.number));
        steps.run(Step::Pin, || stored.pin(&pin))?;
        let activated = steps.run(Step::Swap, || {
            let generation = record.number;
            self.maps.active.set(0, &abi::OffloadActive { generation })
        });
        match activated {
            Ok(()) => {}
            // The card may have taken the word and failed afterwards; only it can tell.
            Err(_) if self.live_number().ok().flatten() == Some(record.number) => {}
            Err(error) => return Err(error),
        }
        self.settled = Instant::now();
        Ok(record)
    }

    /// Counters that only newcomers use: nothing counts on them now.
    fn clear_counters(&self, record: &Record, live: Option<&Live>) -> Result<(), SysError> {
        // Folded again if the last publication did not come to it: by then they are zero.
        live.map_or(Ok(()), |live| self.fold_counters(&live.record))?;
        for service in &record.services {
            let before = live.and_then(|live| live.record.service(service.id));
            if before.is_none() {
                let each = abi::OffloadLimit::GW_OFFLOAD_COUNTERS.0;
                let first = service.stats * each;
                (first..first + each).try_for_each(|at| self.maps.counters.set(at, &0))?;
                self.maps.removed.set(service.stats, &0)?;
            }
            for backend in &service.backends {
                if before.is_none_or(|before| before.backend(backend.id).is_none()) {
                    self.maps.backends.set(backend.stats, &Zeroable::zeroed())?;
                }
            }
        }
        Ok(())
    }

    /// Adds what removed backends have counted to their services, and sets them to zero.
    fn fold_counters(&self, record: &Record) -> Result<(), SysError> {
        let backends = &self.maps.backends;
        let read = |backend| backends.get(backend).map(|counted| counted.packets);
        let clear = |backend| backends.set(backend, &Zeroable::zeroed());
        fold_counters(record, &self.maps.removed, read, clear)
    }

    fn fill(&self, elements: &Elements) -> Result<(), SysError> {
        write(&self.maps.rows, &elements.rows)?;
        write(&self.maps.slots, &elements.slots)?;
        write(&self.maps.configs, &elements.configs)?;
        write(&self.maps.ids, &elements.ids)?;
        write(&self.maps.services, &elements.services)?;
        write(
            &self.maps.generations,
            &[(elements.number, elements.generation)],
        )
    }

    /// What the old generation held alone is free after the grace interval.
    fn tidy(
        &mut self,
        record: &Record,
        keep: usize,
        steps: &mut Steps<'_>,
    ) -> Result<(), PublishError> {
        steps.run(Step::SweepAfter, || self.sweep(record.number))?;
        steps.run(Step::FoldCounters, || self.fold_counters(record))?;
        steps.run(Step::Unpin, || self.unpin(record.number, keep))
    }

    /// Removes the elements of all generations but one, once no packet can see another.
    fn sweep(&self, live: u64) -> Result<(), SysError> {
        sleep(self.grace.saturating_sub(self.settled.elapsed()));
        // What leads to others goes first.
        remove(&self.maps.generations, |number| *number != live)?;
        remove(&self.maps.services, |key| key.generation != live)?;
        remove(&self.maps.ids, |key| key.generation != live)?;
        remove(&self.maps.configs, |key| key.generation != live)?;
        remove(&self.maps.slots, |key| key.generation != live)?;
        remove(&self.maps.rows, |key| key.generation != live)
    }

    /// Removes the records of generations that are neither live nor among the newest `keep` before
    /// it.
    fn unpin(&self, live: u64, keep: usize) -> Result<(), SysError> {
        let names = self.dir.pins(Section::Generations)?;
        let mut before: Vec<_> = names
            .iter()
            .filter_map(|name| parse_pin(name))
            .map(|(number, _)| number)
            .filter(|&number| number != live)
            .collect();
        before.sort_unstable_by_key(|&number| (number > live, std::cmp::Reverse(number)));
        let older = before.iter().filter(|&&number| number < live).skip(keep);
        let newer = before.iter().filter(|&&number| number > live);
        older.chain(newer).try_for_each(|&number| {
            let name = record_pin(number);
            self.lock.unpin(Section::Generations, &name).map(drop)
        })
    }
}

fn write<K: Pod, V: Pod>(map: &Hash<K, V>, elements: &[(K, V)]) -> Result<(), SysError> {
    elements
        .iter()
        .try_for_each(|(key, value)| map.update(key, value, Update::Any))
}

fn remove<K: Pod, V: Pod>(map: &Hash<K, V>, unwanted: impl Fn(&K) -> bool) -> Result<(), SysError> {
    let keys = map.keys_one_by_one()?;
    let mut unwanted = keys.iter().filter(|key| unwanted(key));
    unwanted.try_for_each(|key| map.remove(key).map(drop))
}
