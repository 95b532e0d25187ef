// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `diff`: what differs between two specifications.

use std::path::Path;

use guideway::quiclb::{Op, PlanError, QuicLb, SpecDiff, StateRoot};

use crate::args::DiffArgs;
use crate::input;
use crate::plan::{change_text, disruption_text, warnings_text};
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &DiffArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let before = input::any_spec(root, &arguments.from)?;
    let after = input::any_spec(root, &arguments.to)?;
    let name = |argument| input::name(Path::new(argument));
    let (from, to) = (name(&arguments.from), name(&arguments.to));
    let diff = SpecDiff::between((from, &before), (to.clone(), &after))
        .map_err(|faults| Failure::invalid(to, &faults))?;
    let diff = match input::instance(&arguments.from) {
        Some(live) if live == after.instance_id() => {
            let foreseen = QuicLb::open(&root.quiclb(live))
                .map_err(PlanError::from)
                .and_then(|live| live.foresee(&after));
            diff.foreseen(foreseen.map_err(|error| Failure::from(error).about(live))?)
        }
        _ => diff,
    };
    output.result(&diff, text)?;
    Ok(Done::Well)
}

fn text(diff: &SpecDiff) -> String {
    let how = if diff.identical {
        "say the same"
    } else {
        "differ"
    };
    let mut text = format!("{} and {} {how}\n", diff.from, diff.to);
    for change in &diff.changes {
        let (pointer, from, to) = (&change.pointer, &change.from, &change.to);
        text.push_str(&match change.op {
            Op::Add => format!("  + {pointer}: {to}\n"),
            Op::Remove => format!("  - {pointer}: {from}\n"),
            // Secrets are told to differ and not shown.
            Op::Replace if from.is_null() && to.is_null() => format!("  ~ {pointer}: (secret)\n"),
            Op::Replace => format!("  ~ {pointer}: {from} -> {to}\n"),
        });
    }
    for service in &diff.disruption {
        text.push_str(&format!(
            "\n{} (service {:#010x}): {}\n",
            service.name,
            service.service_id,
            change_text(service.change),
        ));
        disruption_text(&service.disruption, &mut text);
    }
    warnings_text(&diff.warnings, &mut text);
    text
}
