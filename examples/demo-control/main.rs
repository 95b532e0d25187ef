// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The control loop on real traffic, without a cluster: `egressd run` keeps a node in line with
//! manifests in a directory and with what its uplinks reach, while tenants' TCP connections go on.
//!
//! ```text
//! cargo build --example egressd
//! cargo run --example demo-control [TENANTS]      as root; exits 0 if everything held
//! ```
//!
//! Nobody tells the daemon anything: a file appears, changes, or a shard's link goes down. It is
//! killed at last, and started again. Everything that is made belongs to the process and goes with it,
//! but for the directory of manifests after `kill -9`.

#[path = "../demo-egress/client.rs"]
#[allow(dead_code)] // the other demo uses more of it
mod client;
#[path = "../demo-egress/fleet.rs"]
#[allow(dead_code)]
mod fleet;
#[path = "../demo-egress/masquerade.rs"]
mod masquerade;
#[path = "../common/namespace.rs"]
#[allow(dead_code)]
mod namespace;
#[path = "../demo-egress/net.rs"]
#[allow(dead_code)]
mod net;
mod node;
mod scenario;
#[path = "../common/screen.rs"]
#[allow(dead_code)]
mod screen;
#[path = "../demo-egress/server.rs"]
mod server;
#[path = "../demo-egress/show.rs"]
mod show;
#[path = "../demo-egress/spec.rs"]
#[allow(dead_code)]
mod spec;
#[path = "../common/stage.rs"]
mod stage;

use std::process::ExitCode;

use net::TENANTS;
use screen::Screen;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let tenants = arguments.next().map_or(Some(48), |text| text.parse().ok());
    let legal = |tenants: &u32| TENANTS.contains(tenants) && arguments.next().is_none();
    let Some(tenants) = tenants.filter(legal) else {
        let (least, most) = (TENANTS.start(), TENANTS.end());
        eprintln!("usage: demo-control [TENANTS]   (tenants: at least {least}, at most {most})");
        return ExitCode::from(2);
    };
    stage::perform(async move {
        let mut screen = Screen::new();
        let faults = scenario::run(tenants, &mut screen).await;
        stage::verdict(
            &mut screen,
            faults,
            "0 connections broke but those of the shards that went, and every new address\n\
             landed where the published table puts it.",
        )
    })
}
