// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `detach`: take an instance off its interface.

use guideway::quiclb::{detach, Detached, StateRoot};

use crate::args::DetachArgs;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &DetachArgs,
    root: &StateRoot,
    output: &Output,
) -> Result<Done, Failure> {
    let detached = detach(&root.quiclb(arguments.instance), arguments.purge)
        .map_err(|error| Failure::from(error).about(arguments.instance))?;
    output
        .result(&detached, text)
        .map_err(|failure| match detached.left.as_slice() {
            [] => failure.although(format!("{} is off its interface", arguments.instance)),
            _ => failure,
        })?;
    if detached.left.is_empty() {
        Ok(Done::Well)
    } else {
        Ok(Done::Partly)
    }
}

fn text(detached: &Detached) -> String {
    let how = if detached.detached {
        "detached"
    } else {
        "was not attached"
    };
    let mut text = format!("instance {}: {how}\n", detached.instance_id);
    for name in &detached.removed {
        text.push_str(&format!("  removed {name}\n"));
    }
    for left in &detached.left {
        text.push_str(&format!("  LEFT {}: {}\n", left.name, left.reason));
    }
    text
}
