// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `upgrade` and `rollback`: this build's program, and the one before.

use guideway::quiclb::{
    rollback_spec, upgrade, SeenHow, StateRoot, UpgradeError, UpgradeKind, Upgraded, Writer,
};

use crate::apply;
use crate::args::{RollbackArgs, UpgradeArgs};
use crate::tool::{exchange, Done, Failure, Output};

pub(crate) fn run(
    arguments: &UpgradeArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let instance = arguments.instance;
    let upgraded =
        upgrade(&root.quiclb(instance)).map_err(|error| Failure::from(error).about(instance))?;
    report(&upgraded, output)
}

pub(crate) fn back(
    arguments: &RollbackArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let instance = arguments.instance;
    if arguments.spec {
        let options = arguments.publishing.options();
        let applied = rollback_spec(root, instance, arguments.confirmed.options(), &options)
            .map_err(|error| Failure::from(error).about(instance))?;
        return apply::report(&applied, output);
    }
    if arguments.confirmed.any() || arguments.publishing.any() {
        return Err(Failure::usage(
            "a rollback of the program publishes nothing; --disruptive, --reuse-server-id, --force \
             and --keep belong to rollback --spec",
        ));
    }
    let upgraded = Writer::open(&root.quiclb(instance))
        .map_err(UpgradeError::from)
        .and_then(|mut writer| writer.rollback())
        .map_err(|error| Failure::from(error).about(instance))?;
    report(&upgraded, output)
}

fn report(upgraded: &Upgraded, output: &Output) -> Result<Done, Failure> {
    output.result(upgraded, text).map_err(|failure| {
        let (instance, program) = (upgraded.instance_id, upgraded.program.new_program_id);
        failure.although(format!("{instance} runs program {program}"))
    })?;
    match is_lost(upgraded) {
        false => Ok(Done::Well),
        true => Ok(Done::Partly),
    }
}

/// Whether what the instance is attached to is gone. That it is detached is as somebody wanted it.
fn is_lost(upgraded: &Upgraded) -> bool {
    upgraded.attached && upgraded.interface.is_none()
}

fn text(upgraded: &Upgraded) -> String {
    let instance = upgraded.instance_id;
    let change = &upgraded.program;
    let what = match (upgraded.seen.verification, upgraded.kind) {
        _ if upgraded.cancelled => "rolled back: the upgrade that was interrupted is undone",
        (SeenHow::Unchanged, UpgradeKind::Upgrade) => "unchanged: it runs this build's program",
        _ if change.old_program_id == change.new_program_id => {
            "unchanged: it has this build's program"
        }
        (_, UpgradeKind::Upgrade) => "upgraded",
        (_, UpgradeKind::Rollback) => "rolled back",
    };
    let mut text = format!("instance {instance}: {what}\n");
    match is_lost(upgraded) {
        true => {
            text.push_str("  RUNS NOWHERE, what it was attached to is gone: apply attaches it\n")
        }
        false if upgraded.attached => {}
        false => text.push_str("  detached: apply attaches it\n"),
    }
    text.push_str(&exchange::program_text(change));
    let interface = upgraded.interface.as_deref();
    if let (Some(interface), Some(swap_ms)) = (interface, upgraded.swap_ms) {
        text.push_str(&format!("  {interface}: exchanged in {swap_ms:.1} ms\n"));
    }
    text.push_str(&exchange::seen_text(&upgraded.seen));
    text
}
