// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tool of egress shard groups.
//!
//! ```text
//! egressd place --hash-table N --source ADDR --shards SID,...     which shard carries an address
//! ```
//!
//! Exit codes: 0 done, 1 error, 2 usage, 3 partial, 4 refused, 5 degraded.

mod args;
mod place;

#[path = "../common/tool/mod.rs"]
mod tool;

use std::process::ExitCode;

use args::{Cli, Verb};
use tool::{Done, Failure, Output};

fn main() -> ExitCode {
    tool::main(Cli::form, run)
}

fn run(cli: &Cli, output: &Output) -> Result<Done, Failure> {
    match &cli.verb {
        Verb::Place(arguments) => place::run(arguments, output),
    }
}
