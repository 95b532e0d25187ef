// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `status`: what the egress of this node does.

use std::collections::BTreeMap;

use guideway::egress::document::{
    status, AttachmentStatus, AttachmentWay, CheckStatus, Finding, FindingCode, ForeignRouteStatus,
    GroupStatus, InterfaceName, LoopStatus, Severity, StatusDocument, TenantStatus,
};
use guideway::egress::pins::Standings;
use guideway::egress::LoopMode;
use guideway::kernel::statedir::StateDir;
use guideway::reason::egress::{End, Selection};

use crate::plan::{hash_text, mebibytes, state_text};
use crate::tool::text::{bar, checks, or_dash, percent, Table};
use crate::tool::{Done, Failure, Output};

/// Routes of others that the text lists one by one.
const MOST_FOREIGN: usize = 20;

pub(crate) fn run(state: &StateDir, output: &Output) -> Result<Done, Failure> {
    let status =
        status(state).map_err(|error| Failure::from(error).about(state.path().display()))?;
    output.result(&status, text)?;
    Ok(Done::degraded_if(status.has_errors()))
}

fn text(status: &StatusDocument) -> String {
    let health = if status.has_errors() {
        "DEGRADED"
    } else {
        "sound"
    };
    let program = &status.program;
    let mut text = format!(
        "{health}\nprogram {} {}, tag {}; maps take {}\n",
        program.id,
        program.name,
        program.tag,
        mebibytes(status.memory_bytes)
    );
    preflight_text(&status.preflight, &mut text);
    if let Some(keeper) = &status.keeper {
        loop_text(keeper, &mut text);
    }
    match &status.configuration {
        None if has_lost_it(status) => text.push_str("configuration: in force, its pin is lost\n"),
        None => text.push_str("no configuration\n"),
        Some(members) => {
            let members: Vec<_> = members
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            text.push_str(&format!("configuration: {}\n", members.join(", ")));
        }
    }
    for group in &status.groups {
        group_text(group, &mut text);
    }
    tenants_text(&status.tenants, &mut text);
    let routes = &status.routes;
    let classes: Vec<_> = routes
        .by_class
        .iter()
        .map(|(class, count)| format!("{count} to {class}"))
        .collect();
    text.push_str(&format!(
        "\nroutes {} of {}: {}; {} dead, {} of others, {} unknown\n",
        routes.total,
        routes.limit,
        if classes.is_empty() {
            "none to groups".to_owned()
        } else {
            classes.join(", ")
        },
        routes.dead,
        routes.foreign,
        routes.unknown,
    ));
    foreign_text(&routes.foreign_to_groups, &mut text);
    attachments_text(&status.attachments, &mut text);
    text.push_str(&format!("\npackets {}\n", status.packets.total));
    let packets = &status.packets;
    let explained = |name: &str| name.parse().map_or("", End::explanation);
    for (what, counts) in [
        ("", &packets.outcomes),
        ("skip", &packets.skips),
        ("drop", &packets.drops),
    ] {
        counted(what, counts, explained, &mut text);
    }
    if status.selection.values().any(|&count| count > 0) {
        text.push_str("\nselection\n");
    }
    let explained = |name: &str| name.parse().map_or("", Selection::explanation);
    counted("", &status.selection, explained, &mut text);
    let pins = &status.pins;
    text.push_str(&format!(
        "\npins {}: {}; of addresses {} of {}, of flows {} of {}\n",
        pins.standing.total(),
        standing_text(&pins.standing),
        pins.by_source,
        pins.source_capacity,
        pins.by_flow,
        pins.flow_capacity,
    ));
    findings_text(&status.findings, &mut text);
    text
}

/// Whether the configuration has lost its pin.
fn has_lost_it(status: &StatusDocument) -> bool {
    let mut findings = status.findings.iter();
    findings.any(|finding| finding.code == FindingCode::LostPin)
}

/// What the kernel has of what the datapath can do without.
fn preflight_text(checks: &[CheckStatus], text: &mut String) {
    let optional = checks.iter().filter(|check| !check.needed);
    let optional: Vec<_> = optional
        .map(|check| match check.missing {
            None => check.name.to_owned(),
            Some(_) => format!("no {}", check.name),
        })
        .collect();
    if !optional.is_empty() {
        text.push_str(&format!("kernel: {}\n", optional.join(", ")));
    }
}

fn loop_text(keeper: &LoopStatus, text: &mut String) {
    let mode = match keeper.mode {
        LoopMode::Ordered => "ordered",
        LoopMode::Hashed => "hashed",
    };
    let ago = |seconds: Option<f64>| match seconds {
        None => "never".to_owned(),
        Some(seconds) => format!("{seconds:.1} s ago"),
    };
    let interval = match keeper.interval_seconds {
        None => "once".to_owned(),
        Some(seconds) => format!("every {seconds} s"),
    };
    text.push_str(&format!(
        "loop: {mode}, sweeps {interval}; swept {}, well {}; at least {} active of {}\n",
        ago(Some(keeper.swept_seconds_ago)),
        ago(keeper.succeeded_seconds_ago),
        keeper.pool_min_active,
        keeper.classes.join(", "),
    ));
}

/// Routes of others to groups: the first of them, and how many more there are.
fn foreign_text(routes: &[ForeignRouteStatus], text: &mut String) {
    if routes.is_empty() {
        return;
    }
    let headings = [
        "tenant",
        "prefix",
        "group",
        "class",
        "incarnation",
        "origin",
    ];
    let mut table = Table::new(2, &headings, &[0, 2, 4, 5]);
    for route in routes.iter().take(MOST_FOREIGN) {
        table.row([
            &route.table,
            &route.prefix,
            &route.group,
            &or_dash(route.class),
            &route.incarnation,
            &route.origin,
        ]);
    }
    text.push_str("  of others, to groups:\n");
    table.write(text);
    if let Some(more @ 1..) = routes.len().checked_sub(MOST_FOREIGN) {
        text.push_str(&format!("  and {more} more; -o json lists all\n"));
    }
}

fn standing_text(pins: &Standings) -> String {
    format!(
        "{} live, {} idle, {} stale, {} dead, {} unjudged",
        pins.live, pins.idle, pins.stale, pins.dead, pins.unjudged
    )
}

fn group_text(group: &GroupStatus, text: &mut String) {
    text.push_str(&format!(
        "\n{} (group {}): {}, by {}, {}; incarnation {}, publication {} for {} s, digest {}\n",
        group.class,
        group.group,
        group.state,
        hash_text(group.settings.hash),
        match group.settings.pin_idle_seconds {
            0 => "no pins".to_owned(),
            seconds => format!("pins idle after {seconds} s"),
        },
        group.incarnation,
        group.publication,
        group.age_seconds,
        group.digest,
    ));
    let headings = [
        "slot",
        "generation",
        "shard",
        "state",
        "weight",
        "share",
        "",
        "packets",
        "bytes",
        "pins",
        "former",
        "by",
    ];
    let mut table = Table::new(2, &headings, &[0, 1, 4, 5, 7, 8, 9, 10]);
    for member in &group.members {
        table.row([
            &member.slot,
            &member.generation,
            &member.sid,
            &state_text(member.state),
            &member.weight,
            &percent(member.share),
            &bar(member.share),
            &member.packets,
            &member.bytes,
            &member.pins,
            &member.former_pins,
            &or_dash(member.interface.as_ref()),
        ]);
    }
    if !group.members.is_empty() {
        table.write(text);
    }
    let (routes, pins) = (group.routes, group.pins.total());
    let standing = standing_text(&group.pins);
    let foreign = match group.foreign_routes {
        0 => String::new(),
        foreign => format!(" ({foreign} of others)"),
    };
    text.push_str(&format!(
        "  routes {routes}{foreign}; pins {pins}: {standing}\n"
    ));
}

fn tenants_text(tenants: &[TenantStatus], text: &mut String) {
    if tenants.is_empty() {
        text.push_str("\nno tenants\n");
        return;
    }
    text.push('\n');
    let headings = [
        "tenant",
        "Argument",
        "hashes",
        "routes",
        "pins",
        "counted",
        "quota",
        "refused",
        "interfaces",
    ];
    let mut table = Table::new(0, &headings, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for tenant in tenants {
        let names: Vec<_> = tenant
            .interfaces
            .iter()
            .map(InterfaceName::to_string)
            .collect();
        table.row([
            &tenant.table,
            &or_dash(tenant.argument.map(|argument| format!("{argument:#05x}"))),
            &or_dash(tenant.hash_table),
            &tenant.routes,
            &tenant.pins.total(),
            &or_dash(tenant.pins_counted),
            &or_dash(tenant.pin_quota),
            &tenant.pins_refused,
            &names.join(","),
        ]);
    }
    table.write(text);
}

fn attachments_text(attachments: &[AttachmentStatus], text: &mut String) {
    if attachments.is_empty() {
        text.push_str("attached nowhere\n");
    }
    for attachment in attachments {
        let way = match attachment.way {
            AttachmentWay::Tcx => format!("tcx, link {}", or_dash(attachment.link_id)),
            AttachmentWay::Clsact => format!(
                "clsact, priority {}, handle {}",
                or_dash(attachment.priority),
                or_dash(attachment.handle)
            ),
        };
        let alive = if attachment.alive { "" } else { ": GONE" };
        text.push_str(&format!(
            "attached to {} ({way}){alive}\n",
            attachment.interface
        ));
    }
}

/// The counters that have counted, and what they mean.
fn counted(
    what: &str,
    counts: &BTreeMap<&'static str, u64>,
    explained: impl Fn(&str) -> &'static str,
    text: &mut String,
) {
    let mut table = Table::new(2, &["", "", "", ""], &[2]);
    for (name, count) in counts.iter().filter(|(_, count)| **count > 0) {
        table.row([&what, name, count, &explained(name)]);
    }
    table.write(text);
}

fn findings_text(findings: &[Finding], text: &mut String) {
    let lines = findings.iter().map(|finding| {
        let severity = match finding.severity {
            Severity::Warning => "warning",
            Severity::Error => "ERROR",
        };
        let (code, message) = (finding.code.to_string(), finding.message.clone());
        (
            severity,
            code,
            finding.object.as_str(),
            message,
            finding.remedy,
        )
    });
    checks(text, "findings", lines);
}
