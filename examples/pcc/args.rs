// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

use crate::contest::Setup;

/// Connections of a run, at most. Each takes about 150 bytes for each rate that is simulated.
const MOST_CONNECTIONS: u64 = 50_000_000;
/// Rates of one run, at most.
const MOST_RATES: usize = 16;

/// Simulates how many connections break, and how much is remembered, while servers behind a load
/// balancer are upgraded.
///
/// Every policy gets the same packets and the same changes of the table. A connection breaks when a
/// packet reaches another server than its first while that server is still there.
#[derive(Debug, Parser)]
#[command(name = "pcc", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Form of the output
    #[arg(short, long, value_enum, default_value = "text")]
    pub(crate) output: Form,

    /// Updates per minute, one simulation for each: a server goes down and comes back
    #[arg(
        long, value_name = "N,N...", value_delimiter = ',', default_values_t = [1, 10, 40],
        value_parser = clap::value_parser!(u32).range(1..=600)
    )]
    pub(crate) rates: Vec<u32>,

    /// Connections at a time that traffic leads to
    #[arg(
        long, value_name = "N", default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(100..=1_000_000)
    )]
    connections: u32,

    /// Seconds to simulate
    #[arg(
        long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    seconds: u32,

    /// Servers
    #[arg(
        long, value_name = "N", default_value_t = 468,
        value_parser = clap::value_parser!(u16).range(2..=60_000)
    )]
    servers: u16,

    /// Seconds for which a server takes no new connections before it goes
    #[arg(
        long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=100_000)
    )]
    drain: u32,

    /// Where the random numbers begin: the same seed gives the same output
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Add to the JSON what the text says of exceptions: entries, open slots, a table too small
    #[arg(long)]
    pub(crate) details: bool,

    /// Also draw violations and entries into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

impl Cli {
    /// The command line of this process; ends it if that makes no sense.
    pub(crate) fn read() -> Self {
        let cli = Self::parse();
        let fail = |message: String| -> ! {
            Self::command()
                .error(ErrorKind::ValueValidation, message)
                .exit()
        };
        let mut rates = cli.rates.clone();
        rates.sort_unstable();
        if let Some(pair) = rates.windows(2).find(|pair| pair[0] == pair[1]) {
            fail(format!("--rates has {} twice", pair[0]));
        }
        if rates.len() > MOST_RATES {
            fail(format!(
                "--rates has {} values, at most {MOST_RATES} are allowed",
                rates.len()
            ));
        }
        let setup = cli.setup();
        if setup.expected() > MOST_CONNECTIONS {
            fail(format!(
                "--connections {} for --seconds {} comes to {} connections, at most \
                 {MOST_CONNECTIONS} are simulated",
                cli.connections,
                cli.seconds,
                setup.expected()
            ));
        }
        cli
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            seed: self.seed,
            connections: self.connections,
            seconds: self.seconds,
            servers: self.servers,
            drain: self.drain,
        }
    }
}
