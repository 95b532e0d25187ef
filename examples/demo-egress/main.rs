// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress datapath on real traffic: hundreds of tenants whose TCP connections leave through
//! shards that decapsulate (Linux's seg6local) and translate addresses (Linux's NAT66), while a
//! shard is added, drained, lost and removed.
//!
//! ```text
//! cargo run --example demo-egress [TENANTS [PIN_IDLE]]      as root; exits 0 if everything held
//! ```
//!
//! A connection that changes its shard breaks, as no other shard's NAT knows it: the demo counts
//! them. With `0s` for PIN_IDLE there are no pins, and it shows what they are for. Everything it makes (namespaces, interfaces, programs, maps) belongs to the process and goes
//! with it, also on Ctrl-C or `kill -9`.

mod client;
mod fleet;
mod masquerade;
#[path = "../common/namespace.rs"]
#[allow(dead_code)] // other demos use more of it
mod namespace;
mod net;
mod node;
mod scenario;
#[path = "../common/screen.rs"]
mod screen;
mod server;
mod show;
mod spec;
#[path = "../common/stage.rs"]
mod stage;

use std::process::ExitCode;

use net::TENANTS;
use nix::libc;
use scenario::Options;
use screen::Screen;

fn main() -> ExitCode {
    let Some(options) = options() else {
        let (least, most) = (TENANTS.start(), TENANTS.end());
        eprintln!(
            "usage: demo-egress [TENANTS [PIN_IDLE]]   (tenants: at least {least}, at most {most})"
        );
        return ExitCode::from(2);
    };
    if let Err(error) = allow_many_files() {
        eprintln!("cannot raise the limit of open files: {error}");
    }
    stage::perform(async {
        let mut screen = Screen::new();
        let faults = scenario::run(&options, &mut screen).await;
        stage::verdict(
            &mut screen,
            faults,
            "0 connections broke but those of the shard that was lost, and every new address\n\
             landed where the plan puts it.",
        )
    })
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1);
    let tenants = arguments
        .next()
        .map_or(Some(240), |text| text.parse().ok())?;
    // 2 hours and 4 minutes, the default, would be too long to watch.
    let pin_idle = arguments.next().unwrap_or("5s".to_owned());
    let legal = TENANTS.contains(&tenants) && arguments.next().is_none();
    legal.then_some(Options { tenants, pin_idle })
}

/// Raises the limit of open files as far as it may be: both ends of all connections are here.
fn allow_many_files() -> std::io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one such structure, which outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads one such structure, which outlives the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
