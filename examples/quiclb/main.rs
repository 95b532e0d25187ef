// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer's tool: plan, apply and watch an instance from the command line.
//!
//! ```text
//! quiclb plan spec.json           what would happen, and how many flows it would move
//! quiclb apply spec.json          publish and attach
//! quiclb status                   which instances there are
//! quiclb status INSTANCE          what one of them does
//! quiclb run INSTANCE             collect its flow state and end its transitions, until SIGTERM
//! ```
//!
//! It works on the network namespace that it is started in, and keeps nothing but what the kernel
//! keeps. Exit codes: 0 done, 1 error, 2 usage, 3 partial, 4 refused, 5 degraded.

mod affinity;
mod apply;
mod args;
mod card;
mod collect;
mod detach;
mod diff;
mod doctor;
mod errors;
mod events;
mod input;
mod plan;
mod probe;
mod run;
mod schema;
mod status;
mod target;
mod trace;
mod upgrade;
mod watch;

#[path = "../common/tool/mod.rs"]
mod tool;

use std::process::ExitCode;

use args::{Cli, Verb};
use tool::{Done, Failure, Output};

fn main() -> ExitCode {
    tool::main(Cli::form, run)
}

fn run(cli: &Cli, output: &Output) -> Result<Done, Failure> {
    let root = cli.state_root();
    match &cli.verb {
        Verb::Probe(arguments) => probe::run(arguments, output),
        Verb::Plan(arguments) => plan::run(arguments, &root, output),
        Verb::Apply(arguments) => apply::run(arguments, &root, output),
        Verb::Status(arguments) => status::run(arguments, &root, output),
        Verb::Events(arguments) => events::run(arguments, &root, output),
        Verb::AffinityExport(arguments) => affinity::export(arguments, &root, output),
        Verb::AffinityImport(arguments) => affinity::import(arguments, &root, output),
        Verb::Run(arguments) => run::run(arguments, &root, output),
        Verb::Detach(arguments) => detach::run(arguments, &root, output),
        Verb::Upgrade(arguments) => upgrade::run(arguments, &root, output),
        Verb::Rollback(arguments) => upgrade::back(arguments, &root, output),
        Verb::Trace(arguments) => trace::run(arguments, &root, output),
        Verb::Doctor(arguments) => doctor::run(arguments, &root, output),
        Verb::Diff(arguments) => diff::run(arguments, &root, output),
        Verb::Watch(arguments) => watch::run(arguments, &root, output),
        Verb::Schema(arguments) => schema::run(arguments, output),
    }
}
