// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The loaded program in a network namespace with a few interfaces.

use guideway::abi;
use guideway::addr::MacAddr;
use guideway::kernel::keys;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::object::{Object, Options};
use guideway::kernel::program::Program;
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::ring::Ring;
use guideway::kernel::run::{Ran, Run};
use guideway::kernel::typed::{Array, DevMap, Hash, PerCpuArray};
use guideway::plan::{plan, Device, Generation, Image, Options as PlanOptions, World};
use guideway::service::Spec;
use serde_json::Value;

use crate::netns;

pub(crate) const EDGE: &str = "gw-edge";
pub(crate) const ONE: &str = "gw-one";
pub(crate) const TWO: &str = "gw-two";
/// An interface to which the program cannot redirect.
pub(crate) const GONE: &str = "gw-gone";

pub(crate) struct Machine {
    object: Object,
    slot: Slot,
    world: World,
    services: PerCpuArray<abi::ServiceStats>,
    backends: PerCpuArray<abi::BackendStats>,
    reasons: PerCpuArray<abi::ReasonStats>,
    buckets: PerCpuArray<abi::EventBucket>,
    note: Array<abi::TraceNote>,
    pub(crate) flows: Hash<abi::FlowKey, abi::Binding>,
    pub(crate) cids: Hash<abi::CidKey, abi::Binding>,
    pub(crate) levels: Array<abi::Admission>,
    collection: Array<abi::Collection>,
    ring: Option<Map>,
}

/// No test has more services, each with counters of its own.
const SERVICES: u32 = 32;

/// Entries that fit each table of flow state, unless a test has its own number.
const ENTRIES: u32 = 4096;

/// The address of an interface.
pub(crate) fn own_mac(interface: &str) -> MacAddr {
    MacAddr::from([2, 0xee, 0, 0, 0, netns::ifindex(interface) as u8])
}

impl Machine {
    /// The program that runs in production. To be called in a network namespace of the test's own.
    pub(crate) fn new() -> Self {
        Self::load(false, ENTRIES)
    }

    /// The same with tables for so many entries.
    pub(crate) fn with_entries(entries: u32) -> Self {
        Self::load(false, entries)
    }

    /// The program that notes its decisions.
    pub(crate) fn tracing() -> Self {
        Self::load(true, ENTRIES)
    }

    fn load(tracing: bool, entries: u32) -> Self {
        netns::veth(EDGE, ONE);
        netns::veth(TWO, GONE);
        let device = |name: &str| {
            let index = netns::ifindex(name);
            Device::new(name.parse().unwrap(), index, Some(own_mac(name)), 1500)
        };
        let world = World::new([EDGE, ONE, TWO, GONE].map(device).to_vec(), vec![], 1);
        let options = Options {
            tracing,
            entries: &[("gw_ql_flow", entries), ("gw_ql_cid", entries)],
            // The program that runs in production here.
            keys: keys::support() == keys::Support::Works,
            ..Options::default()
        };
        let mut object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| object.take_map(name).unwrap();
        let targets = DevMap::new(map("gw_ql_dev")).unwrap();
        for name in [ONE, TWO] {
            targets.insert(netns::ifindex(name)).unwrap();
        }
        Self {
            slot: Slot::new(map("gw_ql_gen")).unwrap(),
            services: PerCpuArray::new(map("gw_ql_stats")).unwrap(),
            backends: PerCpuArray::new(map("gw_ql_backend")).unwrap(),
            reasons: PerCpuArray::new(map("gw_ql_reason")).unwrap(),
            buckets: PerCpuArray::new(map("gw_ql_bucket")).unwrap(),
            note: Array::new(map("gw_ql_trace")).unwrap(),
            flows: Hash::new(map("gw_ql_flow")).unwrap(),
            cids: Hash::new(map("gw_ql_cid")).unwrap(),
            levels: Array::new(map("gw_ql_level")).unwrap(),
            collection: Array::new(map("gw_ql_collect2")).unwrap(),
            ring: Some(map("gw_ql_events")),
            object,
            world,
        }
    }

    /// The generation that a specification gives here; its number is 7.
    pub(crate) fn plan(&self, document: &Value) -> Generation {
        let spec = Spec::from_json(document.to_string().as_bytes())
            .unwrap_or_else(|faults| panic!("{faults}"));
        let plan = plan(None, &spec, &self.world, PlanOptions::default())
            .unwrap_or_else(|faults| panic!("{faults}"));
        let mut generation = plan.generation().clone();
        generation.number = 7;
        generation
    }

    pub(crate) fn publish(&self, generation: &Generation) {
        self.publish_bytes(Image::build(generation).unwrap().bytes());
    }

    pub(crate) fn publish_bytes(&self, bytes: &[u8]) {
        let map = publish::Generation::create("gw_ql_cells", bytes.len()).unwrap();
        map.fill(bytes).unwrap();
        map.freeze().unwrap();
        self.slot.swap(&map).unwrap();
    }

    pub(crate) fn run(&self, frame: &[u8]) -> Ran {
        Run {
            ingress_ifindex: netns::ifindex(EDGE),
            ..Run::new(frame)
        }
        .run(&self.object.program)
        .unwrap()
    }

    pub(crate) fn program(&self) -> &Program {
        &self.object.program
    }

    /// The same with the rest of the frame behind the first `linear` bytes in other pieces.
    pub(crate) fn run_in_pieces(&self, frame: &[u8], linear: usize) -> Ran {
        Run {
            visible_bytes: Some(linear as u32),
            ..Run::new(frame)
        }
        .run(&self.object.program)
        .unwrap()
    }

    /// The number by which packets name a service of the table.
    pub(crate) fn service_id(&self, name: &str) -> u32 {
        let generation = self.plan(&crate::generations::document());
        let mut services = generation.services();
        services
            .find(|(service, _)| service.name.as_str() == name)
            .unwrap()
            .0
            .id
            .get()
    }

    /// All flows with an entry.
    pub(crate) fn flows(&self) -> Vec<(abi::FlowKey, abi::Binding)> {
        entries(&self.flows)
    }

    /// All connection IDs with an entry.
    pub(crate) fn cids(&self) -> Vec<(abi::CidKey, abi::Binding)> {
        entries(&self.cids)
    }

    /// Forgets every flow and connection ID, and that anything was refused.
    pub(crate) fn forget(&self) {
        for (key, _) in self.flows() {
            self.flows.remove(&key).unwrap();
        }
        for (key, _) in self.cids() {
            self.cids.remove(&key).unwrap();
        }
        for index in 0..SERVICES {
            self.admit(index, abi::Admission::default());
        }
    }

    pub(crate) fn put_flow(&self, key: &abi::FlowKey, value: &abi::Binding) {
        self.flows.update(key, value, Update::Insert).unwrap();
    }

    pub(crate) fn put_cid(&self, key: &abi::CidKey, value: &abi::Binding) {
        self.cids.update(key, value, Update::Insert).unwrap();
    }

    /// What may be inserted for the service with these counters.
    pub(crate) fn admission(&self, index: u32) -> abi::Admission {
        self.levels.get(index).unwrap()
    }

    pub(crate) fn admit(&self, index: u32, admission: abi::Admission) {
        self.levels.set(index, &admission).unwrap();
    }

    pub(crate) fn set_cid_seed(&self, cid_seed: u64) {
        let mut collection = self.collection.get(0).unwrap();
        collection.cid_seed = cid_seed;
        self.collection.set(0, &collection).unwrap();
    }

    /// The generation in which slots are about to close.
    pub(crate) fn set_closing(&self, generation: u64) {
        let mut collection = self.collection.get(0).unwrap();
        collection.closing_generation = generation;
        self.collection.set(0, &collection).unwrap();
    }

    pub(crate) fn verified_instructions(&self) -> u32 {
        self.object.program.verified_instructions()
    }

    pub(crate) fn note(&self) -> abi::TraceNote {
        self.note.get(0).unwrap()
    }

    pub(crate) fn ring(&mut self) -> Ring<abi::Event> {
        Ring::new(self.ring.take().unwrap()).unwrap()
    }

    pub(crate) fn reasons(&self) -> Vec<u64> {
        let parts = self.reasons.get(0).unwrap();
        sum(parts.iter().map(|part| &part.packets[..]))
    }

    /// Packets and bytes, then the rules, then the counters.
    pub(crate) fn service(&self, index: u32) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
        let parts = self.services.get(index).unwrap();
        (
            sum(parts.iter().map(|part| [part.packets, part.bytes])),
            sum(parts.iter().map(|part| &part.rules[..])),
            sum(parts.iter().map(|part| &part.counters[..])),
        )
    }

    /// Packets and bytes.
    pub(crate) fn backend(&self, index: u32) -> Vec<u64> {
        let parts = self.backends.get(index).unwrap();
        sum(parts.iter().map(|part| [part.packets, part.bytes]))
    }

    /// Emitted, suppressed and lost.
    pub(crate) fn bucket(&self, kind: abi::EventKind) -> Vec<u64> {
        let parts = self.buckets.get(kind.0).unwrap();
        sum(parts
            .iter()
            .map(|part| [part.emitted, part.suppressed_total, part.lost]))
    }
}

fn sum<P: AsRef<[u64]>>(parts: impl Iterator<Item = P>) -> Vec<u64> {
    parts.fold(Vec::new(), |mut sum, part| {
        sum.resize(part.as_ref().len(), 0);
        for (sum, part) in sum.iter_mut().zip(part.as_ref()) {
            *sum += part;
        }
        sum
    })
}

fn entries<K: bytemuck::Pod, V: bytemuck::Pod>(map: &Hash<K, V>) -> Vec<(K, V)> {
    let mut entries = Vec::new();
    map.for_each(|key, value| {
        entries.push((*key, *value));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    entries
}
