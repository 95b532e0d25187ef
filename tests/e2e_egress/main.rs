// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! A tenant's real traffic through the egress program to a shard that is the Linux kernel: its
//! seg6local takes the outer header off (End.DX6 and End.DX4, RFC 8986) and sends the packet on to a
//! server.

mod answers;
#[path = "../egress/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../egress/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../../examples/demo/net.rs"]
#[allow(dead_code)]
mod net;
#[path = "../common/netns.rs"]
mod netns;
mod raw;
#[path = "../egress/reference.rs"]
#[allow(dead_code)]
mod reference;
mod transfer;
mod wire;
mod world;
