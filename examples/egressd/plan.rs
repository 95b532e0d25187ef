// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `plan`: what a specification, or a sweep of the loop, would change.

use std::path::Path;

use guideway::control::{ClassDocument, ControlDocument, Knowledge, Mode, ShareDocument};
use guideway::egress::document::{
    plan, ClassPlan, Error, InterfaceAdvice, InterfaceChange, InterfaceName, MemberChange,
    PlanDocument, PlanResult, TenantPlan,
};
use guideway::egress_spec::{Spec, Warning};
use guideway::group::{Change, HashMode, MemberState};
use guideway::kernel::statedir::StateDir;

use crate::args::PlanArgs;
use crate::run::{self, config::Flags};
use crate::tool::text::{bar, checks, or_dash, percent, Table};
use crate::tool::{input, Done, Failure, Output};

/// Routes of a tenant that are shown to people.
const ROUTES_SHOWN: usize = 12;

pub(crate) fn run(
    arguments: &PlanArgs,
    flags: &Flags,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let Some(path) = &arguments.spec else {
        output.result(&run::plan::plan(flags)?, control_text)?;
        return Ok(Done::Well);
    };
    if !arguments.flags.is_empty() {
        return Err(Failure::usage(
            "what run is told goes with --loop, not with a specification",
        ));
    }
    let spec = read(path)?;
    let plan = plan(state, &spec).map_err(|error| match error {
        Error::Faults(faults) => Failure::invalid(input::name(path), &faults),
        error => Failure::from(error).about(state.path().display()),
    })?;
    output.result(&plan, text)?;
    Ok(Done::Well)
}

/// Reads a specification.
pub(crate) fn read(path: &Path) -> Result<Spec, Failure> {
    let bytes = input::read(path)?;
    Spec::from_json(&bytes).map_err(|faults| Failure::invalid(input::name(path), &faults))
}

fn text(plan: &PlanDocument) -> String {
    let mut text = match plan.result {
        PlanResult::Create => "creates the instance\n",
        PlanResult::Change => "changes the instance\n",
        PlanResult::Unchanged => "changes nothing\n",
    }
    .to_owned();
    if !plan.configuration.is_empty() {
        text.push_str("\nconfiguration\n");
        let mut table = Table::new(2, &["", "now", "then"], &[]);
        for change in &plan.configuration {
            table.row([&change.member, &change.from, &change.to]);
        }
        table.write(&mut text);
    }
    for class in &plan.classes {
        class_text(class, &mut text);
    }
    for group in &plan.retired {
        text.push_str(&format!(
            "\n{} (group {}): configured no more; closed, its routes removed, disabled; {} pins go\n",
            group.class, group.group, group.pins
        ));
    }
    for duplicate in &plan.duplicates {
        text.push_str(&format!(
            "\n{} is claimed by several groups: {} keeps it, {:?} are retired\n",
            duplicate.class, duplicate.kept, duplicate.others
        ));
    }
    for tenant in &plan.tenants {
        tenant_text(tenant, &mut text);
    }
    for tenant in &plan.tenants_removed {
        let (table, pins) = (tenant.table, tenant.pins);
        text.push_str(&format!("\ntenant {table}: removed, with {pins} pins\n"));
    }
    let changed = [
        ("looks no more at packets from", &plan.interfaces_removed),
        ("attaches to", &plan.attached),
        ("takes the program off", &plan.detached),
    ];
    for (what, interfaces) in changed.iter().filter(|(_, names)| !names.is_empty()) {
        let names: Vec<_> = interfaces.iter().map(InterfaceName::to_string).collect();
        text.push_str(&format!("\n{what} {}\n", names.join(", ")));
    }
    let memory = &plan.memory_bytes;
    text.push_str(&format!(
        "\nmemory of full maps: {}, of it pins {}, flow pins {}, routes {}, tenants {}, groups {}, \
         counters {}, events {}\n",
        mebibytes(plan.memory_total_bytes),
        mebibytes(memory.pins),
        mebibytes(memory.flow_pins),
        mebibytes(memory.routes),
        mebibytes(memory.tenants),
        mebibytes(memory.groups),
        mebibytes(memory.counters),
        mebibytes(memory.ring),
    ));
    interfaces_text(&plan.interface_warnings, &mut text);
    warnings_text(&plan.warnings, &mut text);
    text
}

/// A plan of the loop: the steps, what is wrong and what comes of it, before the rest.
fn control_text(document: &ControlDocument) -> String {
    let control = &document.control;
    let mut text = format!(
        "{} mode, shards {}\n",
        match control.mode {
            Mode::Ordered => "ordered",
            Mode::Hashed => "hashed",
        },
        match control.shards {
            Knowledge::Unknown => "unknown",
            Knowledge::Known => "known",
            Knowledge::Stale => "listed before, and nothing heard since",
        },
    );
    if !control.steps.is_empty() {
        text.push_str("\nsteps\n");
        let mut table = Table::new(2, &["", "", "why", "after"], &[0]);
        for (number, step) in control.steps.iter().enumerate() {
            let after: Vec<_> = step.after.iter().map(ToString::to_string).collect();
            table.row([&number, &step.step, &step.why, &after.join(", ")]);
        }
        table.write(&mut text);
    }
    for class in &control.classes {
        control_class_text(class, &mut text);
    }
    text.push_str(&format!(
        "\n{} tenants move; publications take {} beside what they replace\n",
        control.tenants_moved,
        mebibytes(control.publishing_bytes),
    ));
    for (repair, routes) in &control.repairs {
        text.push_str(&format!("repairs {routes} routes: {repair}\n"));
    }
    let problems = control.problems.iter().map(|problem| {
        let kind = problem.kind.to_owned();
        ("warning", kind, "", problem.message.clone(), None)
    });
    checks(&mut text, "problems", problems);
    text.push('\n');
    text.push_str(&self::text(&document.plan));
    text
}

fn control_class_text(class: &ClassDocument, text: &mut String) {
    let members = &class.members;
    text.push_str(&format!(
        "\n{}{}: {}; {} active, {} draining, {} unreachable, {} ineligible\n",
        class.class,
        if class.configured {
            ""
        } else {
            " (configured no more)"
        },
        if class.served { "served" } else { "NOT SERVED" },
        members.active,
        members.draining,
        members.unreachable,
        members.ineligible,
    ));
    if class.routes_moved > 0 {
        let moved = &class.addresses_moved;
        let part = moved.part as f64 / moved.whole.max(1) as f64;
        text.push_str(&format!(
            "  {} routes move; of the addresses behind them {} get to another shard\n",
            class.routes_moved,
            percent(part),
        ));
    }
    let alone = |one: &ShareDocument| one.share.routes_before + one.share.routes_after > 0;
    if class.shares.iter().any(alone) {
        let headings = ["shard", "routes", "then"];
        let mut table = Table::new(2, &headings, &[1, 2]);
        for one in &class.shares {
            let share = &one.share;
            table.row([&one.sid, &share.routes_before, &share.routes_after]);
        }
        table.write(text);
    }
    if let Some(pins) = class.pins.filter(|pins| pins.live > 0) {
        let (live, risk) = (pins.live, pins.at_risk());
        text.push_str(&format!(
            "  {risk} of {live} sessions with a pin are at risk\n"
        ));
    }
    for shard in &class.ineligible {
        text.push_str(&format!(
            "  {} ({}) does not translate it\n",
            shard.name, shard.sid
        ));
    }
}

/// Bytes for people.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(crate) fn change_text(change: Change) -> &'static str {
    match change {
        Change::Unchanged => "unchanged",
        Change::Open => "opened",
        Change::Reopen => "opened again",
        Change::Update => "changed",
        Change::Close => "closed",
        Change::Disable => "disabled",
    }
}

pub(crate) fn state_text(state: MemberState) -> &'static str {
    match state {
        MemberState::Active => "active",
        MemberState::Draining => "draining",
        MemberState::Unreachable => "unreachable",
    }
}

pub(crate) fn hash_text(hash: HashMode) -> &'static str {
    match hash {
        HashMode::Source => "source",
        HashMode::Flow => "flow",
    }
}

pub(crate) fn interfaces_text(warnings: &[InterfaceAdvice], text: &mut String) {
    let lines = warnings.iter().map(|advice| {
        let name = advice.interface.name.as_deref().unwrap_or_default();
        let code = "interface".to_owned();
        ("warning", code, name, advice.message.clone(), None)
    });
    checks(text, "interfaces", lines);
}

pub(crate) fn warnings_text(warnings: &[Warning], text: &mut String) {
    let lines = warnings.iter().map(|warning| {
        let (code, pointer) = (warning.code.to_string(), warning.pointer.as_str());
        ("warning", code, pointer, warning.message.clone(), None)
    });
    checks(text, "warnings", lines);
}

fn class_text(class: &ClassPlan, text: &mut String) {
    text.push_str(&format!(
        "\n{} (group {}): {}, by {}, {}\n",
        class.class,
        class.group,
        change_text(class.change),
        hash_text(class.settings.hash),
        match class.settings.pin_idle_seconds {
            0 => "no pins".to_owned(),
            seconds => format!("pins idle after {seconds} s"),
        },
    ));
    text.push_str(&format!(
        "  moves {} of {} slots ({} forced, {} extra){}\n",
        class.moved,
        class.table_size,
        class.forced,
        class.extra,
        if class.moves_unpinned {
            "; all addresses without a pin are placed anew"
        } else {
            ""
        },
    ));
    let headings = [
        "shard",
        "",
        "was",
        "is",
        "slot",
        "generation",
        "weight",
        "share",
        "then",
        "",
        "loses",
        "gains",
        "pins",
    ];
    let mut table = Table::new(2, &headings, &[4, 5, 6, 7, 8, 10, 11, 12]);
    for member in &class.members {
        table.row([
            &member.sid,
            &match member.change {
                MemberChange::Joins => "joins",
                MemberChange::Leaves => "LEAVES",
                MemberChange::Changes => "changes",
                _ => "stays",
            },
            &or_dash(member.was.map(state_text)),
            &or_dash(member.is.map(state_text)),
            &member.slot,
            &member.generation,
            &member.weight,
            &percent(member.share_before),
            &percent(member.share_after),
            &bar(member.share_after),
            &member.lost,
            &member.gained,
            &member.pins,
        ]);
    }
    if !class.members.is_empty() {
        table.write(text);
    }
    let pins = &class.pins;
    if pins.live > 0 {
        text.push_str(&format!(
            "  pins in use {}: {} stay ({} of them would move without their pin), {} of members that \
             leave, {} of unreachable members, {} let go, {} removed\n",
            pins.live,
            pins.stay,
            pins.off_table,
            pins.leaving,
            pins.unreachable,
            pins.released,
            pins.removed,
        ));
    }
    for sid in &class.without_slots {
        text.push_str(&format!("  {sid} gets no slot: its weight is too small\n"));
    }
}

fn tenant_text(tenant: &TenantPlan, text: &mut String) {
    let (table, argument) = (tenant.table, tenant.argument);
    text.push_str(&format!("\ntenant {table} (Argument {argument:#05x})\n"));
    for interface in &tenant.interfaces {
        let name = &interface.interface;
        text.push_str(&match (interface.change, interface.taken_from) {
            (InterfaceChange::Changed, _) => format!("  interface {name}: changed\n"),
            (_, None) => format!("  interface {name}: added\n"),
            (_, Some(other)) => format!("  interface {name}: taken from tenant {other}\n"),
        });
    }
    for route in tenant.routes.iter().take(ROUTES_SHOWN) {
        let prefix = route.prefix;
        text.push_str(&match (&route.from, &route.to) {
            (None, Some(to)) => format!("  route added: {prefix} -> {to}\n"),
            (Some(from), Some(to)) if from == to => {
                format!("  route rewritten: {prefix} -> {to}\n")
            }
            (Some(from), Some(to)) => format!("  route changed: {prefix} -> {to}, led to {from}\n"),
            (from, None) => {
                format!("  route removed: {prefix} -> {}\n", or_dash(from.as_ref()))
            }
        });
    }
    let more = tenant.routes.len().saturating_sub(ROUTES_SHOWN);
    if more > 0 {
        text.push_str(&format!("  and {more} routes more\n"));
    }
}
