// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
//! `check`: whether `run` would start with what it is told, and what its source lists.

use std::time::Duration;

use guideway::control::files::{FileSource, Place};
use guideway::control::source::Source;
use guideway::control::{Known, ShardList};
use guideway::error::ErrorKind;
use serde_json::json;

use crate::args::CheckArgs;
use crate::run::config::{load, Flags, SourceChoice};
use crate::tool::{json, Done, Failure, Output};

pub(crate) fn run(arguments: &CheckArgs, flags: &Flags, output: &Output) -> Result<Done, Failure> {
    let loaded = load(flags)?;
    let (list, passed_over) = match &loaded.config.source {
        SourceChoice::Files(place) => {
            let (list, others) = read(place)?;
            (Some(list), others)
        }
        // What an API server lists is known only to who may ask it.
        #[cfg(feature = "kube")]
        SourceChoice::Kube(_) => (None, Vec::new()),
    };
    let unserving = loaded.config.serves_nobody();
    let unserved = unserving.map(str::to_owned).into_iter();
    let warnings: Vec<_> = unserved.chain(passed_over).collect();
    let document = {
        let shards = list.as_ref().map(|list| list.shards.len());
        let faults = list.iter().flat_map(|list| &list.faults);
        let faults: Vec<_> = faults.map(ToString::to_string).collect();
        let mut document = json!({
            "schema": "guideway.egress.check/v1", "shards": shards, "faults": faults,
            "warnings": warnings,
        });
        if arguments.print_config {
            document["config"] = loaded.document();
        }
        document
    };
    let text = || {
        let mut text = String::new();
        if arguments.print_config {
            text.push_str(&loaded.text());
        }
        match &list {
            Some(list) => {
                let faults = list.faults.len();
                let count = list.shards.len();
                text.push_str(&format!(
                    "accepted; {count} shards, {faults} objects left out\n"
                ));
            }
            None => text.push_str("accepted; the cluster was not asked\n"),
        }
        for fault in list.iter().flat_map(|list| &list.faults) {
            text.push_str(&format!("  left out: {fault}\n"));
        }
        for warning in &warnings {
            text.push_str(&format!("  warning: {warning}\n"));
        }
        text
    };
    match output.is_json() {
        true => output.print(&json(&document))?,
        false => output.print(&text())?,
    };
    let left_out = list.is_some_and(|list| !list.faults.is_empty());
    Ok(Done::degraded_if(left_out || unserving.is_some()))
}

/// What the files hold now, and which others are not read.
fn read(place: &Place) -> Result<(ShardList, Vec<String>), Failure> {
    let mut source = FileSource::new(place.clone())
        .map_err(|error| Failure::new(error.kind(), error).about(place))?;
    source.refresh(Duration::ZERO);
    match source.latest() {
        Known::Known(list) => Ok((list, source.passed_over())),
        _ => {
            let why = source.failure().unwrap_or_default();
            let message = format!("the shards of {place} are unknown: {why}");
            Err(Failure::new(ErrorKind::Invalid, message).about(place))
        }
    }
}
