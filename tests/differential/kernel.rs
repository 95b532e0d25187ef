// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program in a network namespace with a few interfaces.

use std::ops::ControlFlow;

use guideway::abi;
use guideway::affinity::rules::Level;
use guideway::affinity::state::{Admission, State};
use guideway::affinity::{Binding, CidKey};
use guideway::hash::FlowKey;
use guideway::kernel::keys::{self, Contexts, Maker};
use guideway::kernel::map::Update;
use guideway::kernel::object::{Object, Options};
use guideway::kernel::publish::{self, Slot};
use guideway::kernel::run::Run;
use guideway::kernel::typed::{Array, DevMap, Hash, PerCpuArray};
use guideway::plan::{Decryption, Device, Generation, Image, World};
use guideway::quiclb::decryption;
use guideway::reason::Reason;

use crate::netns;
use crate::specs::{INGRESS, TARGETS};
use crate::state::{self, STATS};

/// A loaded program with its maps.
pub(crate) struct Machine {
    object: Object,
    /// Where the program can decrypt.
    maker: Option<Maker>,
    world: World,
    slot: Slot,
    note: Array<abi::TraceNote>,
    services: PerCpuArray<abi::ServiceStats>,
    backends: PerCpuArray<abi::BackendStats>,
    reasons: PerCpuArray<abi::ReasonStats>,
    flows: Hash<abi::FlowKey, abi::Binding>,
    cids: Hash<abi::CidKey, abi::Binding>,
    admissions: Array<abi::Admission>,
    collection: Array<abi::Collection>,
    cid_seed: u64,
    targets: Vec<u32>,
    runs: u64,
}

/// What the program did with a frame.
pub(crate) struct Outcome {
    pub(crate) action: u32,
    pub(crate) output: Vec<u8>,
    pub(crate) note: abi::TraceNote,
}

impl Machine {
    /// To be called in a network namespace of the test's own.
    pub(crate) fn new() -> Self {
        netns::veth(INGRESS, TARGETS[0]);
        netns::veth(TARGETS[1], TARGETS[2]);
        netns::veth(TARGETS[3], "gw-peer");
        let names = [INGRESS].into_iter().chain(TARGETS);
        let devices: Vec<_> = names
            .map(|name| {
                let index = netns::ifindex(name);
                let mac = [2, 0xee, 0, 0, 0, index as u8];
                Device::new(name.parse().unwrap(), index, Some(mac.into()), 1500)
            })
            .collect();
        let mut world = World::new(devices, vec![], 1_000_000_000);
        world.decryption = decryption();

        // The program that runs in production here.
        let keys = world.decryption == Some(Decryption::Works);
        let options = Options {
            tracing: true,
            keys,
            entries: &[
                ("gw_ql_flow", state::FLOWS as u32),
                ("gw_ql_cid", state::CIDS as u32),
            ],
            ..Options::default()
        };
        let mut object = options.load().unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| object.take_map(name).unwrap();
        let maker = keys.then(|| Contexts::new(map(keys::MAP)).unwrap().maker().unwrap());
        let slot = Slot::new(map("gw_ql_gen")).unwrap();
        let note = Array::new(map("gw_ql_trace")).unwrap();
        let services = PerCpuArray::new(map("gw_ql_stats")).unwrap();
        let backends = PerCpuArray::new(map("gw_ql_backend")).unwrap();
        let reasons = PerCpuArray::new(map("gw_ql_reason")).unwrap();
        let flows = Hash::new(map("gw_ql_flow")).unwrap();
        let cids = Hash::new(map("gw_ql_cid")).unwrap();
        let admissions = Array::new(map("gw_ql_level")).unwrap();
        let collection: Array<abi::Collection> = Array::new(map("gw_ql_collect2")).unwrap();
        let cid_seed = 0x6369_645f_7365_6564;
        let collected = abi::Collection {
            cid_seed,
            ..abi::Collection::default()
        };
        collection.set(0, &collected).unwrap();
        let devmap = DevMap::new(map("gw_ql_dev")).unwrap();
        let targets: Vec<_> = TARGETS[..3]
            .iter()
            .map(|name| netns::ifindex(name))
            .collect();
        for ifindex in &targets {
            devmap.insert(*ifindex).unwrap();
        }
        Self {
            object,
            maker,
            world,
            slot,
            note,
            services,
            backends,
            reasons,
            flows,
            cids,
            admissions,
            collection,
            cid_seed,
            targets,
            runs: 0,
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn can_redirect(&self, ifindex: u32) -> bool {
        self.targets.contains(&ifindex)
    }

    pub(crate) fn publish(&self, generation: &Generation) {
        for context in &generation.contexts {
            let maker = self.maker.as_ref().expect("no keys where none can be used");
            let key = context.key.secret_bytes();
            maker.put(context.slot, context.incarnation, key).unwrap();
        }
        let image = Image::build(generation).unwrap();
        let map = publish::Generation::create("gw_ql_cells", image.bytes().len()).unwrap();
        map.fill(image.bytes()).unwrap();
        map.freeze().unwrap();
        self.slot.swap(&map).unwrap();
    }

    /// The secret behind the tags of connection IDs.
    pub(crate) fn cid_seed(&self) -> u64 {
        self.cid_seed
    }

    /// Replaces all flow state.
    pub(crate) fn set_state(&self, state: &State) {
        let old = self.state();
        for (key, _) in old.flows.iter() {
            self.flows.remove(&flow_key(key)).unwrap();
        }
        for (key, _) in old.cids.iter() {
            self.cids.remove(&key.to_abi()).unwrap();
        }
        for (key, binding) in state.flows.iter() {
            let (key, value) = (flow_key(key), binding.to_abi());
            self.flows.update(&key, &value, Update::Insert).unwrap();
        }
        for (key, binding) in state.cids.iter() {
            let (key, value) = (key.to_abi(), binding.to_abi());
            self.cids.update(&key, &value, Update::Insert).unwrap();
        }
        let mut collection = self.collection.get(0).unwrap();
        collection.closing_generation = state.closing_generation.unwrap_or(0);
        self.collection.set(0, &collection).unwrap();
        for stats in 0..STATS {
            let admission = state.admission(stats);
            let value = abi::Admission {
                flows: admission.flows.to_abi(),
                cids: admission.cids.to_abi(),
                refused_ns: admission.refused_ns,
            };
            self.admissions.set(stats, &value).unwrap();
        }
    }

    /// All flow state, with what may be inserted for the first services.
    pub(crate) fn state(&self) -> State {
        let mut state = State::with_capacity(state::FLOWS, state::CIDS);
        let each = |key: &abi::FlowKey, value: &abi::Binding| {
            let key = FlowKey::from_bytes(bytemuck::bytes_of(key).try_into().unwrap());
            state.flows.insert(key, Binding::from_abi(value)).unwrap();
            ControlFlow::Continue(())
        };
        self.flows.for_each(each).unwrap();
        let each = |key: &abi::CidKey, value: &abi::Binding| {
            let key = CidKey::from_abi(key).unwrap();
            state.cids.insert(key, Binding::from_abi(value)).unwrap();
            ControlFlow::Continue(())
        };
        self.cids.for_each(each).unwrap();
        for stats in 0..STATS {
            let value = self.admissions.get(stats).unwrap();
            let admission = Admission {
                flows: Level::from_abi(value.flows),
                cids: Level::from_abi(value.cids),
                refused_ns: value.refused_ns,
            };
            state.admissions.insert(stats, admission);
        }
        state
    }

    /// Runs a frame of which `linear` bytes lie in one piece, as a driver might receive it.
    pub(crate) fn run(&mut self, frame: &[u8], linear: usize) -> Outcome {
        let run = Run {
            visible_bytes: Some(linear as u32),
            ..Run::new(frame)
        };
        let ran = run.run(&self.object.program).unwrap();
        self.runs += 1;
        let note = self.note.get(0).unwrap();
        assert_eq!(
            note.packets, self.runs,
            "one decision is noted for each frame"
        );
        Outcome {
            action: ran.action,
            output: ran.frame,
            note,
        }
    }

    /// The counters of a service.
    pub(crate) fn service_stats(&self, index: u32) -> abi::ServiceStats {
        let mut sum = abi::ServiceStats::default();
        for part in self.services.get(index).unwrap() {
            sum.packets += part.packets;
            sum.bytes += part.bytes;
            add(&mut sum.rules, &part.rules);
            add(&mut sum.counters, &part.counters);
        }
        sum
    }

    /// Packets and bytes that a backend was sent.
    pub(crate) fn backend_stats(&self, index: u32) -> (u64, u64) {
        let parts = self.backends.get(index).unwrap();
        parts.iter().fold((0, 0), |(packets, bytes), part| {
            (packets + part.packets, bytes + part.bytes)
        })
    }

    pub(crate) fn reasons(&self) -> [u64; abi::Reason::GW_REASONS.0 as usize] {
        let mut sum = [0; abi::Reason::GW_REASONS.0 as usize];
        for part in self.reasons.get(0).unwrap() {
            add(&mut sum, &part.packets);
        }
        sum
    }

    /// Every packet has one reason, and every forwarded one a rule.
    pub(crate) fn assert_sums_of_counters(&self) {
        let reasons = self.reasons();
        assert_eq!(reasons.iter().sum::<u64>(), self.runs);
        assert_eq!(reasons[usize::from(Reason::Internal.number())], 0);
        let rules: u64 = (0..abi::Limit::GW_MAX_SERVICES.0)
            .flat_map(|index| self.service_stats(index).rules)
            .sum();
        assert_eq!(rules, reasons[usize::from(Reason::Forwarded.number())]);
    }
}

fn flow_key(key: &FlowKey) -> abi::FlowKey {
    bytemuck::pod_read_unaligned(key.as_bytes())
}

fn add(sum: &mut [u64], part: &[u64]) {
    for (sum, part) in sum.iter_mut().zip(part) {
        *sum += part;
    }
}
