// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The programs that sweep, around tables and a generation made by hand.

use bytemuck::Zeroable;
use guideway::abi;
use guideway::hash::{hash32, slot, tag16, FlowHashKey, FlowKey, HashSeed};
use guideway::id::ServiceId;
use guideway::kernel::map::{Map, Update};
use guideway::kernel::publish::{Generation, Slot, CELL_BYTES};
use guideway::kernel::routine::{Options, Routine, Source};
use guideway::kernel::typed::{Array, Hash, PerCpuArray};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// The time of every sweep here, far from zero.
pub(crate) const NOW: u64 = 1_000_000_000 * SECOND;
pub(crate) const FLOW_IDLE: u64 = 121 * SECOND;
pub(crate) const CLOSED: u64 = 61 * SECOND;
pub(crate) const CID_IDLE: u64 = 601 * SECOND;
/// Number of the generation.
pub(crate) const GENERATION: u64 = 7;
pub(crate) const CID_SEED: u64 = 0x0123_4567_89ab_cdef;
const SEED: [u8; 16] = *b"sweeping tables!";

pub(crate) const NONE: u16 = abi::SlotWord::GW_SLOT_NONE.0 as u16;
pub(crate) const PLAIN: u16 = abi::SlotWord::GW_SLOT_PLAIN.0 as u16;
pub(crate) const HELD: u16 = abi::SlotWord::GW_SLOT_HELD.0 as u16;

/// A service of the generation.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) id: u32,
    pub(crate) all: bool,
    pub(crate) source: bool,
    /// Owner and base of each slot.
    pub(crate) slots: Vec<(u16, u16)>,
    /// Incarnation by row, 0 for an empty one.
    pub(crate) rows: Vec<u32>,
}

pub(crate) struct Machine {
    pub(crate) flows: Hash<abi::FlowKey, abi::Binding>,
    pub(crate) cids: Hash<abi::CidKey, abi::Binding>,
    pub(crate) levels: Array<abi::Admission>,
    pub(crate) sweep_flows: Routine,
    pub(crate) sweep_cids: Routine,
    pub(crate) level: Routine,
    pub(crate) count: Routine,
    pub(crate) flow_idle_ns: u64,
    occupancy: Option<Routine>,
    pub(crate) rules: Hash<u32, abi::SweepService>,
    differ: Array<u64>,
    stats: PerCpuArray<abi::ServiceStats>,
    gen_slot: Slot,
    services: Vec<Service>,
    slots_at: Vec<u32>,
}

impl Machine {
    pub(crate) fn new(services: &[Service], flows: u32) -> Self {
        let entries = [("gw_ql_flow", flows), ("gw_ql_cid", flows)];
        let options = Options {
            entries: &entries,
            ..Options::default()
        };
        let mut loaded = options
            .load(Source::Sweep)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut map = |name: &str| loaded.take_map(name).expect("a map");
        let mut machine = Self {
            flows: Hash::new(map("gw_ql_flow")).expect("flows"),
            cids: Hash::new(map("gw_ql_cid")).expect("cids"),
            levels: Array::new(map("gw_ql_level")).expect("levels"),
            rules: Hash::new(map("gw_ql_rules")).expect("rules"),
            differ: Array::new(map("gw_ql_differ")).expect("bits"),
            stats: PerCpuArray::new(map("gw_ql_stats")).expect("counters"),
            gen_slot: Slot::new(map("gw_ql_gen")).expect("a slot"),
            sweep_flows: loaded.take("gw_sweep_flows").expect("a routine"),
            sweep_cids: loaded.take("gw_sweep_cids").expect("a routine"),
            level: loaded.take("gw_sweep_level").expect("a routine"),
            count: loaded.take("gw_sweep_count").expect("a routine"),
            flow_idle_ns: FLOW_IDLE,
            occupancy: None,
            services: services.to_vec(),
            slots_at: Vec::new(),
        };
        let reuse =
            [machine.flows.map(), machine.cids.map()].map(|map| map.try_clone().expect("a handle"));
        let options = Options {
            entries: &entries,
            reuse: &reuse,
            ..Options::default()
        };
        let counter = options.load(Source::Occupancy).ok();
        machine.occupancy =
            counter.map(|mut loaded| loaded.take("gw_occupancy").expect("a routine"));
        machine.publish();
        machine
    }

    fn publish(&mut self) {
        let count = self.services.len();
        let mut cells = vec![[0_u8; CELL_BYTES]; 1 + count];
        let put = |cells: &mut Vec<[u8; CELL_BYTES]>, cell: usize, at: usize, bytes: &[u8]| {
            let end = (cell * CELL_BYTES + at + bytes.len()).div_ceil(CELL_BYTES);
            cells.resize(cells.len().max(end), [0; CELL_BYTES]);
            let flat: &mut [u8] = bytemuck::cast_slice_mut(cells);
            flat[cell * CELL_BYTES + at..][..bytes.len()].copy_from_slice(bytes);
        };
        let (keys, hash_final) = material();
        for (index, service) in self.services.clone().iter().enumerate() {
            let backends_at = cells.len();
            for (row, &incarnation) in service.rows.iter().enumerate() {
                let backend = abi::Backend {
                    id: row as u32 + 1,
                    incarnation,
                    state: if incarnation == 0 {
                        abi::BackendState::GW_BACKEND_MISSING.0 as u8
                    } else {
                        abi::BackendState::GW_BACKEND_READY.0 as u8
                    },
                    ..Zeroable::zeroed()
                };
                let at = row * size_of::<abi::Backend>();
                put(&mut cells, backends_at, at, bytemuck::bytes_of(&backend));
            }
            let slots_at = cells.len();
            let words: Vec<abi::Slot> = service
                .slots
                .iter()
                .map(|&(owner, base)| abi::Slot { owner, base })
                .collect();
            put(&mut cells, slots_at, 0, bytemuck::cast_slice(&words));
            self.slots_at.push(slots_at as u32);
            use abi::ServiceFlag as F;
            let flag = |set: bool, flag: F| if set { flag.0 } else { 0 };
            let record = abi::Service {
                id: service.id,
                slots: service.slots.len() as u32,
                slots_at: slots_at as u32,
                backends_at: backends_at as u32,
                flags: flag(service.all, F::GW_SERVICE_TRACK_ALL)
                    | flag(service.source, F::GW_SERVICE_HASH_SOURCE),
                hash_key: keys,
                hash_final,
                stats: index as u32,
                backends: service.rows.len() as u16,
                ..Zeroable::zeroed()
            };
            put(&mut cells, 1 + index, 0, bytemuck::bytes_of(&record));
        }
        let header = abi::Generation {
            magic: abi::Abi::GW_ABI_MAGIC.0,
            number: GENERATION,
            cells: cells.len() as u32,
            ..Zeroable::zeroed()
        };
        put(&mut cells, 0, 0, bytemuck::bytes_of(&header));
        let bytes: &[u8] = bytemuck::cast_slice(&cells);
        let generation = Generation::create("gw_ql_cells", bytes.len()).expect("create");
        generation.fill(bytes).expect("fill");
        self.gen_slot.swap(&generation).expect("swap");
    }

    /// The maps that another program needs to sweep the same tables.
    pub(crate) fn maps(&self) -> [(&'static str, &Map); 6] {
        [
            ("gw_ql_flow", self.flows.map()),
            ("gw_ql_cid", self.cids.map()),
            ("gw_ql_rules", self.rules.map()),
            ("gw_ql_differ", self.differ.map()),
            ("gw_ql_stats", self.stats.map()),
            ("gw_ql_gen", self.gen_slot.map()),
        ]
    }

    /// No generation is live any more.
    pub(crate) fn unpublish(&self) {
        assert!(self.gen_slot.clear().expect("clear"));
    }

    /// One pass over both tables at `now_ns`.
    pub(crate) fn sweep(&self, now_ns: u64) -> Swept {
        self.prepare();
        let mut context = self.context(now_ns);
        for routine in [&self.sweep_flows, &self.sweep_cids] {
            assert_eq!(routine.call(&mut context).expect("a call"), 0);
        }
        self.swept(&context)
    }

    pub(crate) fn context(&self, now_ns: u64) -> abi::Sweep {
        abi::Sweep {
            generation: GENERATION,
            now_ns,
            cid_seed: CID_SEED,
            ..Zeroable::zeroed()
        }
    }

    /// Rules with all counts at zero.
    pub(crate) fn prepare(&self) {
        self.rules
            .update(&0, &Zeroable::zeroed(), Update::Any)
            .expect("room for those of no service");
        for (index, service) in self.services.iter().enumerate() {
            let rules = abi::SweepService {
                service_at: 1 + index as u32,
                flow_idle_ns: self.flow_idle_ns,
                closed_ns: CLOSED,
                cid_idle_ns: CID_IDLE,
                ..Zeroable::zeroed()
            };
            self.rules
                .update(&service.id, &rules, Update::Any)
                .expect("room for rules");
        }
        self.differ.clear(4096).expect("clear");
    }

    pub(crate) fn swept(&self, context: &abi::Sweep) -> Swept {
        let services = self.services.iter().zip(&self.slots_at);
        Swept {
            strangers: context.strangers,
            services: services
                .map(|(service, &slots_at)| {
                    let rules = self.rules.get(&service.id).expect("read").expect("rules");
                    let bit = |slot: u32| {
                        let word = self.differ.get(slots_at + slot / 64).expect("a word");
                        word >> (slot % 64) & 1 == 1
                    };
                    SweptService {
                        flows: rules.flows,
                        cids: rules.cids,
                        differing: (0..service.slots.len() as u32)
                            .filter(|&slot| bit(slot))
                            .collect(),
                    }
                })
                .collect(),
        }
    }

    /// A counter of a service, summed over the processors.
    pub(crate) fn counter(&self, service: usize, counter: abi::Counter) -> u64 {
        let start = 0;
        self.stats
            .fold(service as u32, start, |sum, cpu| {
                sum + cpu.counters[counter.0 as usize]
            })
            .expect("counters")
    }

    /// Number of entries as the kernel has it.
    pub(crate) fn occupancy(&self) -> Option<abi::Occupancy> {
        let mut context = abi::Occupancy::default();
        self.occupancy.as_ref()?.call(&mut context).expect("a call");
        Some(context)
    }
}

/// What a pass found.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) strangers: abi::SweepCounts,
    pub(crate) services: Vec<SweptService>,
}

#[derive(Debug)]
pub(crate) struct SweptService {
    pub(crate) flows: abi::SweepCounts,
    pub(crate) cids: abi::SweepCounts,
    pub(crate) differing: Vec<u32>,
}

/// The material of the flow hash, as specified: splitmix64 from the first half of the seed.
fn material() -> ([u32; 6], u64) {
    let half = |at: usize| u64::from_be_bytes(SEED[at..at + 8].try_into().expect("eight bytes"));
    let mut state = half(0);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut keys = [0; 6];
    for pair in keys.chunks_exact_mut(2) {
        let z = next();
        pair.copy_from_slice(&[z as u32, (z >> 32) as u32]);
    }
    (keys, next() ^ half(8))
}

/// A flow: its key, tag and placement hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) key: abi::FlowKey,
    pub(crate) tag: u16,
    pub(crate) hash: u32,
}

impl Flow {
    /// Flow number `number` of a service.
    pub(crate) fn new(service: &Service, number: u32) -> Self {
        let client = std::net::Ipv4Addr::from(0x0a00_0000 | number >> 12);
        let port = 1024 + (number & 0xfff) as u16;
        let key = FlowKey::new(ServiceId::new(service.id), port, 443, client.into());
        let hasher = FlowHashKey::new(HashSeed::from_bytes(SEED));
        Self {
            tag: tag16(hasher.h64(&key, false)),
            hash: hash32(hasher.h64(&key, service.source)),
            key: bytemuck::pod_read_unaligned(key.as_bytes()),
        }
    }

    pub(crate) fn slot(&self, service: &Service) -> u32 {
        slot(self.hash, service.slots.len() as u32)
    }

    /// The first flow, from `number` on, that falls into one of `slots`.
    pub(crate) fn in_slot(service: &Service, slots: std::ops::Range<u32>, number: u32) -> Self {
        (number..)
            .map(|number| Self::new(service, number))
            .find(|flow| slots.contains(&flow.slot(service)))
            .expect("some flow")
    }

    /// Its entry for the backend in `row`, last seen `silent_ns` ago.
    pub(crate) fn entry(
        &self,
        row: u16,
        incarnation: u32,
        silent_ns: u64,
        state: u32,
    ) -> abi::Binding {
        abi::Binding {
            tag: self.tag,
            row,
            incarnation,
            seen_ns: NOW - silent_ns,
            state,
            hash: self.hash,
        }
    }
}
