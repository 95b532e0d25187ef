// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What each operation costs, in kinds of table side by side.

use std::ops::Range;
use std::time::Duration;

use super::measure;
use super::table::{at_once, move_to, Action, Kind, Table, Work};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    Hit,
    Miss,
    HitAndWrite,
    /// An update of an existing entry by its key.
    Update,
    Delete,
    /// Into a table that has no room.
    InsertWhenFull,
}

pub(crate) const OPERATIONS: [Operation; 7] = [
    Operation::Insert,
    Operation::Hit,
    Operation::Miss,
    Operation::HitAndWrite,
    Operation::Update,
    Operation::Delete,
    Operation::InsertWhenFull,
];

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::HitAndWrite => "hit and write",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::InsertWhenFull => "insert when full",
        }
    }
}

pub(crate) const KINDS: [Kind; 4] = [
    Kind::Hash,
    Kind::HashNoPrealloc,
    Kind::Lru,
    Kind::LruNoCommon,
];

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) entries: u32,
    /// Both CPUs work at once; otherwise one after the other.
    pub(crate) parallel: bool,
    pub(crate) cpus: [usize; 2],
    pub(crate) possible_cpus: u32,
    pub(crate) rounds: usize,
}

/// Nanoseconds of CPU time of each of [`OPERATIONS`], without what the loop costs: the median.
pub(crate) type Costs = [f64; OPERATIONS.len()];

/// Measures all [`KINDS`], round by round.
pub(crate) fn measure(setting: &Setting) -> [Costs; KINDS.len()] {
    let mut samples = KINDS.map(|_| OPERATIONS.map(|_| Vec::new()));
    for _ in 0..setting.rounds {
        for (kind, samples) in KINDS.into_iter().zip(&mut samples) {
            for (samples, ns) in samples.iter_mut().zip(once(kind, setting)) {
                samples.push(ns);
            }
        }
    }
    samples.map(|kind| kind.map(|mut samples| measure::summary(&mut samples).0))
}

/// Steps on both CPUs, each with its own flows.
struct Driver<'a> {
    table: Table,
    setting: &'a Setting,
}

impl Driver<'_> {
    /// Nanoseconds a step, and the counts of both CPUs together.
    fn run(&self, action: Action, work: impl Fn(u32) -> Work + Sync) -> (f64, Work) {
        let one = |number| self.table.run(action, &work(number));
        let parts = if self.setting.parallel {
            at_once(self.setting.cpus, one)
        } else {
            [0, 1].map(|number| {
                move_to(self.setting.cpus[number as usize]);
                one(number)
            })
        };
        let (mut sum, mut time, mut steps) = (Work::default(), Duration::ZERO, 0);
        for (number, (part, took)) in (0..).zip(parts) {
            sum.hits += part.hits;
            sum.misses += part.misses;
            sum.done += part.done;
            sum.full += part.full;
            sum.failed += part.failed;
            time += took;
            steps += work(number).count;
        }
        (time.as_nanos() as f64 / f64::from(steps), sum)
    }
}

/// The part of these flows that is of one CPU.
fn own(flows: Range<u32>, number: u32) -> Range<u32> {
    let half = (flows.end - flows.start) / 2;
    let start = flows.start + half * number;
    start..start + half
}

fn once(kind: Kind, setting: &Setting) -> Costs {
    let entries = setting.entries;
    // Each CPU has its own part of such a table, and two are at work.
    let size = match kind {
        Kind::LruNoCommon => entries / 2 * setting.possible_cpus,
        _ => entries,
    };
    let table = Table::new(kind, size);
    let driver = Driver { table, setting };
    // A sixteenth of room: what a CPU keeps aside of a common list is no loss yet.
    let flows = entries / 16 * 15;
    let samples = flows.min(1 << 18) / 2;
    let all = u64::from(2 * samples);
    let strangers = 2 * entries;
    // Samples of different flows, so that none is in a cache because of the one before.
    let on = move |flows: Range<u32>, sample: u32| {
        move |number| Work {
            begin: sample * samples,
            ..Work::scrambled(own(flows.clone(), number), samples)
        }
    };
    let in_order = |flows: Range<u32>| move |number| Work::on(own(flows.clone(), number));
    let absent = strangers..strangers + flows;

    let (floor, _) = driver.run(Action::Nothing, on(0..flows, 0));
    let (floor_in_order, _) = driver.run(Action::Nothing, in_order(0..flows));
    let (insert, done) = driver.run(Action::Insert, in_order(0..flows));
    assert_eq!(done.done, u64::from(flows), "{kind:?} {done:?}");
    // An LRU table marks an entry on the first hit alone.
    let (_, done) = driver.run(Action::LookUp, in_order(0..flows));
    assert_eq!(done.hits, u64::from(flows), "{kind:?} {done:?}");
    let (hit, done) = driver.run(Action::LookUp, on(0..flows, 0));
    assert_eq!(done.hits, all, "{kind:?} {done:?}");
    let (miss, done) = driver.run(Action::LookUp, on(absent.clone(), 0));
    assert_eq!(done.misses, all, "{kind:?} {done:?}");
    let (write, done) = driver.run(Action::WriteTo, on(0..flows, 1));
    assert_eq!(done.hits, all, "{kind:?} {done:?}");
    let (update, done) = driver.run(Action::Insert, |number| Work {
        flags: libbpf_sys::BPF_EXIST,
        ..on(0..flows, 2)(number)
    });
    assert_eq!(done.done, all, "{kind:?} {done:?}");
    let (delete, done) = driver.run(Action::Delete, on(0..flows, 3));
    assert_eq!(done.done, all, "{kind:?} {done:?}");

    let (_, done) = driver.run(Action::Insert, on(0..flows, 3));
    assert_eq!(done.done, all, "{kind:?} {done:?}");
    let (_, done) = driver.run(Action::Insert, in_order(flows..entries));
    assert_eq!(done.done, u64::from(entries - flows), "{kind:?} {done:?}");
    let (full, done) = driver.run(Action::Insert, on(absent, 0));
    let refused = match kind {
        Kind::Lru | Kind::LruNoCommon => 0,
        _ => all,
    };
    assert_eq!((done.full, done.done), (refused, all - refused), "{kind:?}");
    [
        insert - floor_in_order,
        hit - floor,
        miss - floor,
        write - floor,
        update - floor,
        delete - floor,
        full - floor,
    ]
}

/// An earlier measurement on one CPU with Linux 6.18, nanoseconds, in the order of [`OPERATIONS`].
pub(crate) fn reference(entries: u32, kind: Kind) -> Option<Costs> {
    Some(match (entries, kind) {
        (1_048_576, Kind::Hash) => [255.0, 270.0, 219.0, 287.0, 392.0, 398.0, 375.0],
        (1_048_576, Kind::HashNoPrealloc) => [371.0, 240.0, 170.0, 203.0, 473.0, 535.0, 300.0],
        (1_048_576, Kind::Lru) => [352.0, 209.0, 178.0, 203.0, 875.0, 505.0, 515.0],
        (1_048_576, Kind::LruNoCommon) => [319.0, 200.0, 114.0, 213.0, 1178.0, 519.0, 1111.0],
        (65_536, Kind::Hash) => [105.0, 62.0, 51.0, 60.0, 108.0, 146.0, 82.0],
        (65_536, Kind::Lru) => [168.0, 57.0, 40.0, 54.0, 272.0, 211.0, 223.0],
        _ => return None,
    })
}
