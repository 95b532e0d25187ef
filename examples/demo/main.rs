// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer on real traffic: hundreds of QUIC connections through the XDP program, while
//! a backend drains, a weight changes, all clients migrate, and a backend dies; then as many whose
//! servers know nothing of the balancer, while backends drain and weights change.
//!
//! ```text
//! cargo run --example demo [CONNECTIONS [BACKENDS]]      as root; exits 0 if everything held
//! ```
//!
//! Everything it makes (namespaces, interfaces, programs, maps) belongs to the process and goes
//! with it, also on Ctrl-C or `kill -9`.

mod cid;
mod fleet;
mod lb;
mod net;
#[allow(dead_code)] // the tests with real traffic use this module too, and more of it
mod quic;
mod scenario;
mod show;
#[allow(dead_code)] // as above
mod spec;

use std::process::ExitCode;

use scenario::Options;
use show::Screen;
use tokio::signal::unix::{signal, SignalKind};

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!(
            "usage: demo [CONNECTIONS [BACKENDS]]   (at least 100 and 3, at most 5000 and 64)"
        );
        return ExitCode::from(2);
    };
    if !nix::unistd::geteuid().is_root() {
        eprintln!("The demo makes network namespaces and loads a BPF program: run it as root.");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            code = demo(&options) => code,
            name = interrupted() => {
                eprintln!("\n{name}: everything this demo made goes with it");
                ExitCode::from(130)
            }
        }
    })
}

async fn demo(options: &Options) -> ExitCode {
    let mut screen = Screen::new();
    match scenario::run(options, &mut screen).await {
        Ok(faults) if faults.is_empty() => {
            screen.say(
                "PASS: 0 connections broke but those of the backend that died in the first act.",
            );
            ExitCode::SUCCESS
        }
        Ok(faults) => {
            screen.say(&format!("FAIL:\n  {}", faults.join("\n  ")));
            ExitCode::FAILURE
        }
        Err(error) => {
            screen.say(&format!("FAIL: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C or the like. A signal that cannot be caught ends the process by itself.
async fn interrupted() -> &'static str {
    let wait = |kind: SignalKind, name: &'static str| async move {
        match signal(kind) {
            Ok(mut caught) => caught.recv().await,
            Err(_) => std::future::pending().await,
        };
        name
    };
    tokio::select! {
        name = wait(SignalKind::interrupt(), "interrupted") => name,
        name = wait(SignalKind::terminate(), "terminated") => name,
        name = wait(SignalKind::hangup(), "hung up") => name,
    }
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1);
    let connections = arguments
        .next()
        .map_or(Some(400), |text| text.parse().ok())?;
    let backends = arguments.next().map_or(Some(4), |text| text.parse().ok())?;
    let legal = (100..=5000).contains(&connections) && (3..=64).contains(&backends);
    (legal && arguments.next().is_none()).then_some(Options {
        connections,
        backends,
    })
}
