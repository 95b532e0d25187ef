// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The load balancer on a network card, as far as a machine without one can tell: what the object
//! consists of, what its program does with packets in the kernel, and how it is published.

#[allow(dead_code)] // a builder for several test programs
#[path = "../flow_parse/build.rs"]
mod build;
mod datapath;
#[allow(dead_code)]
#[path = "../differential/frames.rs"]
mod frames;
mod killed;
#[path = "../common/killing.rs"]
mod killing;
mod machine;
#[path = "../common/netns.rs"]
mod netns;
mod object;
#[allow(dead_code)]
#[path = "../differential/payloads.rs"]
mod payloads;
#[allow(dead_code)]
#[path = "../differential/pool.rs"]
mod pool;
mod publishing;
#[allow(dead_code)]
#[path = "../differential/random.rs"]
mod random;
mod scene;
#[allow(dead_code)]
#[path = "../differential/specs.rs"]
mod specs;

/// The least that a program can be run on.
const LEAST_FRAME: usize = 14;
