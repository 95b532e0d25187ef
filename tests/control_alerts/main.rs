// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is shipped for operators beside the daemon: alerts, a dashboard and a systemd unit.

#[path = "../egressd_run/daemon.rs"]
#[allow(dead_code)] // a part of it is used
mod daemon;
#[path = "../control_metrics/groups.rs"]
#[allow(dead_code)]
mod groups;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../egressd_run/scrape.rs"]
#[allow(dead_code)]
mod scrape;
#[path = "../control_metrics/strict.rs"]
mod strict;
#[path = "../egress_instance/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/udp6.rs"]
#[allow(dead_code)]
mod udp6;

mod dashboard;
mod evaluate;
mod fleet;
mod known;
mod promql;
mod readme;
mod rules;
mod running;
