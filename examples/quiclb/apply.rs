// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `apply`: publish and attach.

use guideway::quiclb::{apply, Applied, ApplyError, ApplyOptions, ApplyResult, PlanError};
use guideway::quiclb::{HardwareAcknowledged, StateRoot, Wanted};
use guideway::service::Mode;
use serde_json::Value;

use crate::args::ApplyArgs;
use crate::input::{self, Document};
use crate::plan::{change_text, disruption_text, warnings_text};
use crate::status;
use crate::tool::{exchange, Done, Failure, Output};

pub(crate) fn run(
    arguments: &ApplyArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let bytes = input::read(&arguments.file)?;
    if !arguments.ack_hardware_offload && wants_offload(&bytes) {
        return Err(Failure::usage(
            "mode offload runs the program on the network card, without a fallback; confirm with \
             --ack-hardware-offload",
        ));
    }
    let wanted = match Document::parse(&arguments.file, &bytes)? {
        Document::Spec(spec) => Wanted::Spec {
            spec,
            options: arguments.confirmed.options(),
        },
        Document::Plan(_) if arguments.confirmed.any() => {
            return Err(Failure::usage(
                "what a plan may do was confirmed when it was made; --disruptive and \
                 --reuse-server-id belong to plan, or to apply with a specification",
            ))
        }
        Document::Plan(file) => Wanted::Plan(file),
    };
    if arguments.ack_hardware_offload && wanted.spec().mode() != Mode::Offload {
        return Err(Failure::usage(
            "--ack-hardware-offload belongs to mode offload, and this is another mode",
        ));
    }
    let options = ApplyOptions {
        hardware: arguments
            .ack_hardware_offload
            .then(HardwareAcknowledged::the_card_runs_it_or_nothing_does),
        ..arguments.publishing.options()
    };
    let instance = wanted.spec().instance_id();
    let applied = apply(root, &wanted, &options).map_err(|error| match error {
        ApplyError::Plan(PlanError::Faults(faults)) => {
            Failure::invalid(input::name(&arguments.file), &faults)
        }
        error => Failure::from(error).about(instance),
    })?;
    report(&applied, output)
}

/// Tells what was applied.
pub(crate) fn report(applied: &Applied, output: &Output) -> Result<Done, Failure> {
    output.result(applied, text).map_err(|failure| {
        let (generation, instance) = (applied.generation, applied.instance_id);
        failure.although(format!("generation {generation} of {instance} is live"))
    })?;
    Ok(Done::degraded_if(applied.has_errors()))
}

/// Whether a document that may not even be valid says that it is for a network card; a plan says
/// it in the same place as a specification.
fn wants_offload(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value["mode"] == "offload")
}

fn text(applied: &Applied) -> String {
    let result = match applied.result {
        ApplyResult::Created => "created",
        ApplyResult::Changed => "changed",
        ApplyResult::Repaired => "repaired",
        ApplyResult::Attached => "attached",
        ApplyResult::Unchanged => "unchanged",
    };
    let (instance, generation) = (applied.instance_id, applied.generation);
    let mut text = format!("instance {instance}: {result}, generation {generation}");
    if let Some(before) = applied
        .previous_generation
        .filter(|before| *before != generation)
    {
        text.push_str(&format!(" (before: {before})"));
    }
    if matches!(applied.result, ApplyResult::Created | ApplyResult::Changed) {
        text.push_str(&format!(", published in {:.1} ms", applied.publish_ms));
    }
    text.push('\n');
    text.push_str(&exchange::repairs_text(&applied.repaired));
    status::attachment_text(&applied.attachment, &mut text);
    for service in &applied.disruption {
        text.push_str(&format!(
            "\n{} (service {:#010x}): {}\n",
            service.name,
            service.service_id,
            change_text(service.change),
        ));
        disruption_text(&service.disruption, &mut text);
    }
    warnings_text(&applied.warnings, &mut text);
    status::findings_text(&applied.findings, &mut text);
    text
}
