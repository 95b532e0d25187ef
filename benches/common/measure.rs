// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What all benches share: CPU time of this thread, one core, medians, rows of the report.

#![allow(dead_code)] // each bench uses a part

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::time::{clock_gettime, ClockId};
use nix::unistd::Pid;

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
