// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is live, as the next plan sees it.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Base;
use super::record::{Record, RecordError, ServiceRecord};
use super::transition::closes_ns;
use super::transition::window_ns;
use crate::abi::Meta;
use crate::affinity::{Mark, MarkCount, SlotSet};
use crate::id::ServiceId;
use crate::service::{Service, Spec};

/// A published generation with the marks of its instance, and what is known of its flow state.
#[derive(Debug, Clone)]
pub struct Live {
    pub(crate) record: Record,
    pub(crate) spec: Spec,
    pub(crate) incarnation_mark: u32,
    /// Cells that each generation of the instance has room for.
    pub(crate) room_cells: u32,
    /// Services that are to look for exact bindings from now on.
    pub(crate) exact: BTreeSet<u32>,
    pub(crate) flow_state: FlowState,
}

/// What is known of an instance's flow state. What is not known makes windows longer and leaves
/// predictions open; it never makes a window shorter.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FlowState {
    /// When the live generation's publication had returned, in nanoseconds on the monotonic clock.
    pub returned_ns: Option<u64>,
    /// Entries of the flow map, when they were counted last.
    pub flows: Option<u64>,
    /// Entries of the map of connection IDs, when they were counted last.
    pub cids: Option<u64>,
    /// By the number of the service.
    pub services: BTreeMap<u32, ServiceFlowState>,
}

/// What is known of one service's flow state.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ServiceFlowState {
    /// When an insert in an open slot was last refused or found no lock, on the monotonic clock.
    pub refused_ns: Option<u64>,
    /// Whether newcomers are refused an entry at present.
    pub refuses: bool,
    /// Flows that have begun per second, where packets tell: the mean over all the time that the
    /// service is there, which says little of an hour that is unlike others.
    pub mean_starts_per_second: Option<f64>,
    /// Entries of flows, as the last complete sweep counted them, whenever that was.
    pub flows: Option<u64>,
    /// What a complete sweep found of this generation.
    pub sweep: Option<ServiceSweep>,
    /// Entries of either map by the row of their backend, where somebody counted.
    pub by_row: Option<BTreeMap<u16, u64>>,
}

/// What a complete sweep of both maps found of a service, without what it deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceSweep {
    /// Entries of flows.
    pub flows: u64,
    /// Exact bindings of connection IDs.
    pub cids: u64,
    /// Slots with an entry of a live flow that differs from the owner.
    pub differing: SlotSet,
}

impl ServiceSweep {
    /// What was found.
    pub fn new(flows: u64, cids: u64, differing: SlotSet) -> Self {
        Self {
            flows,
            cids,
            differing,
        }
    }
}

impl FlowState {
    /// What is known of a service; nothing if nobody said anything.
    pub fn service(&self, id: u32) -> Option<&ServiceFlowState> {
        self.services.get(&id)
    }

    /// The same, to be filled in.
    pub fn service_mut(&mut self, id: u32) -> &mut ServiceFlowState {
        self.services.entry(id).or_default()
    }
}

impl Live {
    /// Reads a record.
    pub(crate) fn from_record(bytes: &[u8], meta: &Meta) -> Result<Self, RecordError> {
        let record: Record = serde_json::from_slice(bytes)?;
        let spec = Spec::from_json(record.spec.0.as_bytes())?;
        record.check(&spec).map_err(RecordError::Contradiction)?;
        Ok(Self {
            record,
            spec,
            incarnation_mark: meta.incarnation_mark,
            room_cells: meta.cells,
            exact: BTreeSet::new(),
            flow_state: FlowState::default(),
        })
    }

    /// Number of the generation.
    pub fn number(&self) -> u64 {
        self.record.number
    }

    /// SHA-256 over the canonical specification, 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.record.digest
    }

    /// What was asked for.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What a plan that continues it says of it.
    pub fn base(&self) -> Base {
        Base {
            generation: self.number(),
            digest: self.digest().to_owned(),
        }
    }

    /// What is known of its flow state.
    pub fn flow_state(&self) -> &FlowState {
        &self.flow_state
    }

    /// The same, to be filled in by whoever looked.
    pub fn flow_state_mut(&mut self) -> &mut FlowState {
        &mut self.flow_state
    }

    /// Adds what a complete sweep found, by the number of the service; services that are not named
    /// had no entry.
    ///
    /// The sweep must have begun after the publication of generation `number` had returned, and
    /// have used its slots. If another one is live it says nothing, and is ignored.
    #[must_use]
    pub fn with_sweep(mut self, number: u64, mut found: BTreeMap<u32, ServiceSweep>) -> Self {
        if number != self.number() {
            return self;
        }
        let services = self.record.services.iter().map(|service| service.id);
        let found: Vec<_> = services
            .map(|id| (id, found.remove(&id).unwrap_or_default()))
            .collect();
        self.flow_state.flows = Some(found.iter().map(|(_, found)| found.flows).sum());
        self.flow_state.cids = Some(found.iter().map(|(_, found)| found.cids).sum());
        for (id, found) in found {
            self.flow_state.service_mut(id).sweep = Some(found);
        }
        self
    }

    /// How many slots of a service are marked.
    pub fn marks(&self, service: ServiceId) -> MarkCount {
        let mut count = MarkCount::default();
        for mark in self.marks_of(service.get()) {
            match mark.open {
                Some(_) => count.open += 1,
                None => count.held += 1,
            }
        }
        count
    }

    /// How many slots of all services are marked.
    pub fn all_marks(&self) -> MarkCount {
        let services = self.spec.services().iter();
        services
            .map(|service| self.marks(service.id))
            .fold(MarkCount::default(), |sum, marks| MarkCount {
                open: sum.open + marks.open,
                held: sum.held + marks.held,
            })
    }

    /// How many open slots of a service have each row as their base.
    pub(crate) fn base_slots(&self, service: ServiceId) -> BTreeMap<u16, u32> {
        let mut bases = BTreeMap::new();
        for (base, _) in self
            .marks_of(service.get())
            .iter()
            .filter_map(|mark| mark.open)
        {
            *bases.entry(base).or_default() += 1;
        }
        bases
    }

    fn marks_of(&self, service: u32) -> Vec<Mark> {
        let record = self.record.service(service);
        // They were read when the record was checked.
        record
            .and_then(|record| record.marks.read().ok())
            .unwrap_or_default()
    }

    /// When the next window is over, in nanoseconds on the monotonic clock, if no insert is refused
    /// until then; none if no slot is open. A plan made before it leaves all windows open.
    pub fn closes_ns(&self, now_ns: u64) -> Option<u64> {
        let placed = self.placed();
        placed
            .filter_map(|(service, record)| closes_ns(self, service, record, now_ns))
            .min()
    }

    /// Since when the window is open that is open longest, on the monotonic clock; none if no slot
    /// is open.
    pub fn oldest_opening_ns(&self, now_ns: u64) -> Option<u64> {
        let records = self.record.services.iter();
        let openings = records.flat_map(|record| record.marks.openings());
        openings.map(|opened| self.settled(*opened, now_ns)).min()
    }

    /// Whether a sweep that was [added](Self::with_sweep) lets held slots go.
    pub fn releases(&self) -> bool {
        self.record.services.iter().any(|record| {
            let known = self.flow_state.service(record.id);
            let Some(sweep) = known.and_then(|known| known.sweep.as_ref()) else {
                return false;
            };
            let marks = self.marks_of(record.id);
            let mut held = marks.iter().filter(|mark| mark.open.is_none());
            held.any(|mark| !sweep.differing.contains(mark.slot))
        })
    }

    /// Lets packets of a QUIC service look for exact bindings of their connection IDs from the next
    /// publication on. A service whose routing is learned does so anyway.
    #[must_use]
    pub fn with_exact(mut self, service: ServiceId) -> Self {
        self.exact.insert(service.get());
        self
    }

    /// Whether packets of a service look for exact bindings.
    pub fn is_exact(&self, service: ServiceId) -> bool {
        let record = self.record.service(service.get());
        record.is_some_and(|record| record.exact)
    }

    /// Adds how many entries there are, by the number of the service and the row of the backend.
    pub(crate) fn know_entries(&mut self, entries: BTreeMap<(u32, u16), u64>) {
        for ((service, row), entries) in entries {
            let known = self.flow_state.service_mut(service);
            known.by_row.get_or_insert_default().insert(row, entries);
        }
    }

    /// The rows of backends that are not in `after`, by the number of the service.
    pub(crate) fn removed_by(&self, after: Option<&Self>) -> BTreeSet<(u32, u16)> {
        let services = self.record.services.iter().flat_map(|before| {
            let after = after.and_then(|after| after.record.service(before.id));
            let rows = match after {
                Some(after) => before.rows_removed(after),
                None => before.backends.iter().map(|backend| backend.row).collect(),
            };
            rows.into_iter().map(|row| (before.id, row))
        });
        services.collect()
    }

    /// Until when slots of a service are open, in whole seconds from `now_ns`; none if no slot is.
    pub(crate) fn window_seconds(&self, service: u32, now_ns: u64) -> Option<u64> {
        let mut placed = self.placed();
        let (service, record) = placed.find(|(_, record)| record.id == service)?;
        let openings = record.marks.openings().iter();
        let last = openings.map(|opened| self.settled(*opened, now_ns)).max()?;
        let until = last.saturating_add(window_ns(service, record));
        Some(until.saturating_sub(now_ns).div_ceil(1_000_000_000))
    }

    /// Whether some backend that is live is not in `spec`.
    pub(crate) fn loses_backends(&self, spec: &Spec) -> bool {
        self.spec.services().iter().any(|old| {
            let new = spec.services().iter().find(|new| new.id == old.id);
            let mut backends = old.backends.iter();
            new.is_none_or(|new| backends.any(|old| new.backend(old.id).is_none()))
        })
    }

    /// The services, each with what was decided about it.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Service, &ServiceRecord)> {
        let services = self.spec.services().iter();
        services.filter_map(|service| Some((service, self.record.service(service.id.get())?)))
    }

    /// The time of something that began with a publication: that of the live generation if `time`
    /// is none, which is `now_ns` where nobody knows when it had returned.
    pub(crate) fn settled(&self, time: Option<u64>, now_ns: u64) -> u64 {
        time.or(self.flow_state.returned_ns).unwrap_or(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{plan, Device, Options, Plan, PlanResult, World};
    use serde_json::json;

    fn spec(backends: u32) -> Spec {
        let backend = |id: u32| json!({"id": id, "interface": "lo", "mac": "02:00:00:00:00:01"});
        let service = |port: u16, protocol: &str, tracking: &str| {
            json!({"name": format!("s{port}"), "vip": "203.0.113.80", "port": port,
                   "protocol": protocol, "tracking": tracking, "quic_only": protocol == "udp",
                   "maglev_table_size": 4093, "flow_idle": 100,
                   "backends": (1..=backends).map(backend).collect::<Vec<_>>()})
        };
        let document = json!({
            "instance_id": "1d9016f2-8957-42bc-9dd7-32d684d76446", "interface": "edge0",
            "services": [service(1, "tcp", "exceptions"), service(2, "udp", "exceptions"),
                         service(3, "udp", "all")],
        });
        Spec::from_json(document.to_string().as_bytes()).expect("valid")
    }

    fn next(live: Option<&Live>, spec: &Spec, seconds: u64) -> Plan {
        let device = |name: &str, index| Device::new(name.parse().expect("a name"), index, None, 1);
        let devices = vec![device("edge0", 2), device("lo", 1)];
        let world = World::new(devices, Vec::new(), seconds * 1_000_000_000);
        plan(live, spec, &world, Options::default()).expect("a plan")
    }

    /// What a control plane that starts anew finds.
    fn restarted(live: &Live) -> Live {
        let meta = Meta {
            incarnation_mark: live.incarnation_mark,
            cells: live.room_cells,
            ..bytemuck::Zeroable::zeroed()
        };
        let bytes = live.record.to_bytes().expect("JSON");
        let mut read = Live::from_record(&bytes, &meta).expect("sound");
        read.flow_state.returned_ns = live.flow_state.returned_ns;
        read
    }

    #[test]
    fn a_restart_at_any_time_changes_nothing_that_packets_see() {
        let mut live = next(None, &spec(3), 1).as_live(1);
        // Two changes within a window, what closes of the first, and of the second.
        for (number, (backends, seconds)) in [(4, 50), (5, 90), (5, 155), (5, 195)]
            .into_iter()
            .enumerate()
        {
            let wanted = spec(backends);
            let kept = next(Some(&live), &wanted, seconds);
            let again = next(Some(&restarted(&live)), &wanted, seconds);
            assert_eq!(kept.document().result, PlanResult::Change, "{seconds}");
            assert_eq!(kept.record(), again.record(), "{seconds}");
            let words = |plan: &Plan| {
                let services = plan.generation().services.iter();
                let words = services.map(|service| {
                    service
                        .slots
                        .iter()
                        .map(|slot| (slot.owner, slot.base))
                        .collect::<Vec<_>>()
                });
                words.collect::<Vec<_>>()
            };
            assert_eq!(words(&kept), words(&again), "{seconds}");
            live = kept.as_live(number as u64 + 2);
            let unchanged = next(Some(&restarted(&live)), &wanted, seconds);
            assert_eq!(
                unchanged.document().result,
                PlanResult::Unchanged,
                "{seconds}"
            );
        }
    }

    #[test]
    fn marks_that_contradict_the_table_are_found_when_it_is_built() {
        let live = next(None, &spec(3), 1).as_live(1);
        let mut live = next(Some(&live), &spec(4), 50).as_live(2);
        assert!(live.record.services[0].marks.opens());
        // Every slot of a table with one backend has the same owner: the base of some.
        live.spec = spec(1);
        for service in &mut live.record.services {
            service.backends.truncate(1);
        }
        let world = World::offline();
        let faults = plan(Some(&live), &spec(1), &world, Options::default()).expect_err("damage");
        assert!(
            faults.to_string().contains("is open with base row"),
            "{faults}"
        );
    }
}
