// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The collector on live instances: what it sweeps, whom it admits, what it publishes by itself.

mod backends;
#[path = "../common/cpus.rs"]
mod cpus;
mod flooded;
mod forgotten;
mod harness;
mod interfaces;
mod killed;
mod levels;
#[path = "../common/netns.rs"]
mod netns;
mod room;
mod sweeping;
mod touched;
mod transition;
