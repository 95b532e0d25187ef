// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What tables lose while they fill up, and when existing entries are updated.

use std::ops::Range;

use guideway::kernel::map::Update;

use super::table::{at_once, entry, move_to, Action, Kind, Table, Work};

/// Fill levels at which is counted, percent of the table's size.
pub(crate) const LEVELS: [u32; 6] = [40, 50, 60, 80, 95, 100];

/// Who inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    OneCpu,
    /// One CPU the first half of the table, then the other.
    Halves,
    /// In turns of a 128th of the table.
    Turns,
    Parallel,
    /// System calls, on one CPU.
    UserSpace,
}

pub(crate) const PATTERNS: [Pattern; 5] = [
    Pattern::OneCpu,
    Pattern::Halves,
    Pattern::Turns,
    Pattern::Parallel,
    Pattern::UserSpace,
];

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneCpu => "one CPU",
            Self::Halves => "half and half",
            Self::Turns => "CPUs in turn",
            Self::Parallel => "both CPUs",
            Self::UserSpace => "system calls",
        }
    }

    /// Inserts the flows; returns how many the kernel took and how many it refused as too many.
    fn insert(self, table: &Table, flows: Range<u32>, plan: &Plan) -> (u64, u64) {
        let run = |flows: Range<u32>| {
            let work = Work {
                touch: plan.touched.into(),
                ..Work::on(flows)
            };
            let (done, _) = table.run(Action::Insert, &work);
            assert_eq!(done.failed, 0, "{done:?}");
            (done.done, done.full)
        };
        let on = |cpu: usize, flows: Range<u32>| {
            move_to(plan.cpus[cpu]);
            run(flows)
        };
        let parts: Vec<_> = match self {
            Self::OneCpu => vec![on(1, flows)],
            Self::Halves => {
                let middle = (plan.entries / 2).clamp(flows.start, flows.end);
                vec![on(0, flows.start..middle), on(1, middle..flows.end)]
            }
            Self::Turns => {
                let turn = (plan.entries / 128).max(1);
                let starts = flows.clone().step_by(turn as usize).enumerate();
                starts
                    .map(|(n, start)| on(n % 2, start..(start + turn).min(flows.end)))
                    .collect()
            }
            Self::Parallel => {
                let middle = flows.start + (flows.end - flows.start) / 2;
                at_once(plan.cpus, |number| {
                    run([flows.start..middle, middle..flows.end][number as usize].clone())
                })
                .into()
            }
            Self::UserSpace => vec![from_user_space(table, flows, plan)],
        };
        let sum = |(a, b), (c, d)| (a + c, b + d);
        parts.into_iter().fold((0, 0), sum)
    }
}

fn from_user_space(table: &Table, flows: Range<u32>, plan: &Plan) -> (u64, u64) {
    move_to(plan.cpus[1]);
    let (mut done, mut full) = (0, 0);
    for flow in flows {
        let (key, value) = entry(flow);
        let (key, value) = (bytemuck::bytes_of(&key), bytemuck::bytes_of(&value));
        match table.map().update(key, value, Update::Any) {
            Ok(()) => done += 1,
            Err(error) if error.errno == nix::libc::E2BIG => full += 1,
            Err(error) => panic!("{error}"),
        }
        if plan.touched {
            table.run(Action::LookUp, &Work::on(flow..flow + 1));
        }
    }
    (done, full)
}

/// How a table is filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) entries: u32,
    pub(crate) pattern: Pattern,
    /// Each flow sends a second packet at once.
    pub(crate) touched: bool,
    pub(crate) cpus: [usize; 2],
}

/// What became of the flows.
#[derive(Debug)]
pub(crate) struct Filling {
    /// Flows that the kernel took and that have no entry, at each of [`LEVELS`].
    pub(crate) lost: [u32; LEVELS.len()],
    /// A hundredth more than there is room for: how many the kernel took and how many it refused.
    pub(crate) beyond: (u64, u64),
    /// Flows without an entry after that.
    pub(crate) lost_beyond: u32,
}

/// Fills a table to beyond its size. No flow ends: all are live.
pub(crate) fn fill(plan: &Plan) -> Filling {
    let table = Table::new(plan.kind, plan.entries);
    let mut inserted = 0;
    let lost = LEVELS.map(|level| {
        let to = part(plan.entries, level);
        let (done, full) = plan.pattern.insert(&table, inserted..to, plan);
        assert_eq!((done, full), (u64::from(to - inserted), 0), "{plan:?}");
        inserted = to;
        to - table.count(0..to)
    });
    let more = plan.entries + part(plan.entries, 1);
    let beyond = plan.pattern.insert(&table, inserted..more, plan);
    let taken = inserted + beyond.0 as u32;
    Filling {
        lost,
        beyond,
        lost_beyond: taken - table.count(0..more),
    }
}

/// So many percent of the entries.
pub(crate) fn part(entries: u32, percent: u32) -> u32 {
    (u64::from(entries) * u64::from(percent) / 100) as u32
}

/// Fills an LRU table up to a level on one CPU, and then updates every flow in it once. How many of
/// them have no entry afterwards.
pub(crate) fn lost_to_updates(entries: u32, level: u32, cpu: usize) -> u32 {
    let table = Table::new(Kind::Lru, entries);
    move_to(cpu);
    let filled = part(entries, level);
    table.run(Action::Insert, &Work::on(0..filled));
    let before = table.present(0..filled);
    let mut start = 0;
    for run in before.chunk_by(|a, b| a == b) {
        let flows = start..start + run.len() as u32;
        start = flows.end;
        if run[0] {
            let work = Work {
                flags: libbpf_sys::BPF_EXIST,
                ..Work::on(flows)
            };
            table.run(Action::Insert, &work);
        }
    }
    let after = table.present(0..filled);
    let lost = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| **before && !**after);
    lost.count() as u32
}

/// Inserts one flow on each CPU but the last, which inserts the others, until one is lost. How many
/// were inserted.
pub(crate) fn first_loss(entries: u32, cpus: &[usize]) -> u32 {
    let table = Table::new(Kind::Lru, entries);
    let mut inserted = 0;
    let (last, others) = cpus.split_last().expect("a CPU");
    let one_each = others.iter().map(|cpu| (cpu, 1));
    let rest = std::iter::repeat((last, (entries / 256).max(1)));
    for (cpu, flows) in one_each.chain(rest) {
        move_to(*cpu);
        table.run(Action::Insert, &Work::on(inserted..inserted + flows));
        inserted += flows;
        if table.count(0..inserted) < inserted {
            break;
        }
    }
    inserted
}
