// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which generation is live, and what was stored with it.
//!
//! The slot tells the id of the live map, and opening a map by its id takes CAP_SYS_ADMIN. So each
//! generation is pinned under its number, and the live one is found by comparing ids.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::error::InstanceError;
use super::instance::QuicLb;
use crate::abi;
use crate::kernel::publish::Generation;
use crate::kernel::statedir::Section;
use crate::kernel::{clock, record, SysError};
use crate::plan::Live;

/// Name of a generation's map and record, in the kernel's listings.
pub(super) const CELLS: &str = "gw_ql_cells";
pub(super) const RECORD: &str = "gw_ql_record";
/// Pins of one generation: `gen/<number>-cells` and `gen/<number>-record`.
const CELLS_PIN: &str = "cells";
const RECORD_PIN: &str = "record";

/// A refusal is noted once in so many nanoseconds: the last may be that much later than its note.
const REFUSED_GRAIN_NS: u64 = 1_000_000_000;
/// A mean rate is told when something was counted for as long.
const RATE_NS: u64 = 1_000_000_000;

/// Name of the pin of a generation's map.
pub(super) fn cells_pin(number: u64) -> String {
    format!("{number}-{CELLS_PIN}")
}

/// Name of the pin of a generation's record.
pub(super) fn record_pin(number: u64) -> String {
    format!("{number}-{RECORD_PIN}")
}

/// The number and kind of a pin's name, if it is one of the above.
pub(super) fn parse_pin(name: &str) -> Option<(u64, &str)> {
    let (number, kind) = name.split_once('-')?;
    let number = number.parse().ok()?;
    (name == cells_pin(number) || name == record_pin(number)).then_some((number, kind))
}

/// A generation as found in the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Its number.
    pub number: u64,
    /// The kernel's number of its map.
    pub map_id: u32,
}

impl QuicLb {
    /// The live generation, none before the first publication.
    ///
    /// # Errors
    /// [`InstanceError::Orphan`] if one is live that is not pinned here.
    pub fn live(&self) -> Result<Option<Published>, InstanceError> {
        let Some(id) = self.maps.slot.live_id()? else {
            return Ok(None);
        };
        for number in self.pinned(CELLS_PIN)? {
            let path = self.dir.pin(Section::Generations, &cells_pin(number));
            // A pin that cannot be opened is not the live one; whether it disappeared just now or
            // is something else does not matter here.
            let Ok(generation) = Generation::open(&path, CELLS) else {
                continue;
            };
            if generation.map().id() == id {
                return Ok(Some(Published { number, map_id: id }));
            }
        }
        // It may have been replaced, and its pin removed, since the slot was read.
        if self.maps.slot.live_id()? != Some(id) {
            return self.live();
        }
        Err(InstanceError::Orphan {
            id,
            path: self.dir.path().display().to_string(),
        })
    }

    /// Kernel memory of the live generation in bytes, as the kernel accounts it; none before the
    /// first publication.
    ///
    /// # Errors
    /// As [`live`](Self::live).
    pub fn live_memory_bytes(&self) -> Result<Option<u64>, InstanceError> {
        self.of_live(|number| {
            let path = self.dir.pin(Section::Generations, &cells_pin(number));
            Ok(Generation::open(&path, CELLS)?.map().memory_bytes()?)
        })
    }

    /// The live generation with what was stored with it and what is known of its flow state, for the
    /// next plan.
    ///
    /// # Errors
    /// As [`live`](Self::live), or the record is unreadable.
    pub fn live_record(&self) -> Result<Option<Live>, InstanceError> {
        let mut live = self.of_live(|number| self.record(number))?;
        if let Some(live) = &mut live {
            self.read_flow_state(live)?;
        }
        Ok(live)
    }

    /// Adds what the programs and the last sweep left in the instance's maps.
    fn read_flow_state(&self, live: &mut Live) -> Result<(), InstanceError> {
        let collection = self.maps.collection.get(0)?;
        let state = &mut live.flow_state;
        state.returned_ns = (collection.returned_generation == live.record.number)
            .then_some(collection.returned_ns);
        if collection.swept_ns > 0 {
            state.flows = Some(collection.flows);
            state.cids = Some(collection.learned + collection.registered + collection.imported);
        }
        let now_ns = clock::monotonic_ns();
        for service in &live.record.services {
            let known = state.service_mut(service.id);
            known.refused_ns = self.refused_ns(service.stats)?;
            if collection.swept_ns > 0 {
                let mut flows = 0;
                for backend in &service.backends {
                    let bound = self.maps.bound.get(backend.stats)?;
                    if bound.incarnation == backend.incarnation {
                        flows += u64::from(bound.flows);
                    }
                }
                known.flows = Some(flows);
            }
            let level = self.maps.levels.get(service.stats)?.flows;
            known.refuses = level != abi::Level::GW_LEVEL_ALL.0;
            let count = |sum: u64, cpu: &abi::ServiceStats| {
                sum.wrapping_add(cpu.counters[abi::Counter::GW_COUNTER_STARTS.0 as usize])
            };
            let starts = self.maps.services.fold(service.stats, 0, count)?;
            let for_ns = now_ns.saturating_sub(service.since_ns);
            known.mean_starts_per_second =
                (for_ns >= RATE_NS).then(|| starts as f64 / (for_ns as f64 / 1e9));
        }
        Ok(())
    }

    /// When at the latest an insert in an open slot of the service with these counters was refused
    /// last. A level alone says nothing: the refusals that keep windows open are those of packets.
    pub(super) fn refused_ns(&self, stats: u32) -> Result<Option<u64>, SysError> {
        let refused_ns = self.maps.levels.get(stats)?.refused_ns;
        Ok((refused_ns > 0).then(|| refused_ns.saturating_add(REFUSED_GRAIN_NS)))
    }

    /// The entries of the backends of `live`, by the number of the service and the row. Reads both
    /// maps: a third of a second for a million entries.
    pub(super) fn count_by_row(
        &self,
        live: &Live,
    ) -> Result<BTreeMap<(u32, u16), u64>, InstanceError> {
        let rows = live.record.services.iter().flat_map(|service| {
            let backends = service.backends.iter();
            backends.map(|backend| ((service.id, backend.row), backend.incarnation))
        });
        let rows: BTreeMap<(u32, u16), u32> = rows.collect();
        let mut counts: BTreeMap<(u32, u16), u64> = rows.keys().map(|row| (*row, 0)).collect();
        let mut count = |service: u32, binding: &abi::Binding| {
            let row = (service, binding.row);
            if rows.get(&row) == Some(&binding.incarnation) {
                *counts.entry(row).or_default() += 1;
            }
            ControlFlow::Continue(())
        };
        self.maps
            .flows
            .for_each(|key, binding| count(key.service, binding))?;
        self.maps
            .cids
            .for_each(|key, binding| count(key.service, binding))?;
        Ok(counts)
    }

    /// The cells of the live generation.
    pub(super) fn live_cells(&self) -> Result<Option<Vec<u8>>, InstanceError> {
        self.of_live(|number| {
            let path = self.dir.pin(Section::Generations, &cells_pin(number));
            Ok(Generation::open(&path, CELLS)?.read()?)
        })
    }

    /// What `read` finds of the live generation. Its pins go with the next publication: if that
    /// comes in between, the generation that is live then is read.
    fn of_live<T>(
        &self,
        read: impl Fn(u64) -> Result<T, InstanceError>,
    ) -> Result<Option<T>, InstanceError> {
        loop {
            let Some(live) = self.live()? else {
                return Ok(None);
            };
            match read(live.number) {
                Err(_) if self.live()? != Some(live) => {}
                result => return result.map(Some),
            }
        }
    }

    /// The highest number that any generation of this instance ever had.
    pub(super) fn generation_mark(&self) -> Result<u64, InstanceError> {
        Ok(self.maps.meta.get(0)?.generation_mark)
    }

    pub(super) fn record(&self, number: u64) -> Result<Live, InstanceError> {
        let path = self.dir.pin(Section::Generations, &record_pin(number));
        let bytes = record::read(&path, RECORD)?;
        let live = Live::from_record(&bytes, &self.maps.meta.get(0)?)?;
        let (found, instance) = (live.number(), live.spec().instance_id());
        if found != number || instance != self.instance_id() {
            return Err(InstanceError::OtherRecord {
                path: path.display().to_string(),
                number: found,
                instance,
            });
        }
        Ok(live)
    }

    /// The last generation before the live one that had another specification, if its record was kept;
    /// none if it was not, or nothing is live.
    pub(super) fn previous_record(&self) -> Result<Option<Live>, InstanceError> {
        let Some(live) = self.live()? else {
            return Ok(None);
        };
        let number = self.specs_before(live.number, 1)?.pop();
        number.map(|number| self.record(number)).transpose()
    }

    /// Numbers of those kept generations before `live` with which another specification ended, at most
    /// `most`, newest first: the end of a transition and another interface are generations, too. A record
    /// that cannot be read counts as a specification.
    fn specs_before(&self, live: u64, most: usize) -> Result<Vec<u64>, InstanceError> {
        let mut after = self.record(live).ok();
        let kept = self.pinned(RECORD_PIN)?.into_iter();
        let before = kept.filter(|&number| number < live);
        let ends = before.filter(|&number| {
            let before = self.record(number).ok();
            let both = before.as_ref().zip(after.as_ref());
            let is_another = both.is_none_or(|(before, after)| before.spec() != after.spec());
            after = before;
            is_another
        });
        Ok(ends.take(most).collect())
    }

    /// Numbers of the generations that have a pin of this kind, newest first.
    fn pinned(&self, kind: &str) -> Result<Vec<u64>, InstanceError> {
        let names = self.dir.pins(Section::Generations)?;
        let mut numbers: Vec<_> = names
            .iter()
            .filter_map(|name| parse_pin(name))
            .filter(|(_, of)| *of == kind)
            .map(|(number, _)| number)
            .collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    /// Names of pins of generations that are neither live nor records of the newest `keep` specifications
    /// before it; none for all records before it. What has another form of name is not ours to judge.
    pub(super) fn leftovers(
        &self,
        live: u64,
        keep: Option<usize>,
    ) -> Result<Vec<String>, InstanceError> {
        let before = match keep {
            Some(keep) => self.specs_before(live, keep)?,
            None => self.pinned(RECORD_PIN)?,
        };
        let before = before.into_iter().filter(|&number| number < live);
        let mut kept: Vec<_> = before.map(record_pin).collect();
        kept.push(cells_pin(live));
        kept.push(record_pin(live));
        let names = self.dir.pins(Section::Generations)?;
        Ok(names
            .into_iter()
            .filter(|name| parse_pin(name).is_some() && !kept.contains(name))
            .collect())
    }
}
