// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Cost of a packet on each path of the egress program, beside a floor: a program that makes room,
//! writes headers that are always the same, and redirects.
//!
//! Every program is called by a driver that undoes what the last run did; what that takes is measured
//! by itself and subtracted. All cases are measured in turn, round by round, and how every run ended is
//! checked outside the timed part. The maps are those of a busy node. Needs root.

#[path = "../common/measure.rs"]
mod measure;
#[path = "../../tests/common/programs.rs"]
mod programs;

mod driver;
mod node;
mod paths;

use std::process::ExitCode;

fn main() -> ExitCode {
    measure::pin();
    let mut limits = measure::Limits::default();
    paths::measure(&mut limits);
    limits.verdict()
}
