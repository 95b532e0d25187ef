// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The systemd unit of egressd: it is one, and the daemon works under its restrictions.

#[path = "../egressd_run/daemon.rs"]
#[allow(dead_code)] // a part of it is used
mod daemon;
#[path = "../tool_egress/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../control_metrics/strict.rs"]
mod strict;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/udp6.rs"]
#[allow(dead_code)]
mod udp6;

mod restricted;
mod seccomp;
mod unit;
mod verbs;
