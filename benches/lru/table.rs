// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A table of flows in the kernel, and the programs that send packets to it from chosen CPUs.

use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Barrier;
use std::time::Duration;

use guideway::abi;
use guideway::kernel::map::{Map, MapKind, MapShape};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

use super::measure::cpu_time;
use super::programs::{call_with, Programs, Use};

/// Steps that a CPU does in one piece: a few milliseconds in which it does nothing else.
const PIECE: u32 = 8192;

/// The kinds of table that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plain and preallocated: what the load balancer uses.
    Hash,
    /// Plain, entries allocated one by one.
    HashNoPrealloc,
    /// LRU with common lists, the default.
    Lru,
    /// LRU with lists for each CPU.
    LruNoCommon,
    /// Plain, with an LRU table of a sixteenth of the size before it where a flow waits for its
    /// second packet.
    Guarded,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hash => "HASH",
            Self::HashNoPrealloc => "HASH NO_PREALLOC",
            Self::Lru => "LRU_HASH",
            Self::LruNoCommon => "LRU_HASH NO_COMMON",
            Self::Guarded => "HASH behind an LRU",
        }
    }

    fn shape(self, entries: u32) -> MapShape {
        let (kind, flags) = match self {
            Self::Hash | Self::Guarded => (MapKind::HASH, 0),
            Self::HashNoPrealloc => (MapKind::HASH, libbpf_sys::BPF_F_NO_PREALLOC),
            Self::Lru => (MapKind(libbpf_sys::BPF_MAP_TYPE_LRU_HASH), 0),
            Self::LruNoCommon => (
                MapKind(libbpf_sys::BPF_MAP_TYPE_LRU_HASH),
                libbpf_sys::BPF_F_NO_COMMON_LRU,
            ),
        };
        MapShape {
            name: "lru_table".into(),
            kind,
            key_size: size_of::<abi::FlowKey>() as u32,
            value_size: size_of::<abi::Binding>() as u32,
            max_entries: entries,
            flags,
        }
    }
}

/// The programs of `lru.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Insert,
    LookUp,
    WriteTo,
    Delete,
    Flood,
}

const PROGRAMS: [(Action, &str); 6] = [
    (Action::Nothing, "gw_lru_nothing"),
    (Action::Insert, "gw_lru_insert"),
    (Action::LookUp, "gw_lru_look_up"),
    (Action::WriteTo, "gw_lru_write_to"),
    (Action::Delete, "gw_lru_delete"),
    (Action::Flood, "gw_lru_flood"),
];

/// `struct work` of `lru.bpf.c`: what a program is to do, and what came of it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) begin: u32,
    pub(crate) count: u32,
    pub(crate) first: u32,
    pub(crate) stride: u32,
    pub(crate) modulus: u32,
    pub(crate) flags: u32,
    pub(crate) touch: u32,
    pub(crate) second_after: u32,
    pub(crate) quiet_first: u32,
    pub(crate) quiet: u32,
    pub(crate) beat: u32,
    pub(crate) guarded: u32,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) done: u64,
    pub(crate) full: u64,
    pub(crate) failed: u64,
}

impl Work {
    /// One step for each flow of a range, in order.
    pub(crate) fn on(flows: Range<u32>) -> Self {
        Self {
            first: flows.start,
            count: flows.end - flows.start,
            stride: 1,
            ..Self::default()
        }
    }

    /// `count` flows of a range in an order that no prefetcher foresees.
    pub(crate) fn scrambled(flows: Range<u32>, count: u32) -> Self {
        Self {
            modulus: flows.end - flows.start,
            count,
            ..Self::on(flows)
        }
    }
}

/// A table in the kernel, gone with this.
pub(crate) struct Table {
    map: Map,
    programs: Vec<(Action, OwnedFd)>,
}

impl Table {
    pub(crate) fn new(kind: Kind, entries: u32) -> Self {
        let map = Map::create(&kind.shape(entries), None).expect("a table");
        let waiting = MapShape {
            name: "lru_probation".into(),
            ..Kind::Lru.shape((entries / 16).max(1))
        };
        let waiting = Map::create(&waiting, None).expect("a table");
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/lru.bpf.o"));
        let programs = Programs::load(bytes, |name| {
            Use::Shared(match name {
                "lru_table" => map.as_fd(),
                _ => waiting.as_fd(),
            })
        });
        Self {
            map,
            programs: PROGRAMS
                .map(|(action, name)| (action, programs.program(name)))
                .into(),
        }
    }

    /// Does `work` on the CPU of this thread. Returns what came of it and the CPU time it took.
    pub(crate) fn run(&self, action: Action, work: &Work) -> (Work, Duration) {
        let (mut sum, mut time) = (*work, Duration::ZERO);
        let end = work.begin + work.count;
        for begin in (work.begin..end).step_by(PIECE as usize) {
            sum.begin = begin;
            sum.count = PIECE.min(end - begin);
            time += self.piece(action, &mut sum);
        }
        (sum, time)
    }

    /// The table itself, for writes from user space.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    fn piece(&self, action: Action, work: &mut Work) -> Duration {
        let found = self.programs.iter().find(|(of, _)| *of == action);
        let (_, program) = found.expect("every program was loaded");
        let before = cpu_time();
        call_with(program, work);
        cpu_time() - before
    }

    /// Which of these flows have an entry. Looks through the whole table from user space, which
    /// marks nothing as used.
    pub(crate) fn present(&self, flows: Range<u32>) -> Vec<bool> {
        let mut seen = vec![false; flows.len()];
        let each = |keys: &[u8], _: &[u8]| {
            for key in keys.chunks_exact(size_of::<abi::FlowKey>()) {
                let key: abi::FlowKey = bytemuck::pod_read_unaligned(key);
                let [a, b, c, d, ..] = key.address;
                let flow = u32::from_ne_bytes([a, b, c, d]);
                if flows.contains(&flow) {
                    let twice = std::mem::replace(&mut seen[(flow - flows.start) as usize], true);
                    assert!(!twice, "two entries of flow {flow}");
                }
            }
            ControlFlow::Continue(())
        };
        self.map
            .batches(PIECE, each)
            .expect("the table is readable");
        seen
    }

    /// How many of these flows have an entry.
    pub(crate) fn count(&self, flows: Range<u32>) -> u32 {
        let present = self.present(flows);
        present.into_iter().filter(|present| *present).count() as u32
    }
}

/// Key and value of a flow as the programs write them.
pub(crate) fn entry(flow: u32) -> (abi::FlowKey, abi::Binding) {
    let mut key = abi::FlowKey {
        service: 1,
        ..bytemuck::Zeroable::zeroed()
    };
    key.address[..4].copy_from_slice(&flow.to_ne_bytes());
    let value = abi::Binding {
        incarnation: 1,
        ..bytemuck::Zeroable::zeroed()
    };
    (key, value)
}

/// The CPUs that this thread may use: all of them before it first moves.
pub(crate) fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("the CPUs of this process");
    let all = 0..CpuSet::count();
    all.filter(|&cpu| allowed.is_set(cpu).unwrap_or(false))
        .collect()
}

/// Two of them, if there are.
pub(crate) fn two_cpus() -> Option<[usize; 2]> {
    cpus().first_chunk().copied()
}

/// Moves this thread to a CPU.
pub(crate) fn move_to(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).expect("a CPU");
    sched_setaffinity(Pid::from_raw(0), &one).expect("the CPU is ours to use");
}

/// Does something on both CPUs at once; the function gets 0 and 1.
pub(crate) fn at_once<T: Send>(cpus: [usize; 2], each: impl Fn(u32) -> T + Sync) -> [T; 2] {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|number| {
            let (start, each) = (&start, &each);
            scope.spawn(move || {
                move_to(cpus[number as usize]);
                start.wait();
                each(number)
            })
        });
        threads.map(|thread| thread.join().expect("the thread ends well"))
    })
}
