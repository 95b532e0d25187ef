// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The tool as its users meet it: the built binary, its exit codes, its documents, in namespaces of
//! the tests' own making.

mod affinity;
mod around;
mod damage;
mod documents;
mod foreign;
mod harness;
mod keys;
mod killed_repair;
mod killed_root_array;
mod life;
mod limits;
mod offload;
mod planning;
mod promises;
mod refusals;
mod root_array;
mod run;
mod targets;
mod tracing;
mod upgrading;
mod usage;
mod watching;

#[path = "../common/capabilities.rs"]
mod capabilities;
#[path = "../common/killing.rs"]
mod killing;
#[path = "../common/maps.rs"]
mod maps;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/programs.rs"]
mod programs;
#[path = "../common/tool.rs"]
mod tool;
