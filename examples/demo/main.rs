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
#[path = "../common/screen.rs"]
mod screen;
mod show;
#[allow(dead_code)] // as above
mod spec;
#[path = "../common/stage.rs"]
mod stage;

use std::process::ExitCode;

use scenario::Options;
use screen::Screen;

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!(
            "usage: demo [CONNECTIONS [BACKENDS]]   (at least 100 and 3, at most 5000 and 64)"
        );
        return ExitCode::from(2);
    };
    stage::perform(async {
        let mut screen = Screen::new();
        let faults = scenario::run(&options, &mut screen).await;
        stage::verdict(
            &mut screen,
            faults,
            "0 connections broke but those of the backend that died in the first act.",
        )
    })
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
