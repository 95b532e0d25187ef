// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What all benches share: CPU time of this thread, one core, medians, limits, rows of the report.

#![allow(dead_code)] // each bench uses a part

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::time::{clock_gettime, ClockId};
use nix::unistd::Pid;

/// Whether all is to be measured: `cargo test` builds and runs benches too, without this flag, and
/// that they run is enough there.
pub(crate) fn is_full() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Whether a part of a bench is to be measured: all are, unless the command line names some.
pub(crate) fn is_wanted(part: &str) -> bool {
    let named: Vec<_> = std::env::args().skip(1).collect();
    let mut named = named.iter().filter(|argument| !argument.starts_with("--"));
    named.clone().next().is_none() || named.any(|argument| argument == part)
}

/// CPU time of this thread: what else the machine does is not in it.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .expect("the thread's clock")
        .into()
}

/// Stays on the last of the cores that this process may use; the first has the most interrupts.
pub(crate) fn pin() {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).expect("the cores of this process");
    let last = (0..CpuSet::count())
        .rev()
        .find(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.expect("a core")).expect("a core");
    sched_setaffinity(this, &one).expect("the core is ours to use");
}

/// Median and distance between the quartiles.
pub(crate) fn summary(samples: &mut [f64]) -> (f64, f64) {
    samples.sort_unstable_by(f64::total_cmp);
    let at = |quarter: usize| samples[(samples.len() - 1) * quarter / 4];
    (at(2), at(3) - at(1))
}

/// Values that were measured in turn, round by round, each under its name.
#[derive(Default)]
pub(crate) struct Rounds {
    values: BTreeMap<String, Vec<f64>>,
}

impl Rounds {
    pub(crate) fn push(&mut self, name: &str, value: f64) {
        self.values.entry(name.into()).or_default().push(value);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Median and distance between the quartiles of one of them.
    pub(crate) fn summary(&self, name: &str) -> (f64, f64) {
        summary(&mut self.values[name].clone())
    }

    /// The least of one of them: of the round that was disturbed least.
    pub(crate) fn fastest(&self, name: &str) -> f64 {
        self.values[name]
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
    }

    /// The median of what `of` makes of each round's values: what happens to the machine meets all
    /// values of a round alike.
    pub(crate) fn median(&self, of: impl Fn(&dyn Fn(&str) -> f64) -> f64) -> f64 {
        let rounds = self.values.values().map(Vec::len).min().unwrap_or(0);
        let mut results: Vec<_> = (0..rounds)
            .map(|round| of(&|name| self.values[name][round]))
            .collect();
        summary(&mut results).0
    }
}

/// What was measured, against what it may be at most.
#[derive(Default)]
pub(crate) struct Limits {
    checks: Vec<(String, f64, f64)>,
}

impl Limits {
    pub(crate) fn at_most(&mut self, limit: f64, what: impl Into<String>, measured: f64) {
        self.checks.push((what.into(), measured, limit));
    }

    /// Ends the bench: prints each value beside its limit, and fails a full run that exceeds one.
    pub(crate) fn verdict(self) -> ExitCode {
        if !is_full() {
            return ExitCode::SUCCESS;
        }
        println!("\n{:<72} {:>9} {:>9}", "limit", "measured", "at most");
        for (what, measured, limit) in &self.checks {
            println!("{what:<72} {measured:>9.2} {limit:>9.2}");
            report(&serde_json::json!({
                "part": "limit", "case": what, "measured": measured, "at_most": limit,
            }));
        }
        let checks = self.checks.iter();
        // What is not a number is not within its limit either.
        let exceeded: Vec<_> = checks
            .filter(|(_, measured, limit)| measured.partial_cmp(limit).is_none_or(Ordering::is_gt))
            .collect();
        if exceeded.is_empty() {
            return ExitCode::SUCCESS;
        }
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        println!(
            "\nload average, which makes all of it slower: {}",
            load.trim()
        );
        println!(
            "{} of {} limits exceeded:",
            exceeded.len(),
            self.checks.len()
        );
        for (what, measured, limit) in exceeded {
            println!("  {what}: {measured:.3}, at most {limit:.3}");
        }
        ExitCode::FAILURE
    }
}

/// Appends a row to the file that `GW_BENCH_JSON` names, one JSON object a line.
pub(crate) fn report(row: &serde_json::Value) {
    let Some(path) = std::env::var_os("GW_BENCH_JSON").map(PathBuf::from) else {
        return;
    };
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{row}"))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
