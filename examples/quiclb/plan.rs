// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `plan`: what applying a specification would do.

use guideway::plan::{
    plan, Change, CheckResult, Disruption, PlanDocument, PlanResult, ServicePlan, World,
};
use guideway::quiclb::{plan_here, PlanError, StateRoot};
use guideway::service::Warning;

use crate::args::PlanArgs;
use crate::input;
use crate::target::Target;
use crate::tool::text::{bar, checks, or_dash, percent, Table};
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &PlanArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let out = arguments.out.as_ref();
    let out = out
        .map(|out| Target::new(out, Some(&arguments.spec)))
        .transpose()?;
    let spec = input::spec(&arguments.spec)?;
    let options = arguments.confirmed.options();
    let plan = if arguments.offline {
        plan(None, &spec, &World::offline(), options).map_err(PlanError::from)
    } else {
        plan_here(root, &spec, options)
    };
    let plan = plan.map_err(|error| match error {
        PlanError::Faults(faults) => Failure::invalid(input::name(&arguments.spec), &faults),
        error => Failure::from(error).about(input::name(&arguments.spec)),
    })?;
    if let Some(out) = &out {
        out.write(&plan.to_file())?;
    }
    // Whoever reads the plan there wants nothing behind it.
    if matches!(out, Some(Target::Stdout)) {
        return Ok(Done::Well);
    }
    output.result(plan.document(), text)?;
    Ok(Done::Well)
}

fn text(plan: &PlanDocument) -> String {
    let result = match plan.result {
        PlanResult::Create => "creates the instance",
        PlanResult::Change => "changes the instance",
        PlanResult::Unchanged => "changes nothing",
    };
    let against = match &plan.base {
        Some(base) => format!("against generation {}", base.generation),
        None => "against nothing".to_owned(),
    };
    let mut text = format!(
        "instance {}: {result}, {against}\n{} on {} (index {})\ndigest {}\n",
        plan.instance_id,
        plan.mode,
        plan.interface,
        or_dash(plan.ifindex),
        plan.digest,
    );
    for service in &plan.services {
        service_text(service, &mut text);
    }
    capacity(plan, &mut text);
    let preflight = plan
        .preflight
        .iter()
        .filter(|check| check.result != CheckResult::Ok);
    checks(
        &mut text,
        "preflight",
        preflight.map(|check| {
            let remedy = check.remedy.as_deref();
            let object = check.object.as_str();
            let message = check.message.clone();
            (
                result_text(check.result),
                check.code.to_string(),
                object,
                message,
                remedy,
            )
        }),
    );
    for lack in &plan.lacks {
        text.push_str(&format!(
            "mode {} has no {}: {}\n",
            plan.mode, lack.feature, lack.message
        ));
    }
    warnings_text(&plan.warnings, &mut text);
    text
}

pub(crate) fn warnings_text(warnings: &[Warning], text: &mut String) {
    checks(
        text,
        "warnings",
        warnings.iter().map(|warning| {
            let code = warning.code.to_string();
            (
                "warning",
                code,
                warning.pointer.as_str(),
                warning.message.clone(),
                None,
            )
        }),
    );
}

pub(crate) fn result_text(result: CheckResult) -> &'static str {
    match result {
        CheckResult::Ok => "ok",
        CheckResult::Unknown => "unknown",
        CheckResult::Warning => "warning",
        CheckResult::Error => "ERROR",
    }
}

pub(crate) fn change_text(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Changed => "changed",
        Change::Unchanged => "unchanged",
        Change::Removed => "removed",
    }
}

fn service_text(service: &ServicePlan, text: &mut String) {
    text.push_str(&format!(
        "\n{} {} port {} {} (service {:#010x}): {}\n",
        service.name,
        service.vip,
        service.port,
        service.protocol,
        service.service_id,
        change_text(service.change),
    ));
    text.push_str(&format!(
        "  routing {}, tracking {}, hash {}, fragments {}{}{}\n",
        service.routing,
        service.tracking,
        service.hash,
        service.fragments,
        if service.quic_only { ", QUIC only" } else { "" },
        match service.short_dcid_len {
            0 => String::new(),
            bytes => format!(", connection IDs of {bytes} bytes"),
        },
    ));
    for config in &service.configs {
        text.push_str(&format!(
            "  config {}: {} bytes, server ID {}, nonce {}, passes {}, key check {}\n",
            config.config_id,
            config.cid_len,
            config.server_id_len,
            config.nonce_len,
            config.passes,
            or_dash(config.kcv.as_ref()),
        ));
    }
    if !service.configs.is_empty() {
        text.push_str(&format!(
            "  a random connection ID names a backend with probability {}\n",
            service.false_route_probability
        ));
    }
    let table = &service.table;
    text.push_str(&format!(
        "  table of {} slots, {} to {} per backend{}, digest {}\n",
        table.size,
        table.min_slots,
        table.max_slots,
        if table.below_rule {
            ", fewer than 100 for each"
        } else {
            ""
        },
        table.digest,
    ));
    disruption_text(&service.disruption, text);
    let headings = [
        "id",
        "state",
        "weight",
        "slots",
        "share",
        "",
        "interface",
        "index",
        "mac",
        "row",
        "incarnation",
        "server IDs",
        "change",
    ];
    let mut backends = Table::new(2, &headings, &[0, 2, 3, 4, 7, 9, 10]);
    for backend in &service.backends {
        let server_ids = match backend.server_ids.as_slice() {
            [] => "-".to_owned(),
            ids => ids.join(","),
        };
        backends.row([
            &backend.id,
            &backend.state,
            &backend.weight,
            &backend.slots,
            &percent(backend.share),
            &bar(backend.share),
            &backend.interface,
            &or_dash(backend.ifindex),
            &backend.mac,
            &backend.row,
            &backend.incarnation,
            &server_ids,
            &change_text(backend.change),
        ]);
    }
    backends.write(text);
}

/// What becomes of flows; nothing where nothing moves and no slot is marked.
pub(crate) fn disruption_text(disruption: &Disruption, text: &mut String) {
    if disruption.slots_moved > 0 {
        text.push_str(&format!(
            "  moves {} slots ({}): {} forced, {} extra\n",
            disruption.slots_moved,
            percent(disruption.moved_ratio),
            disruption.slots_forced,
            disruption.slots_extra,
        ));
    }
    if disruption.slots_open > 0 || disruption.slots_held > 0 {
        text.push_str(&format!("  slots {} open", disruption.slots_open));
        if disruption.slots_open > 0 {
            text.push_str(&format!(" for {} s", disruption.window_seconds));
        }
        text.push_str(&format!(
            ", {} held; about {} entries expected\n",
            disruption.slots_held, disruption.entries_expected,
        ));
    }
    let flows = [
        disruption.flows_live,
        disruption.flows_moved,
        disruption.flows_at_risk,
    ];
    if disruption.slots_moved > 0 || flows.iter().flatten().any(|flows| *flows > 0) {
        text.push_str(&format!(
            "  flows, about: {} live, {} in slots that move, {} at risk\n",
            or_dash(disruption.flows_live),
            or_dash(disruption.flows_moved),
            or_dash(disruption.flows_at_risk),
        ));
    }
    if disruption.bindings_lost != Some(0) {
        text.push_str(&format!(
            "  entries of backends that go: {}\n",
            or_dash(disruption.bindings_lost)
        ));
    }
}

fn capacity(plan: &PlanDocument, text: &mut String) {
    let capacity = &plan.capacity;
    text.push_str("\ncapacity\n");
    let mut table = Table::new(2, &["", "used", "limit", ""], &[1, 2]);
    let fraction = |used: u64, limit: u64| bar(used as f64 / limit.max(1) as f64);
    let flows = ("flows", capacity.flows);
    let (uses, entries, memory) = match &capacity.card {
        // It has its own memory.
        Some(card) => (card.tables().to_vec(), vec![flows], None),
        None => (
            vec![
                ("services", capacity.services),
                ("backends", capacity.backends),
                ("interfaces of backends", capacity.targets),
                ("server IDs", capacity.server_ids),
                ("crypto contexts", capacity.crypto_contexts),
                ("cells", capacity.cells),
            ],
            vec![flows, ("connection IDs", capacity.cids)],
            Some(capacity.memory_bytes),
        ),
    };
    for (name, what) in uses {
        table.row([
            &name,
            &what.used,
            &what.limit,
            &fraction(what.used, what.limit),
        ]);
    }
    for (name, what) in entries {
        let used = format!("{} now, {} then", what.used, what.predicted);
        table.row([
            &name,
            &used,
            &what.limit,
            &fraction(what.predicted, what.limit),
        ]);
    }
    if let Some(memory) = memory {
        let used = memory.both_generations + memory.affinity;
        table.row([
            &"bytes",
            &used,
            &memory.limit,
            &fraction(used, memory.limit),
        ]);
    }
    table.write(text);
    if let Some(memory) = memory {
        text.push_str(&format!(
            "  of these bytes {} for the generation, {} with the one before, {} for flow state\n",
            memory.generation, memory.both_generations, memory.affinity,
        ));
    }
}
