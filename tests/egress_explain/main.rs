// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What is said of a packet is what the program does with it.

#[path = "../differential/random.rs"]
#[allow(dead_code)]
mod chance;
#[path = "../egress/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../egress_instance/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../common/udp6.rs"]
mod udp6;

mod address;
mod packets;
mod scene;
mod states;
mod trace;
