// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A sweep in user space: for kernels that refuse the programs, and for tables that one
//! uninterrupted pass would take too long for.
//!
//! An entry that may go is taken out of the table, and put back if a packet has used it since it
//! was read. In between the table does not have it: a pass in the kernel leaves no such gap to
//! packets that come one after the other.

use std::time::Instant;

use super::pass::{self, Found, FoundService, CELL_SLOTS};
use super::rules::{Rules, ServiceRules};
use super::CollectError;
use crate::abi;
use crate::affinity::cid_tag;
use crate::affinity::collect::{Case, Verdict};
use crate::affinity::rules::{Slot, Standing};
use crate::affinity::{Binding, Origin, Phase};
use crate::hash::{hash32, slot, tag16, FlowKey};
use crate::kernel::map::{Update, Walk};
use crate::kernel::publish::CELL_BYTES;
use crate::kernel::typed::Hash;
use crate::quiclb::instance::Maps;
use crate::service::{BackendState, HashOf};

/// Entries read in one call.
const BATCH: u32 = 4096;

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rules: Rules,
    /// The cells of the generation.
    cells: Vec<u8>,
    cid_seed: u64,
    /// The table it is in.
    table: Table,
    walk: Option<Walk>,
    /// By cell, as the programs have it.
    bits: Vec<u64>,
    found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Flows,
    Cids,
    End,
}

/// How much one call may do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) entries: u64,
    pub(super) until: Instant,
}

impl Batch {
    pub(super) fn new(rules: Rules, cells: Vec<u8>, cid_seed: u64) -> Self {
        let found = Found {
            services: vec![FoundService::default(); rules.services.len()],
            bound: rules.none_bound(),
            ..Found::default()
        };
        Self {
            bits: vec![0; rules.cells as usize],
            rules,
            cells,
            cid_seed,
            table: Table::Flows,
            walk: None,
            found,
        }
    }

    /// What was found so far.
    pub(super) fn so_far(&self) -> &Found {
        &self.found
    }

    /// Goes on until the end or the bound; whether it is at the end.
    pub(super) fn go_on(
        &mut self,
        maps: &Maps,
        now_ns: u64,
        bound: Bound,
    ) -> Result<bool, CollectError> {
        let started = Instant::now();
        let mut seen = 0;
        while self.table != Table::End && seen < bound.entries && Instant::now() < bound.until {
            let batch = BATCH.min(u32::try_from(bound.entries - seen).unwrap_or(BATCH));
            seen += match self.table {
                Table::Flows => self.batch(&maps.flows, batch, now_ns, Self::flow)?,
                _ => self.batch(&maps.cids, batch, now_ns, Self::cid)?,
            };
        }
        self.found.duration += started.elapsed();
        Ok(self.table == Table::End)
    }

    /// What was found; the sweep is at its end.
    pub(super) fn finish(mut self) -> Result<(Rules, Found), CollectError> {
        let bits = self.bits;
        let differing = pass::differing(&self.rules, |cell| {
            Ok(bits.get(cell as usize).copied().unwrap_or(0))
        })?;
        for (service, differing) in self.found.services.iter_mut().zip(differing) {
            service.differing = differing;
        }
        Ok((self.rules, self.found))
    }

    /// One batch of a table; how many entries it had.
    fn batch<K: bytemuck::Pod>(
        &mut self,
        map: &Hash<K, abi::Binding>,
        batch: u32,
        now_ns: u64,
        judge: fn(&mut Self, &K, &abi::Binding, u64) -> Judged,
    ) -> Result<u64, CollectError> {
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None => map.map().walk(batch),
        };
        let mut seen = 0;
        match walk.next(map.map())? {
            Some((keys, values)) => {
                let keys = keys
                    .chunks_exact(size_of::<K>())
                    .map(bytemuck::pod_read_unaligned::<K>);
                let values = values
                    .chunks_exact(size_of::<abi::Binding>())
                    .map(bytemuck::pod_read_unaligned::<abi::Binding>);
                for (key, value) in keys.zip(values) {
                    seen += 1;
                    self.entry(map, &key, &value, now_ns, judge)?;
                }
                self.walk = Some(walk);
            }
            None => {
                self.table = match self.table {
                    Table::Flows => Table::Cids,
                    _ => Table::End,
                };
            }
        }
        Ok(seen)
    }

    fn entry<K: bytemuck::Pod>(
        &mut self,
        map: &Hash<K, abi::Binding>,
        key: &K,
        value: &abi::Binding,
        now_ns: u64,
        judge: fn(&mut Self, &K, &abi::Binding, u64) -> Judged,
    ) -> Result<(), CollectError> {
        let judged = judge(self, key, value, now_ns);
        let table = self.table;
        let counts = match judged.service {
            Some(at) => match (self.found.services.get_mut(at), table) {
                (Some(found), Table::Flows) => &mut found.flows,
                (Some(found), _) => &mut found.cids,
                // Places come from the rules, which are as many.
                (None, _) => return Ok(()),
            },
            None => &mut self.found.strangers,
        };
        // First: an entry that is taken out under a packet comes back, and this walk is past it.
        if judged.verdict.differs && !judged.verdict.at_once && table == Table::Flows {
            let at = judged.slot / CELL_SLOTS;
            if let Some(bits) = self.bits.get_mut((judged.slots_at + at) as usize) {
                *bits |= 1 << (judged.slot % CELL_SLOTS);
            }
        }
        if let Some(reason) = judged.verdict.doomed {
            let Some(taken) = map.take(key)? else {
                return Ok(());
            };
            counts.deleted[reason.index()] += 1;
            let mut back = Binding::from_abi(&taken);
            // A packet came while a pass in the kernel failed to delete it, and wrote no time.
            let touched = back.phase == Phase::Touched && back.origin != Origin::Registered;
            // A connection ID may have been bound anew, which makes it another entry.
            let whatever_it_is = judged.verdict.at_once && matches!(table, Table::Flows);
            if whatever_it_is || (!touched && is_the_same(&taken, value)) {
                return Ok(());
            }
            if touched {
                back.seen_ns = now_ns;
            }
            back.phase = Phase::Live;
            match map.update(key, &back.to_abi(), Update::Insert) {
                Ok(()) => {
                    counts.resurrected += 1;
                    counts.entries += 1;
                }
                Err(error) if error.errno == nix::libc::EEXIST => return Ok(()),
                Err(_) => {
                    counts.lost += 1;
                    return Ok(());
                }
            }
        } else {
            counts.entries += 1;
            if judged.verdict.differs {
                counts.differing += 1;
            }
            let bound = judged.backend.map(|backend| backend.stats as usize);
            if let Some(bound) = bound.and_then(|index| self.found.bound.get_mut(index)) {
                match table {
                    Table::Flows => bound.flows += 1,
                    _ => bound.cids += 1,
                }
            }
        }
        match Binding::from_abi(value).origin {
            Origin::Registered => counts.registered += 1,
            Origin::Imported => counts.imported += 1,
            Origin::Traffic => {}
        }
        Ok(())
    }

    fn flow(&mut self, key: &abi::FlowKey, value: &abi::Binding, now_ns: u64) -> Judged {
        let Some(at) = self.rules.find(key.service) else {
            return Judged::stranger();
        };
        let rules = &self.rules.services[at];
        let key = flow_key(key);
        let full = self.rules.hash.h64(&key, false);
        let placement = match rules.hash_of {
            HashOf::Flow => full,
            HashOf::Source => self.rules.hash.h64(&key, true),
        };
        let is_found = tag16(full) == value.tag && hash32(placement) == value.hash;
        self.judged(at, value, is_found, now_ns, |case| case.flow())
    }

    fn cid(&mut self, key: &abi::CidKey, value: &abi::Binding, now_ns: u64) -> Judged {
        let Some(at) = self.rules.find(key.service) else {
            return Judged::stranger();
        };
        let is_found = cid_tag(key, self.cid_seed) == value.tag;
        self.judged(at, value, is_found, now_ns, |case| case.cid())
    }

    fn judged(
        &self,
        at: usize,
        value: &abi::Binding,
        is_found: bool,
        now_ns: u64,
        judge: fn(&Case<'_>) -> Verdict,
    ) -> Judged {
        let rules = &self.rules.services[at];
        let entry = Binding::from_abi(value);
        let slot = slot(entry.hash, rules.record.slots);
        let backend = self.backend(rules, entry.row);
        let case = Case {
            entry: &entry,
            is_found,
            slot: Slot::from_abi(self.slot(rules, slot)),
            standing: backend.as_ref().and_then(standing),
            tracking: rules.tracking,
            patience: rules.patience,
            now_ns,
        };
        Judged {
            service: Some(at),
            slots_at: rules.record.slots_at,
            slot,
            backend: backend.filter(|backend| backend.incarnation == entry.incarnation),
            verdict: judge(&case),
        }
    }

    fn slot(&self, rules: &ServiceRules, slot: u32) -> abi::Slot {
        self.read(rules.record.slots_at, slot as usize)
    }

    /// What is in a row; one that is empty has no incarnation.
    fn backend(&self, rules: &ServiceRules, row: u16) -> Option<abi::Backend> {
        let is_there = row < rules.record.backends;
        is_there.then(|| self.read(rules.record.backends_at, row.into()))
    }

    /// Record number `index` of an array that begins with a cell; all zero beyond the end.
    fn read<R: bytemuck::Pod>(&self, cell: u32, index: usize) -> R {
        let start = cell as usize * CELL_BYTES + index * size_of::<R>();
        let bytes = self.cells.get(start..start + size_of::<R>());
        bytes.map_or_else(R::zeroed, bytemuck::pod_read_unaligned)
    }
}

/// An entry with what is to become of it.
struct Judged {
    /// Place of its service among the rules; none: it is gone.
    service: Option<usize>,
    slots_at: u32,
    slot: u32,
    /// The backend that it is bound to; none: it is gone.
    backend: Option<abi::Backend>,
    verdict: Verdict,
}

impl Judged {
    fn stranger() -> Self {
        Self {
            service: None,
            slots_at: 0,
            slot: 0,
            backend: None,
            verdict: Verdict::nobodys(),
        }
    }
}

/// How a backend stands; none if its row is empty.
fn standing(backend: &abi::Backend) -> Option<Standing> {
    let state = match u32::from(backend.state) {
        state if state == abi::BackendState::GW_BACKEND_READY.0 => BackendState::Ready,
        state if state == abi::BackendState::GW_BACKEND_DRAINING.0 => BackendState::Draining,
        state if state == abi::BackendState::GW_BACKEND_UNHEALTHY.0 => BackendState::Unhealthy,
        _ => return None,
    };
    Some(Standing {
        state,
        incarnation: backend.incarnation,
    })
}

/// Whether no packet has used an entry since it was read.
fn is_the_same(taken: &abi::Binding, read: &abi::Binding) -> bool {
    bytemuck::bytes_of(taken) == bytemuck::bytes_of(read)
}

/// The key of a flow as its hash reads it.
fn flow_key(key: &abi::FlowKey) -> FlowKey {
    let mut bytes: [u8; 24] = bytemuck::cast(*key);
    bytes[..4].copy_from_slice(&key.service.to_le_bytes());
    FlowKey::from_bytes(bytes)
}
