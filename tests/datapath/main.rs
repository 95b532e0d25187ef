// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The program as it runs in production, against ends that are written down here: what becomes of
//! each kind of frame, byte by byte and counter by counter, where published flows are placed, what
//! is reported, and what it costs the verifier.

#[allow(dead_code)] // a builder for several test programs
#[path = "../flow_parse/build.rs"]
mod build;
mod contradictions;
#[path = "../common/cpus.rs"]
mod cpus;
mod events;
mod generations;
mod machine;
#[path = "../common/netns.rs"]
mod netns;
mod placement;
#[path = "../common/programs.rs"]
mod programs;
mod state;
mod table;
mod verifier;
