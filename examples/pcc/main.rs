// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A simulator of per-connection consistency: how many connections break while the servers behind a
//! load balancer are upgraded, and what it takes that none does.
//!
//! ```text
//! pcc                                     tables for people
//! pcc -o json --rates 1,10,40             one JSON object
//! pcc --svg pcc.svg                       a picture, too
//! pcc --connections 500 --seconds 200     a small run
//! ```
//!
//! Tables are built, slots marked, packets placed and bindings exchanged by the code of the crate
//! that balancers run; the LRU table and the policy that remembers nothing are for comparison. The
//! guide's page on the simulation says what is simulated and what it shows.

mod args;
mod balancer;
mod contest;
mod fleet;
mod lru;
mod plot;
mod policy;
mod random;
mod report;
mod several;
#[path = "../common/svg.rs"]
mod svg;
mod traffic;

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use guideway::maglev::BuildError;

use args::{Cli, Form};
use contest::{Contest, Setup};
use report::Document;

fn main() -> ExitCode {
    let cli = Cli::read();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let setup = cli.setup();
    let failure = |error: io::Error| match &cli.svg {
        Some(file) => format!("{}: {error}", file.display()),
        None => error.to_string(),
    };
    // What cannot be written should be known before minutes have passed.
    let svg = cli.svg.as_ref().map(File::create).transpose();
    let svg = svg.map_err(failure)?;
    let contests = simulate(&setup, &cli.rates).map_err(|error| error.to_string())?;
    let text = match cli.output {
        Form::Text => report::text(&setup, &contests),
        Form::Json => {
            let document = Document::new(&contests, cli.details);
            serde_json::to_string(&document).map_err(|error| error.to_string())? + "\n"
        }
    };
    if let Some(mut svg) = svg {
        svg.write_all(plot::draw(&contests).as_bytes())
            .map_err(failure)?;
    }
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Simulates each rate, as many at a time as there are CPUs.
fn simulate(setup: &Setup, rates: &[u32]) -> Result<Vec<Contest>, BuildError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Some((number, *rates.get(number)?))
        };
        std::iter::from_fn(take)
            .map(|(number, rate)| (number, Contest::run(setup, rate)))
            .collect::<Vec<_>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut contests: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.min(rates.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results
            .flat_map(|result| result.expect("no simulation panics"))
            .collect()
    });
    contests.sort_by_key(|(number, _)| *number);
    contests.into_iter().map(|(_, contest)| contest).collect()
}
