// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The control loop as a daemon: `egressd run` against the kernel of a network namespace.

mod attaching;
mod changes;
mod daemon;
mod ends;
mod foreseen;
mod interfaces;
mod liveness;
mod overrun;
mod refused;
mod remedies;
mod scrape;
mod shown;
mod source;
mod watched;

#[path = "../common/capabilities.rs"]
mod capabilities;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/routes.rs"]
#[allow(dead_code)]
mod routes;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/udp6.rs"]
mod udp6;
