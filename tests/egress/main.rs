// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress program on the kernel: each packet's end, its bytes and what was counted.

mod answers;
#[path = "../differential/random.rs"]
#[allow(dead_code)]
mod chance;

mod events;
#[allow(dead_code)]
mod frames;
mod groups;
mod labels;
mod lengths;
mod machine;
mod model;
mod mss;
#[path = "../common/netns.rs"]
mod netns;
mod open;
mod ordinary;
mod races;
mod random;
mod reference;
mod worlds;

/// Keeps the calling thread on the processor that it is on: limits are of each.
fn one_processor() {
    use nix::sched::{sched_getcpu, sched_setaffinity, CpuSet};
    let mut here = CpuSet::new();
    let cpu = sched_getcpu().expect("a processor");
    here.set(cpu).expect("a processor");
    sched_setaffinity(nix::unistd::Pid::from_raw(0), &here).expect("pinned to it");
}
