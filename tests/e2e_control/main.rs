// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The control loop and real traffic: tenants behind a node whose loop hears of the kernel's routes
//! and neighbours, shards that are the Linux kernel (seg6local, and NAT66 behind it), and a server.

mod control;
mod daemon;
mod events;
#[path = "../../examples/demo-egress/masquerade.rs"]
mod masquerade;
#[path = "../../examples/common/namespace.rs"]
#[allow(dead_code)]
mod namespace;
#[path = "../../examples/demo-egress/net.rs"]
#[allow(dead_code)]
mod net;
#[path = "../common/netns.rs"]
mod netns;
mod process;
mod silent;
mod steady;
#[path = "../common/tool.rs"]
mod tool;
mod traffic;
mod transitions;
mod world;
