// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! The egress tool as its users meet it: the built binary, its exit codes, its documents.

mod applying;
mod damage;
mod detaching;
mod explaining;
mod foreign;
mod keeping;
mod killed_repair;
mod machine;
mod migrating;
mod pinned;
mod place;
mod status;
mod upgrading;
mod usage;

#[path = "../common/capabilities.rs"]
mod capabilities;
#[path = "../common/killing.rs"]
mod killing;
#[path = "../common/maps.rs"]
mod maps;
#[path = "../common/netns.rs"]
mod netns;
#[path = "../common/tool.rs"]
mod tool;
#[path = "../common/udp6.rs"]
mod udp6;

use tool::Ran;

/// Runs the tool, with text output unless the arguments say otherwise.
fn egressd(arguments: &[&str]) -> Ran {
    Ran::with("egressd", arguments)
}

/// Runs the tool with JSON output.
fn egressd_json(arguments: &[&str]) -> Ran {
    egressd(&[&["-o", "json"], arguments].concat())
}
