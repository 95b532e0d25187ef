// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `detach`: the program off interfaces, and tenants that go.

use guideway::egress::document::{detach, DetachDocument, DetachScope};
use guideway::kernel::statedir::StateDir;
use guideway::route::TableId;

use crate::apply::publisher;
use crate::args::DetachArgs;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &DetachArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    // What is published is not taken from under who keeps it.
    let _publisher = match arguments.purge {
        true => publisher(state)?,
        false => None,
    };
    let tables: Vec<_> = arguments.tenant.iter().copied().map(TableId::new).collect();
    let scope = if arguments.purge {
        DetachScope::Purge
    } else if !tables.is_empty() {
        DetachScope::Tenants(&tables)
    } else if !arguments.interface.is_empty() {
        DetachScope::interfaces(&arguments.interface, arguments.keep_tenant)
    } else {
        DetachScope::Everywhere
    };
    let detached = detach(state, scope, arguments.wait())
        .map_err(|error| Failure::from(error).about(state.path().display()))?;
    output
        .result(&detached, text)
        .map_err(|failure| match detached.left.as_slice() {
            [] => failure.although("the program is off the interfaces"),
            _ => failure,
        })?;
    if detached.left.is_empty() {
        Ok(Done::Well)
    } else {
        Ok(Done::Partly)
    }
}

fn text(detached: &DetachDocument) -> String {
    let mut text = String::new();
    let nothing_else = detached.left.is_empty() && detached.tenants.is_empty();
    if detached.interfaces.is_empty() && nothing_else {
        text.push_str("was attached nowhere\n");
    }
    for one in &detached.interfaces {
        let how = if one.detached {
            "detached"
        } else {
            "was not attached"
        };
        text.push_str(&format!("{}: {how}", one.interface));
        if let Some(table) = one.tenant {
            text.push_str(&format!(", and no interface of tenant {table} any more"));
        }
        text.push('\n');
    }
    for one in &detached.tenants {
        text.push_str(&format!(
            "removed tenant {}, {} routes and {} pins\n",
            one.table, one.routes, one.pins
        ));
    }
    for table in &detached.abandoned {
        text.push_str(&format!(
            "tenant {table} has no interface left; its routes and pins stay until another one is \
             attached, or detach --tenant {table}\n"
        ));
    }
    if detached.purged {
        let count = detached.removed.len();
        text.push_str(&format!(
            "removed the state of the instance, {count} objects\n"
        ));
    }
    for left in &detached.left {
        text.push_str(&format!("LEFT {}: {}\n", left.name, left.reason));
    }
    text
}
