// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `retire`: the group of a class forwards nothing any more.

use guideway::egress::document::{retire, RetireDocument};
use guideway::kernel::statedir::StateDir;

use crate::apply::publisher;
use crate::args::RetireArgs;
use crate::tool::{Done, Failure, Output};

pub(crate) fn run(
    arguments: &RetireArgs,
    state: &StateDir,
    output: &Output,
) -> Result<Done, Failure> {
    let _publisher = publisher(state)?;
    let retired = retire(state, arguments.class, arguments.block, arguments.wait())
        .map_err(|error| Failure::from(error).about(state.path().display()))?;
    output
        .result(&retired, text)
        .map_err(|failure| failure.although("the group was retired"))?;
    Ok(Done::Well)
}

fn text(retired: &RetireDocument) -> String {
    let mut text = String::new();
    for group in &retired.groups {
        text.push_str(&format!(
            "{} (group {}): disabled by publication {}; none of {} routes names it",
            retired.class, group.group, group.publication, group.routes_seen
        ));
        if group.blocked > 0 {
            text.push_str(&format!(", {} block now", group.blocked));
        }
        text.push('\n');
    }
    text
}
