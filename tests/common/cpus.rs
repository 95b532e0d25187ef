// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Which CPU a thread of a test runs on.

#![allow(dead_code)] // each test binary uses a part

use nix::sched::{sched_getaffinity, sched_getcpu, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Keeps the calling thread on one of the CPUs that this process may use, numbered from 0; two
/// numbers are the same one where there is no other.
pub(crate) fn stay_on(number: usize) {
    // Of the process's first thread, which stays nowhere.
    let allowed = sched_getaffinity(Pid::this()).expect("ours");
    let cpus: Vec<usize> = (0..CpuSet::count())
        .filter(|&cpu| allowed.is_set(cpu).expect("a CPU"))
        .collect();
    keep(cpus[number % cpus.len()]);
}

/// Keeps the calling thread on the CPU that it is on.
pub(crate) fn stay_here() {
    keep(sched_getcpu().expect("a CPU"));
}

fn keep(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).expect("a CPU");
    sched_setaffinity(Pid::from_raw(0), &one).expect("ours to use");
}
