// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `upgrade` and `rollback`: this build's program, and the one before.

use guideway::egress::{Loader, SeenHow, UpgradeError, UpgradeKind, Upgraded, Writer};
use guideway::kernel::statedir::StateDir;

use crate::apply::publisher;
use crate::args::UpgradeArgs;
use crate::tool::{exchange, Done, Failure, Output};

pub(crate) fn run(
    arguments: &UpgradeArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    with(arguments, state, output, Writer::upgrade)
}

pub(crate) fn back(
    arguments: &UpgradeArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    with(arguments, state, output, Writer::rollback)
}

fn with(
    arguments: &UpgradeArgs,
    state: &StateDir,
    output: &Output,
    exchange: impl FnOnce(&mut Writer) -> Result<Upgraded, UpgradeError>,
) -> Result<Done, Failure> {
    // The loop of `run` has the program of its own build exchanged when it starts.
    let _publisher = publisher(state)?;
    let upgraded = Loader::new(state)
        .patience(arguments.wait())
        .open()
        .map_err(UpgradeError::from)
        .and_then(|mut writer| exchange(&mut writer))
        .map_err(|error| Failure::from(error).about(state.path().display()))?;
    output.result(&upgraded, text).map_err(|failure| {
        let program = upgraded.program.new_program_id;
        failure.although(format!("program {program} runs"))
    })?;
    let faults = upgraded.interfaces.iter().any(|one| one.error.is_some());
    match upgraded.done && !faults && upgraded.lost_rows.is_empty() {
        true => Ok(Done::Well),
        false => Ok(Done::Partly),
    }
}

fn text(upgraded: &Upgraded) -> String {
    let mut text = match (upgraded.done, upgraded.seen.verification, upgraded.kind) {
        (false, ..) => "NOT ON ALL INTERFACES: the same again goes on, rollback returns\n",
        _ if upgraded.cancelled => "rolled back: the upgrade that was interrupted is undone\n",
        (_, SeenHow::Unchanged, UpgradeKind::Upgrade) if !upgraded.repaired.is_empty() => {
            "repaired: it runs this build's program\n"
        }
        (_, SeenHow::Unchanged, UpgradeKind::Upgrade) => {
            "unchanged: it runs this build's program\n"
        }
        (_, _, UpgradeKind::Upgrade) => "upgraded\n",
        (_, _, UpgradeKind::Rollback) => "rolled back\n",
    }
    .to_owned();
    if upgraded.done && upgraded.interfaces.iter().any(|one| one.error.is_some()) {
        text.push_str("BUT NOT ON ALL INTERFACES\n");
    }
    for rows in &upgraded.lost_rows {
        text.push_str(&format!(
            "BUT NO {} ARE PUBLISHED ANY MORE: apply the specification again\n",
            rows.to_string().to_uppercase()
        ));
    }
    text.push_str(&exchange::repairs_text(&upgraded.repaired));
    text.push_str(&exchange::program_text(&upgraded.program));
    for one in &upgraded.interfaces {
        let what = match (&one.error, one.old_program_id, one.new_program_id) {
            (Some(error), ..) => format!("FAILED: {error}"),
            (None, _, None) => "runs no program of this instance".to_owned(),
            (None, Some(old), Some(new)) if old != new => format!("program {old} -> {new}"),
            (None, _, Some(new)) => format!("program {new}"),
        };
        text.push_str(&format!("  {}: {what}\n", one.interface));
    }
    if let Some(swap_ms) = upgraded.swap_ms {
        text.push_str(&format!("  exchanged in {swap_ms:.1} ms\n"));
    }
    text.push_str(&exchange::seen_text(&upgraded.seen));
    text
}
