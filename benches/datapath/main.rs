// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Cost of a packet on each path of the load balancer, beside a floor: a program that parses to the
//! UDP header, reads a row of an array, writes a MAC address and redirects.
//!
//! Every program is called by a driver that writes another client into the packet each time; what
//! the driver costs by itself, with as many clients, is subtracted. All cases are measured in turn,
//! round by round, and what they decide is checked outside the timed part. Needs root.
//!
//! `cargo bench --bench datapath -- state` measures one part of it alone.

#[path = "../common/measure.rs"]
mod measure;
#[path = "../../tests/common/programs.rs"]
mod programs;

mod bare;
mod kernel;
mod keys;
mod paths;
mod state;

use std::process::ExitCode;

fn main() -> ExitCode {
    measure::pin();
    let mut limits = measure::Limits::default();
    let bench = kernel::Bench::load();
    if measure::is_wanted("paths") {
        paths::measure(&bench, &mut limits);
    }
    if measure::is_wanted("state") {
        state::measure(&bench, &mut limits);
    }
    limits.verdict()
}
