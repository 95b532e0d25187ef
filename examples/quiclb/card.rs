// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances on network cards: what they do, and the age of their flows.

use std::io::{stderr, Write};

use guideway::quiclb::hardware::{Aged, CardStatus, EPOCH};
use guideway::quiclb::{HardwareWriter, StateDir};

use crate::collect::Collecting;
use crate::run::End;
use crate::tool::text::{or_dash, Table};
use crate::tool::{json, Done, Failure, Output};

/// Counts the age of flows on, until it is told to end. What may pass is said once, and tried again.
pub(crate) fn run(
    dir: &StateDir,
    end: &End,
    quiet: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let instance = dir.instance();
    let mut told = None;
    loop {
        // The lock is held for a step, so that `apply` gets it in between, and keeps it for longer.
        let aged = match HardwareWriter::open(dir).and_then(|mut card| card.age()) {
            Ok(aged) => aged,
            Err(error) if error.may_pass() => {
                let problem = Some(error.to_string());
                if told != problem {
                    told = problem;
                    // Nobody may read it any more.
                    let _ = writeln!(stderr(), "{instance}: {error}; trying again");
                }
                if end.comes_within(Collecting::AGAIN)? {
                    return Ok(Done::Well);
                }
                continue;
            }
            Err(error) => return Err(Failure::from(error).about(instance)),
        };
        told = None;
        if !quiet {
            let line = match output.is_json() {
                true => json(&aged),
                false => aged_text(&aged),
            };
            if !output.print(&line)? {
                return Ok(Done::Well);
            }
        }
        if end.comes_within(EPOCH)? {
            return Ok(Done::Well);
        }
    }
}

fn aged_text(aged: &Aged) -> String {
    let Aged {
        epoch,
        flows,
        idle,
        gone,
        ..
    } = aged;
    format!(
        "epoch {epoch}: {flows} flows, {idle} deleted as idle, {gone} as their backend is gone\n"
    )
}

pub(crate) fn text(status: &CardStatus) -> String {
    let mut text = format!("instance {} on a network card\n", status.instance_id);
    match &status.attachment {
        Some(held) => text.push_str(&format!(
            "program {} on {} (index {}) through link {}\n",
            held.program_id,
            or_dash(status.interface.as_ref()),
            held.ifindex,
            held.link_id,
        )),
        None => text.push_str("not attached\n"),
    }
    let flows = status.flows;
    text.push_str(&format!(
        "generation {}, {} of {} flows, epoch {}\n\n",
        or_dash(status.generation),
        flows.used,
        flows.limit,
        flows.epoch,
    ));
    let headings = ["service", "packets", "bytes", "refused"];
    let mut table = Table::new(0, &headings, &[1, 2, 3]);
    for service in &status.services {
        table.row([
            &service.name,
            &service.packets,
            &service.bytes,
            &service.refused_full,
        ]);
    }
    table.write(&mut text);
    text.push('\n');
    for (reason, packets) in status.reasons.iter().filter(|(_, packets)| **packets > 0) {
        text.push_str(&format!("{reason}: {packets}\n"));
    }
    for lack in &status.lacks {
        text.push_str(&format!("no {}: {}\n", lack.feature, lack.message));
    }
    text
}
