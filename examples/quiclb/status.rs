// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `status`: what an instance does, or which there are.

use std::collections::BTreeMap;
use std::fmt::Display;

use guideway::quiclb::{
    Attachment, AttachmentKind, Finding, FindingCode, HardwareLb, InstanceError, InstanceList,
    Owner, RedirectErrorSource, ServiceStatus, Severity, StateRoot, Status,
};

use crate::args::StatusArgs;
use crate::card;
use crate::tool::text::{bar, checks, or_dash, percent, Table};
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &StatusArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let Some(instance) = arguments.instance else {
        let instances = InstanceList::of(root)?;
        output.result(&instances, list)?;
        return Ok(Done::degraded_if(instances.has_errors()));
    };
    let dir = root.quiclb(instance);
    match HardwareLb::open(&dir) {
        Ok(card) => {
            let about = |error| Failure::from(error).about(instance);
            output.result(&card.status().map_err(about)?, card::text)?;
            return Ok(Done::Well);
        }
        Err(InstanceError::Profile { .. }) => {}
        Err(error) => return Err(Failure::from(error).about(instance)),
    }
    let status = Status::of(&dir).map_err(|error| Failure::from(error).about(instance))?;
    output.result(&status, text)?;
    Ok(Done::degraded_if(status.has_errors()))
}

fn list(list: &InstanceList) -> String {
    if list.instances.is_empty() {
        return "no instances\n".to_owned();
    }
    let headings = [
        "instance",
        "interface",
        "mode",
        "health",
        "generation",
        "errors",
    ];
    let mut table = Table::new(0, &headings, &[4, 5]);
    for instance in &list.instances {
        table.row([
            &instance.instance_id,
            &or_dash(instance.interface.as_ref()),
            &or_dash(instance.mode),
            &instance
                .health
                .map_or("unreadable", |health| health.as_str()),
            &or_dash(instance.generation),
            &or_dash(instance.errors),
        ]);
    }
    let mut text = String::new();
    table.write(&mut text);
    for instance in &list.instances {
        if let Some(error) = &instance.error {
            text.push_str(&format!("{}: {error}\n", instance.instance_id));
        }
    }
    text
}

fn text(status: &Status) -> String {
    let mut text = format!(
        "instance {}: {}\n",
        status.instance_id,
        status.health.as_str()
    );
    text.push_str(&format!(
        "{} on {} (index {})\n",
        or_dash(status.mode),
        or_dash(status.interface.as_ref()),
        or_dash(status.ifindex),
    ));
    attachment_text(&status.attachment, &mut text);
    let abi = status.program.abi;
    text.push_str(&format!(
        "program {}, tag {}, ABI {}, build {}\n",
        or_dash(status.program.name.as_ref()),
        or_dash(status.program.tag.as_ref()),
        or_dash(abi.map(|abi| format!("{}.{}", abi.major, abi.minor))),
        or_unknown(status.program.build.as_ref()),
    ));
    match &status.generation {
        None if none_published(status) => text.push_str("no generation\n"),
        None => text.push_str("generation unknown\n"),
        Some(generation) => text.push_str(&format!(
            "generation {} for {} s (highest ever {}), digest {}\n",
            generation.number,
            or_unknown(generation.age_seconds),
            generation.high_water,
            or_unknown(generation.digest.as_ref()),
        )),
    }
    for service in &status.services {
        service_text(service, &mut text);
    }
    let generation = status.generation.as_ref();
    let recorded = generation.is_some_and(|generation| generation.digest.is_some());
    if !recorded && !none_published(status) {
        text.push_str("\nservices unknown\n");
    }
    counted("packets", &status.reasons, &mut text);
    let (flows, cids) = (&status.affinity.flows, &status.affinity.cids);
    text.push_str(&format!(
        "\nflow entries {} of {}, connection IDs {} of {}, slots {} open, {} held\n",
        flows.used, flows.capacity, cids.used, cids.capacity, flows.open_slots, flows.held_slots,
    ));
    match &status.affinity.last_sweep {
        Some(sweep) => text.push_str(&format!(
            "swept {} s ago: connection IDs {} learned, {} registered, {} imported; {} flows depend \
             on this machine\n",
            sweep.age_seconds,
            sweep.learned,
            sweep.registered,
            sweep.imported,
            sweep.blast_radius,
        )),
        None => text.push_str("never swept\n"),
    }
    match &status.events {
        Some(events) => text.push_str(&format!(
            "events {} emitted, {} suppressed, {} lost\n",
            events.emitted, events.suppressed, events.lost,
        )),
        None => text.push_str("events unknown\n"),
    }
    text.push_str(&format!(
        "redirected frames lost: {} (source: {})\n",
        or_dash(status.redirect_errors.total),
        match status.redirect_errors.source {
            RedirectErrorSource::Tracepoint => "tracepoint",
            RedirectErrorSource::Device => "device",
            RedirectErrorSource::None => "none",
        },
    ));
    findings_text(&status.findings, &mut text);
    text
}

/// Whether there is no generation, rather than one of which nothing is known.
fn none_published(status: &Status) -> bool {
    let mut findings = status.findings.iter();
    findings.any(|finding| finding.code == FindingCode::NoGeneration)
}

fn or_unknown(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

pub(crate) fn attachment_text(attachment: &Attachment, text: &mut String) {
    let kind = match attachment.kind {
        AttachmentKind::Link => "link",
        AttachmentKind::Netlink => "netlink",
        AttachmentKind::RootArray => "root array",
        _ => "nothing",
    };
    let owner = match attachment.owner {
        Owner::Ours => "ours",
        Owner::Foreign => "somebody else's",
        Owner::None => "none",
    };
    text.push_str(&format!("held by {kind}"));
    if let Some(link) = attachment.link_id {
        text.push_str(&format!(" {link}"));
    }
    if let Some(program) = attachment.program_id {
        text.push_str(&format!(", program {program}"));
    }
    let place = match &attachment.root_array {
        Some(place) => format!("index {} of {} has", place.index, place.path),
        None => "interface runs".to_owned(),
    };
    text.push_str(&match attachment.live_program_id {
        Some(live) => format!(", {place} {live} ({owner})\n"),
        None => format!(", {place} no program\n"),
    });
}

fn service_text(service: &ServiceStatus, text: &mut String) {
    text.push_str(&format!(
        "\n{} {} port {} {} (service {:#010x}): routing {}, tracking {}, table {} {}\n",
        service.name,
        service.vip,
        service.port,
        service.protocol,
        service.service_id,
        service.routing,
        service.tracking,
        service.table.size,
        service.table.digest,
    ));
    let all: u64 = service
        .backends
        .iter()
        .map(|backend| backend.counters.packets)
        .sum();
    let headings = [
        "id",
        "state",
        "weight",
        "slots",
        "base",
        "flows",
        "ids",
        "packets",
        "bytes",
        "share",
        "",
        "interface",
        "index",
        "mac",
        "row",
        "incarnation",
        "lost",
    ];
    let mut table = Table::new(2, &headings, &[0, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 16]);
    for backend in &service.backends {
        let counters = &backend.counters;
        let share = counters.packets as f64 / all.max(1) as f64;
        table.row([
            &backend.id,
            &backend.state,
            &backend.weight,
            &backend.slots,
            &backend.base_slots,
            &or_dash(backend.entries.map(|entries| entries.flows)),
            &or_dash(backend.entries.map(|entries| entries.cids)),
            &counters.packets,
            &counters.bytes,
            &percent(share),
            &bar(share),
            &backend.interface,
            &backend.ifindex,
            &backend.mac,
            &backend.row,
            &backend.incarnation,
            &or_dash(counters.redirect_errors),
        ]);
    }
    table.write(text);
    line("rules", &service.rules, text);
    line("counters", &service.counters, text);
}

/// The counters that have counted, on one line.
fn line(name: &str, counters: &BTreeMap<&'static str, u64>, text: &mut String) {
    let counted = counters.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<_> = counted
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !counted.is_empty() {
        text.push_str(&format!("  {name}: {}\n", counted.join(", ")));
    }
}

fn counted(name: &str, counters: &BTreeMap<&'static str, u64>, text: &mut String) {
    // An instance that can be read names every reason.
    if counters.is_empty() {
        text.push_str(&format!("\n{name} unknown\n"));
        return;
    }
    let all: u64 = counters.values().sum();
    text.push_str(&format!("\n{name} {all}\n"));
    let mut table = Table::new(2, &["", "", "", ""], &[1, 2]);
    for (name, count) in counters.iter().filter(|(_, count)| **count > 0) {
        let share = *count as f64 / all.max(1) as f64;
        table.row([name, count, &percent(share), &bar(share)]);
    }
    table.write(text);
}

pub(crate) fn findings_text(findings: &[Finding], text: &mut String) {
    checks(
        text,
        "findings",
        findings.iter().map(|finding| {
            let severity = match finding.severity {
                Severity::Warning => "warning",
                Severity::Error => "ERROR",
            };
            let (code, object) = (finding.code.to_string(), finding.object.as_str());
            (
                severity,
                code,
                object,
                finding.message.clone(),
                finding.remedy.as_deref(),
            )
        }),
    );
}
