// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Times of several pieces of work that are to be compared: in turn, round by round, on one core,
//! in CPU time of this thread, so that whatever else the machine does meets all of them alike.

use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::measure::{cpu_time, Limits};

/// One line of the report.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) part: &'static str,
    pub(crate) case: String,
    pub(crate) members: usize,
    pub(crate) size: u32,
    /// Median time.
    pub(crate) ms: f64,
    /// The time in relation to that of `against`.
    pub(crate) ratio: f64,
    pub(crate) against: &'static str,
    /// The greatest ratio that is acceptable, if one is set.
    pub(crate) target: Option<f64>,
}

/// Pieces of work to be timed side by side; each returns what the optimizer must not drop.
pub(crate) type Work<'w> = Box<dyn FnMut() -> u64 + 'w>;

/// The median time of each of `works`, over `rounds` rounds after one that does not count.
pub(crate) fn medians<const N: usize>(rounds: usize, mut works: [Work<'_>; N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for (work, times) in works.iter_mut().zip(&mut times) {
            let start = cpu_time();
            std::hint::black_box(work());
            let time = cpu_time() - start;
            if round > 0 {
                times.push(time);
            }
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// What the times were taken on.
pub(crate) fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or("?", |(_, value)| value.trim())
            .to_owned()
    };
    let cores = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    format!(
        "{}, {cores} cores, Linux {}",
        field("model name"),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

pub(crate) fn print_header() {
    println!("{}", machine());
    println!(
        "{:<34} {:>7} {:>8} {:>9} {:>7} {:>7}  against",
        "case", "members", "size", "ms", "ratio", "target"
    );
}

/// Prints a row, appends it to the file that `GW_BENCH_JSON` names, one JSON object a line, and
/// notes its limit.
pub(crate) fn report(row: &Row, limits: &mut Limits) {
    let Row {
        case,
        members,
        size,
        ms,
        ratio,
        against,
        target,
        ..
    } = row;
    if let Some(target) = *target {
        let what = format!("{case}, {members} members, {size} slots, over {against}");
        limits.at_most(target, what, *ratio);
    }
    let target = target.map_or(String::new(), |target| format!("{target:.3}"));
    println!("{case:<34} {members:>7} {size:>8} {ms:>9.3} {ratio:>7.3} {target:>7}  {against}");
    crate::measure::report(&serde_json::to_value(row).expect("plain fields"));
}
