// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! Instances on network cards: what they do, and the age of their flows.

use guideway::quiclb::hardware::{Aged, CardStatus, EPOCH};
use guideway::quiclb::{HardwareWriter, InstanceError, StateDir};

use crate::run::End;
use crate::tool::text::{or_dash, Table};
use crate::tool::{json, Done, Failure, Output};

/// Counts the age of flows on, until it is told to end.
pub(crate) fn run(
    dir: &StateDir,
    end: &End,
    quiet: bool,
    output: &Output,
) -> Result<Done, Failure> {
    let instance = dir.instance();
    let about = |error: InstanceError| Failure::from(error).about(instance);
    loop {
        // The lock is held for a step, so that `apply` gets it in between.
        let aged = HardwareWriter::open(dir)
            .and_then(|mut card| card.age())
            .map_err(about)?;
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
