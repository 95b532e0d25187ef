// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `detach`: the program off interfaces.

use guideway::egress::document::{detach, DetachDocument};
use guideway::kernel::statedir::StateDir;

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
    let detached = detach(
        state,
        &arguments.interface,
        arguments.purge,
        arguments.wait(),
    )
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
    if detached.interfaces.is_empty() && detached.left.is_empty() {
        text.push_str("was attached nowhere\n");
    }
    for one in &detached.interfaces {
        let how = if one.detached {
            "detached"
        } else {
            "was not attached"
        };
        text.push_str(&format!("{}: {how}\n", one.interface));
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
