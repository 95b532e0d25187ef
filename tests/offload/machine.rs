// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program for cards, run by the kernel.

use std::ops::ControlFlow;

use bytemuck::Pod;
use guideway::abi;
use guideway::hash::FlowKey;
use guideway::kernel::map::Update;
use guideway::kernel::object::Object;
use guideway::kernel::offload_object::Options;
use guideway::kernel::run::{Ran, Run};
use guideway::kernel::typed::{Array, Hash};
use guideway::plan::{Elements, Generation};

/// Flows that there is room for: so few that frames fill it.
pub(crate) const FLOWS: usize = 12;
/// More services than any specification here has.
const SERVICES: u32 = 8;

pub(crate) struct Machine {
    object: Object,
    active: Array<abi::OffloadActive>,
    generations: Hash<u64, abi::OffloadGeneration>,
    services: Hash<abi::OffloadServiceKey, abi::OffloadService>,
    configs: Hash<abi::OffloadKey, abi::OffloadConfig>,
    ids: Hash<abi::OffloadIdKey, abi::OffloadId>,
    rows: Hash<abi::OffloadKey, abi::Backend>,
    slots: Hash<abi::OffloadKey, abi::Slot>,
    flows: Hash<abi::FlowKey, abi::OffloadBinding>,
    epoch: Array<abi::OffloadEpoch>,
    reasons: Array<u64>,
    counters: Array<u64>,
    backends: Array<abi::BackendStats>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let options = Options {
            entries: &[("gw_of_flow", FLOWS as u32)],
            ..Options::default()
        };
        let mut object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| object.take_map(name).unwrap();
        Self {
            active: Array::new(map("gw_of_active")).unwrap(),
            generations: Hash::new(map("gw_of_gen")).unwrap(),
            services: Hash::new(map("gw_of_service")).unwrap(),
            configs: Hash::new(map("gw_of_config")).unwrap(),
            ids: Hash::new(map("gw_of_id")).unwrap(),
            rows: Hash::new(map("gw_of_row")).unwrap(),
            slots: Hash::new(map("gw_of_slot")).unwrap(),
            flows: Hash::new(map("gw_of_flow")).unwrap(),
            epoch: Array::new(map("gw_of_epoch")).unwrap(),
            reasons: Array::new(map("gw_of_reason")).unwrap(),
            counters: Array::new(map("gw_of_stats")).unwrap(),
            backends: Array::new(map("gw_of_backend")).unwrap(),
            object,
        }
    }

    /// Replaces what packets see.
    pub(crate) fn publish(&self, generation: &Generation) {
        clear(&self.generations);
        clear(&self.services);
        clear(&self.configs);
        clear(&self.ids);
        clear(&self.rows);
        clear(&self.slots);
        let elements = Elements::build(generation);
        fill(&self.rows, &elements.rows);
        fill(&self.slots, &elements.slots);
        fill(&self.configs, &elements.configs);
        fill(&self.ids, &elements.ids);
        fill(&self.services, &elements.services);
        fill(&self.generations, &[(elements.number, elements.generation)]);
        let generation = elements.number;
        self.active
            .set(0, &abi::OffloadActive { generation })
            .unwrap();
    }

    pub(crate) fn set_epoch(&self, epoch: u32) {
        let epoch = abi::OffloadEpoch { epoch, zero: 0 };
        self.epoch.set(0, &epoch).unwrap();
    }

    pub(crate) fn forget_flows(&self) {
        clear(&self.flows);
    }

    /// All flows that have an element.
    pub(crate) fn flows(&self) -> Vec<(FlowKey, abi::OffloadBinding)> {
        entries(&self.flows)
            .into_iter()
            .map(|(key, value)| {
                let key = FlowKey::from_bytes(bytemuck::bytes_of(&key).try_into().unwrap());
                (key, value)
            })
            .collect()
    }

    pub(crate) fn run(&self, frame: &[u8]) -> Ran {
        Run::new(frame).run(&self.object.program).unwrap()
    }

    pub(crate) fn reasons(&self) -> Vec<u64> {
        self.reasons.values().unwrap()
    }

    /// Packets, bytes, rules and counters of each of the first services.
    pub(crate) fn service_stats(&self) -> Vec<Vec<u64>> {
        use abi::OffloadLimit as L;
        let each = L::GW_OFFLOAD_COUNTERS.0;
        let all = self.counters.first(each * SERVICES).unwrap();
        let of_service = |counters: &[u64]| {
            let at = |number: u32| number as usize;
            let rules = at(L::GW_OFFLOAD_RULES_AT.0);
            let mut stats = vec![
                counters[at(L::GW_OFFLOAD_PACKETS_AT.0)],
                counters[at(L::GW_OFFLOAD_BYTES_AT.0)],
            ];
            stats.extend(&counters[rules..rules + at(abi::Rule::GW_RULES.0)]);
            stats.extend(&counters[..at(abi::Counter::GW_COUNTERS.0)]);
            stats
        };
        all.chunks_exact(each as usize).map(of_service).collect()
    }

    pub(crate) fn backend_stats(&self, index: u32) -> (u64, u64) {
        let stats = self.backends.get(index).unwrap();
        (stats.packets, stats.bytes)
    }
}

fn fill<K: Pod, V: Pod>(map: &Hash<K, V>, entries: &[(K, V)]) {
    for (key, value) in entries {
        map.update(key, value, Update::Insert).unwrap();
    }
}

fn entries<K: Pod, V: Pod>(map: &Hash<K, V>) -> Vec<(K, V)> {
    let mut entries = Vec::new();
    map.for_each(|key, value| {
        entries.push((*key, *value));
        ControlFlow::Continue(())
    })
    .unwrap();
    entries
}

fn clear<K: Pod, V: Pod>(map: &Hash<K, V>) {
    for (key, _) in entries(map) {
        map.remove(&key).unwrap();
    }
}
