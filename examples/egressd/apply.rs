// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `apply`: a specification becomes what packets see.

use std::time::Duration;

use guideway::egress::apply::How;
use guideway::egress::document::{apply, ApplyDocument, ApplyResult, Error, InterfaceName};
use guideway::kernel::statedir::{PublisherLock, StateDir, StateError};

use crate::args::ApplyArgs;
use crate::plan::{change_text, interfaces_text, read, warnings_text};
use crate::tool::{exchange, input, Done, Failure, Output};

/// How long to wait for another process that changes the instance.
const LOCK: Duration = Duration::from_secs(2);

pub(crate) fn run(
    arguments: &ApplyArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let spec = read(&arguments.spec)?;
    let mut how = How::default();
    how.attach = arguments.attach.options();
    how.patience = arguments.wait().unwrap_or(how.patience);
    let lock = arguments.wait().unwrap_or(LOCK);
    let _publisher = publisher(state)?;
    let applied = apply(state, &spec, &how, lock).map_err(|error| match error {
        Error::Faults(faults) => Failure::invalid(input::name(&arguments.spec), &faults),
        error => Failure::from(error).about(state.path().display()),
    })?;
    output
        .result(&applied, text)
        .map_err(|failure| failure.although("the specification was applied"))?;
    match applied.result {
        ApplyResult::Partial => Ok(Done::Partly),
        _ => Ok(Done::Well),
    }
}

/// The right to publish, where there is an instance: the loop of `run` would undo what this does.
pub(crate) fn publisher(state: &StateDir) -> Result<Option<PublisherLock>, Failure> {
    let about = |error: StateError| Failure::from(error).about(state.path().display());
    match state.exists().map_err(about)? {
        true => Ok(Some(state.publisher().map_err(about)?)),
        false => Ok(None),
    }
}

fn text(applied: &ApplyDocument) -> String {
    let mut text = match applied.result {
        ApplyResult::Created => "instance created\n".to_owned(),
        ApplyResult::Changed => "changed\n".to_owned(),
        ApplyResult::Repaired => "repaired\n".to_owned(),
        ApplyResult::Unchanged => "nothing changed\n".to_owned(),
        ApplyResult::Partial => "NOT ALL OF IT: apply it again to do the rest\n".to_owned(),
    };
    if let Some(error) = &applied.not_applied {
        text.push_str(&format!("  failed: {} [{}]\n", error.message, error.kind));
    }
    text.push_str(&exchange::repairs_text(&applied.repaired));
    if applied.configuration {
        text.push_str("  published the configuration\n");
    }
    for group in &applied.groups {
        text.push_str(&format!(
            "  published {} (group {}): {}, publication {}, {:.1} ms\n",
            group.class,
            group.group,
            change_text(group.change),
            group.publication,
            group.publish_ms,
        ));
    }
    let mut line = |what: &str, names: Vec<String>| {
        if !names.is_empty() {
            text.push_str(&format!("  {what} {}\n", names.join(", ")));
        }
    };
    let names = |names: &[InterfaceName]| names.iter().map(ToString::to_string).collect();
    let numbers = |numbers: &[u32]| numbers.iter().map(ToString::to_string).collect();
    let retired: Vec<u32> = applied.retired.iter().map(|&group| group.into()).collect();
    let count = |count: u64| Some(count).filter(|&count| count > 0);
    let count = |number| count(number).map(|number| number.to_string());
    line(
        "routes written:",
        count(applied.routes_written).into_iter().collect(),
    );
    line(
        "routes removed:",
        count(applied.routes_removed).into_iter().collect(),
    );
    line("interfaces written:", names(&applied.interfaces_written));
    line("interfaces removed:", names(&applied.interfaces_removed));
    line("attached to", names(&applied.attached));
    line("taken off", names(&applied.detached));
    line("tenants removed:", numbers(&applied.tenants_removed));
    line("groups disabled:", numbers(&retired));
    interfaces_text(&applied.interface_warnings, &mut text);
    warnings_text(&applied.warnings, &mut text);
    text
}
