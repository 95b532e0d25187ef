// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `run`: the loop that keeps this node's egress in line with its shards.
//!
//! One thread waits for the network, the list of shards, signals and time; another one sweeps. A
//! third one answers scrapes. Whatever ends, the kernel forwards on by what was published last.

pub(crate) mod config;
mod control;
mod counting;
mod health;
mod http;
mod inputs;
mod log;
mod notify;
pub(crate) mod plan;
mod preflight;
mod reload;
mod report;
mod signals;
mod state;
mod told;
mod waiting;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;

use guideway::control::machine::Machine;
use guideway::egress::pins::Table;
use guideway::error::ErrorKind;

use crate::args::RunArgs;
use crate::tool::{json, Done, Failure, Output};
use config::{load, Flags};
use control::{timing, Control};
use counting::Counting;
use health::{Answers, Health};
use log::Log;
use notify::Notify;
use signals::signals;
pub(crate) use worker::now;
use worker::Worker;

pub(crate) fn run(arguments: &RunArgs, flags: &Flags, output: &Output) -> Result<Done, Failure> {
    let loaded = load(flags)?;
    if arguments.print_config {
        match output.is_json() {
            true => output.print(&json(&loaded.document()))?,
            false => output.print(&loaded.text())?,
        };
        return Ok(Done::Well);
    }
    let config = loaded.config;
    let notify = Notify::from_env().map_err(Failure::usage)?;
    let log = Log::new(output.is_json());
    // Threads that start later leave the signals alone, too.
    let signals = signals()?;
    let lacks = preflight::preflight(&config, &log)?;
    let opened = state::open(&config)?;
    let how = if opened.made { "made" } else { "opened" };
    log.info("state", &format!("{how} {}", opened.dir.path().display()));
    for repair in &opened.repaired {
        log.warning("state", &repair.to_string());
    }
    let upgraded = opened.upgraded.as_ref();
    let program = upgraded.map(|upgraded| report::upgraded(upgraded, &log));
    let source = inputs::source(&config.source)?;
    let monitor = inputs::monitor(&config, &log)?;
    let counting = Counting::new(&config, lacks);
    let health = Arc::new(Health::new(config.sweep, program));
    let _server = match config.metrics {
        // One sweep is over before anybody asks.
        Some(address) if !arguments.once => {
            let mut answers =
                Answers::new(Arc::clone(&health), counting.shared(), opened.dir.clone());
            let answer = move |request: &http::Request| answers.to(request);
            let server = http::Server::start(address, http::Limits::default(), answer);
            let server = server.map_err(|error| {
                let message = format!("cannot serve metrics at {address}: {error}");
                Failure::new(ErrorKind::Io, message).about(address)
            })?;
            log.info("metrics", &format!("served at http://{}", server.address()));
            Some(server)
        }
        _ => None,
    };
    let worker = Worker::start(opened.dir.clone(), Arc::clone(&health))
        .map_err(|error| Failure::new(ErrorKind::Kernel, format!("no thread: {error}")))?;
    let control = Control {
        flags: flags.clone(),
        machine: Machine::new(timing(&config), now()),
        config,
        source,
        monitor,
        deaf: Default::default(),
        worker,
        dir: opened.dir.clone(),
        signals,
        log,
        notify,
        health,
        counting,
        watched: BTreeSet::new(),
        expiring: Table::ALL[0],
        untidy: Vec::new(),
        ready: false,
        refused: 0,
        configuration: 0,
        once: arguments.once,
    };
    match arguments.once {
        true => control.once(),
        false => control.run(),
    }
}
