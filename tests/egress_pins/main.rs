// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Pins on the kernel: what packets make of them, and what removes them.

#[path = "../common/cpus.rs"]
mod cpus;
#[path = "../egress/frames.rs"]
#[allow(dead_code)]
mod frames;
#[path = "../egress/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../egress/reference.rs"]
#[allow(dead_code)]
mod reference;

mod beside;
mod instance;
mod many;
mod packets;
mod pressure;
mod scene;
mod status;
mod sweep;
mod together;
