// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What every demo begins and ends with.

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;

use tokio::signal::unix::{signal, SignalKind};

use super::screen::Screen;

/// Runs a demo as root until it ends or is interrupted.
pub(crate) fn perform(demo: impl Future<Output = ExitCode>) -> ExitCode {
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
            code = demo => code,
            name = interrupted() => {
                eprintln!("\n{name}: everything this demo made goes with it");
                ExitCode::from(130)
            }
        }
    })
}

/// Prints what did not hold, or that everything did: `pass` says what that is.
pub(crate) fn verdict(
    screen: &mut Screen,
    faults: Result<Vec<String>, Box<dyn Error + Send + Sync>>,
    pass: &str,
) -> ExitCode {
    match faults {
        Ok(faults) if faults.is_empty() => {
            screen.say(&format!("PASS: {pass}"));
            return ExitCode::SUCCESS;
        }
        Ok(faults) => screen.say(&format!("FAIL:\n  {}", faults.join("\n  "))),
        Err(error) => screen.say(&format!("FAIL: {error}")),
    }
    ExitCode::FAILURE
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
