// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tool of egress shard groups: plan and apply a node's egress from the command line.
//!
//! ```text
//! egressd plan spec.json          what would change, and whom it would move
//! egressd apply spec.json         publish groups, write routes, attach
//! egressd explain 2001:db8::7      which shard an address goes to, and why
//! egressd trace tap0.pcap --interface tap0        what becomes of each frame
//! egressd status                  what it does, and what is wrong
//! egressd pins                    who is held to which shard
//! egressd drain-status            who still needs a shard that drains
//! egressd migrate --pins 262144   other limits, while packets go on
//! egressd retire nat66            a class's group, when no route leads to it
//! egressd detach                  off the interfaces; with --tenant a tenant goes with them
//! egressd upgrade                 this build's program in the place of the one that runs
//! egressd rollback                the program before
//! egressd run                     keep it in line with a list of shards and the network
//! egressd attach tap0 ...         the program and routes for one more tenant's interface
//! egressd check                   whether run would start, and which shards its source lists
//! egressd place --hash-table N --source ADDR --shards SID,...     which shard carries an address
//! ```
//!
//! It works on the network namespace that it is started in, and keeps nothing but what the kernel
//! keeps. Exit codes: 0 done, 1 error, 2 usage, 3 partial, 4 refused, 5 degraded.

mod apply;
mod args;
mod attach;
mod check;
mod detach;
mod drain;
mod errors;
mod explain;
mod migrate;
mod pins;
mod place;
mod plan;
mod retire;
mod run;
mod schema;
mod status;
mod trace;
mod upgrade;

#[path = "../common/tool/mod.rs"]
mod tool;

use std::process::ExitCode;

use args::{Cli, Verb};
use tool::{Done, Failure, Output};

fn main() -> ExitCode {
    tool::main(Cli::form, run)
}

fn run(cli: &Cli, output: &Output) -> Result<Done, Failure> {
    let state = cli.state();
    match &cli.verb {
        Verb::Plan(arguments) => plan::run(arguments, &cli.flags(&arguments.flags), &state, output),
        Verb::Apply(arguments) => apply::run(arguments, &state, output),
        Verb::Explain(arguments) => explain::run(arguments, &state, output),
        Verb::Trace(arguments) => trace::run(arguments, &state, output),
        Verb::Status => status::run(&state, output),
        Verb::Pins(arguments) => pins::run(arguments, &state, output),
        Verb::DrainStatus(arguments) => drain::run(arguments, &state, output),
        Verb::Migrate(arguments) => migrate::run(arguments, &state, output),
        Verb::Retire(arguments) => retire::run(arguments, &state, output),
        Verb::Detach(arguments) => detach::run(arguments, &state, output),
        Verb::Upgrade(arguments) => upgrade::run(arguments, &state, output),
        Verb::Rollback(arguments) => upgrade::back(arguments, &state, output),
        Verb::Place(arguments) => place::run(arguments, output),
        Verb::Run(arguments) => run::run(arguments, &cli.flags(&arguments.flags), output),
        Verb::Attach(arguments) => attach::run(arguments, &cli.flags(&arguments.flags), output),
        Verb::Check(arguments) => check::run(arguments, &cli.flags(&arguments.flags), output),
        Verb::Schema(arguments) => schema::run(arguments, output),
    }
}
