// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress program on the kernel: each packet's end, its bytes and what was counted.

mod answers;
#[path = "../differential/random.rs"]
#[allow(dead_code)]
mod chance;
#[path = "../common/cpus.rs"]
mod cpus;
mod events;
#[allow(dead_code)]
mod frames;
mod groups;
mod labels;
mod lengths;
mod machine;
mod model;
mod mss;
#[path = "../common/netns.rs"]
mod netns;
mod open;
mod ordinary;
mod races;
mod random;
mod reference;
mod worlds;
