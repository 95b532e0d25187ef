// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! What both tools say of a program that was exchanged, and of what an instance had lost.

use guideway::quiclb::{Build, ProgramChange, Repair, Seen, SeenHow};

/// A line for each thing that had been lost.
pub(crate) fn repairs_text(repairs: &[Repair]) -> String {
    let line = |repair: &Repair| format!("  {repair}\n");
    repairs.iter().map(line).collect()
}

/// The programs.
pub(crate) fn program_text(change: &ProgramChange) -> String {
    let line = |id: u32, tag: &str, build: &Option<Build>| {
        let build = match build {
            Some(build) => format!("build {build}"),
            None => "a build that kept no record".to_owned(),
        };
        format!("program {id}, tag {tag}, {build}")
    };
    let new = line(change.new_program_id, &change.new_tag, &change.new_build);
    if change.old_program_id == change.new_program_id {
        return format!("  {new}\n");
    }
    let old = line(change.old_program_id, &change.old_tag, &change.old_build);
    format!("  runs    {new}\n  before  {old}\n")
}

/// What was seen of the new one.
pub(crate) fn seen_text(seen: &Seen) -> String {
    let waited = seen.waited_ms;
    match seen.verification {
        SeenHow::Counted => {
            let packets = seen.packets;
            format!("  verified: packets counted: {packets}, the first within {waited:.1} ms\n")
        }
        SeenHow::Idle => format!("  no packet came within {waited:.0} ms: it runs, untried\n"),
        SeenHow::Detached => "  on no interface: it runs with the next attachment\n".to_owned(),
        _ => String::new(),
    }
}
