// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `migrate`: other limits while packets go on.

use guideway::egress::document::{migrate, plan_migration, MigrateDocument, MigrateResult};
use guideway::egress::migrate::Settled;
use guideway::egress::{Egress, LimitError, Limits, Loader};
use guideway::error::ErrorKind;
use guideway::group;
use guideway::kernel::statedir::StateDir;

use crate::args::MigrateArgs;
use crate::plan::read;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &MigrateArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let about = |failure: Failure| failure.about(state.path().display());
    let given = match &arguments.spec {
        Some(spec) => Limits::try_from(read(spec)?.limits()).map_err(invalid)?,
        None => Egress::open(state)
            .map_err(|error| about(error.into()))?
            .limits(),
    };
    let mut loader = Loader::new(state)
        .limits(wanted(arguments, given).map_err(invalid)?)
        .patience(arguments.wait());
    if let Some(version) = arguments.state_version {
        loader = loader.version(version);
    }
    let document = match arguments.dry_run {
        true => plan_migration(&loader),
        false => migrate(loader),
    };
    let document = document.map_err(|error| about(error.into()))?;
    output
        .result(&document, text)
        .map_err(|failure| match document.result {
            MigrateResult::Migrated => failure.although("the instance was migrated"),
            _ => failure,
        })?;
    Ok(Done::Well)
}

fn invalid(error: LimitError) -> Failure {
    Failure::new(ErrorKind::Usage, error)
}

fn wanted(arguments: &MigrateArgs, given: Limits) -> Result<Limits, LimitError> {
    let groups = given.groups();
    let groups = group::Limits::new(
        arguments.groups.unwrap_or(groups.groups().into()),
        arguments.members.unwrap_or(groups.members().into()),
        groups.table_size(),
    )?;
    given
        .with_groups(groups)
        .with_tenants(arguments.tenants.unwrap_or(given.tenants()))?
        .with_routes(arguments.routes.unwrap_or(given.routes()))?
        .with_pins(arguments.pins.unwrap_or(given.pins()))?
        .with_flow_pins(arguments.flow_pins.unwrap_or(given.flow_pins()))?
        .with_ring_bytes(arguments.ring_bytes.unwrap_or(given.ring_bytes()))
}

fn text(document: &MigrateDocument) -> String {
    let mut text = String::new();
    match document.interrupted {
        Settled::Sound => {}
        Settled::Finished => text.push_str("an interrupted migration was finished\n"),
        Settled::Undone => text.push_str("an interrupted migration was undone\n"),
        _ => text.push_str("the rest of an earlier migration was removed\n"),
    }
    text.push_str(match document.result {
        MigrateResult::Planned if document.maps.is_empty() => "nothing would change\n",
        MigrateResult::Planned => "would change\n",
        MigrateResult::Migrated => "migrated\n",
        _ => "nothing to do\n",
    });
    for change in &document.limits {
        let used = match change.used {
            0 => String::new(),
            used => format!(", {used} in use"),
        };
        let (limit, before, after) = (change.limit, change.before, change.after);
        text.push_str(&format!("  {limit}: {before} -> {after}{used}\n"));
    }
    if document.abi_before != document.abi_after {
        let (before, after) = (&document.abi_before, &document.abi_after);
        text.push_str(&format!("  version of the state: {before} -> {after}\n"));
    }
    if !document.maps.is_empty() {
        text.push_str(&format!("  other maps: {}\n", document.maps.join(", ")));
    }
    if document.result != MigrateResult::Migrated {
        return text;
    }
    let names: Vec<_> = document
        .interfaces
        .iter()
        .map(ToString::to_string)
        .collect();
    if !names.is_empty() {
        text.push_str(&format!("  the new program runs on {}\n", names.join(", ")));
    }
    let copied = &document.copied;
    text.push_str(&format!(
        "  copied {} interfaces, {} routes, {} groups, {} pins; others could not write routes for {:.1} \
         ms\n",
        copied.interfaces, copied.routes, copied.groups, copied.pins, document.held_ms
    ));
    if copied.refused_pins > 0 {
        let refused = copied.refused_pins;
        text.push_str(&format!("  WITHOUT ROOM: {refused} pins made meanwhile\n"));
    }
    if copied.uncertain_tenants > 0 {
        let tenants = copied.uncertain_tenants;
        text.push_str(&format!(
            "  the count of pins of {tenants} tenants may be a few too high or too low: see status\n"
        ));
    }
    text
}
