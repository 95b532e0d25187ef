// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The Kubernetes source against a server that misbehaves in ways that a real one does not on demand,
//! and the daemon that is told by it which shards there are.

mod cluster;
#[path = "../egressd_run/daemon.rs"]
#[allow(dead_code)]
mod daemon;
mod errors;
mod groups;
mod life;
mod lists;
mod manifests;
#[path = "../common/netns.rs"]
mod netns;
mod process;
#[path = "../egressd_run/scrape.rs"]
mod scrape;
mod support;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/udp6.rs"]
mod udp6;
mod watches;
