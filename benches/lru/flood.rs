// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Quiet flows, all of them live, while new flows flood the table.

use std::ops::Range;

use super::table::{move_to, Action, Kind, Table, Work};

/// Flow numbers of a flood, above those of quiet flows.
const FLOOD: u32 = 1 << 24;
/// New flows from one CPU before it is the other's turn, as with packets that arrive in bursts; and
/// how many later on its CPU a flow sends its second packet.
const BURST: u32 = 256;

/// Who is in the table and what comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    /// Share of the table that quiet flows hold.
    pub(crate) quiet_percent: u32,
    /// Every quiet flow sends a packet once in so many new flows, in units of the table's size.
    pub(crate) beat: Option<f64>,
    /// New flows send two packets and not one.
    pub(crate) two_packets: bool,
    /// What an earlier measurement saw at [`LEVELS`].
    pub(crate) reference: [f64; 4],
}

/// New flows so far, in units of the table's size, at which is counted.
pub(crate) const LEVELS: [f64; 4] = [0.75, 1.0, 2.0, 8.0];
/// The same for a plot.
const STEPS: [f64; 11] = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];

const fn scenario(
    kind: Kind,
    quiet_percent: u32,
    beat: Option<f64>,
    two_packets: bool,
    reference: [f64; 4],
) -> Scenario {
    Scenario {
        kind,
        quiet_percent,
        beat,
        two_packets,
        reference,
    }
}

pub(crate) const SCENARIOS: [Scenario; 11] = [
    scenario(Kind::Lru, 25, None, false, [100.0, 50.0, 50.0, 50.0]),
    scenario(Kind::Lru, 60, None, false, [2.1, 2.1, 2.1, 2.1]),
    scenario(Kind::Lru, 60, Some(1.0), false, [66.5, 66.5, 66.5, 66.5]),
    scenario(Kind::Lru, 25, None, true, [100.0, 0.0, 0.0, 0.0]),
    scenario(Kind::Lru, 25, Some(4.0), true, [100.0, 18.6, 0.0, 0.0]),
    scenario(Kind::Lru, 25, Some(2.0), true, [100.0, 37.2, 0.0, 0.0]),
    scenario(Kind::Lru, 25, Some(1.0), true, [100.0, 74.6, 27.6, 0.0]),
    scenario(Kind::Lru, 25, Some(0.5), true, [100.0, 99.6, 99.6, 99.6]),
    scenario(
        Kind::LruNoCommon,
        25,
        Some(1.0),
        true,
        [100.0, 56.0, 0.0, 0.0],
    ),
    scenario(Kind::Hash, 25, None, true, [100.0; 4]),
    scenario(Kind::Guarded, 25, None, true, [100.0; 4]),
];

impl Scenario {
    pub(crate) fn name(&self) -> String {
        let beat = match self.beat {
            None => "silent".into(),
            Some(every) => format!("a packet every {every} x"),
        };
        let packets = if self.two_packets { "two" } else { "one" };
        format!(
            "{}, {} % quiet, {beat}, {packets}-packet flood",
            self.kind.name(),
            self.quiet_percent
        )
    }
}

/// How the quiet flows fared.
#[derive(Debug)]
pub(crate) struct Survival {
    /// After so many new flows, in units of the table's size: the percentage of quiet flows whose
    /// entry was never lost.
    pub(crate) percent: Vec<(f64, f64)>,
    /// Insertions: those that the kernel did, and those that it refused as too many.
    pub(crate) inserted: u64,
    pub(crate) refused: u64,
    pub(crate) entries: u32,
    pub(crate) quiet: u32,
}

impl Survival {
    /// The percentage after so many new flows.
    pub(crate) fn at(&self, level: f64) -> Option<f64> {
        let mut all = self.percent.iter();
        all.find(|(at, _)| *at == level)
            .map(|(_, percent)| *percent)
    }
}

/// Bursts on one CPU and the other, with the number of the CPU, the first step and how many.
fn turns(cpus: [usize; 2], steps: Range<u32>, mut turn: impl FnMut(u32, u32, u32)) {
    for begin in steps.clone().step_by(BURST as usize) {
        for (number, cpu) in (0..).zip(cpus) {
            move_to(cpu);
            turn(number, begin, BURST.min(steps.end - begin));
        }
    }
}

/// Floods a table with up to `most` times its size. CPUs take turns, so that the result is the same
/// each time; every flow keeps to its CPU.
pub(crate) fn flood(scenario: &Scenario, entries: u32, most: f64, cpus: [usize; 2]) -> Survival {
    let table = Table::new(scenario.kind, entries);
    let each = entries * scenario.quiet_percent / 100 / 2;
    let establish = |first, begin, count| {
        let work = Work {
            first,
            begin,
            count,
            stride: 2,
            touch: 1,
            ..Work::default()
        };
        let (done, _) = table.run(Action::Insert, &work);
        assert_eq!((done.done, done.hits), (count.into(), count.into()));
    };
    turns(cpus, 0..each, establish);
    let quiet = 2 * each;
    assert_eq!(
        table.count(0..quiet),
        quiet,
        "there is room for all of them"
    );

    let beat = scenario
        .beat
        .map_or(0.0, |every| f64::from(quiet) / (every * f64::from(entries)));
    let (mut inserted, mut refused) = (0, 0);
    let mut percent = vec![(0.0, 100.0)];
    let mut sent = 0;
    for level in STEPS.into_iter().filter(|level| *level <= most) {
        let to = (level * f64::from(entries)) as u32 / 2;
        let packets = |number, begin, count| {
            let work = Work {
                first: FLOOD + number,
                begin,
                count,
                stride: 2,
                second_after: if scenario.two_packets { BURST } else { 0 },
                quiet_first: number,
                quiet: each,
                beat: (beat * 65_536.0).round() as u32,
                guarded: (scenario.kind == Kind::Guarded).into(),
                ..Work::default()
            };
            let (done, _) = table.run(Action::Flood, &work);
            assert_eq!(done.failed, 0, "{done:?}");
            inserted += done.done;
            refused += done.full;
        };
        turns(cpus, sent..to, packets);
        sent = to;
        let left = table.count(0..quiet);
        percent.push((level, f64::from(left) * 100.0 / f64::from(quiet)));
    }
    Survival {
        percent,
        inserted,
        refused,
        entries,
        quiet,
    }
}
