// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Sweeping: which entries go, which stay, and that a pass sees each once.

mod bind;
mod busy;
mod churn;
#[path = "../common/cpus.rs"]
mod cpus;
mod interrupted;
mod machine;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/programs.rs"]
mod programs;
mod reasons;
#[path = "../common/stops.rs"]
mod stops;
mod tools;
mod touch;
